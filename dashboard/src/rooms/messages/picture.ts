/** The message graph as shapes. */

import type { Agent, Schemas } from '@/api/client'
import type { Presence } from '@/rooms/crew/presence'
import type { Places, Point } from './layout'

export type Node = { id: string; radius: number; status: Presence; sent: number; got: number }
export type Edge = { id: string; from: string; to: string; count: number; width: number }

const LEAST = 12
const MORE = 14

export function drawn(graph: Schemas['MessageGraph'], agents: Agent[]): { nodes: Node[]; edges: Edge[] } {
  const sent = new Map<string, number>()
  const got = new Map<string, number>()
  for (const { from, to, count } of graph.edges) {
    sent.set(from, (sent.get(from) ?? 0) + count)
    got.set(to, (got.get(to) ?? 0) + count)
  }
  const all = (id: string) => (sent.get(id) ?? 0) + (got.get(id) ?? 0)
  const most = Math.max(1, ...graph.nodes.map(({ id }) => all(id)))
  const status = new Map(agents.map((agent) => [agent.name, agent.status]))
  return {
    nodes: graph.nodes.map(({ id }) => ({
      id,
      radius: Math.round(LEAST + MORE * Math.sqrt(all(id) / most)),
      status: status.get(id) ?? 'offline',
      sent: sent.get(id) ?? 0,
      got: got.get(id) ?? 0,
    })),
    edges: graph.edges
      .filter(({ from, to }) => from !== to)
      .map(({ from, to, count }) => ({
        id: `${from} ${to}`,
        from,
        to,
        count,
        width: Math.min(6, 1 + Math.log2(count) * 0.6),
      })),
  }
}

export type Way = { path: string; tip: string; middle: Point }

/** From one agent's edge to the other's, in a bow, so that both directions are seen; and the head of the arrow. */
export function wayOf(from: Node, to: Node, places: Places, width: number): Way | undefined {
  const [one, other] = [places[from.id], places[to.id]]
  if (one === undefined || other === undefined) return undefined
  const [dx, dy] = [other.x - one.x, other.y - one.y]
  const far = Math.hypot(dx, dy) || 1
  const bow = Math.min(40, far * 0.14)
  const bend = { x: (one.x + other.x) / 2 - (dy / far) * bow, y: (one.y + other.y) / 2 + (dx / far) * bow }
  const head = 5 + width * 1.2
  const start = towards(one, bend, from.radius + 2)
  const end = towards(other, bend, to.radius + 2 + head)
  const point = towards(other, bend, to.radius + 2)
  const [ux, uy] = [(point.x - end.x) / head, (point.y - end.y) / head]
  const half = head * 0.5
  const tip = `M${at(point)}L${at({ x: end.x - uy * half, y: end.y + ux * half })}L${at({ x: end.x + uy * half, y: end.y - ux * half })}Z`
  const middle = { x: (start.x + end.x) / 4 + bend.x / 2, y: (start.y + end.y) / 4 + bend.y / 2 }
  return { path: `M${at(start)}Q${at(bend)} ${at(end)}`, tip, middle }
}

const at = ({ x, y }: Point) => `${x.toFixed(1)},${y.toFixed(1)}`

function towards(from: Point, to: Point, by: number): Point {
  const far = Math.hypot(to.x - from.x, to.y - from.y) || 1
  return { x: from.x + ((to.x - from.x) / far) * by, y: from.y + ((to.y - from.y) / far) * by }
}
