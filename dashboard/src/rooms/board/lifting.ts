/**
 * Lifting cards and dropping them, by pointer, by finger, or by keyboard. The keyboard chooses columns, not pixels, so
 * that it also works where a column is out of view. Whatever happens is said to screen readers in plain words.
 */

import {
  type CollisionDetection,
  type DragEndEvent,
  type DragOverEvent,
  type DragStartEvent,
  MouseSensor,
  pointerWithin,
  TouchSensor,
  useSensor,
  useSensors,
} from '@dnd-kit/core'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Card } from '@/api/client'
import { STATUSES, type Status } from './cards'
import type { Lift } from './desk'
import type { Place } from './lanes'
import { type Rules, signsByMoving, verdict } from './rules'
import { counted, isStatus, quoted, STATUS_NAMES } from './words'

/** What would become of what is lifted in a column. */
export type Fate = { kind: 'home' | 'may' | 'refused'; over: boolean; text: string }

export const byPointer: CollisionDetection = pointerWithin

export function useBoardSensors() {
  return useSensors(
    useSensor(MouseSensor, { activationConstraint: { distance: 5 } }),
    useSensor(TouchSensor, { activationConstraint: { delay: 220, tolerance: 8 } }), // sooner, and it scrolls
  )
}

type LiftingProps = {
  rules: Rules
  columns: readonly Status[]
  /** The cards that go with this one. */
  together: (id: string) => string[]
  drop: (cards: Card[], to: Status) => void
  refuse: (why: string) => void
  onPutDown: (id: string) => void
}

export function useLifting({ rules, columns, together, drop, refuse, onPutDown }: LiftingProps) {
  const [lift, setLift] = useState<Lift | null>(null)
  const [said, say] = useState('')
  const cards = useMemo(() => {
    return lift === null ? [] : lift.ids.flatMap((id) => rules.cards.get(id) ?? [])
  }, [lift, rules.cards])
  const fates = useMemo(() => (lift === null ? undefined : fatesOf(rules, cards, lift.over)), [rules, cards, lift])

  const lifted = useCallback(
    (place: Place, by: Lift['by']) => {
      const ids = together(place.id)
      const card = rules.cards.get(place.id)
      if (card === undefined || !isStatus(card.status)) return
      setLift({ ids, place, over: card.status, by })
      const what = ids.length === 1 ? quoted(card.title) : counted(ids.length, 'task')
      const how = by === 'keyboard' ? ' Left and right choose a column, space drops, escape puts it back.' : ''
      say(`Lifted ${what}, in ${STATUS_NAMES[card.status]}.${how}`)
    },
    [together, rules.cards],
  )

  const moveOver = (over: Status | null) => {
    if (lift === null || lift.over === over) return
    setLift({ ...lift, over })
    const fate = over === null ? undefined : fatesOf(rules, cards, over)[over]
    say(over === null || fate === undefined ? 'Over no column.' : `${STATUS_NAMES[over]}: ${spoken(fate)}`)
  }

  const putDown = (to: Status | null) => {
    if (lift === null) return
    setLift(null)
    const fate = to === null ? undefined : fates?.[to]
    if (to === null || fate === undefined || fate.kind === 'home') say('Put back where it was.')
    else if (fate.kind === 'refused') {
      say(`Not moved. ${fate.text}`)
      refuse(fate.text)
    } else {
      say(`Dropped in ${STATUS_NAMES[to]}.`)
      drop(cards, to)
    }
    onPutDown(lift.place.id)
  }

  useLiftKeys(lift, columns, moveOver, putDown)
  useEffect(() => {
    if (lift !== null && cards.length === 0) setLift(null) // somebody deleted it
  }, [lift, cards])

  const handlers = {
    onDragStart: ({ active }: DragStartEvent) => {
      const [, lane = '', id = ''] = /^(.*)\/([^/]*)$/s.exec(String(active.id)) ?? []
      lifted({ lane, id }, 'pointer')
    },
    onDragOver: ({ over }: DragOverEvent) => moveOver(statusOf(over?.id)),
    onDragEnd: ({ over }: DragEndEvent) => putDown(statusOf(over?.id)),
    onDragCancel: () => putDown(null),
  }
  return { lift, cards, fates, said, handlers, liftByKey: (place: Place) => lifted(place, 'keyboard') }
}

function statusOf(id: string | number | undefined): Status | null {
  return typeof id === 'string' && isStatus(id) ? id : null
}

function spoken(fate: Fate): string {
  if (fate.kind === 'home') return 'where it is.'
  return fate.kind === 'may' ? `it may go here. ${fate.text}` : `not possible. ${fate.text}`
}

function fatesOf(rules: Rules, cards: Card[], over: Status | null): Record<Status, Fate> {
  return Object.fromEntries(
    STATUSES.map((status) => [status, { ...fateOf(rules, cards, status), over: status === over }]),
  ) as Record<Status, Fate>
}

function fateOf(rules: Rules, cards: Card[], to: Status): Omit<Fate, 'over'> {
  const coming = cards.filter(({ status }) => status !== to)
  if (coming.length === 0) return { kind: 'home', text: '' }
  const { may, refused } = verdict(rules, coming, to)
  if (may.length === 0) return { kind: 'refused', text: refused[0]?.why ?? '' }
  if (refused.length > 0) return { kind: 'may', text: `${may.length} of ${coming.length} may. ${refused[0]!.why}` }
  if (to === 'done' && may.some((card) => signsByMoving(rules, card)))
    return { kind: 'may', text: `Dropping it here signs the review as ${rules.me}.` }
  if (to === 'blocked') return { kind: 'may', text: 'You are asked for the reason.' }
  return { kind: 'may', text: `Drop to move to ${STATUS_NAMES[to]}.` }
}

const BACK = new Set(['ArrowLeft', 'ArrowUp', 'h', 'k'])
const ON = new Set(['ArrowRight', 'ArrowDown', 'l', 'j'])

function useLiftKeys(
  lift: Lift | null,
  columns: readonly Status[],
  moveOver: (over: Status) => void,
  putDown: (to: Status | null) => void,
): void {
  const latest = useRef({ lift, columns, moveOver, putDown })
  latest.current = { lift, columns, moveOver, putDown }
  const byKey = lift?.by === 'keyboard'
  useEffect(() => {
    if (!byKey) return
    const press = (event: KeyboardEvent) => {
      const { lift: now, columns: all, ...hands } = latest.current
      const place = now?.over == null ? -1 : all.indexOf(now.over)
      const next = BACK.has(event.key) ? all[Math.max(place - 1, 0)] : ON.has(event.key) ? all[place + 1] : undefined
      if (next !== undefined) hands.moveOver(next)
      else if (event.key === ' ' || event.key === 'Enter') hands.putDown(now?.over ?? null)
      else if (event.key === 'Escape' || event.key === 'Tab') hands.putDown(null)
      if (event.key === 'Tab') return
      event.preventDefault()
      event.stopPropagation()
    }
    document.addEventListener('keydown', press, { capture: true })
    return () => document.removeEventListener('keydown', press, { capture: true })
  }, [byKey])
}
