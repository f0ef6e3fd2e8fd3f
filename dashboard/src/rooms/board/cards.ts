/**
 * The cards of a board, current to the last event: an event names a task, and the server is asked for the cards that
 * events named since the last answer. What one does oneself shows at once, and is taken back, with the reason, when it
 * is refused.
 */

import { useMutation, useMutationState, useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useMemo } from 'react'
import { api, type Card, type Schemas, take } from '@/api/client'
import { paced, useRefresh } from '@/live/refresh'
import { useStream } from '@/live/StreamContext'

export type Board = Omit<Schemas['CardsView'], 'cards'> & { cards: ReadonlyMap<string, Card> }
export type Status = 'backlog' | 'ready' | 'in_progress' | 'in_review' | 'blocked' | 'done'
export const STATUSES: readonly Status[] = ['backlog', 'ready', 'in_progress', 'in_review', 'blocked', 'done']

const AT_ONCE = 150 // cards in one question; when more changed, all are asked for
const PACE = 60

export const cardsKey = (project: string) => ['cards', project]
const moveKey = (project: string) => ['move', project]

async function fetchBoard(project: string, ids: string[] = []): Promise<Schemas['CardsView']> {
  return take(
    api.GET('/api/v1/projects/{project_id}/cards', {
      params: { path: { project_id: project }, query: ids.length > 0 ? { id: ids } : {} },
    }),
  )
}

/** Asks for these cards anew, and puts them in their place; a card that is gone goes. */
export function useCardRefresh(project: string): (ids: string[]) => Promise<void> {
  const queries = useQueryClient()
  return useCallback(
    async (ids) => {
      if (ids.length > AT_ONCE) return queries.invalidateQueries({ queryKey: cardsKey(project) })
      const found = await fetchBoard(project, ids)
      queries.setQueryData<Board>(cardsKey(project), (before) => {
        if (before === undefined) return before
        const cards = new Map(before.cards)
        for (const id of ids) cards.delete(id)
        for (const card of found.cards) cards.set(card.id, card)
        return { ...found, cards }
      })
    },
    [queries, project],
  )
}

export function useBoard(project: string) {
  const stream = useStream()
  const refresh = useCardRefresh(project)
  useEffect(() => {
    const changed = new Set<string>()
    const pace = paced(async () => {
      const ids = [...changed]
      changed.clear()
      await refresh(ids)
    }, PACE)
    const stop = stream.listen((events) => {
      for (const { data } of events) {
        if (data.project === project && typeof data.task_id === 'string') changed.add(data.task_id)
      }
      if (changed.size > 0) pace.ask()
    })
    return () => {
      stop()
      pace.stop()
    }
  }, [stream, project, refresh])
  useRefresh(
    cardsKey(project),
    ({ kind, data }) => {
      const whole = kind === 'wip_limit_changed' || kind === 'project_changed' || kind.endsWith('ed_project')
      // What waited for a task that is done now, or gone, waits no longer.
      const others = kind === 'task_deleted' || (kind === 'task_transition' && data.new_status === 'done')
      return data.project === project && (whole || others)
    },
    500,
  )
  return useQuery({
    queryKey: cardsKey(project),
    queryFn: async (): Promise<Board> => {
      const { cards, ...more } = await fetchBoard(project)
      return { ...more, cards: new Map(cards.map((card) => [card.id, card])) }
    },
  })
}

type Move = { ids: string[]; shown: Partial<Card>; send: (id: string) => Promise<unknown> }

/** Changes cards: `shown` at once, until the server's own answer is there. Rejects with the first refusal. */
export function useCardChange(project: string) {
  const refresh = useCardRefresh(project)
  return useMutation({
    mutationKey: moveKey(project),
    mutationFn: async ({ ids, send }: Move) => {
      const answers = await Promise.allSettled(ids.map(send))
      await refresh(ids)
      const refused = answers.filter((answer) => answer.status === 'rejected')
      if (refused.length > 0)
        throw new Refusals(
          refused.map(({ reason }) => reason as Error),
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
export function useShownCards(project: string, board: Board | undefined): Card[] {
  const pending = useMutationState({
    filters: { mutationKey: moveKey(project), status: 'pending' },
    select: (mutation) => mutation.state.variables as Move,
  })
  return useMemo(() => {
    if (board === undefined) return []
    const cards = [...board.cards.values()]
    if (pending.length === 0) return cards
    return cards.map((card) =>
      pending.reduce((shown, move) => (move.ids.includes(card.id) ? { ...shown, ...move.shown } : shown), card),
    )
  }, [board, pending])
}

/** As the server orders them: most urgent first, then oldest first. */
export function inOrder(one: Card, other: Card): number {
  return (
    one.priority.localeCompare(other.priority) ||
    one.created_at.localeCompare(other.created_at) ||
    one.id.localeCompare(other.id)
  )
}
