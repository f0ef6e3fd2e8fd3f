/** Times as people say them. */

const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' })
const DAY = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' })
const FAR = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' })

export function exactly(at: string): string {
  return EXACT.format(new Date(at))
}

export function relatively(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000
  if (seconds < -5) return `in ${span(-seconds)}`
  if (seconds < 10) return 'just now'
  if (seconds < 7 * 86_400) return `${span(seconds)} ago`
  const then = new Date(at)
  return (then.getFullYear() === new Date(now).getFullYear() ? DAY : FAR).format(then)
}

/** A length of time in its one or two largest units. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds))
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min`
  if (whole < 86_400) {
    const minutes = Math.floor((whole % 3600) / 60)
    return minutes === 0 ? `${Math.floor(whole / 3600)} h` : `${Math.floor(whole / 3600)} h ${minutes} min`
  }
  const hours = Math.floor((whole % 86_400) / 3600)
  return hours === 0 ? `${Math.floor(whole / 86_400)} d` : `${Math.floor(whole / 86_400)} d ${hours} h`
}
