/**
 * Answering, and what became of what is no longer asked.
 *
 *     waits ──answered here──► off the list ──► done, nothing more to say
 *       │                              └─────► refused or failed: told in its place, until it is put away
 *       └──answered elsewhere──► who answered is told in its place for a while
 */

import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { Problem } from '@/api/client'
import { useEvents } from '@/live/refresh'
import { useTakeOff } from './items'
import type { Answer, Item } from './kinds'

export type Outcome = { item: Item; state: string; by: string; note: string; mine: boolean }

const TOLD = 12_000 // milliseconds that somebody else's answer stays on the list

export function useAnswering(waiting: readonly Item[]) {
  const takeOff = useTakeOff()
  const [sent, setSent] = useState<ReadonlySet<string>>(new Set())
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map())
  const known = useRef(new Map<string, Item>())
  const mine = useRef(new Set<string>())
  for (const item of waiting) known.current.set(item.id, item)

  const tell = useCallback((outcome: Outcome) => {
    setOutcomes((before) => new Map(before).set(outcome.item.id, outcome))
  }, [])
  const putAway = useCallback((id: string) => {
    known.current.delete(id)
    setOutcomes((before) => new Map([...before].filter(([other]) => other !== id)))
  }, [])

  useEvents((events) => {
    for (const { kind, data } of events) {
      const state = /^proposal_(approved|denied|withdrawn|failed)$/.exec(kind)?.[1]
      const item = typeof data.id === 'string' ? known.current.get(data.id) : undefined
      if (state === undefined || item === undefined || mine.current.has(item.id)) continue
      tell({ item, state, by: data.actor, note: typeof data.note === 'string' ? data.note : '', mine: false })
      setTimeout(() => putAway(item.id), TOLD)
    }
  })
  useEffect(() => () => known.current.clear(), [])

  const answer = useCallback(
    async (item: Item, how: Answer<Item>, note: string) => {
      mine.current.add(item.id)
      setSent((before) => new Set(before).add(item.id))
      try {
        await how.send(item, note)
        takeOff(item.id)
        known.current.delete(item.id)
      } catch (error) {
        if (error instanceof Problem && error.code === 'proposal_failed') {
          takeOff(item.id)
          tell({ item, state: 'failed', by: '', note: error.message, mine: true })
        } else mine.current.delete(item.id)
        throw error
      } finally {
        setSent((before) => new Set([...before].filter((id) => id !== item.id)))
      }
    },
    [takeOff, tell],
  )

  const shown = useMemo(() => {
    const asked = waiting.filter(({ id }) => !sent.has(id) && !outcomes.has(id))
    const told = [...outcomes.values()].map(({ item }) => item)
    return [...asked, ...told].sort((one, other) => one.id.localeCompare(other.id))
  }, [waiting, sent, outcomes])
  return { shown, outcomes, answer, putAway }
}
