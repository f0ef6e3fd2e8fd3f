/** An event in words: who did what, to what. */

import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { AuditEvent } from '@/api/client'
import { ActorName, AgentName, ColumnName, ProjectName, TaskName } from '@/rooms/words/Words'
import css from './event.module.css'
import { kindOf } from './kinds'

type Data = AuditEvent['data']
type Told = { event: AuditEvent; data: Data; who: ReactNode; task: ReactNode }

export function Sentence({ event }: { event: AuditEvent }) {
  const { data } = event
  const who = <Who event={event} />
  const id = text(data, 'task_id') ?? text(data, 'task')
  const task = <TaskName project={event.project} task={id ?? null} title={titleOf(data)} />
  return <>{(WORDS[event.kind] ?? other)({ event, data, who, task })}</>
}

/** Who did it; through whom, when a person acted for an agent. */
function Who({ event: { actor, via } }: { event: AuditEvent }) {
  return (
    <>
      <ActorName actor={actor} />
      {via !== null && (
        <>
          {' '}
          (through <ActorName actor={via} />)
        </>
      )}
    </>
  )
}

export function text(data: Data, field: string): string | undefined {
  const value = data[field]
  return typeof value === 'string' && value !== '' ? value : undefined
}

function titleOf(data: Data): string | undefined {
  const made = data.task
  const inside = typeof made === 'object' && made !== null ? text(made as Data, 'title') : undefined
  return inside ?? text(data, 'title')
}

const LONGEST = 300

/** What somebody said, in a row: its beginning. */
function Said({ children }: { children: string | undefined }) {
  if (children === undefined) return null
  const line = children.slice(0, LONGEST).replace(/\s+/g, ' ')
  return (
    <span className={css.said}>
      : <bdi>{children.length > LONGEST ? `${line}…` : line}</bdi>
    </span>
  )
}

function Agent({ data, field = 'name' }: { data: Data; field?: string }) {
  const name = text(data, field)
  return name === undefined ? <>an agent</> : <AgentName name={name} />
}

function Text({ data, field }: { data: Data; field: string }) {
  return (
    <strong>
      <bdi>{(text(data, field) ?? '?').slice(0, LONGEST)}</bdi>
    </strong>
  )
}

const mode = (data: Data) => (text(data, 'mode') ?? '?').slice(0, 40).replaceAll('_', ' ')
const count = (data: Data, field: string) => (typeof data[field] === 'number' ? data[field].toLocaleString() : '?')

