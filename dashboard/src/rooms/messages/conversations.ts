/** Messages gathered into what people read: what two said to each other, threads, and what went to everybody. */

import type { Message, Schemas } from '@/api/client'
import type { MessagesSearch } from './address'
import { pairOf } from './address'
import { EVERYBODY } from './mail'
import { fateOf, isOpen } from './state'

export type Conversation = {
  open: string
  kind: 'pair' | 'thread' | 'everybody'
  names: string[]
  title: string
  at: string | null
  last: Message | undefined
  /** Sent to agents, and not acknowledged by them. */
  waiting: number
  /** Sent to who looks, and not acknowledged by them. */
  mine: number
}

type Sources = {
  recent: Message[]
  threads: Schemas['ThreadView'][]
  edges: Schemas['GraphEdge'][]
  unread: Message[]
  me: string
  now: number
}

/** Newest first; those without a recent message at the end. */
export function conversations({ recent, threads, edges, unread, me, now }: Sources): Conversation[] {
  const found = new Map<string, Conversation>()
  const reach = (open: string, kind: Conversation['kind'], title: string, names: string[]) => {
    const known = found.get(open)
    if (known !== undefined) {
      for (const name of names) if (!known.names.includes(name)) known.names.push(name)
      return known
    }
    const made = { open, kind, title, names: [...names], at: null, last: undefined, waiting: 0, mine: 0 }
    found.set(open, made)
    return made
  }
  for (const { id, last_at } of threads) reach(`thread:${id}`, 'thread', id, []).at = last_at
  const gather = (message: Message) => reach(...placeOf(message))
  for (const message of recent) {
    const conversation = gather(message)
    conversation.last ??= message
    conversation.at = later(conversation.at, message.timestamp)
    if (message.to !== me && isOpen(fateOf(message, now))) conversation.waiting += 1
  }
  for (const message of unread) {
    const conversation = gather(message)
    conversation.last ??= message
    conversation.at = later(conversation.at, message.timestamp)
    conversation.mine += 1
  }
  for (const { from, to } of earlier(edges, recent)) reach(pairOf(from, to), 'pair', '', [from, to])
  return [...found.values()].sort((one, other) => (other.at ?? '').localeCompare(one.at ?? ''))
}

/** Who wrote to whom more than what is recent: that is shown where it was said, be it in a thread. */
function earlier(edges: Sources['edges'], recent: Message[]): Sources['edges'] {
  const counted = Map.groupBy(recent, ({ from, to }) => `${from} ${to}`)
  const sent = Map.groupBy(
    recent.filter(({ to }) => to === EVERYBODY),
    ({ from }) => from,
  )
  return edges.filter(({ from, to, count }) => {
    const known = (counted.get(`${from} ${to}`)?.length ?? 0) + (sent.get(from)?.length ?? 0)
    return count > known
  })
}

function placeOf({ thread, from, to }: Message): [string, Conversation['kind'], string, string[]] {
  const names = to === EVERYBODY || to === from ? [from] : [from, to]
  if (thread !== null) return [`thread:${thread}`, 'thread', thread, names]
  if (to === EVERYBODY) return ['everybody', 'everybody', 'Everybody', []]
  return [pairOf(from, to), 'pair', '', [from, to]]
}

function later(one: string | null, other: string): string {
  return one !== null && one > other ? one : other
}

export function wanted(all: Conversation[], { agent, waiting, q }: MessagesSearch): Conversation[] {
  const words = (q ?? '').toLowerCase().split(/\s+/).filter(Boolean)
  return all.filter((conversation) => {
    if (agent !== undefined && !conversation.names.includes(agent)) return false
    if (waiting && conversation.waiting + conversation.mine === 0) return false
    const text = [conversation.title, ...conversation.names, conversation.last?.content.slice(0, 2000) ?? ''].join(' ')
    return words.every((word) => text.toLowerCase().includes(word))
  })
}
