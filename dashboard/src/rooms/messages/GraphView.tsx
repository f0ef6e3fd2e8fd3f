/** Who talks with whom: agents as circles, their messages as arrows that light up as they are sent. */

import { Link, useNavigate } from '@tanstack/react-router'
import { Maximize, RotateCcw, ZoomIn, ZoomOut } from 'lucide-react'
import { type KeyboardEvent, memo, useEffect, useMemo, useRef, useState } from 'react'
import { useEvents } from '@/live/refresh'
import { useAgents } from '@/rooms/crew/agents'
import { useMessageGraph } from '@/rooms/crew/mail'
import { PresenceWord } from '@/rooms/crew/PresenceMark'
import { LOOKS, PRESENCES } from '@/rooms/crew/presence'
import { Button } from '@/ui/Controls'
import { hueOf, initials, Name } from '@/ui/Facts'
import { Failure, Loading } from '@/ui/States'
import { pairOf } from './address'
import { NoMessages } from './CountsView'
import { useCamera } from './camera'
import css from './graph.module.css'
import type { Places } from './layout'
import { EVERYBODY } from './mail'
import { drawn, type Edge, type Node, type Way, wayOf } from './picture'
import { usePlaces } from './places'

export default function GraphView() {
  const { data: graph, error, refetch } = useMessageGraph()
  const { data: agents = [] } = useAgents()
  const picture = useMemo(() => (graph === undefined ? undefined : drawn(graph, agents)), [graph, agents])
  if (picture === undefined) {
    return error === null ? <Loading rows={1} height="24rem" /> : <Failure error={error} retry={() => void refetch()} />
  }
  if (picture.nodes.length === 0) return <NoMessages />
  return <Picture {...picture} />
}

const NAMED = 40 // more agents, and only the busiest are named until one comes closer

function Picture({ nodes, edges }: { nodes: Node[]; edges: Edge[] }) {
  const box = useRef<SVGSVGElement>(null)
  const links = useMemo(() => edges.map(({ from, to }) => ({ source: from, target: to })), [edges])
  const { places, anew } = usePlaces(nodes, links)
  const { view, zoom, showAll, dragging, handlers } = useCamera(box, places)
  const [near, setNear] = useState<string>()
  const byId = useMemo(() => new Map(nodes.map((node) => [node.id, node])), [nodes])
  const ways = useMemo(() => waysOf(edges, byId, places), [edges, byId, places])
  const { dots, lit, passed } = useSent(byId, places)
  const beside = useMemo(() => neighbours(near, edges), [near, edges])
  const named = useMemo(() => busiest(nodes), [nodes])
  const select = useSteps(nodes, places, setNear)
  return (
    <div className={css.frame}>
      <svg
        ref={box}
        className={css.graph}
        role="application"
        aria-label="Message graph. Arrow keys move it, plus and minus zoom, Tab reaches the agents; the table says the same."
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys, + and - move the picture
        tabIndex={0}
        data-dragging={dragging || undefined}
        data-near={near !== undefined || undefined}
        {...handlers}
      >
        <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>
          <Edges edges={edges} ways={ways} near={near} lit={lit} />
          {dots.map(({ id, path }) => (
            <circle
              key={id}
              r={5}
              className={css.dot}
              style={{ offsetPath: `path('${path}')` }}
              onAnimationEnd={() => passed(id)}
            />
          ))}
          {nodes.map((node) => {
            const place = places[node.id]
            if (place === undefined) return null
            const shown = near === undefined || near === node.id || beside.has(node.id)
            return (
              <Circle
                key={node.id}
                node={node}
                x={place.x}
                y={place.y}
                faded={!shown}
                named={named.has(node.id) || view.scale > 0.9 || (near !== undefined && shown)}
                size={Math.min(2.2, Math.max(1, 0.85 / view.scale))}
                onNear={setNear}
                onKey={select}
              />
            )
          })}
          {near !== undefined && <Counts edges={edges} ways={ways} near={near} size={Math.max(1, 0.85 / view.scale)} />}
        </g>
      </svg>
      <div className={css.tools}>
        <Button icon aria-label="Zoom in" onClick={() => zoom(1.3)}>
          <ZoomIn size={16} />
        </Button>
        <Button icon aria-label="Zoom out" onClick={() => zoom(0.77)}>
          <ZoomOut size={16} />
        </Button>
        <Button icon aria-label="Show all" onClick={showAll}>
          <Maximize size={16} />
        </Button>
        <Button icon aria-label="Arrange anew" onClick={anew}>
          <RotateCcw size={16} />
        </Button>
      </div>
      <About node={near === undefined ? undefined : byId.get(near)} nodes={nodes} edges={edges} />
    </div>
  )
}

