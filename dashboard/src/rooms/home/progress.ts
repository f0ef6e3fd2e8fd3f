/** How far a newcomer has come, as the server sees it. */

import { useQuery } from '@tanstack/react-query'
import { type Agent, all, api, type Card, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useDemo } from './demo'

const DOING: ReadonlySet<string> = new Set(['in_progress', 'in_review', 'done'])

/** The tasks of the project; none while there is no project. */
export function useFirstTasks(project: string | undefined): Card[] {
  const key = ['start', 'tasks', project ?? null]
  useRefresh(key, ({ kind, data }) => kind.startsWith('task_') && data.project === project)
  const { data } = useQuery({
    queryKey: key,
    enabled: project !== undefined,
    queryFn: async () => {
      const path = { project_id: project ?? '' }
      return (await take(api.GET('/api/v1/projects/{project_id}/cards', { params: { path } }))).cards
    },
  })
  return data ?? []
}

/** Agents that are not the demo's, by name. */
export function useOwnAgents(): Agent[] {
  const { data: demo } = useDemo()
  const key = ['start', 'agents']
  useRefresh(key, ({ kind }) => kind === 'agent_registered' || kind === 'agent_unregistered')
  const { data = [] } = useQuery({
    queryKey: key,
    queryFn: () =>
      all<Agent>((cursor) => take(api.GET('/api/v1/crew', { params: { query: { limit: 1000, cursor } } }))),
  })
  return data.filter(({ name }) => demo?.agents.includes(name) !== true)
}

/** A task that one of these agents took up. */
export function movedBy(agents: Agent[], tasks: Card[]): Card | undefined {
  const names = new Set(agents.map(({ name }) => name))
  return tasks.find(({ status, assigned_to }) => DOING.has(status) && assigned_to !== null && names.has(assigned_to))
}
