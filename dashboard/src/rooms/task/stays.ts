/** How long a task was in each state, from its history. */

import type { Move } from './task'

export type Stay = { status: string; from: number; to: number }

/** One stay after the other, oldest first; the last one lasts until `now`, unless the task is done. */
export function staysOf(history: readonly Move[], now: number): Stay[] {
  return history.flatMap((move, place) => {
    const from = Date.parse(move.at)
    const next = history[place + 1]
    if (next === undefined && move.to === 'done') return []
    return [{ status: move.to, from, to: next === undefined ? Math.max(now, from) : Date.parse(next.at) }]
  })
}

/** Milliseconds in each state, all stays together, in the order in which they were first reached. */
export function totalsOf(stays: readonly Stay[]): [status: string, length: number][] {
  const totals = new Map<string, number>()
  for (const { status, from, to } of stays) totals.set(status, (totals.get(status) ?? 0) + to - from)
  return [...totals]
}
