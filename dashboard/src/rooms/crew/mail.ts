/** How many messages each agent sent and got. */

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'

export const graphKey = ['message-graph']

export function useMessageGraph() {
  useRefresh(graphKey, ({ kind }) => /^message|^agent_(un)?registered/.test(kind), 1000)
  return useQuery({ queryKey: graphKey, queryFn: () => take(api.GET('/api/v1/messages/graph')) })
}

export function useMessageCounts(): ReadonlyMap<string, number> {
  const { data } = useMessageGraph()
  return useMemo(() => {
    const counts = new Map<string, number>()
    for (const { from, to, count } of data?.edges ?? []) {
      counts.set(from, (counts.get(from) ?? 0) + count)
      counts.set(to, (counts.get(to) ?? 0) + count)
    }
    return counts
  }, [data])
}
