/**
 * Messages and conversations, current to the last event. That a message was delivered or acknowledged makes no event:
 * what is on the screen is asked for anew while it is looked at.
 */

import {
  type InfiniteData,
  type QueryKey,
  useInfiniteQuery,
  useMutation,
  useMutationState,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { api, type Message, type Schemas, take } from '@/api/client'
import { useEvents, useRefresh } from '@/live/refresh'
import type { LiveEvent } from '@/live/stream'
import { useMe } from '@/shell/session'
import { type Opened, pairOf } from './address'

export type Writing = Schemas['Writing']
type Page = { items: Message[]; next: string | null }

const STATES = 10_000 // milliseconds between looks at what was delivered and acknowledged
export const EVERYBODY = '*'
export const recentKey = ['messages', 'recent']
const conversationKey = (open: string) => ['messages', 'conversation', open]
const unreadKey = ['messages', 'unread']
const sendKey = ['send-message']

function pages(key: QueryKey, page: (cursor: string | undefined) => Promise<Page>) {
  return {
    queryKey: key,
    queryFn: ({ pageParam }: { pageParam: string | undefined }) => page(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }: Page) => next ?? undefined,
    refetchInterval: STATES,
  }
}

/** Everybody's messages, newest first. */
export function useRecent() {
  const queries = useQueryClient()
  useEvents((events) => {
    const sent = events.flatMap((event) => (event.kind === 'message_sent' ? [told(event)] : [])).reverse()
    if (sent.length > 0) queries.setQueryData<InfiniteData<Page>>(recentKey, (before) => withFirst(before, sent))
  })
  useRefresh(recentKey, ({ kind }) => kind === 'messages_pruned' || kind === 'agent_revoked', 1000)
  const { data, ...query } = useInfiniteQuery(
    pages(recentKey, (cursor) =>
      take(api.GET('/api/v1/messages', { params: { query: { newest_first: true, limit: 200, cursor } } })),
    ),
  )
  return { ...query, messages: data?.pages.flatMap(({ items }) => items) }
}

/** What the event tells of a message: enough for the list, until the message itself is there. */
function told({ data }: LiveEvent): Message {
  const said = (field: string) => (typeof data[field] === 'string' ? data[field] : '')
  const direct = data.to !== EVERYBODY
  return {
    id: said('id'),
    from: said('from'),
    to: said('to'),
    content: said('content'),
    type: said('type'),
    thread: said('thread') || null,
    reply_to: null,
    timestamp: said('timestamp'),
    expires_at: '9999-01-01T00:00:00Z',
    delivered: direct ? false : null,
    acknowledged: direct ? false : null,
    set_aside: direct ? false : null,
  }
}

function withFirst(before: InfiniteData<Page> | undefined, sent: Message[]): InfiniteData<Page> | undefined {
  const [first, ...more] = before?.pages ?? []
  if (before === undefined || first === undefined) return before
  const known = new Set(first.items.map(({ id }) => id))
  const fresh = sent.filter(({ id }) => !known.has(id))
  return { ...before, pages: [{ ...first, items: [...fresh, ...first.items] }, ...more] }
}

/** The messages of what is open, newest first. */
export function useConversation(what: Opened, open: string) {
  const key = conversationKey(open)
  useRefresh(key, (event) => event.kind.startsWith('message') && belongs(event, what), 120)
  const { data, ...query } = useInfiniteQuery(pages(key, (cursor) => fetchConversation(what, cursor)))
  return { ...query, messages: data?.pages.flatMap(({ items }) => items) }
}

async function fetchConversation(what: Opened, cursor: string | undefined): Promise<Page> {
  if (what.kind === 'pair') {
    const path = { one: what.one, other: what.other }
    return take(api.GET('/api/v1/messages/history/{one}/{other}', { params: { path, query: { limit: 50, cursor } } }))
  }
  const thread = what.kind === 'thread' ? { thread: what.id } : {}
  const limit = what.kind === 'thread' ? 50 : 500
  const page = await take(
    api.GET('/api/v1/messages', { params: { query: { ...thread, newest_first: true, limit, cursor } } }),
  )
  return what.kind === 'thread' ? page : { ...page, items: page.items.filter(({ to }) => to === EVERYBODY) }
}

function belongs({ kind, data }: LiveEvent, what: Opened): boolean {
  if (kind !== 'message_sent') return true
  if (what.kind === 'everybody') return data.to === EVERYBODY
  if (what.kind === 'thread') return data.thread === what.id
  const pair = [what.one, what.other]
  return pair.some((name) => name === data.from) && (data.to === EVERYBODY || pair.some((name) => name === data.to))
}

export function useThreads() {
  const key = ['messages', 'threads']
  useRefresh(key, ({ kind, data }) => kind === 'messages_pruned' || (kind === 'message_sent' && !!data.thread), 1000)
  return useQuery({
    queryKey: key,
    queryFn: async () => (await take(api.GET('/api/v1/threads', { params: { query: { limit: 200 } } }))).items,
  })
}

/** What was sent to who looks, and waits for them. */
export function useUnread() {
  const me = useMe().name
  useRefresh(unreadKey, ({ kind, data }) => kind === 'message_sent' && data.to === me, 200)
  return useQuery({
    queryKey: unreadKey,
    queryFn: async () => {
      const query = { unread: true, agent: me, limit: 200 }
      return (await take(api.GET('/api/v1/messages', { params: { query } }))).items
    },
  })
}

export function useDeliveries(id: string, enabled: boolean) {
  return useQuery({
    queryKey: ['messages', 'deliveries', id],
    queryFn: () => take(api.GET('/api/v1/messages/{message_id}', { params: { path: { message_id: id } } })),
    enabled,
    refetchInterval: STATES,
  })
}

export function useNames() {
  return useQuery({
    queryKey: ['messages', 'names'],
    queryFn: async () => {
      const [agents, people] = await Promise.all([
        take(api.GET('/api/v1/crew', { params: { query: { limit: 1000 } } })),
        take(api.GET('/api/v1/people')),
      ])
      return {
        agents: agents.items.map(({ name }) => name),
        people: people.items.filter(({ disabled }) => !disabled).map(({ name }) => name),
      }
    },
  })
}

// Doing --------------------------------------------------------------------------------------------------------------

/** Sends; until the answer is there it shows as being sent. */
export function useSend() {
  const queries = useQueryClient()
  return useMutation({
    mutationKey: sendKey,
    mutationFn: async (body: Writing) => {
      const sent = await take(api.POST('/api/v1/messages', { body }))
      await queries.invalidateQueries({ queryKey: ['messages'] })
      return sent
    },
  })
}

/** What is on its way, of what belongs to this conversation. */
export function useSending(what: Opened): Writing[] {
  const me = useMe().name
  const sending = useMutationState({
    filters: { mutationKey: sendKey, status: 'pending' },
    select: (mutation) => mutation.state.variables as Writing,
  })
  return sending.filter(({ to, thread }) => {
    if (what.kind === 'everybody') return to === EVERYBODY
    if (what.kind === 'thread') return thread === what.id
    return pairOf(me, to) === pairOf(what.one, what.other)
  })
}

export function useAcknowledge() {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (ids: string[]) => {
      await Promise.all(
        ids.map((id) =>
          take(api.POST('/api/v1/messages/{message_id}/ack', { params: { path: { message_id: id } }, body: {} })),
        ),
      )
      await queries.invalidateQueries({ queryKey: ['messages'] })
    },
  })
}
