/** What is open, and which conversations are asked for; it lives in the address. */

export const VIEWS = ['graph', 'counts'] as const
export type View = (typeof VIEWS)[number]
export type MessagesSearch = {
  view?: View
  /** `pair:one,other`, `thread:ID`, or `everybody` */
  open?: string
  agent?: string
  waiting?: boolean
  q?: string
  /** To whom a new message is being written. */
  to?: string
}

const text = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined

export function messagesSearch(given: Record<string, unknown>): MessagesSearch {
  const view = VIEWS.find((one) => one === given.view)
  const [open, agent, q, to] = [text(given.open), text(given.agent), text(given.q), text(given.to)]
  return {
    ...(view ? { view } : {}),
    ...(open ? { open } : {}),
    ...(agent ? { agent } : {}),
    ...(q ? { q } : {}),
    ...(to !== undefined ? { to } : {}),
    ...(given.waiting === true ? { waiting: true } : {}),
  }
}

export type Opened =
  | { kind: 'pair'; one: string; other: string }
  | { kind: 'thread'; id: string }
  | { kind: 'everybody' }

export function opened(open: string | undefined): Opened | undefined {
  if (open === undefined) return undefined
  if (open === 'everybody') return { kind: 'everybody' }
  if (open.startsWith('thread:')) return { kind: 'thread', id: open.slice(7) }
  const [one, other] = open.startsWith('pair:') ? open.slice(5).split(',') : []
  return one && other ? { kind: 'pair', one, other } : undefined
}

/** A thread that a reply began has the id of the message that was answered, which is no name to call it by. */
export function isNamed(thread: string): boolean {
  return !/^msg_[0-9a-z]{20,}$/.test(thread)
}

/** The address of what two said to each other: the same from both sides. */
export function pairOf(one: string, other: string): string {
  return `pair:${[one, other].sort().join(',')}`
}
