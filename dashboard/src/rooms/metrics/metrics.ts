/** The figures, current to the last move. */

import { useQuery } from '@tanstack/react-query'
import { api, type Schemas, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'

export type Metrics = Schemas['MetricsView']
export type FlowDay = Schemas['FlowDay']
export type WipDay = Schemas['WipDay']

const MOVES = ['task_created', 'task_transition', 'task_claimed', 'task_deleted', 'wip_limit_changed']

export function useMetrics(project: string, days: number, agent: string | undefined) {
  const key = ['metrics', project, { days, agent }]
  useRefresh(key, ({ kind, data }) => data.project === project && MOVES.includes(kind), 2000)
  return useQuery({
    queryKey: key,
    queryFn: () => {
      const query = { days, ...(agent === undefined ? {} : { agent }) }
      return take(
        api.GET('/api/v1/projects/{project_id}/metrics', { params: { path: { project_id: project }, query } }),
      )
    },
    placeholderData: (before, query) => (query?.queryKey[1] === project ? before : undefined),
  })
}

export const COLUMNS = ['backlog', 'ready', 'blocked', 'in_progress', 'in_review', 'done'] as const
export type Column = (typeof COLUMNS)[number]
