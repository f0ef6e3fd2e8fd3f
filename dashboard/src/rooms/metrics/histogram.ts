/** Cycle times by how long they took: equal steps of a round length, the few that took far longer together at the end. */

export type Bin = { from: number /** Null: everything longer. */; to: number | null; count: number }
export type Histogram = { step: number; bins: Bin[] }

const SECOND = 1 / 60
const HOUR = 60
const DAY = 24 * HOUR
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * SECOND),
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 4, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 4, 7, 14, 28, 56, 112].map((days) => days * DAY),
]
const MOST = 20 // bins
const FAR = 1.25 // times the p95: what took longer stands together

/** Everything in minutes. */
export function histogram(minutes: readonly number[], p95: number | null): Histogram {
  const longest = Math.max(0, ...minutes)
  const shown = p95 === null ? longest : Math.min(longest, p95 * FAR)
  const step = STEPS.find((each) => shown / each < MOST) ?? STEPS.at(-1)!
  const full = Math.floor(shown / step) + 1
  const bins: Bin[] = Array.from({ length: full }, (_, at) => ({ from: at * step, to: (at + 1) * step, count: 0 }))
  if (longest >= full * step) bins.push({ from: full * step, to: null, count: 0 })
  for (const each of minutes) bins[Math.min(Math.floor(each / step), bins.length - 1)]!.count++
  return { step, bins }
}

/** Where a length stands on the axis; what lies beyond it, in the middle of the last bin. */
export function placeOf({ step, bins }: Histogram, minutes: number): number {
  const last = bins.at(-1)!
  return last.to === null && minutes >= last.from ? last.from + step / 2 : minutes
}
