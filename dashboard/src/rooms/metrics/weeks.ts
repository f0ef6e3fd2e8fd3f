/** Days of UTC, and the weeks they make where there are too many to be told apart. */

export type Stretch = { from: string; to: string }

const SHORT = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', timeZone: 'UTC' })
const WHOLE = new Intl.DateTimeFormat(undefined, {
  weekday: 'short',
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  timeZone: 'UTC',
})

export function shortDay(day: string): string {
  return SHORT.format(new Date(`${day}T00:00Z`))
}

export function wholeDay(day: string): string {
  return WHOLE.format(new Date(`${day}T00:00Z`))
}

/** Weeks of seven days that end with the last day; the first may be shorter. */
export function byWeek<T extends { day: string }, R>(days: readonly T[], sum: (week: T[]) => R): (Stretch & R)[] {
  const weeks: (Stretch & R)[] = []
  for (let end = days.length; end > 0; end -= 7) {
    const week = days.slice(Math.max(0, end - 7), end)
    weeks.unshift({ from: week[0]!.day, to: week.at(-1)!.day, ...sum(week) })
  }
  return weeks
}

export function stretchName({ from, to }: Stretch): string {
  return from === to ? wholeDay(from) : `${wholeDay(from)} – ${wholeDay(to)}`
}
