/** One task and all that belongs to it, current to the last event, and the changes that people make to it. */

import { useMutation, useMutationState, useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import { all, api, type Card, type Schemas, type Task, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { type Board, cardsKey, inOrder, type Status } from '@/rooms/board/cards'
import { useToast } from '@/ui/Toasts'

export type Comment = Schemas['CommentView']
export type Move = Schemas['HistoryView']
export type Near = Schemas['TaskItem']
export type Attachment = Schemas['FileView']
export type TaskChange = Schemas['TaskChange']

export type Where = { project: string; task: string }

export const STATUS_WORDS: Record<Status, string> = {
  backlog: 'Backlog',
  ready: 'Ready',
  in_progress: 'In progress',
  in_review: 'In review',
  blocked: 'Blocked',
  done: 'Done',
}
export const PRIORITIES = [
  { value: 'P0', label: 'P0 · critical' },
  { value: 'P1', label: 'P1 · high' },
  { value: 'P2', label: 'P2 · normal' },
  { value: 'P3', label: 'P3 · low' },
]

export function statusWord(status: string): string {
  return STATUS_WORDS[status as Status] ?? status
}

export function statusColor(status: string): string {
  return `var(--c-${status})`
}

export const pathOf = ({ project, task }: Where) => ({ path: { project_id: project, task_id: task } })
export const taskKey = ({ project, task }: Where) => ['task', project, task]
const part = (where: Where, name: string) => [...taskKey(where), name]
export const factsKey = (where: Where) => part(where, 'facts')
export const attachmentsKey = (where: Where) => part(where, 'attachments')

/** What these fields become while the server has not answered. */
type Shown = Partial<Task>

/** The task as it is about to be: what was asked for shows at once, and goes when it is refused. */
export function useTask(where: Where) {
  useRefresh(factsKey(where), ({ kind, data }) => {
    if (data.project !== where.project) return false
    const other = kind === 'task_created' || kind === 'task_deleted' || kind === 'task_transition'
    return kind.startsWith('task_') && (data.task_id === where.task || other)
  })
  const query = useQuery({
    queryKey: factsKey(where),
    queryFn: () => take(api.GET('/api/v1/projects/{project_id}/tasks/{task_id}', { params: pathOf(where) })),
  })
  const pending = useMutationState({
    filters: { mutationKey: ['change', ...taskKey(where)], status: 'pending' },
    select: (mutation) => shownOf(mutation.state.variables as TaskChange),
  })
  const task = useMemo(
    () => (query.data === undefined ? undefined : (Object.assign({}, query.data, ...pending) as Task)),
    [query.data, pending],
  )
  return { task, error: query.error, refetch: query.refetch }
}

function shownOf(change: TaskChange): Shown {
  const { title, priority, labels, required_capabilities, required_reviewers, parent_task_id, status } = change
  return {
    ...(title ? { title } : {}),
    ...(priority ? { priority } : {}),
    ...(labels ? { labels } : {}),
    ...(required_capabilities ? { required_capabilities } : {}),
    ...(typeof required_reviewers === 'number' ? { required_reviewers } : {}),
    ...(typeof parent_task_id === 'string' ? { parent_task_id: parent_task_id || null } : {}),
    ...(status ? { status } : {}),
  }
}

/** Edits or moves the task. */
export function useTaskChange(where: Where, { quiet = false } = {}) {
  const queries = useQueryClient()
  const say = useToast()
  return useMutation({
    mutationKey: ['change', ...taskKey(where)],
    mutationFn: (body: TaskChange) =>
      take(api.PATCH('/api/v1/projects/{project_id}/tasks/{task_id}', { params: pathOf(where), body })),
    onSuccess: (answer) => {
      if ('title' in answer) queries.setQueryData(factsKey(where), answer)
    },
    onError: (error) => {
      if (!quiet) say.refused(error)
    },
  })
}

/** Does something else to the task; what it changed is asked for, also when no event can tell. */
export function useTaskAct(where: Where) {
  const queries = useQueryClient()
  const say = useToast()
  return useMutation({
    mutationFn: (act: () => Promise<unknown>) => act(),
    onSettled: () => queries.invalidateQueries({ queryKey: taskKey(where) }),
    onError: say.refused,
  })
}

function concerns(where: Where, ...kinds: string[]) {
  return ({ kind, data }: { kind: string; data: { [field: string]: unknown } }) =>
    data.task_id === where.task && kinds.includes(kind)
}

export function useComments(where: Where) {
  const key = part(where, 'comments')
  useRefresh(key, concerns(where, 'task_commented', 'task_comment_deleted'))
  return useQuery({
    queryKey: key,
    queryFn: () =>
      all<Comment>((cursor) =>
        take(
          api.GET('/api/v1/projects/{project_id}/tasks/{task_id}/comments', {
            params: { ...pathOf(where), query: { limit: 500, cursor } },
          }),
        ),
      ),
  })
}

export function useHistory(where: Where) {
  const key = part(where, 'history')
  useRefresh(
    key,
    concerns(where, 'task_transition', 'task_claimed', 'task_assigned', 'task_unassigned', 'task_released'),
  )
  return useQuery({
    queryKey: key,
    queryFn: () =>
      all<Move>((cursor) =>
        take(
          api.GET('/api/v1/projects/{project_id}/tasks/{task_id}/history', {
            params: { ...pathOf(where), query: { limit: 1000, cursor } },
          }),
        ),
      ),
  })
}

export function useDependencies(where: Where) {
  const key = part(where, 'dependencies')
  useRefresh(key, ({ kind, data }) => {
    const tied = kind.startsWith('task_dependency_') || kind === 'task_deleted' || kind === 'task_created'
    return data.project === where.project && (tied || kind === 'task_transition' || kind === 'task_changed')
  })
  return useQuery({
    queryKey: key,
    queryFn: () =>
      take(api.GET('/api/v1/projects/{project_id}/tasks/{task_id}/dependencies', { params: pathOf(where) })),
  })
}

export function useAttachments(where: Where) {
  const key = attachmentsKey(where)
  useRefresh(key, concerns(where, 'file_uploaded', 'file_deleted'))
  return useQuery({
    queryKey: key,
    queryFn: () =>
      all<Attachment>((cursor) =>
        take(
          api.GET('/api/v1/projects/{project_id}/tasks/{task_id}/attachments', {
            params: { ...pathOf(where), query: { limit: 1000, cursor } },
          }),
        ),
      ),
  })
}

/** The other tasks of the project, as the board beneath keeps them. */
export function useOthers(project: string): { board: Board | undefined; cards: Card[] } {
  const { data: board } = useQuery<Board>({ queryKey: cardsKey(project), enabled: false })
  const cards = useMemo(() => (board === undefined ? [] : [...board.cards.values()].sort(inOrder)), [board])
  return { board, cards }
}
