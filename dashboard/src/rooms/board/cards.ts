/**
 * The cards of a board, current to the last event: an event names a task, and the server is asked for the cards that
 * events named since the last answer, and for those that such a change touches. What one does oneself shows at once,
 * and is taken back, with the reason, when it is refused.
 *
 * Several questions may be under way. Each has a number, and an answer never takes the place of one to a later question:
 * whatever changed after that was read has an event of its own, and is asked for once more.
 */

import { type QueryClient, useMutation, useMutationState, useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useMemo } from 'react'
import { api, type Card, type Schemas, take } from '@/api/client'
import { paced } from '@/live/refresh'
import { useStream } from '@/live/StreamContext'
import type { LiveEvent } from '@/live/stream'

export type Board = Omit<Schemas['CardsView'], 'cards'> & {
  cards: ReadonlyMap<string, Card>
  /** The question that each card's answer was to, where that was later than the one for the whole board. */
  asked: ReadonlyMap<string, number>
}
export { STATUSES, type Status } from './words'

const AT_ONCE = 150 // cards in one question; when more changed, all are asked for
const PACE = 60
const AGAIN = 1000 // milliseconds until what could not be asked is asked once more

export const cardsKey = (project: string) => ['cards', project]
const moveKey = (project: string) => ['move', project]

let questions = 0

async function fetchBoard(project: string, ids: string[] = []): Promise<Schemas['CardsView']> {
  return take(
    api.GET('/api/v1/projects/{project_id}/cards', {
      params: { path: { project_id: project }, query: ids.length > 0 ? { id: ids } : {} },
    }),
  )
}

async function fetchWhole(queries: QueryClient, project: string): Promise<Board> {
  const number = ++questions
  const { cards, ...more } = await fetchBoard(project)
  const before = queries.getQueryData<Board>(cardsKey(project))
  const found = new Map(cards.map((card) => [card.id, card]))
  const later = new Map([...(before?.asked ?? [])].filter(([, asked]) => asked > number))
  for (const id of later.keys()) place(found, id, before?.cards.get(id))
  return { ...more, cards: found, asked: later }
}

function place(cards: Map<string, Card>, id: string, card: Card | undefined): void {
  if (card === undefined) cards.delete(id)
  else cards.set(id, card)
}

function withAnswer(before: Board, ids: string[], found: Schemas['CardsView'], number: number): Board {
  const cards = new Map(before.cards)
  const asked = new Map(before.asked)
  const answered = new Map(found.cards.map((card) => [card.id, card]))
  for (const id of ids) {
    if ((asked.get(id) ?? 0) > number) continue
    asked.set(id, number)
    place(cards, id, answered.get(id))
  }
  return { ...found, cards, asked }
}

/** The other cards that show something of what became of these: parents count subtasks, and some wait no longer. */
function touched(before: Board, after: Board, ids: string[]): string[] | 'all' {
  const others = new Set<string>()
  const passed = new Set<string>()
  for (const id of ids) {
    const was = before.cards.get(id)
    const is = after.cards.get(id)
    if (was?.parent_task_id !== is?.parent_task_id) {
      for (const parent of [was?.parent_task_id, is?.parent_task_id]) if (parent) others.add(parent)
    }
    if (was?.status === 'done' && is !== undefined && is.status !== 'done') return 'all' // who waits for it again, only the server knows
    if (was !== undefined && was.status !== 'done' && (is === undefined || is.status === 'done')) passed.add(id)
  }
  if (passed.size > 0) {
    for (const card of after.cards.values()) if (card.waiting_for.some((id) => passed.has(id))) others.add(card.id)
  }
  return [...others].filter((id) => after.cards.has(id))
}

/** Asks for these cards anew, and puts them in their place; a card that is gone goes. */
export function useCardRefresh(project: string): (ids: string[]) => Promise<void> {
  const queries = useQueryClient()
  return useCallback(
    async (asked) => {
      const key = cardsKey(project)
      let ids = asked
      while (ids.length > 0) {
        if (ids.length > AT_ONCE) return queries.invalidateQueries({ queryKey: key })
        const number = ++questions
        const found = await fetchBoard(project, ids)
        const before = queries.getQueryData<Board>(key)
        if (before === undefined) return
        const after = withAnswer(before, ids, found, number)
        queries.setQueryData(key, after)
        const others = touched(before, after, ids)
        if (others === 'all') return queries.invalidateQueries({ queryKey: key })
        ids = others
      }
    },
    [queries, project],
  )
}

