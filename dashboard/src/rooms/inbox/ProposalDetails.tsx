/** What would change if it were approved, and what is known of why. */

import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, Problem, type Task, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import type { TaskFacts } from '@/rooms/words/tasks'
import { AgentName, ColumnName, TaskName } from '@/rooms/words/Words'
import { Badge, Time } from '@/ui/Facts'
import { Markdown } from '@/ui/Markdown'
import { Pre } from '@/ui/Pre'
import { lines } from './diff'
import css from './inbox.module.css'
import type { ProposalItem } from './proposals'

type DetailsProps = { item: ProposalItem; tasks: TaskFacts }

export function ProposalDetails({ item, tasks }: DetailsProps) {
  const { proposal } = item
  return (
    <div className={css.details}>
      <Wanted item={item} tasks={tasks} />
      {proposal.result !== null && proposal.state === 'failed' && (
        <p className={css.failed}>{String(proposal.result.error ?? '')}</p>
      )}
      {proposal.state === 'pending' && <Doing agent={item.agent} />}
    </div>
  )
}

function Wanted({ item, tasks }: DetailsProps) {
  switch (item.proposal.action) {
    case 'create_task':
      return <Facts item={item} tasks={tasks} before={null} />
    case 'edit_task':
      return <Edit item={item} tasks={tasks} />
    case 'transition':
      return <Move item={item} tasks={tasks} />
    case 'assign':
    case 'claim':
    case 'unassign':
    case 'review':
    case 'delete_task':
    case 'depend':
    case 'independ':
      return <Standing item={item} tasks={tasks} />
    default:
      return <Pre className={css.payload}>{JSON.stringify(item.payload, null, 2)}</Pre>
  }
}

// An edit, or a new task ----------------------------------------------------------------------------------------------

function Edit({ item, tasks }: DetailsProps) {
  const waits = item.proposal.state === 'pending' && item.task !== null
  const key = ['task', item.task]
  useRefresh(key, ({ data }) => data.task_id === item.task)
  const { data: task, error } = useQuery({
    queryKey: key,
    queryFn: () => take(api.GET('/api/v1/tasks/{task_id}', { params: { path: { task_id: item.task ?? '' } } })),
    enabled: waits,
  })
  if (waits && error instanceof Problem && error.status === 404) return <p className={css.hint}>The task is gone.</p>
  if (waits && task === undefined) return null
  return <Facts item={item} tasks={tasks} before={task ?? null} />
}

const ORDER = [
  'title',
  'description',
  'status',
  'priority',
  'assigned_to',
  'labels',
  'required_capabilities',
  'required_reviewers',
  'depends_on',
  'parent_task_id',
]
const NAMES: Record<string, string> = {
  assigned_to: 'assigned to',
  required_capabilities: 'needs',
  required_reviewers: 'reviewers',
  depends_on: 'waits for',
  parent_task_id: 'part of',
}

function Facts({ item, tasks, before }: DetailsProps & { before: Task | null }) {
  const names = Object.keys(item.payload).sort((one, other) => place(one) - place(other))
  const shown = names.filter((name) => before !== null || !isNothing(item.payload[name]))
  return (
    <dl className={css.facts}>
      {shown.map((name) => (
        <div key={name}>
          <dt>{NAMES[name] ?? name.replaceAll('_', ' ')}</dt>
          <dd>
            <Change
              name={name}
              before={before === null ? undefined : before[name as keyof Task]}
              after={item.payload[name]}
              item={item}
              tasks={tasks}
            />
          </dd>
        </div>
      ))}
    </dl>
  )
}

function place(name: string): number {
  const found = ORDER.indexOf(name)
  return found === -1 ? ORDER.length : found
}

function isNothing(value: unknown): boolean {
  return value === null || value === '' || (Array.isArray(value) && value.length === 0)
}

type ChangeProps = DetailsProps & { name: string; before: unknown; after: unknown }

function Change({ name, before, after, item, tasks }: ChangeProps) {
  if (name === 'description') return <Description before={before} after={String(after)} />
  if (Array.isArray(after)) return <Members before={before} after={after} item={item} tasks={tasks} />
  const now = <Value name={name} value={after} item={item} tasks={tasks} />
  if (before === undefined) return now
  if (before === after) return <>{now} (as it is)</>
  return (
    <>
      <del className={css.old}>
        <Value name={name} value={before} item={item} tasks={tasks} />
      </del>{' '}
      → <ins className={css.new}>{now}</ins>
    </>
  )
}

