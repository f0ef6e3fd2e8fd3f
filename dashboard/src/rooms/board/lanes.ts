/** The cards in their columns, cut into lanes; and which card is beside which. */

import type { Card } from '@/api/client'
import { inOrder, newestDone, STATUSES, type Status } from './cards'
import { holderOf } from './rules'
import type { LaneKind } from './search'
import { isStatus } from './words'

export type Columns = Record<Status, Card[]>
/** `name` is null for what belongs to no agent, or has no label; `count` counts each card once. */
export type Lane = { key: string; name: string | null; columns: Columns; count: number }
/** Where a card stands: one with two labels stands in two lanes. */
export type Place = { lane: string; id: string }

function empty(): Columns {
  return { backlog: [], ready: [], in_progress: [], in_review: [], blocked: [], done: [] }
}

const CUTS: Record<LaneKind, (card: Card) => (string | null)[]> = {
  agent: (card) => [holderOf(card)],
  priority: (card) => [card.priority],
  label: (card) => (card.labels.length > 0 ? card.labels : [null]),
}

/** One lane that holds everything, or one for each agent, priority or label, that of none last. */
export function lanesOf(cards: Iterable<Card>, kind: LaneKind | undefined): Lane[] {
  const lanes = new Map<string | null, Lane>()
  const lane = (name: string | null) => {
    const known = lanes.get(name)
    if (known !== undefined) return known
    const made = { key: name === null ? '' : `=${name}`, name, columns: empty(), count: 0 }
    lanes.set(name, made)
    return made
  }
  if (kind === undefined) lane(null)
  for (const card of cards) {
    if (!isStatus(card.status)) continue
    for (const name of kind === undefined ? [null] : CUTS[kind](card)) {
      const found = lane(name)
      found.columns[card.status].push(card)
      found.count++
    }
  }
  const found = [...lanes.values()].sort(byName)
  for (const { columns } of found) {
    for (const status of STATUSES) columns[status].sort(status === 'done' ? newestDone : inOrder)
  }
  return found
}

function byName(one: Lane, other: Lane): number {
  if (one.name === null || other.name === null) return one.name === other.name ? 0 : one.name === null ? 1 : -1
  return one.name < other.name ? -1 : 1
}

export type Direction = 'up' | 'down' | 'left' | 'right'

/** The card beside this one, past columns and lanes that are empty or closed; the first of all when there is no place. */
export function beside(lanes: Lane[], columns: readonly Status[], from: Place | null, to: Direction): Place | null {
  const row = lanes.findIndex(({ key }) => key === from?.lane)
  const lane = lanes[row]
  const status = lane && columns.find((one) => lane.columns[one].some(({ id }) => id === from?.id))
  if (lane === undefined || status === undefined) return first(lanes, columns)
  const index = lane.columns[status].findIndex(({ id }) => id === from?.id)
  if (to === 'left' || to === 'right') {
    const on = columns.indexOf(status)
    const ahead = to === 'left' ? columns.slice(0, on).reverse() : columns.slice(on + 1)
    const next = ahead.find((one) => lane.columns[one].length > 0)
    return next === undefined ? null : at(lane, next, Math.min(index, lane.columns[next].length - 1))
  }
  const within = at(lane, status, index + (to === 'down' ? 1 : -1))
  if (within !== null) return within
  const rows = to === 'down' ? lanes.slice(row + 1) : lanes.slice(0, row).reverse()
  const next = rows.find(({ columns: all }) => all[status].length > 0)
  return next === undefined ? null : at(next, status, to === 'down' ? 0 : next.columns[status].length - 1)
}

function at(lane: Lane, status: Status, index: number): Place | null {
  const card = lane.columns[status][index]
  return card === undefined ? null : { lane: lane.key, id: card.id }
}

function first(lanes: Lane[], columns: readonly Status[]): Place | null {
  for (const lane of lanes) {
    for (const status of columns) if (lane.columns[status].length > 0) return at(lane, status, 0)
  }
  return null
}

/** Where the card stands now; the lane it was in before is preferred. */
export function placeOf(lanes: Lane[], id: string, preferred?: string): Place | null {
  const has = (lane: Lane) => STATUSES.some((status) => lane.columns[status].some((card) => card.id === id))
  const found = lanes.find((lane) => lane.key === preferred && has(lane)) ?? lanes.find(has)
  return found === undefined ? null : { lane: found.key, id }
}

/** The cards from one to the other, where both are in the same column. */
export function between(lanes: Lane[], one: Place, other: Place): string[] {
  const lane = lanes.find(({ key }) => key === one.lane)
  if (lane === undefined || one.lane !== other.lane) return [other.id]
  for (const status of STATUSES) {
    const ids = lane.columns[status].map(({ id }) => id)
    const from = ids.indexOf(one.id)
    const to = ids.indexOf(other.id)
    if (from >= 0 && to >= 0) return ids.slice(Math.min(from, to), Math.max(from, to) + 1)
  }
  return [other.id]
}