const WORDS: Record<string, (told: Told) => ReactNode> = {
  // Tasks
  task_created: ({ who, task }) => (
    <>
      {who} wrote {task}
    </>
  ),
  task_transition: ({ who, task, data }) => (
    <>
      {who} moved {task} from <ColumnName status={text(data, 'old_status') ?? '?'} /> to{' '}
      <ColumnName status={text(data, 'new_status') ?? '?'} />
      <Said>{text(data, 'blocked_reason') ?? text(data, 'note')}</Said>
    </>
  ),
  task_claimed: ({ who, task }) => (
    <>
      {who} claimed {task}
    </>
  ),
  task_released: ({ who, task, data, event }) => (
    <>
      {event.actor === `agent:${text(data, 'agent')}` ? (
        <>
          {who} gave {task} back
        </>
      ) : (
        <>
          {who} took {task} back from <Agent data={data} field="agent" />
        </>
      )}
      <Said>{text(data, 'reason')}</Said>
    </>
  ),
  task_assigned: ({ who, task, data }) => (
    <>
      {who} assigned {task} to <Agent data={data} field="agent" />
    </>
  ),
  task_unassigned: ({ who, task }) => (
    <>
      {who} put {task} back in the backlog
    </>
  ),
  task_changed: ({ who, task, data }) => (
    <>
      {who} changed {listed(data.changed)} of {task}
    </>
  ),
  task_commented: ({ who, task, data }) => (
    <>
      {who} commented on {task}
      <Said>{text(data, 'body')}</Said>
    </>
  ),
  task_comment_deleted: ({ who, task }) => (
    <>
      {who} deleted a comment on {task}
    </>
  ),
  task_reviewer_added: ({ who, task, data, event }) =>
    event.actor.endsWith(`:${text(data, 'reviewer')}`) ? (
      <>
        {who} signed the review of {task}
      </>
    ) : (
      <>
        {who} signed the review of {task} for <Text data={data} field="reviewer" />
      </>
    ),
  task_reviewer_removed: ({ who, task, data }) => (
    <>
      {who} took back the review of {task} by <Text data={data} field="reviewer" />
    </>
  ),
  task_dependency_added: ({ who, task, event, data }) => (
    <>
      {who} let {task} wait for <TaskName project={event.project} task={text(data, 'depends_on') ?? null} />
    </>
  ),
  task_dependency_removed: ({ who, task, event, data }) => (
    <>
      {who} let {task} no longer wait for <TaskName project={event.project} task={text(data, 'depends_on') ?? null} />
    </>
  ),
  task_deleted: ({ who, data }) => (
    <>
      {who} deleted “<bdi>{(titleOf(data) ?? 'a task').slice(0, LONGEST)}</bdi>”
    </>
  ),
  // Agents
  agent_registered: ({ event, who, data }) =>
    event.actor === `agent:${text(data, 'name')}` ? (
      <>{who} registered</>
    ) : (
      <>
        {who} registered <Agent data={data} />
      </>
    ),
  agent_unregistered: ({ event, who, data }) =>
    event.actor === `agent:${text(data, 'name')}` ? (
      <>{who} left</>
    ) : (
      <>
        {who} removed <Agent data={data} />
      </>
    ),
  agent_autonomy_changed: ({ who, data }) => (
    <>
      {who} set <Agent data={data} /> to <strong>{mode(data)}</strong>
    </>
  ),
  global_autonomy_changed: ({ who, data }) => (
    <>
      {who} set all agents{text(data, 'agent_type') === undefined ? '' : ` of type ${text(data, 'agent_type')}`} to{' '}
      <strong>{mode(data)}</strong>
    </>
  ),
  agent_capabilities_changed: ({ who, data }) => (
    <>
      {who} changed the capabilities of <Agent data={data} />
    </>
  ),
  agent_paused: ({ who, data }) => (
    <>
      {who} paused <Agent data={data} />
      <Said>{text(data, 'reason')}</Said>
    </>
  ),
  agent_resumed: ({ who, data }) => (
    <>
      {who} resumed <Agent data={data} />
      <Said>{text(data, 'reason')}</Said>
    </>
  ),
  agent_revoked: ({ who, data }) => (
    <>
      {who} revoked <Agent data={data} field="agent" />
      <Said>{text(data, 'reason')}</Said>
    </>
  ),
  agent_recovered: ({ data }) => (
    <>
      <Agent data={data} /> acknowledged its revocation
    </>
  ),
  checkpoint_submitted: ({ who, data }) => (
    <>
      {who} said where it is
      <Said>{text(data, 'state')}</Said>
    </>
  ),
  agent_stale: ({ data }) => (
    <>
      <Agent data={data} /> is silent for {count(data, 'silent_seconds')} s
    </>
  ),
  agent_offline: ({ data }) => (
    <>
      <Agent data={data} /> is offline; {count(data, 'returned_tasks')} of its tasks went back to the queue
    </>
  ),
  agent_back: ({ data }) => (
    <>
      <Agent data={data} /> is back
    </>
  ),
  agent_stalled: ({ data }) => (
    <>
      <Agent data={data} /> holds work and missed {count(data, 'missed')} checkpoints
    </>
  ),
  agent_unstalled: ({ data }) => (
    <>
      <Agent data={data} /> goes on
    </>
  ),
  // Messages
  message_sent: ({ who, data }) => (
    <>
      {who} wrote to {text(data, 'to') === '*' ? <strong>everybody</strong> : <Agent data={data} field="to" />}
      <Said>{text(data, 'content')}</Said>
    </>
  ),
  messages_pruned: ({ who, data }) => (
    <>
      {who} removed {count(data, 'count')} old messages
    </>
  ),
  // Proposals
  proposal_created: ({ who, data }) => (
    <>
      {who} asked to <strong>{action(data)}</strong>
      <Said>{text(data, 'why')}</Said>
    </>
  ),
  proposal_approved: (told) => decided(told, 'approved'),
  proposal_denied: (told) => decided(told, 'denied'),
  proposal_withdrawn: (told) => decided(told, 'withdrew'),
  proposal_failed: ({ data }) => (
    <>
      What <Agent data={data} field="agent" /> asked for, to <strong>{action(data)}</strong>, could not be done
      <Said>{text((data.result ?? {}) as Data, 'error')}</Said>
    </>
  ),
  // Projects and files
  project_created: ({ who, data }) => (
    <>
      {who} made the project <Project data={data} />
    </>
  ),
  project_changed: ({ who, data }) => (
    <>
      {who} changed the project <Project data={data} />
    </>
  ),
  project_deleted: ({ who, data }) => (
    <>
      {who} deleted the project <Text data={data} field="name" />
    </>
  ),
  agent_joined_project: ({ event, who, data }) =>
    event.actor === `agent:${text(data, 'agent')}` ? (
      <>
        {who} joined <Project data={data} />
      </>
    ) : (
      <>
        {who} let <Agent data={data} field="agent" /> join <Project data={data} />
      </>
    ),
  agent_left_project: ({ event, who, data }) =>
    event.actor === `agent:${text(data, 'agent')}` ? (
      <>
        {who} left <Project data={data} />
      </>
    ) : (
      <>
        {who} took <Agent data={data} field="agent" /> out of <Project data={data} />
      </>
    ),
  wip_limit_changed: ({ who, data }) => (
    <>
      {who} {data.limit === null ? 'lifted' : 'set'} the WIP limit of{' '}
      <ColumnName status={text(data, 'status') ?? '?'} />
      {text(data, 'agent') !== undefined && (
        <>
          {' '}
          for <Agent data={data} field="agent" />
        </>
      )}
      {typeof data.limit === 'number' && <> to {data.limit}</>}
    </>
  ),
  file_uploaded: ({ who, data }) => (
    <>
      {who} uploaded <Text data={data} field="filename" />
    </>
  ),
  file_deleted: ({ who, data }) => (
    <>
      {who} deleted the file <Text data={data} field="filename" />
    </>
  ),
  demo_started: ({ who }) => <>{who} started the demo</>,
  demo_removed: ({ who }) => <>{who} removed the demo</>,
  // People
  person_invited: ({ who, data }) => (
    <>
      {who} invited <Text data={data} field="name" /> as {text(data, 'role')?.slice(0, 40)}
    </>
  ),
  person_changed: ({ who, data }) => (
    <>
      {who} changed what <Text data={data} field="name" /> may do
    </>
  ),
  person_signed_in: ({ data }) => (
    <>
      <Text data={data} field="name" /> signed in
    </>
  ),
  token_created: ({ who, data }) => (
    <>
      {who} made a token{text(data, 'kind') === undefined ? '' : ` (${text(data, 'kind')?.slice(0, 40)})`}
      {text(data, 'subject') !== undefined && (
        <>
          {' '}
          for <Text data={data} field="subject" />
        </>
      )}
    </>
  ),
  token_revoked: ({ who, data }) => (
    <>
      {who} revoked {text(data, 'token') === undefined ? 'the tokens' : 'a token'}
      {text(data, 'subject') !== undefined && (
        <>
          {' '}
          of <Text data={data} field="subject" />
        </>
      )}
    </>
  ),
  // The record
  refused: ({ who, data }) => (
    <>
      {who} was refused
      <Said>{text(data, 'message')}</Said>
      {typeof data.repeated === 'number' && <> ({data.repeated.toLocaleString()} more times within a minute)</>}
    </>
  ),
  audit_verified: ({ who, data }) => (
    <>
      {who} had the record verified:{' '}
      {data.ok === true ? (
        <>all {count(data, 'checked')} events are as they were written</>
      ) : (
        <strong>
          <bdi>{(text(data, 'problem') ?? 'something is wrong').slice(0, LONGEST)}</bdi>
        </strong>
      )}
    </>
  ),
  backup_made: ({ who }) => <>{who} made a backup</>,
  retention_changed: ({ who, data }) => (
    <>
      {who} keeps {text(data, 'what')?.slice(0, 40) ?? 'things'}{' '}
      {data.days === 0 ? 'for ever' : <>for {count(data, 'days')} days</>}
    </>
  ),
  events_pruned: ({ who, data }) => (
    <>
      {who} removed {count(data, 'count')} old events, up to number {count(data, 'through')}
    </>
  ),
}

