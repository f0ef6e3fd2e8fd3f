/** From nothing to an agent's first sign of life: a name, a token that is shown once, and the lines to run. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleCheck, LoaderCircle } from 'lucide-react'
import { type FormEvent, type ReactNode, useState } from 'react'
import { api, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { Button, classes, Field, Input, Row, Stack } from '@/ui/Controls'
import { Copyable } from '@/ui/Copyable'
import { Name } from '@/ui/Facts'
import { Dialog } from '@/ui/Overlays'
import ui from '@/ui/ui.module.css'
import { type Mode, refreshed, useAgent, usePolicy } from './agents'
import { type Connecting, linesFor } from './connection'
import css from './crew.module.css'
import { ModeField } from './Steering'

type Made =
  | { kind: 'agent'; name: string; type: string; token: string; silentSince: string }
  | { kind: 'enrolment'; id: string; uses: number; token: string }

export function RegisterAgent({ onClose }: { onClose: () => void }) {
  const [several, setSeveral] = useState(false)
  const [made, setMade] = useState<Made>()
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={made === undefined ? 'Register an agent' : made.kind === 'agent' ? made.name : 'Enrolment token'}
      stays={made !== undefined}
    >
      {made !== undefined ? (
        <Made made={made} onClose={onClose} />
      ) : (
        <Stack>
          <fieldset className={css.kinds} aria-label="What to make">
            <Button aria-pressed={!several} onClick={() => setSeveral(false)}>
              One agent
            </Button>
            <Button aria-pressed={several} onClick={() => setSeveral(true)}>
              A token for several
            </Button>
          </fieldset>
          {several ? <Enrolment onMade={setMade} /> : <OneAgent onMade={setMade} />}
        </Stack>
      )}
    </Dialog>
  )
}

const tags = (text: string) =>
  text
    .split(',')
    .map((tag) => tag.trim())
    .filter(Boolean)

function OneAgent({ onMade }: { onMade: (made: Made) => void }) {
  const { data: policy } = usePolicy()
  const [name, setName] = useState('')
  const [type, setType] = useState('')
  const [capabilities, setCapabilities] = useState('')
  const [chosen, setMode] = useState<Mode>()
  const queries = useQueryClient()
  const standard = policy?.types.find(({ agent_type }) => agent_type === type.trim())?.mode ?? policy?.mode
  const create = useMutation({
    mutationFn: async (): Promise<Made> => {
      const body = {
        name: name.trim(),
        capabilities: tags(capabilities),
        ...(type.trim() === '' ? {} : { type: type.trim() }),
        ...(chosen === undefined ? {} : { autonomy_mode: chosen }),
      }
      const { id, token, type: kind } = await take(api.POST('/api/v1/crew', { body }))
      const { last_seen, last_heartbeat } = await take(
        api.GET('/api/v1/crew/{name}', { params: { path: { name: id } } }),
      )
      await refreshed(queries)
      const silentSince = last_seen > last_heartbeat ? last_seen : last_heartbeat
      return { kind: 'agent', name: id, type: kind, token: token ?? '', silentSince }
    },
    onSuccess: onMade,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate()
  }
  return (
    <form onSubmit={submit}>
      <Stack>
        <Field label="Name" hint="Letters, digits, and . _ @ -" wrong={create.error?.message}>
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
        <Field label="Type" hint="What kind of agent it is: claude, codex, your own word.">
          {(field) => (
            <Input {...field} maxLength={64} value={type} onChange={(event) => setType(event.target.value)} />
          )}
        </Field>
        <Field label="Capabilities" hint="With commas between them. It is offered tasks that need no others.">
          {(field) => (
            <Input
              {...field}
              placeholder="code, review, testing"
              value={capabilities}
              onChange={(event) => setCapabilities(event.target.value)}
            />
          )}
        </Field>
        <ModeField label="Mode" mode={chosen ?? standard ?? 'fully_autonomous'} onChange={setMode} />
        <Row className={ui.end}>
          <Button type="submit" look="primary" disabled={create.isPending || name.trim() === ''}>
            Register
          </Button>
        </Row>
      </Stack>
    </form>
  )
}

function Enrolment({ onMade }: { onMade: (made: Made) => void }) {
  const [uses, setUses] = useState('10')
  const [note, setNote] = useState('')
  const [days, setDays] = useState('')
  const create = useMutation({
    mutationFn: async (): Promise<Made> => {
      const body = { uses: Number(uses), note, ...(days === '' ? {} : { days: Number(days) }) }
      const { id, token } = await take(api.POST('/api/v1/enrolments', { body }))
      return { kind: 'enrolment', id, uses: Number(uses), token }
    },
    onSuccess: onMade,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate()
  }
  return (
    <form onSubmit={submit}>
      <Stack>
        <p className={ui.hint}>
          Agents register themselves with it, and each gets a token of its own. It is good for nothing else.
        </p>
        <Field label="How many agents" wrong={create.error?.message}>
          {(field) => (
            <Input
              {...field}
              type="number"
              required
              min={1}
              max={100_000}
              value={uses}
              onChange={(event) => setUses(event.target.value)}
            />
          )}
        </Field>
        <Field label="Days it is good for" hint="Empty: as long as the server's settings say.">
          {(field) => (
            <Input {...field} type="number" min={1} value={days} onChange={(event) => setDays(event.target.value)} />
          )}
        </Field>
        <Field label="Note" hint="What it is for; shown in the list of tokens.">
          {(field) => (
            <Input {...field} maxLength={200} value={note} onChange={(event) => setNote(event.target.value)} />
          )}
        </Field>
        <Row className={ui.end}>
          <Button type="submit" look="primary" disabled={create.isPending}>
            Make the token
          </Button>
        </Row>
      </Stack>
    </form>
  )
}

function Made({ made, onClose }: { made: Made; onClose: () => void }) {
  const enrolment = made.kind === 'enrolment'
  const who = enrolment ? { name: 'my-agent', type: 'my-type' } : { name: made.name, type: made.type }
  return (
    <Stack>
      <p>
        {enrolment
          ? `Good for ${made.uses === 1 ? 'one registration' : `${made.uses.toLocaleString()} registrations`}. `
          : 'Registered, and waiting to be heard of. '}
        <strong>The token is shown this once, and cannot be shown again.</strong>
      </p>
      <Copyable text={made.token} label="Token" />
      <Lines connecting={{ ...who, url: location.origin, token: made.token, enrolment }} />
      {enrolment ? <Enrolled id={made.id} /> : <FirstSign made={made} />}
      <Row className={ui.end}>
        <Button onClick={onClose}>Close</Button>
      </Row>
    </Stack>
  )
}

function Lines({ connecting }: { connecting: Connecting }) {
  const [chosen, setChosen] = useState('python')
  const lines = linesFor(connecting)
  const shown = lines.find(({ id }) => id === chosen) ?? lines[0]!
  return (
    <section className={css.lines} aria-label="How to connect it">
      <fieldset className={classes(ui.tabs, css.plain)} aria-label="With">
        {lines.map(({ id, label }) => (
          <button
            key={id}
            type="button"
            className={ui.tab}
            data-state={id === shown.id ? 'active' : undefined}
            aria-pressed={id === shown.id}
            onClick={() => setChosen(id)}
          >
            {label}
          </button>
        ))}
      </fieldset>
      <p className={ui.hint}>{shown.about}</p>
      <Copyable text={shown.text} label={`Lines for ${shown.label}`} />
    </section>
  )
}

function Waiting({ arrived, children }: { arrived: boolean; children: ReactNode }) {
  return (
    <p role="status" className={css.waiting} data-arrived={arrived || undefined}>
      {arrived ? <CircleCheck size={16} aria-hidden="true" /> : <LoaderCircle size={16} aria-hidden="true" />}
      <span>{children}</span>
    </p>
  )
}

const LISTENING = 2000

function FirstSign({ made }: { made: Extract<Made, { kind: 'agent' }> }) {
  const { data: agent } = useAgent(made.name, LISTENING)
  const heard = agent !== undefined && (agent.last_heartbeat > made.silentSince || agent.last_seen > made.silentSince)
  return (
    <Waiting arrived={heard}>
      {heard ? (
        <>
          <Name>{made.name}</Name> is connected.{' '}
          <Link to="/crew/$agent" params={{ agent: made.name }}>
            See its page
          </Link>
        </>
      ) : (
        'Waiting for its first sign of life…'
      )}
    </Waiting>
  )
}

function Enrolled({ id }: { id: string }) {
  const key = ['enrolled', id]
  useRefresh(key, ({ kind }) => kind === 'agent_registered')
  const { data: names = [] } = useQuery({
    queryKey: key,
    queryFn: async () => {
      const query = { kind: ['agent_registered'], newest_first: true, limit: 200 }
      const { items } = await take(api.GET('/api/v1/audit', { params: { query } }))
      return items.flatMap(({ via, agent }) => (via === `enrolment:${id}` && agent !== null ? [agent] : []))
    },
  })
  return (
    <Waiting arrived={names.length > 0}>
      {names.length === 0
        ? 'Waiting for the first agent to register…'
        : names.toReversed().map((name, place) => (
            <span key={name}>
              {place > 0 && ', '}
              <Link to="/crew/$agent" params={{ agent: name }}>
                <Name>{name}</Name>
              </Link>
            </span>
          ))}
      {names.length > 0 && (names.length === 1 ? ' has registered.' : ' have registered.')}
    </Waiting>
  )
}
