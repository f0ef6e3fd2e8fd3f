/** What waits for a person. Further rooms add what they ask here, and the counts follow. */

import { useQuery } from '@tanstack/react-query'
import { all, api, type Proposal, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'

export const pendingKey = ['proposals', 'pending']

export function usePendingProposals() {
  useRefresh(pendingKey, (event) => event.kind.startsWith('proposal_'))
  return useQuery({
    queryKey: pendingKey,
    queryFn: () =>
      all<Proposal>((cursor) =>
        take(api.GET('/api/v1/proposals', { params: { query: { state: 'pending', limit: 500, cursor } } })),
      ),
  })
}

export function useWaiting(): number {
  return usePendingProposals().data?.length ?? 0
}
