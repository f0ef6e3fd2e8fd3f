/** What the board calls things. */

export type Status = 'backlog' | 'ready' | 'in_progress' | 'in_review' | 'blocked' | 'done'
export const STATUSES: readonly Status[] = ['backlog', 'ready', 'in_progress', 'in_review', 'blocked', 'done']

export const STATUS_NAMES: Record<Status, string> = {
  backlog: 'Backlog',
  ready: 'Ready',
  in_progress: 'In progress',
  in_review: 'In review',
  blocked: 'Blocked',
  done: 'Done',
}

export const PRIORITIES = ['P0', 'P1', 'P2', 'P3'] as const
export type Priority = (typeof PRIORITIES)[number]
export const PRIORITY_NAMES: Record<Priority, string> = { P0: 'Critical', P1: 'High', P2: 'Normal', P3: 'Low' }

export function isStatus(given: string): given is Status {
  return given in STATUS_NAMES
}

export function isPriority(given: string): given is Priority {
  return given in PRIORITY_NAMES
}

/** `a, b or c` */
export function listed(words: string[], last: 'and' | 'or'): string {
  return words.length < 2 ? (words[0] ?? '') : `${words.slice(0, -1).join(', ')} ${last} ${words[words.length - 1]}`
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}

/** The beginning of a title, for a sentence. */
export function quoted(title: string): string {
  const letters = [...title]
  return `“${letters.length > 60 ? `${letters.slice(0, 59).join('')}…` : title}”`
}
