/** What agents are at: asked for one by one, for the rows that are on the screen. */

import { useQuery } from '@tanstack/react-query'
import { api, Problem, type Task, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'

/** The task; null when it is gone, or in a project one may not see. */
export function useCurrentTask(id: string | null) {
  const key = ['current-task', id]
  useRefresh(key, ({ kind, data }) => data.task_id === id && (kind === 'task_changed' || kind === 'task_deleted'), 1000)
  return useQuery({
    queryKey: key,
    queryFn: () => gone(take(api.GET('/api/v1/tasks/{task_id}', { params: { path: { task_id: id ?? '' } } }))),
    enabled: id !== null,
    staleTime: Number.POSITIVE_INFINITY,
  })
}

async function gone(answer: Promise<Task>): Promise<Task | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof Problem && (error.status === 404 || error.status === 403)) return null
    throw error
  }
}

/** A checkpoint never changes: it is asked for once. */
export function useLatestCheckpoint(name: string, sequence: number) {
  return useQuery({
    queryKey: ['latest-checkpoint', name, sequence],
    queryFn: () => take(api.GET('/api/v1/crew/{name}/checkpoint', { params: { path: { name } } })),
    enabled: sequence > 0,
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: (before) => before,
  })
}

/** What an agent would lose with a flush. */
export function useHeld(name: string | undefined) {
  return useQuery({
    queryKey: ['held', name],
    queryFn: async () => {
      const agent = name ?? ''
      const [tasks, unread] = await Promise.all([
        take(api.GET('/api/v1/tasks', { params: { query: { agent, limit: 1000 } } })),
        take(api.GET('/api/v1/messages', { params: { query: { agent, unread: true, limit: 1000 } } })),
      ])
      return { tasks: tasks.items.filter((task) => holds(agent, task)), unread: unread.items.length }
    },
    enabled: name !== undefined,
  })
}

function holds(agent: string, { claimed_by, assigned_to, status }: Task): boolean {
  const claimed = claimed_by === agent && ['ready', 'in_progress', 'blocked'].includes(status)
  return claimed || (assigned_to === agent && status === 'in_progress')
}