/** What nobody here has words for: its kind, and what it names. */
function other({ event, who, data }: Told): ReactNode {
  const about =
    text(data, 'error') ??
    text(data, 'reason') ??
    text(data, 'cause') ??
    text(data, 'title') ??
    text(data, 'name') ??
    text(data, 'message')
  return (
    <>
      {who} · {kindOf(event.kind).label.toLowerCase()}
      <Said>{about}</Said>
    </>
  )
}

function Project({ data }: { data: Data }) {
  const id = text(data, 'project') ?? text(data, 'id')
  return id === undefined ? <>?</> : <ProjectName project={id} name={text(data, 'name')} />
}

const action = (data: Data) => (text(data, 'action') ?? '?').slice(0, 60).replaceAll('_', ' ')

function decided({ event, who, data }: Told, verb: string): ReactNode {
  const own = event.actor === `agent:${text(data, 'agent')}`
  return (
    <>
      {who} {verb}{' '}
      {own ? (
        'its proposal'
      ) : (
        <>
          the proposal of <Agent data={data} field="agent" />
        </>
      )}{' '}
      to <strong>{action(data)}</strong>
      <Said>{text(data, 'note')}</Said>
    </>
  )
}

const FIELDS: Record<string, string> = {
  title: 'the title',
  description: 'the description',
  priority: 'the priority',
  labels: 'the labels',
  required_capabilities: 'the required capabilities',
  required_reviewers: 'the number of reviewers',
  parent_task_id: 'the parent',
  blocked_reason: 'what blocks it',
  blocked_by: 'what blocks it',
}

function listed(changed: unknown): string {
  const names = Array.isArray(changed) ? changed.map((name) => FIELDS[String(name)] ?? String(name).slice(0, 40)) : []
  const each = [...new Set(names)]
  if (each.length === 0) return 'nothing'
  return each.length === 1 ? each[0]! : `${each.slice(0, -1).join(', ')} and ${each.at(-1)}`
}

/** Whether it leads to a board: then the task can be opened there. */
export function TaskLink({ event }: { event: AuditEvent }) {
  const id = text(event.data, 'task_id')
  if (id === undefined || event.project === null || event.kind === 'task_deleted') return null
  return (
    <Link to="/projects/$project" params={{ project: event.project }} search={{ task: id }}>
      <bdi>{titleOf(event.data)?.slice(0, LONGEST) ?? id}</bdi>
    </Link>
  )
}
