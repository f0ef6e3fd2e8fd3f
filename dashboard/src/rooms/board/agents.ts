/** Who could do a task, and what they can do. */

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { type Agent, all, api, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'

const key = ['board', 'agents']
const KINDS = ['agent_registered', 'agent_unregistered', 'agent_capabilities_changed']

export function useAgents(): ReadonlyMap<string, Agent> {
  useRefresh(key, ({ kind }) => KINDS.includes(kind), 1000)
  const { data } = useQuery({
    queryKey: key,
    queryFn: () =>
      all<Agent>((cursor) => take(api.GET('/api/v1/crew', { params: { query: { limit: 1000, cursor } } }))),
  })
  return useMemo(() => new Map((data ?? []).map((agent) => [agent.name, agent])), [data])
}
