/** Where the tasks around a task stand: what it waits for to the left, what waits for it to the right, two steps far. */

import type { Card } from '@/api/client'
import type { Near } from './task'

export type Node = { id: string; title: string; status: string; column: number; row: number }
export type Edge = { from: Node; to: Node }
export type Graph = { nodes: Node[]; edges: Edge[]; columns: number; rows: number; hidden: number }

const TALLEST = 8 // in one column; the list beside names the rest

type Around = { before: readonly Near[]; after: readonly Near[]; cards: ReadonlyMap<string, Card> }

/** `cards` tell only of predecessors that are not done: further steps show what still holds things up. */
export function graphOf(task: Pick<Card, 'id' | 'title' | 'status'>, { before, after, cards }: Around): Graph {
  const near = new Set([task.id, ...before.map(({ id }) => id), ...after.map(({ id }) => id)])
  const beyond = new Map<string, Card>()
  for (const { id } of before) {
    for (const other of cards.get(id)?.waiting_for ?? []) keep(beyond, cards.get(other), near)
  }
  const following = new Map<string, Card>()
  const ahead = new Set(after.map(({ id }) => id))
  for (const card of cards.values()) {
    if (!beyond.has(card.id) && card.waiting_for.some((id) => ahead.has(id))) keep(following, card, near)
  }
  const layers = [[...beyond.values()], before, [task], after, [...following.values()]].filter(
    (layer, place) => place === 2 || layer.length > 0,
  )
  const shown = layers.map((layer) => layer.slice(0, TALLEST))
  const rows = Math.max(...shown.map((layer) => layer.length))
  const nodes = shown.flatMap((layer, column) =>
    layer.map(({ id, title, status }, row) => ({ id, title, status, column, row: row + (rows - layer.length) / 2 })),
  )
  const hidden = layers.reduce((sum, layer) => sum + Math.max(0, layer.length - TALLEST), 0)
  return { nodes, edges: edgesOf(task.id, nodes, before, after, cards), columns: shown.length, rows, hidden }
}

function keep(found: Map<string, Card>, card: Card | undefined, near: ReadonlySet<string>): void {
  if (card !== undefined && !near.has(card.id)) found.set(card.id, card)
}

function edgesOf(
  task: string,
  nodes: readonly Node[],
  before: readonly Near[],
  after: readonly Near[],
  cards: ReadonlyMap<string, Card>,
): Edge[] {
  const places = new Map(nodes.map((node) => [node.id, node]))
  const pairs = [
    ...before.map(({ id }) => [id, task]),
    ...after.map(({ id }) => [task, id]),
    ...nodes.flatMap(({ id }) => (id === task ? [] : (cards.get(id)?.waiting_for ?? []).map((other) => [other, id]))),
  ]
  const drawn = new Map<string, Edge>()
  for (const [one = '', other = ''] of pairs) {
    const from = places.get(one)
    const to = places.get(other)
    if (from !== undefined && to !== undefined && from.column < to.column) drawn.set(`${one} ${other}`, { from, to })
  }
  return [...drawn.values()]
}
