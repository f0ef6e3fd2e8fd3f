/** The tasks that are spoken of, as they are now. */

import { useQuery } from '@tanstack/react-query'
import { api, type Card, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'

export type TaskFacts = ReadonlyMap<string, Card>

const AT_ONCE = 150
const NONE: TaskFacts = new Map()

type Named = { project: string | null; task: string | null; payload?: Record<string, unknown> }

/** Every task that one of these names, also in what it wants. */
function named(all: readonly Named[]): Map<string, string[]> {
  const byProject = new Map<string, Set<string>>()
  for (const { project, task, payload = {} } of all) {
    if (project === null) continue
    const ids = byProject.get(project) ?? new Set()
    for (const id of [task, payload.depends_on, payload.blocked_by, payload.parent_task_id].flat()) {
      if (typeof id === 'string' && id !== '') ids.add(id)
    }
    byProject.set(project, ids)
  }
  return new Map([...byProject].map(([project, ids]) => [project, [...ids].sort()]))
}

export function useTasksOf(all: readonly Named[]): TaskFacts {
  const wanted = named(all)
  const ids = new Set([...wanted.values()].flat())
  const key = ['tasks-of', [...wanted]]
  useRefresh(key, ({ data }) => typeof data.task_id === 'string' && ids.has(data.task_id))
  const { data } = useQuery({
    queryKey: key,
    queryFn: async () => {
      const found = await Promise.all([...wanted].flatMap(([project, some]) => chunks(some).map(cardsOf(project))))
      return new Map(found.flat().map((card) => [card.id, card]))
    },
    enabled: ids.size > 0,
    placeholderData: (before) => before,
  })
  return data ?? NONE
}

function cardsOf(project: string): (ids: string[]) => Promise<Card[]> {
  return async (ids) => {
    const params = { path: { project_id: project }, query: { id: ids } }
    try {
      return (await take(api.GET('/api/v1/projects/{project_id}/cards', { params }))).cards
    } catch {
      return [] // The project is gone, and its tasks with it.
    }
  }
}

function chunks(ids: string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / AT_ONCE) }, (_, at) => ids.slice(at * AT_ONCE, (at + 1) * AT_ONCE))
}
