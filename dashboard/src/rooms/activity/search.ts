/** What of the record is shown, as the address says it. */

import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'
import { expanded } from './kinds'

export type Filters = { kind?: string[]; agent?: string; project?: string; subject?: string }
export type ActivitySearch = Filters & { event?: number }

export const NO_FILTERS: Record<keyof Filters, undefined> = {
  kind: undefined,
  agent: undefined,
  project: undefined,
  subject: undefined,
}

const MOST = 100 // kinds that the server takes at a time

export function activitySearch(given: Record<string, unknown>): ActivitySearch {
  const text = (value: unknown) =>
    typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
      ? String(value).slice(0, 64)
      : ''
  const kinds = [given.kind].flat().map(text).filter(Boolean).slice(0, MOST)
  const [agent, project, subject] = [text(given.agent), text(given.project), text(given.subject)]
  const event = Number(given.event)
  return {
    ...(kinds.length > 0 ? { kind: [...new Set(kinds)] } : {}),
    ...(agent ? { agent } : {}),
    ...(project ? { project } : {}),
    ...(subject ? { subject } : {}),
    ...(Number.isSafeInteger(event) && event > 0 ? { event } : {}),
  }
}

/** What the server is asked for; groups of kinds as their kinds. */
export function query({ kind = [], agent, project, subject }: Filters) {
  const kinds = expanded(kind).slice(0, MOST)
  return {
    ...(kinds.length > 0 ? { kind: kinds } : {}),
    ...(agent === undefined ? {} : { involves: agent }),
    ...(project === undefined ? {} : { project }),
    ...(subject === undefined ? {} : { subject }),
  }
}

/** Where what is shown now can be downloaded. */
export function download(filters: Filters, form: 'ndjson' | 'csv'): string {
  const { kind = [], ...others } = query(filters)
  const params = new URLSearchParams(others)
  for (const one of kind) params.append('kind', one)
  return `/api/v1/audit/export.${form}${params.size > 0 ? `?${params}` : ''}`
}

type Change = { [name in keyof ActivitySearch]?: ActivitySearch[name] | undefined }

/** Filters take the address's place; an event that is opened is a step that back undoes. */
export function useActivitySearch(): [ActivitySearch, (change: Change, step?: boolean) => void] {
  const search = useSearch({ from: '/activity' })
  const navigate = useNavigate({ from: '/activity' })
  const change = useCallback(
    (change: Change, step = false) =>
      void navigate({ search: (before) => ({ ...before, ...change }), replace: !step, resetScroll: false }),
    [navigate],
  )
  return [search, change]
}
