/** Making tokens: for a person or a script, and for agents that are to register themselves. Shown once. */

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useState } from 'react'
import { api, take } from '@/api/client'
import { type Role, useMay, useMe } from '@/shell/session'
import { Button, Field, Input, Row, Select, Stack } from '@/ui/Controls'
import { Copyable } from '@/ui/Copyable'
import { Dialog } from '@/ui/Overlays'
import uiCss from '@/ui/ui.module.css'
import { ProjectsChoice, RoleChoice } from './Choices'
import { tokensKey } from './people'
import css from './people.module.css'

const LIVES: [number, string][] = [
  [1, 'A day'],
  [7, 'A week'],
  [30, '30 days'],
  [90, '90 days'],
  [365, 'A year'],
  [0, 'For ever'],
]

type CloseProps = { onClose: () => void }

function Lifetime({ value, onChange }: { value: number; onChange: (days: number) => void }) {
  return (
    <Field label="Works for">
      {(field) => (
        <Select {...field} value={value} onChange={(event) => onChange(Number(event.target.value))}>
          {LIVES.map(([days, said]) => (
            <option key={days} value={days}>
              {said}
            </option>
          ))}
        </Select>
      )}
    </Field>
  )
}

function NoteField({ value, onChange }: { value: string; onChange: (note: string) => void }) {
  return (
    <Field label="Note" hint="So that you know later what it was for.">
      {(field) => <Input {...field} value={value} maxLength={200} onChange={(event) => onChange(event.target.value)} />}
    </Field>
  )
}

function Foot({ action, busy, onClose, wrong }: CloseProps & { action: string; busy: boolean; wrong?: string }) {
  return (
    <>
      {wrong !== undefined && (
        <p className={uiCss.wrong} role="alert">
          {wrong}
        </p>
      )}
      <Row className={uiCss.end}>
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" look="primary" disabled={busy}>
          {action}
        </Button>
      </Row>
    </>
  )
}

function Made({ title, onClose, children }: CloseProps & { title: string; children: ReactNode }) {
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={title}>
      <p className={css.quiet}>It is shown this once: copy it now, and keep it where nobody else reads.</p>
      {children}
      <Row className={uiCss.end}>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </Row>
    </Dialog>
  )
}

export function NewToken({ onClose }: CloseProps) {
  const me = useMe()
  const queries = useQueryClient()
  const [name, setName] = useState(me.name)
  const [role, setRole] = useState<Role>('viewer')
  const [days, setDays] = useState(90)
  const [note, setNote] = useState('')
  const [projects, setProjects] = useState<string[] | null>(me.projects === null ? null : [...me.projects])
  const make = useMutation({
    mutationFn: () => take(api.POST('/api/v1/tokens', { body: { name: name.trim(), role, days, note, projects } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: tokensKey }),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    make.mutate()
  }
  if (make.data !== undefined) {
    const { token, subject } = make.data
    return (
      <Made title={`A token for ${subject}`} onClose={onClose}>
        <Copyable label="Token" text={token} />
        <Copyable label="Try it" text={`curl -H "Authorization: Bearer ${token}" ${location.origin}/api/v1/me`} />
      </Made>
    )
  }
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="New token">
      <form onSubmit={submit}>
        <Stack>
          <Field label="Whose it is" hint="You, or a name for a script: the record says it.">
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
          <div className={css.pair}>
            <Lifetime value={days} onChange={setDays} />
            <NoteField value={note} onChange={setNote} />
          </div>
          <Foot
            action="Make the token"
            busy={make.isPending || name.trim() === ''}
            onClose={onClose}
            {...(make.error ? { wrong: make.error.message } : {})}
          />
        </Stack>
      </form>
    </Dialog>
  )
}

export function NewEnrolment({ onClose }: CloseProps) {
  const me = useMe()
  const queries = useQueryClient()
  const [uses, setUses] = useState(1)
  const [days, setDays] = useState(7)
  const [note, setNote] = useState('')
  const [coordinates, setCoordinates] = useState(false)
  const [projects, setProjects] = useState<string[] | null>(me.projects === null ? null : [...me.projects])
  const steers = useMay('operator')
  const make = useMutation({
    mutationFn: () =>
      take(
        api.POST('/api/v1/enrolments', {
          body: { uses, days, note, projects, scopes: coordinates ? ['coordinator'] : [] },
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: tokensKey }),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    make.mutate()
  }
  if (make.data !== undefined) {
    const { token } = make.data
    return (
      <Made title={uses === 1 ? 'One agent may register' : `${uses} agents may register`} onClose={onClose}>
        <Copyable label="Enrolment token" text={token} />
        <Copyable
          label="Where the agent runs"
          text={`export RINGFENCE_URL=${location.origin}\nexport RINGFENCE_ENROLMENT=${token}`}
        />
        <Copyable
          label="Or by hand: the answer holds the agent's own token"
          text={`curl -H "Authorization: Bearer ${token}" -d '{"name": "my-agent"}' ${location.origin}/agents/register`}
        />
      </Made>
    )
  }
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Let an agent in"
      about="With an enrolment token an agent registers itself, under a name it chooses, and gets a token of its own."
    >
      <form onSubmit={submit}>
        <Stack>
          <div className={css.pair}>
            <Field label="How many agents">
              {(field) => (
                <Input
                  {...field}
                  type="number"
                  autoFocus
                  required
                  min={1}
                  max={100_000}
                  value={uses}
                  onChange={(event) => setUses(event.target.valueAsNumber || 1)}
                />
              )}
            </Field>
            <Lifetime value={days} onChange={setDays} />
          </div>
          <label className={css.line}>
            <input type="checkbox" checked={coordinates} onChange={(event) => setCoordinates(event.target.checked)} />
            They may assign tasks to other agents, too
          </label>
          <ProjectsChoice value={projects} onChange={setProjects} />
          <NoteField value={note} onChange={setNote} />
          <Foot
            action="Make the token"
            busy={make.isPending || !steers}
            onClose={onClose}
            {...(make.error ? { wrong: make.error.message } : {})}
          />
        </Stack>
      </form>
    </Dialog>
  )
}