/** The cards that an event is about, or that it is about the whole board; undefined: about neither. */
function concerned(project: string, { kind, data }: LiveEvent): string | 'all' | undefined {
  if (kind.startsWith('project_')) return data.id === project ? 'all' : undefined
  if (data.project !== project) return undefined
  if (kind === 'wip_limit_changed' || kind.endsWith('ed_project')) return 'all'
  return typeof data.task_id === 'string' ? data.task_id : undefined
}

export function useBoard(project: string) {
  const queries = useQueryClient()
  const stream = useStream()
  const refresh = useCardRefresh(project)
  useEffect(() => {
    const changed = new Set<string>()
    let again: ReturnType<typeof setTimeout> | undefined
    const pace = paced(async () => {
      const ids = [...changed]
      changed.clear()
      try {
        if (ids.includes('all')) await queries.invalidateQueries({ queryKey: cardsKey(project) })
        else await refresh(ids)
      } catch {
        for (const id of ids) changed.add(id)
        again = setTimeout(() => pace.ask(), AGAIN)
      }
    }, PACE)
    const stop = stream.listen((events) => {
      for (const event of events) {
        const id = concerned(project, event)
        if (id !== undefined) changed.add(id)
      }
      if (changed.size > 0) pace.ask()
    })
    return () => {
      stop()
      pace.stop()
      clearTimeout(again)
    }
  }, [stream, project, refresh, queries])
  return useQuery({ queryKey: cardsKey(project), queryFn: () => fetchWhole(queries, project) })
}

/** How a card looks until the server has answered; null: gone. */
export type Shown = Partial<Card> | ((card: Card) => Partial<Card> | null)
type Change = { ids: string[]; shown: Shown; send: (id: string) => Promise<unknown> }

/** Changes cards: `shown` at once, until the server's own answer is there. Rejects with the refusals. */
export function useCardChange(project: string) {
  const refresh = useCardRefresh(project)
  return useMutation({
    mutationKey: moveKey(project),
    mutationFn: async ({ ids, send }: Change) => {
      const answers = await Promise.allSettled(ids.map(send))
      await refresh(ids).catch(() => undefined) // its events will have it asked for once more
      const refused = answers.filter((answer) => answer.status === 'rejected')
      if (refused.length > 0)
        throw new Refusals(
          refused.map(({ reason }) => (reason instanceof Error ? reason : new Error(String(reason)))),
          ids.length,
        )
    },
  })
}

/** Why some, or all, of what was asked for was not done. */
export class Refusals extends Error {
  constructor(
    readonly reasons: Error[],
    readonly asked: number,
  ) {
    const first = reasons[0]!.message
    super(asked === 1 ? first : `${reasons.length} of ${asked} were refused: ${first}`)
    this.name = 'Refusals'
  }
}

/** The cards as they are about to be. */
export function useShownCards(project: string, board: Board | undefined): ReadonlyMap<string, Card> {
  const pending = useMutationState({
    filters: { mutationKey: moveKey(project), status: 'pending' },
    select: (mutation) => mutation.state.variables as Change,
  })
  return useMemo(() => {
    if (board === undefined) return new Map()
    if (pending.length === 0) return board.cards
    const cards = new Map(board.cards)
    for (const { ids, shown } of pending) for (const id of ids) show(cards, id, shown)
    return cards
  }, [board, pending])
}

function show(cards: Map<string, Card>, id: string, shown: Shown): void {
  const card = cards.get(id)
  if (card === undefined) return
  const change = typeof shown === 'function' ? shown(card) : shown
  place(cards, id, change === null ? undefined : { ...card, ...change })
}

function compared(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

/** As the server orders them: most urgent first, then oldest first. */
export function inOrder(one: Card, other: Card): number {
  return (
    compared(one.priority, other.priority) || compared(one.created_at, other.created_at) || compared(one.id, other.id)
  )
}

/** What was done last, first. */
export function newestDone(one: Card, other: Card): number {
  return compared(other.completed_at ?? '', one.completed_at ?? '') || compared(other.id, one.id)
}
