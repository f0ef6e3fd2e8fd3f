/** What an event says of itself, field by field: what was there before, and what is there now. */

import type { AuditEvent } from '@/api/client'

export type Change = { field: string; before: unknown; after: unknown }
type Data = AuditEvent['data']

const isRecord = (value: unknown): value is Data => typeof value === 'object' && value !== null && !Array.isArray(value)

export function changesOf({ kind, data }: Pick<AuditEvent, 'kind' | 'data'>): Change[] {
  if (kind === 'task_transition') {
    const moved = [{ field: 'status', before: data.old_status, after: data.new_status }]
    return data.blocked_reason
      ? [...moved, { field: 'blocked_reason', before: null, after: data.blocked_reason }]
      : moved
  }
  if (kind === 'agent_back') return [{ field: 'presence', before: data.was, after: 'online' }]
  const { was } = data
  const now = isRecord(data.to) ? data.to : data
  if (isRecord(was)) {
    return Object.keys(was)
      .map((field) => ({ field, before: was[field], after: now[field] }))
      .filter(({ before, after }) => JSON.stringify(before) !== JSON.stringify(after))
  }
  // Events of before `was` was told know the new value only.
  return isRecord(data.to) ? Object.entries(data.to).map(([field, after]) => ({ field, before: undefined, after })) : []
}

/** Shown elsewhere: in the sentence, as a link, or as a change. */
const TOLD = new Set(['project', 'task_id', 'was', 'to', 'changed', 'old_status', 'new_status', 'by'])

/** What else was recorded. */
export function fieldsOf(event: Pick<AuditEvent, 'kind' | 'data'>): [field: string, value: unknown][] {
  const changed = new Set(changesOf(event).map(({ field }) => field))
  const isMessage = event.kind === 'message_sent' // whose `to` is a name
  return Object.entries(event.data).filter(
    ([field, value]) =>
      value !== null &&
      value !== '' &&
      !changed.has(field) &&
      (!TOLD.has(field) || (isMessage && field === 'to')) &&
      !(Array.isArray(value) && value.length === 0),
  )
}

const NAMES: Record<string, string> = {
  id: 'Id',
  wip_limit: 'WIP limit',
  seq: 'Number',
  autonomy_mode: 'Mode',
  old_status: 'From',
  new_status: 'To',
}

/** `required_capabilities` as people say it. */
export function fieldName(field: string): string {
  const words = field.slice(0, 80).replaceAll('_', ' ')
  return NAMES[field] ?? words.charAt(0).toUpperCase() + words.slice(1)
}
