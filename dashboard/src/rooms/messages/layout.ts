/** Where the agents stand in the picture: those who talk with each other near each other. */

import { forceCollide, forceLink, forceManyBody, forceRadial, forceSimulation, forceX, forceY } from 'd3-force'

export type Point = { x: number; y: number }
export type Places = Record<string, Point>
export type Task = {
  nodes: { id: string; radius: number }[]
  links: { source: string; target: string }[]
  kept: Places
}

const TICKS = 300
const MARGIN = 26 // for the name below

type Node = { id: string; radius: number; x: number; y: number; fx?: number; fy?: number }

/** Who has a place keeps it; who is new finds one beside those they talk with, and who talks with nobody, at the rim. */
export function arranged({ nodes, links, kept }: Task): Places {
  const neighbour = new Map(
    links.flatMap(({ source, target }) => [
      [source, target],
      [target, source],
    ]),
  )
  const standing = nodes.map((node, place) => standingPlace(node, place, kept, neighbour.get(node.id)))
  const spread = Math.sqrt(nodes.length)
  forceSimulation(standing)
    .force(
      'links',
      forceLink<Node, { source: string; target: string }>(links.map((link) => ({ ...link })))
        .id(({ id }) => id)
        .distance(120 + 8 * spread),
    )
    .force(
      'apart',
      forceManyBody<Node>()
        .strength(-320 - 14 * spread)
        .distanceMax(900),
    )
    .force('size', forceCollide<Node>(({ radius }) => radius + MARGIN).iterations(2))
    .force('x', forceX<Node>(0).strength(0.05))
    .force('y', forceY<Node>(0).strength(0.07))
    .force(
      'alone',
      forceRadial<Node>(150 + 46 * spread).strength(({ id }) => (neighbour.has(id) ? 0 : 0.4)),
    )
    .stop()
    .tick(TICKS)
  return Object.fromEntries(standing.map(({ id, x, y }) => [id, { x: Math.round(x), y: Math.round(y) }]))
}

function standingPlace(
  { id, radius }: Task['nodes'][number],
  place: number,
  kept: Places,
  beside: string | undefined,
): Node {
  const at = kept[id]
  if (at !== undefined) return { id, radius, ...at, fx: at.x, fy: at.y }
  const angle = place * 2.4 // the golden angle: nobody begins where another does
  const near = kept[beside ?? '']
  if (near !== undefined) return { id, radius, x: near.x + 60 * Math.cos(angle), y: near.y + 60 * Math.sin(angle) }
  const far = 24 * Math.sqrt(place + 1)
  return { id, radius, x: far * Math.cos(angle), y: far * Math.sin(angle) }
}
