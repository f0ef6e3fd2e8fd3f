/** What waits, as the page shows it; apart from its count, which every page needs. */

import { useQueryClient } from '@tanstack/react-query'
import { useCallback, useMemo } from 'react'
import type { Proposal } from '@/api/client'
import type { Item } from './kinds'
import { proposalItem } from './proposals'
import { pendingKey, usePendingProposals } from './waiting'

/** Everything that waits, the longest first. */
export function useWaitingItems() {
  const { data, error, refetch } = usePendingProposals()
  const items = useMemo(
    () => data?.map((proposal): Item => proposalItem(proposal)).sort((one, other) => one.id.localeCompare(other.id)),
    [data],
  )
  return { items, error, refetch }
}

/** Takes what was answered off the list, before the server's own list arrives. */
export function useTakeOff(): (id: string) => void {
  const queries = useQueryClient()
  return useCallback(
    (id) => queries.setQueryData<Proposal[]>(pendingKey, (before) => before?.filter((one) => one.id !== id)),
    [queries],
  )
}