function waysOf(edges: Edge[], nodes: ReadonlyMap<string, Node>, places: Places): Map<string, Way> {
  const ways = new Map<string, Way>()
  for (const edge of edges) {
    const [from, to] = [nodes.get(edge.from), nodes.get(edge.to)]
    const way = from && to && wayOf(from, to, places, edge.width)
    if (way !== undefined) ways.set(edge.id, way)
  }
  return ways
}

function neighbours(near: string | undefined, edges: Edge[]): Set<string> {
  return new Set(edges.flatMap(({ from, to }) => (from === near ? [to] : to === near ? [from] : [])))
}

function busiest(nodes: Node[]): Set<string> {
  const ordered = [...nodes].sort((one, other) => other.sent + other.got - one.sent - one.got)
  return new Set(ordered.slice(0, NAMED).map(({ id }) => id))
}

// Edges --------------------------------------------------------------------------------------------------------------

type EdgesProps = { edges: Edge[]; ways: Map<string, Way>; near: string | undefined; lit: ReadonlySet<string> }

const Edges = memo(function Edges({ edges, ways, near, lit }: EdgesProps) {
  const navigate = useNavigate()
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in it takes the focus; the table says the same
    <g aria-hidden="true">
      {edges.map((edge) => {
        const way = ways.get(edge.id)
        if (way === undefined) return null
        const open = pairOf(edge.from, edge.to)
        return (
          // biome-ignore lint/a11y/noStaticElementInteractions: by keyboard it is opened from the table
          <g
            key={edge.id}
            className={css.edge}
            data-edge={edge.id}
            data-near={edge.from === near || edge.to === near || undefined}
            data-lit={lit.has(edge.id) || undefined}
            onClick={() => void navigate({ to: '/messages', search: { open } })}
          >
            <title>{`${edge.from} to ${edge.to}: ${edge.count}`}</title>
            <path d={way.path} className={css.touch} />
            <path d={way.path} className={css.line} strokeWidth={edge.width} />
            <path d={way.tip} className={css.tip} />
          </g>
        )
      })}
    </g>
  )
})

const COUNTED = 30

function Counts({ edges, ways, near, size }: { edges: Edge[]; ways: Map<string, Way>; near: string; size: number }) {
  const own = edges.filter(({ from, to }) => from === near || to === near)
  if (own.length > COUNTED) return null
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in it takes the focus; the table says the same
    <g aria-hidden="true" className={css.counts}>
      {own.map(({ id, count }) => {
        const middle = ways.get(id)?.middle
        return middle === undefined ? null : (
          <text key={id} x={middle.x} y={middle.y} fontSize={11 * size} dy="0.35em">
            {count}
          </text>
        )
      })}
    </g>
  )
}

// Agents -------------------------------------------------------------------------------------------------------------

type CircleProps = {
  node: Node
  x: number
  y: number
  faded: boolean
  named: boolean
  size: number
  onNear: (id: string | undefined) => void
  onKey: (event: KeyboardEvent, id: string) => void
}

const Circle = memo(function Circle({ node, x, y, faded, named, size, onNear, onKey }: CircleProps) {
  const { mark: Mark, color, word, filled } = LOOKS[node.status]
  const mark = Math.round(8 + node.radius * 0.3)
  const beside = node.radius * Math.SQRT1_2
  return (
    <Link
      to="/messages"
      search={{ agent: node.id }}
      className={css.node}
      data-node={node.id}
      data-faded={faded || undefined}
      onMouseEnter={() => onNear(node.id)}
      onMouseLeave={() => onNear(undefined)}
      onFocus={() => onNear(node.id)}
      onBlur={() => onNear(undefined)}
      onKeyDown={(event) => onKey(event, node.id)}
      draggable={false}
    >
      <title>{`${node.id}, ${word.toLowerCase()}: ${node.sent} sent, ${node.got} received`}</title>
      {/* biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in it takes the focus; the title says the same */}
      <g transform={`translate(${x} ${y})`} aria-hidden="true">
        <circle r={node.radius} className={css.disc} style={{ '--hue': hueOf(node.id), stroke: color } as object} />
        <text fontSize={node.radius * 0.72} dy="0.35em" className={css.letters}>
          {initials(node.id)}
        </text>
        <circle cx={beside} cy={beside} r={mark / 2 + 2} className={css.badge} />
        <Mark
          x={beside - mark / 2}
          y={beside - mark / 2}
          width={mark}
          height={mark}
          strokeWidth={3}
          color={color}
          fill={filled ? color : 'none'}
          aria-hidden="true"
        />
        {named && (
          <text y={node.radius + 6 + 8 * size} fontSize={12 * size} className={css.label}>
            {node.id.length > 24 ? `${node.id.slice(0, 23)}…` : node.id}
          </text>
        )}
      </g>
    </Link>
  )
})

