/** Headings between the events of different days. */

import type { AuditEvent } from '@/api/client'

export type Day = { day: string }

const LONG = new Intl.DateTimeFormat(undefined, { weekday: 'long', month: 'long', day: 'numeric' })
const FAR = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'long', day: 'numeric' })

export function withDays(events: readonly AuditEvent[]): (Day | AuditEvent)[] {
  const rows: (Day | AuditEvent)[] = []
  let last = ''
  for (const event of events) {
    const day = dayOf(new Date(event.time))
    if (day !== last) rows.push({ day })
    last = day
    rows.push(event)
  }
  return rows
}

/** As the clock on the wall has it. */
export function dayOf(date: Date): string {
  const two = (number: number) => String(number).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

export function dayName(day: string, now: Date): string {
  const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1)
  if (day === dayOf(now)) return 'Today'
  if (day === dayOf(yesterday)) return 'Yesterday'
  const date = new Date(`${day}T12:00`)
  return (date.getFullYear() === now.getFullYear() ? LONG : FAR).format(date)
}
