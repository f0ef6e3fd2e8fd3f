/** What a card, a list or a column asks of the board around it. */

import { createContext, useContext } from 'react'
import type { Status } from './cards'
import type { Place } from './lanes'

export type Point = { x: number; y: number }

/** Stays the same object while the board is open, so that cards are drawn anew only when they change. */
export type Desk = {
  project: string
  may: boolean
  /** Whether cards can be dragged here. */
  movable: boolean
  open: (id: string) => void
  choose: (place: Place, range: boolean) => void
  menu: (place: Place, at: Point) => void
  focused: (place: Place) => void
  /** True once for each wish to have the focus. */
  granted: (wish: number) => boolean
}

export const DeskContext = createContext<Desk | null>(null)

export function useDesk(): Desk {
  const desk = useContext(DeskContext)
  if (desk === null) throw new Error('there is no board around this component')
  return desk
}

/** What was lifted, from where, and the column it is over. */
export type Lift = { ids: string[]; place: Place; over: Status | null; by: 'pointer' | 'keyboard' }

/** What changes while one works: which cards are chosen, where the focus is, what is lifted. */
export type Hands = {
  chosen: ReadonlySet<string>
  cursor: Place | null
  wish: { number: number; place: Place } | null
  lift: Lift | null
}

export const HandsContext = createContext<Hands>({ chosen: new Set(), cursor: null, wish: null, lift: null })

export function useHands(): Hands {
  return useContext(HandsContext)
}