/** With the arrow keys from one agent to the next in that direction. */
function useSteps(nodes: Node[], places: Places, onNear: (id: string) => void) {
  const latest = useRef({ nodes, places })
  latest.current = { nodes, places }
  return useMemo(
    () => (event: KeyboardEvent, id: string) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key]
      const here = latest.current.places[id]
      if (way === undefined || here === undefined) return
      event.preventDefault()
      const [wx = 0, wy = 0] = way
      let best: { id: string; cost: number } | undefined
      for (const other of latest.current.nodes) {
        const there = latest.current.places[other.id]
        if (there === undefined || other.id === id) continue
        const [dx, dy] = [there.x - here.x, there.y - here.y]
        const along = dx * wx + dy * wy
        if (along <= 0) continue
        const cost = along + 2 * Math.abs(dx * wy - dy * wx)
        if (best === undefined || cost < best.cost) best = { id: other.id, cost }
      }
      if (best === undefined) return
      onNear(best.id)
      document.querySelector<SVGElement>(`[data-node="${CSS.escape(best.id)}"]`)?.focus()
    },
    [onNear],
  )
}

// As it happens ------------------------------------------------------------------------------------------------------

type Dot = { id: number; path: string }
const AT_ONCE = 40
const GLOW = 1600
let dotNumber = 0

/** Dots that travel along the edges of what is being sent, and which edges are lit. */
function useSent(nodes: ReadonlyMap<string, Node>, places: Places) {
  const [dots, setDots] = useState<Dot[]>([])
  const [lit, setLit] = useState<ReadonlySet<string>>(new Set())
  const dimming = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(dimming.current), [])
  useEvents((events) => {
    const pairs = events.flatMap(({ kind, data }) => (kind === 'message_sent' ? pairsOf(data, nodes) : []))
    if (pairs.length === 0 || document.hidden) return
    setLit(new Set(pairs.map(([from, to]) => `${from.id} ${to.id}`)))
    clearTimeout(dimming.current)
    dimming.current = setTimeout(() => setLit(new Set()), GLOW)
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) return
    const fresh = pairs.slice(0, AT_ONCE).flatMap(([from, to]) => {
      const way = wayOf(from, to, places, 1)
      return way === undefined ? [] : [{ id: ++dotNumber, path: way.path }]
    })
    setDots((before) => [...before, ...fresh].slice(-AT_ONCE))
  })
  const passed = (id: number) => setDots((before) => before.filter((dot) => dot.id !== id))
  return { dots, lit, passed }
}

function pairsOf(data: Record<string, unknown>, nodes: ReadonlyMap<string, Node>): [Node, Node][] {
  const from = nodes.get(String(data.from))
  if (from === undefined) return []
  if (data.to === EVERYBODY) return [...nodes.values()].flatMap((to) => (to === from ? [] : [[from, to]]))
  const to = nodes.get(String(data.to))
  return to === undefined || to === from ? [] : [[from, to]]
}

// In words -----------------------------------------------------------------------------------------------------------

function About({ node, nodes, edges }: { node: Node | undefined; nodes: Node[]; edges: Edge[] }) {
  if (node === undefined) return <Legend nodes={nodes} />
  const others = new Map<string, { to: number; from: number }>()
  for (const { from, to, count } of edges) {
    const other = from === node.id ? to : to === node.id ? from : undefined
    if (other === undefined) continue
    const known = others.get(other) ?? { to: 0, from: 0 }
    if (from === node.id) known.to += count
    else known.from += count
    others.set(other, known)
  }
  const most = [...others].sort(([, one], [, other]) => other.to + other.from - one.to - one.from)
  return (
    <div className={css.about}>
      <strong>
        <Name>{node.id}</Name>
      </strong>
      <PresenceWord status={node.status} />
      <p>
        {node.sent} sent, {node.got} received
      </p>
      <ul>
        {most.slice(0, 6).map(([name, { to, from }]) => (
          <li key={name}>
            <Name>{name}</Name>
            <span>
              {to} to, {from} from
            </span>
          </li>
        ))}
        {most.length > 6 && <li>and {most.length - 6} more</li>}
      </ul>
    </div>
  )
}

function Legend({ nodes }: { nodes: Node[] }) {
  const there = PRESENCES.filter((presence) => nodes.some(({ status }) => status === presence))
  return (
    <div className={css.about} data-legend>
      {there.map((presence) => (
        <PresenceWord key={presence} status={presence} />
      ))}
    </div>
  )
}
