/** Inviting people, changing what they may, and making links for them. */

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useEffect, useState } from 'react'
import { api, take } from '@/api/client'
import { type Role, useMe } from '@/shell/session'
import { Button, Field, Input, Row, Stack } from '@/ui/Controls'
import { Copyable } from '@/ui/Copyable'
import { Dialog } from '@/ui/Overlays'
import { Failure, Loading } from '@/ui/States'
import { span } from '@/ui/time'
import uiCss from '@/ui/ui.module.css'
import { ProjectsChoice, RoleChoice } from './Choices'
import { type Person, peopleKey } from './people'
import css from './people.module.css'

type DialogProps = { onClose: () => void }

export function Invite({ onClose }: DialogProps) {
  const me = useMe()
  const queries = useQueryClient()
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('viewer')
  const [projects, setProjects] = useState<string[] | null>(me.projects === null ? null : [])
  const invite = useMutation({
    mutationFn: () => take(api.POST('/api/v1/people', { body: { name: name.trim(), role, projects } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: peopleKey }),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    invite.mutate()
  }
  if (invite.data !== undefined) {
    const { name: invited, signin_url, expires_minutes } = invite.data
    return (
      <Dialog open onOpenChange={(open) => !open && onClose()} title={`${invited} is invited`}>
        <LinkShown url={signin_url} minutes={expires_minutes} whose={invited} />
        <Row className={uiCss.end}>
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        </Row>
      </Dialog>
    )
  }
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="Invite a person">
      <form onSubmit={submit}>
        <Stack>
          <Field
            label="Name"
            hint="Letters, digits and . _ @ - ; it stands in the record."
            wrong={invite.error?.message}
          >
            {(field) => (
              <Input
                {...field}
                autoFocus
                required
                maxLength={64}
                autoComplete="off"
                spellCheck={false}
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
            )}
          </Field>
          <RoleChoice value={role} onChange={setRole} />
          <ProjectsChoice value={projects} onChange={setProjects} />
          <Row className={uiCss.end}>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" look="primary" disabled={invite.isPending || name.trim() === ''}>
              Invite
            </Button>
          </Row>
        </Stack>
      </form>
    </Dialog>
  )
}

/** A link that signs in once: shown this once. */
export function LinkShown({ url, minutes, whose }: { url: string; minutes: number; whose: string }) {
  return (
    <Stack>
      <p className={css.quiet}>
        Send this link to <bdi>{whose}</bdi>. It signs one browser in, once, within {span(minutes * 60)}, and is shown
        only here.
      </p>
      <Copyable label="Sign-in link" text={url} />
    </Stack>
  )
}

export function NewLink({ person, onClose }: DialogProps & { person: string }) {
  const make = useMutation({
    mutationFn: () => take(api.POST('/api/v1/signin-links', { body: { person } })),
  })
  const { mutate } = make
  useEffect(() => mutate(), [mutate])
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={`A new link for ${person}`}>
      {make.error !== null && <Failure error={make.error} retry={() => mutate()} />}
      {make.isPending && <Loading rows={1} />}
      {make.data !== undefined && <LinkShown url={make.data.url} minutes={make.data.expires_minutes} whose={person} />}
      <Row className={uiCss.end}>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </Row>
    </Dialog>
  )
}

export function ChangePerson({ person, onClose }: DialogProps & { person: Person }) {
  const me = useMe()
  const queries = useQueryClient()
  const [role, setRole] = useState(person.role as Role)
  const [projects, setProjects] = useState<string[] | null>(person.projects)
  const change = useMutation({
    mutationFn: () =>
      take(
        api.PATCH('/api/v1/people/{name}', {
          params: { path: { name: person.name } },
          body: projects === null ? { role, all_projects: true } : { role, projects },
        }),
      ),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: peopleKey })
      onClose()
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    change.mutate()
  }
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`What ${person.name} may do`}
      about={
        person.name === me.name
          ? 'This is you: what you take from yourself, another admin must give back.'
          : 'What you take holds at once, in every browser and for every token of theirs. What you add they have when they sign in anew: send them a link.'
      }
    >
      <form onSubmit={submit}>
        <Stack>
          <RoleChoice value={role} onChange={setRole} />
          <ProjectsChoice value={projects} onChange={setProjects} />
          {change.error !== null && (
            <p className={uiCss.wrong} role="alert">
              {change.error.message}
            </p>
          )}
          <Row className={uiCss.end}>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" look="primary" disabled={change.isPending}>
              Save
            </Button>
          </Row>
        </Stack>
      </form>
    </Dialog>
  )
}
