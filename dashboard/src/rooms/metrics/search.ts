/** Which days, whose, and how: as the address says it. */

import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'

export const SPANS = [7, 14, 30, 90, 180, 365] as const
export const USUAL = 30
const LONGEST = 366 // days that the server tells at a time

export type MetricsSearch = { days?: number; agent?: string; view?: 'tables' }

export function metricsSearch(given: Record<string, unknown>): MetricsSearch {
  const days = Number(given.days)
  const agent = typeof given.agent === 'string' || typeof given.agent === 'number' ? String(given.agent) : ''
  return {
    ...(Number.isInteger(days) && days >= 2 && days <= LONGEST && days !== USUAL ? { days } : {}),
    ...(agent !== '' && agent.length <= 64 ? { agent } : {}),
    ...(given.view === 'tables' ? { view: 'tables' } : {}),
  }
}

type Change = { [name in keyof MetricsSearch]?: MetricsSearch[name] | undefined }
const FROM = '/projects/$project/metrics'

export function useMetricsSearch(): [MetricsSearch, (change: Change) => void] {
  const search = useSearch({ from: FROM })
  const navigate = useNavigate({ from: FROM })
  const change = useCallback(
    (change: Change) =>
      void navigate({ search: (before) => ({ ...before, ...change }), replace: true, resetScroll: false }),
    [navigate],
  )
  return [search, change]
}
