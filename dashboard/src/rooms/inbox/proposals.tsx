/** Proposals: what an agent in advisory mode wants to do on a board. */

import { Lightbulb } from 'lucide-react'
import type { ReactNode } from 'react'
import { api, type Proposal, take } from '@/api/client'
import type { TaskFacts } from '@/rooms/words/tasks'
import { AgentName, ColumnName, TaskName } from '@/rooms/words/Words'
import type { Answer, Kind, Waiting } from './kinds'
import { ProposalDetails } from './ProposalDetails'

export type ProposalItem = Waiting & { kind: 'proposal'; proposal: Proposal; payload: Proposal['payload'] }

export function proposalItem(proposal: Proposal): ProposalItem {
  const { id, agent, project, task, payload } = proposal
  return { kind: 'proposal', id, agent, project, task, payload, since: proposal.created_at, expires: null, proposal }
}

/** A text of the payload; nothing where there is none. */
export function text(payload: Proposal['payload'], field: string): string | undefined {
  const value = payload[field]
  return typeof value === 'string' && value !== '' ? value : undefined
}

type Wish = (about: { item: ProposalItem; task: ReactNode; tasks: TaskFacts }) => ReactNode

/** What follows “claude wants to”, for everything an agent can propose. */
const WISHES: Record<string, Wish> = {
  create_task: ({ item }) => (
    <>
      write a new task,{' '}
      <strong>
        “<bdi>{(text(item.payload, 'title') ?? '').slice(0, 300)}</bdi>”
      </strong>
    </>
  ),
  edit_task: ({ task, item }) => (
    <>
      change {fields(item)} of {task}
    </>
  ),
  delete_task: ({ task }) => <>delete {task}</>,
  claim: ({ task }) => <>claim {task}</>,
  transition: ({ item, task, tasks }) => {
    const now = item.proposal.state === 'pending' && item.task !== null ? tasks.get(item.task)?.status : undefined
    return (
      <>
        move {task} {now !== undefined && <>from {<ColumnName status={now} />} </>}to{' '}
        <ColumnName status={text(item.payload, 'status') ?? '?'} />
      </>
    )
  },
  assign: ({ item, task }) => (
    <>
      assign {task} to <AgentName name={text(item.payload, 'agent') ?? '?'} />
    </>
  ),
  unassign: ({ task }) => <>take {task} from whoever has it, back to the backlog</>,
  review: ({ task, item }) => {
    const reviewer = text(item.payload, 'reviewer')
    return reviewer === undefined || reviewer === item.agent ? (
      <>sign the review of {task}</>
    ) : (
      <>
        sign the review of {task} for <AgentName name={reviewer} />
      </>
    )
  },
  depend: ({ item, task, tasks }) => (
    <>
      let {task} wait for{' '}
      <TaskName project={item.project} task={text(item.payload, 'depends_on') ?? null} tasks={tasks} />
    </>
  ),
  independ: ({ item, task, tasks }) => (
    <>
      let {task} no longer wait for{' '}
      <TaskName project={item.project} task={text(item.payload, 'depends_on') ?? null} tasks={tasks} />
    </>
  ),
}

const FIELDS: Record<string, string> = {
  title: 'the title',
  description: 'the description',
  priority: 'the priority',
  labels: 'the labels',
  required_capabilities: 'the required capabilities',
  required_reviewers: 'the number of reviewers',
  parent_task_id: 'the parent',
}

function fields(item: ProposalItem): string {
  const names = Object.keys(item.payload).map((name) => FIELDS[name] ?? name.slice(0, 40))
  if (names.length === 0) return 'nothing'
  return names.length === 1 ? names[0]! : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

function Sentence({ item, tasks }: { item: ProposalItem; tasks: TaskFacts }) {
  const task = <TaskName project={item.project} task={item.task} tasks={tasks} />
  const wish = WISHES[item.proposal.action]
  return (
    <>
      <AgentName name={item.agent} /> {item.proposal.state === 'pending' ? 'wants' : 'wanted'} to{' '}
      {wish === undefined ? (
        <>
          do <code>{item.proposal.action.slice(0, 80)}</code>
          {item.task !== null && <> with {task}</>}
        </>
      ) : (
        wish({ item, task, tasks })
      )}
    </>
  )
}

function destructive({ proposal, agent, task }: ProposalItem, tasks: TaskFacts) {
  if (proposal.action !== 'delete_task') return null
  const title = tasks.get(task ?? '')?.title.slice(0, 200) ?? task
  return {
    title: 'Delete this task?',
    about: `${agent} asked to delete “${title}” with its comments, its files and its history. What waits for it will be blocked. It cannot be brought back.`,
    action: 'Approve and delete',
  }
}

function sent(verdict: 'approve' | 'deny'): Answer<ProposalItem>['send'] {
  return ({ id }, note) => {
    const options = { params: { path: { proposal_id: id } }, body: { note } }
    return take(
      verdict === 'approve'
        ? api.POST('/api/v1/proposals/{proposal_id}/approve', options)
        : api.POST('/api/v1/proposals/{proposal_id}/deny', options),
    )
  }
}

export const proposals: Kind<ProposalItem> = {
  label: 'Proposal',
  icon: Lightbulb,
  Sentence,
  why: ({ proposal, payload }) => proposal.why || text(payload, 'note') || text(payload, 'blocked_reason') || '',
  Details: ProposalDetails,
  answers: [
    {
      name: 'approve',
      label: 'Approve',
      done: 'Approved',
      key: 'a',
      look: 'primary',
      noted: false,
      asks: destructive,
      send: sent('approve'),
    },
    {
      name: 'deny',
      label: 'Deny',
      done: 'Denied',
      key: 'd',
      look: 'plain',
      noted: true,
      asks: () => null,
      send: sent('deny'),
    },
  ],
}
