/** What an agent did, and what was decided about it, newest first. */

import { Link } from '@tanstack/react-router'
import { Flag, History, Inbox, ListTodo, type LucideIcon, ShieldCheck } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { type AuditEvent, api, type Proposal, type Schemas, type Task, take } from '@/api/client'
import type { LiveEvent } from '@/live/stream'
import { Button } from '@/ui/Controls'
import { Badge, Dot, Name, Time, type Tone } from '@/ui/Facts'
import { Pre } from '@/ui/Pre'
import { Empty, Failure, Loading } from '@/ui/States'
import css from './agent.module.css'
import { isAbout } from './agents'
import { usePages } from './pages'
import { useCurrentTask } from './work'

export type AgentTask = string | null

type ListProps<T> = {
  pages: ReturnType<typeof usePages<T>>
  id: (item: T) => string | number
  empty: { icon: LucideIcon; title: string; about: string }
  children: (item: T) => ReactNode
}

function List<T>({ pages, id, empty, children }: ListProps<T>) {
  const { items, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = pages
  if (items === undefined) {
    return error === null ? <Loading rows={3} /> : <Failure error={error} retry={() => void refetch()} />
  }
  if (items.length === 0) {
    return (
      <Empty icon={empty.icon} title={empty.title}>
        <p>{empty.about}</p>
      </Empty>
    )
  }
  return (
    <>
      <ol className={css.list}>
        {items.map((item) => (
          <li key={id(item)}>{children(item)}</li>
        ))}
      </ol>
      {hasNextPage && (
        <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          Show older
        </Button>
      )}
    </>
  )
}

const LONG = 600
const LINES = 12

/** Text of any length, as it was written: the beginning of it until somebody asks for the rest. */
export function Written({ text }: { text: string }) {
  const [whole, setWhole] = useState(false)
  if (text === '') return null
  const beginning = text.split('\n', LINES).join('\n').slice(0, LONG)
  const long = beginning.length < text.length
  return (
    <>
      <p className={css.written} dir="auto">
        {whole ? text : beginning}
        {long && !whole && '…'}
      </p>
      {long && (
        <Button small look="quiet" onClick={() => setWhole(!whole)}>
          {whole ? 'Show less' : `Show all ${text.length.toLocaleString()} characters`}
        </Button>
      )}
    </>
  )
}

function Facts({ facts }: { facts: Record<string, unknown> }) {
  if (Object.keys(facts).length === 0) return null
  return (
    <details className={css.facts}>
      <summary>Details</summary>
      <Pre>{JSON.stringify(facts, null, 2)}</Pre>
    </details>
  )
}

const isTask = ({ kind }: LiveEvent) => kind.startsWith('task_')

/** What it is at, then what it still has to do, then what it did. */
function rank({ id, status }: Task, current: AgentTask): number {
  return id === current ? 0 : status === 'done' ? 2 : 1
}

const newer = (one: Task, other: Task) => other.updated_at.localeCompare(one.updated_at)

export function Tasks({ name, current }: { name: string; current: AgentTask }) {
  const pages = usePages<Task>(
    ['agent-tasks', name],
    (cursor) => take(api.GET('/api/v1/tasks', { params: { query: { agent: name, limit: 200, cursor } } })),
    isTask,
  )
  const items = pages.items?.toSorted((one, other) => rank(one, current) - rank(other, current) || newer(one, other))
  const about = 'What it claims, or what people assign to it, is listed here.'
  return (
    <List pages={{ ...pages, items }} id={({ id }) => id} empty={{ icon: ListTodo, title: 'No tasks', about }}>
      {(task) => (
        <div className={css.line}>
          <span className={css.status}>
            <Dot color={`var(--c-${task.status})`} /> {task.status.replace('_', ' ')}
          </span>
          <Link
            className={css.grow}
            to="/projects/$project"
            params={{ project: task.project_id }}
            search={{ task: task.id }}
          >
            <bdi>{task.title}</bdi>
          </Link>
          {task.id === current && <Badge tone="info">current</Badge>}
          <span className={css.when}>
            <Time at={task.updated_at} />
          </span>
        </div>
      )}
    </List>
  )
}

export function Checkpoints({ name }: { name: string }) {
  const pages = usePages<Schemas['CheckpointView']>(
    ['agent-checkpoints', name],
    (cursor) =>
      take(api.GET('/api/v1/crew/{name}/checkpoints', { params: { path: { name }, query: { limit: 25, cursor } } })),
    ({ kind, data }) => kind === 'checkpoint_submitted' && data.agent === name,
  )
  const about = 'A checkpoint says what the agent is doing, and why. It submits them as it works.'
  return (
    <List pages={pages} id={({ id }) => id} empty={{ icon: Flag, title: 'No checkpoints', about }}>
      {(checkpoint) => (
        <>
          <div className={css.line}>
            <strong>#{checkpoint.sequence}</strong>
            {checkpoint.task_id !== null && <Worked on={checkpoint.task_id} />}
            <span className={css.when}>
              <Time at={checkpoint.timestamp} />
            </span>
          </div>
          <Written text={checkpoint.state} />
          {checkpoint.rationale !== '' && (
            <div className={css.why}>
              <small>Why</small>
              <Written text={checkpoint.rationale} />
            </div>
          )}
          <Facts facts={checkpoint.metadata} />
        </>
      )}
    </List>
  )
}

/** The task of a checkpoint, by its title; by its id when it is gone, or not for who looks. */
function Worked({ on }: { on: string }) {
  const { data: task } = useCurrentTask(on)
  if (!task) return <code className={css.faint}>{on}</code>
  return (
    <Link
      className={css.grow}
      to="/projects/$project"
      params={{ project: task.project_id }}
      search={{ task: task.id }}
      title={task.title}
    >
      <bdi>{task.title}</bdi>
    </Link>
  )
}

export function Revocations({ name }: { name: string }) {
  const pages = usePages<Schemas['RevocationView']>(
    ['agent-revocations', name],
    (cursor) =>
      take(api.GET('/api/v1/crew/{name}/revocations', { params: { path: { name }, query: { limit: 25, cursor } } })),
    (event) => /^agent_(revoked|recovered|registered)$/.test(event.kind) && isAbout(event, name),
  )
  return (
    <List
      pages={pages}
      id={({ id }) => id}
      empty={{ icon: ShieldCheck, title: 'Never revoked', about: 'Nobody had to halt this agent.' }}
    >
      {(revocation) => (
        <>
          <div className={css.line}>
            <Fate revocation={revocation} />
            <span>
              by <Name>{revocation.issued_by.replace(/^operator:/, '')}</Name>
            </span>
            <span>{revocation.flush_required ? 'what it held was taken away' : 'it kept what it held'}</span>
            <span className={css.when}>
              <Time at={revocation.issued_at} />
            </span>
          </div>
          <Written text={revocation.reason} />
          {revocation.acknowledged_at !== null && (
            <p className={css.faint}>
              Acknowledged <Time at={revocation.acknowledged_at} />
            </p>
          )}
        </>
      )}
    </List>
  )
}

function Fate({ revocation }: { revocation: Schemas['RevocationView'] }) {
  if (revocation.acknowledged) return <Badge tone="good">Acknowledged</Badge>
  if (revocation.superseded) return <Badge>Replaced by a newer one</Badge>
  return <Badge tone="bad">Not acknowledged</Badge>
}

const TONES: Record<Proposal['state'], Tone> = {
  pending: 'info',
  approved: 'good',
  denied: 'bad',
  withdrawn: 'plain',
  failed: 'warn',
}

export function Proposals({ name }: { name: string }) {
  const pages = usePages<Proposal>(
    ['agent-proposals', name],
    (cursor) => take(api.GET('/api/v1/proposals', { params: { query: { agent: name, limit: 25, cursor } } })),
    ({ kind, data }) => kind.startsWith('proposal_') && data.agent === name,
  )
  const about = 'In advisory mode, what the agent wants to do comes here, and waits for a person.'
  return (
    <List pages={pages} id={({ id }) => id} empty={{ icon: Inbox, title: 'No proposals', about }}>
      {(proposal) => (
        <>
          <div className={css.line}>
            <Badge tone={TONES[proposal.state]}>{proposal.state}</Badge>
            <strong>{proposal.action.replaceAll('_', ' ')}</strong>
            {proposal.state === 'pending' && <Link to="/inbox">Decide in the inbox</Link>}
            <span className={css.when}>
              <Time at={proposal.created_at} />
            </span>
          </div>
          <Written text={proposal.why} />
          {proposal.decided_by !== null && (
            <div className={css.faint}>
              Decided by <Name>{proposal.decided_by.replace(/^operator:/, '')}</Name>
            </div>
          )}
          <Written text={proposal.note} />
          <Facts facts={proposal.payload} />
        </>
      )}
    </List>
  )
}

export function Events({ name }: { name: string }) {
  const pages = usePages<AuditEvent>(
    ['agent-events', name],
    (cursor) =>
      take(api.GET('/api/v1/audit', { params: { query: { agent: name, newest_first: true, limit: 40, cursor } } })),
    (event) => isAbout(event, name) || event.data.from === name,
  )
  const about = 'Every change by this agent, or about it, is recorded here.'
  return (
    <List pages={pages} id={({ seq }) => seq} empty={{ icon: History, title: 'No events', about }}>
      {(event) => (
        <>
          <div className={css.line}>
            <span className={css.seq}>{event.seq}</span>
            <strong>{event.kind.replaceAll('_', ' ')}</strong>
            <span className={css.faint}>
              by <Name>{event.actor.replace(/^(operator|agent):/, '')}</Name>
            </span>
            <span className={css.when}>
              <Time at={event.time} />
            </span>
          </div>
          <Facts facts={event.data} />
        </>
      )}
    </List>
  )
}
