/** What of the inbox is in the address. */

import { useNavigate, useSearch } from '@tanstack/react-router'

export const ANSWERED = ['approved', 'denied', 'withdrawn', 'failed'] as const
export type Answered = (typeof ANSWERED)[number]

export type InboxSearch = { tab?: 'history'; state?: Answered; agent?: string; project?: string; open?: string }

export function inboxSearch(given: Record<string, unknown>): InboxSearch {
  const text = (name: string) => {
    const value = given[name]
    return typeof value === 'string' && value !== '' ? { [name]: value } : {}
  }
  return {
    ...(given.tab === 'history' ? { tab: 'history' } : {}),
    ...(ANSWERED.some((state) => state === given.state) ? text('state') : {}),
    ...text('agent'),
    ...text('project'),
    ...text('open'),
  }
}

export function useInboxSearch(): [InboxSearch, (change: InboxSearch) => void] {
  const search = useSearch({ from: '/inbox' })
  const navigate = useNavigate({ from: '/inbox' })
  return [search, (change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })]
}