function Value({ name, value, item, tasks }: DetailsProps & { name: string; value: unknown }): ReactNode {
  if (value === null || value === '') return <span className={css.hint}>none</span>
  if (name === 'status') return <ColumnName status={String(value)} />
  if (name === 'assigned_to') return <AgentName name={String(value)} />
  if (name === 'parent_task_id') return <TaskName project={item.project} task={String(value)} tasks={tasks} />
  if (typeof value === 'object') return <code>{JSON.stringify(value)}</code>
  return <bdi>{String(value)}</bdi>
}

function Members({ before, after, item, tasks }: DetailsProps & { before: unknown; after: unknown[] }) {
  const old = Array.isArray(before) ? before.map(String) : undefined
  const now = after.map(String)
  const shown = (member: string) =>
    member.startsWith('tsk_') ? <TaskName project={item.project} task={member} tasks={tasks} /> : <bdi>{member}</bdi>
  if (now.length === 0 && (old ?? []).length === 0) return <span className={css.hint}>none</span>
  return (
    <span className={css.members}>
      {(old ?? [])
        .filter((member) => !now.includes(member))
        .map((member) => (
          <del key={member} className={css.old}>
            {shown(member)}
          </del>
        ))}
      {now.map((member) =>
        old === undefined || old.includes(member) ? (
          <Badge key={member}>{shown(member)}</Badge>
        ) : (
          <ins key={member} className={css.new}>
            {shown(member)}
          </ins>
        ),
      )}
    </span>
  )
}

function Description({ before, after }: { before: unknown; after: string }) {
  if (typeof before !== 'string') return <Markdown text={after} />
  return (
    <div className={css.diff} dir="auto">
      {lines(before, after).map((line, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name, and do not move
        <div key={at} data-sign={line.sign}>
          <span className={css.sign}>{line.sign}</span>
          <span>{line.text}</span>
        </div>
      ))}
    </div>
  )
}

// A move, and everything that is said in one sentence -----------------------------------------------------------------

function Move({ item, tasks }: DetailsProps) {
  const { blocked_reason: reason, blocked_by: by, note } = item.payload
  return (
    <dl className={css.facts}>
      {[
        ['note', note],
        ['blocked because', reason],
      ].map(([name, value]) =>
        typeof value === 'string' && value !== '' ? (
          <div key={String(name)}>
            <dt>{String(name)}</dt>
            <dd className={css.said}>{value}</dd>
          </div>
        ) : null,
      )}
      {typeof by === 'string' && by !== '' && (
        <div>
          <dt>blocked by</dt>
          <dd>
            <TaskName project={item.project} task={by} tasks={tasks} />
          </dd>
        </div>
      )}
      <NowOf item={item} tasks={tasks} />
    </dl>
  )
}

function Standing(props: DetailsProps) {
  return (
    <dl className={css.facts}>
      <NowOf {...props} />
    </dl>
  )
}

/** The task as it is now. */
function NowOf({ item, tasks }: DetailsProps) {
  if (item.task === null || item.proposal.state !== 'pending') return null
  const card = tasks.get(item.task)
  if (card === undefined) return null
  const holder = card.claimed_by ?? card.assigned_to
  return (
    <div>
      <dt>the task now</dt>
      <dd className={css.members}>
        <ColumnName status={card.status} />
        <Badge>{card.priority}</Badge>
        {holder !== null && (
          <span>
            with <AgentName name={holder} />
          </span>
        )}
        {card.waiting_for.length > 0 && <span>waits for {card.waiting_for.length} others</span>}
        {card.blocked_reason !== null && <bdi>{card.blocked_reason.slice(0, 300)}</bdi>}
      </dd>
    </div>
  )
}

/** What the agent last said of its work, since few proposals say why by themselves. */
function Doing({ agent }: { agent: string }) {
  const { data } = useQuery({
    queryKey: ['checkpoint', agent],
    queryFn: () =>
      take(api.GET('/api/v1/crew/{name}/checkpoints', { params: { path: { name: agent }, query: { limit: 1 } } })),
    retry: false,
  })
  const latest = data?.items[0]
  if (latest === undefined) return null
  return (
    <dl className={css.facts}>
      <div>
        <dt>last checkpoint</dt>
        <dd>
          <bdi>{latest.state.slice(0, 500)}</bdi> <span className={css.hint}>· {<Time at={latest.timestamp} />}</span>
          {latest.rationale !== '' && <p className={css.said}>{latest.rationale.slice(0, 1000)}</p>}
        </dd>
      </div>
    </dl>
  )
}
