/** What the task waits for and what waits for it: drawn, and said in two lists. */

import { useNavigate } from '@tanstack/react-router'
import { X } from 'lucide-react'
import { useMemo } from 'react'
import { api, type Schemas, type Task, take } from '@/api/client'
import { Combobox } from '@/ui/Combobox'
import { Button } from '@/ui/Controls'
import { Failure, Loading } from '@/ui/States'
import { useTaskChoices } from './choices'
import { type Graph, graphOf, type Node } from './graph'
import { TaskLink } from './TaskLink'
import { type Near, pathOf, statusColor, statusWord, useDependencies, useOthers, useTaskAct } from './task'
import css from './task.module.css'

export function Dependencies({ task, may }: { task: Task; may: boolean }) {
  const where = { project: task.project_id, task: task.id }
  const { data, error, refetch } = useDependencies(where)
  if (data === undefined) {
    return error === null ? <Loading rows={2} /> : <Failure error={error} retry={() => void refetch()} />
  }
  return <Drawn task={task} may={may} near={data} />
}

function Drawn({ task, may, near }: { task: Task; may: boolean; near: Schemas['Dependencies'] }) {
  const { board } = useOthers(task.project_id)
  const { depends_on: before, needed_by: after } = near
  const graph = useMemo(
    () => graphOf(task, { before, after, cards: board?.cards ?? new Map() }),
    [task, before, after, board],
  )
  const act = useTaskAct({ project: task.project_id, task: task.id })
  const T = '/api/v1/projects/{project_id}/tasks/{task_id}/dependencies' as const
  const at = (id: string) => pathOf({ project: task.project_id, task: id })
  const tie = (id: string, depends_on: string) =>
    act.mutate(() => take(api.POST(T, { params: at(id), body: { depends_on } })))
  const untie = (id: string, other: string) =>
    act.mutate(() => take(api.DELETE(`${T}/{other}`, { params: { path: { ...at(id).path, other } } })))
  const choices = useTaskChoices(task.project_id, task.id)
  const ids = new Set([...before, ...after].map(({ id }) => id))
  const free = choices.filter(({ value }) => !ids.has(value))
  return (
    <>
      {ids.size > 0 && <Picture graph={graph} task={task} />}
      <div className={css.sides}>
        <Side
          title="Waits for"
          none="It waits for nothing."
          tasks={before}
          project={task.project_id}
          onRemove={may ? (other) => untie(task.id, other) : undefined}
        >
          {may && (
            <Combobox
              aria-label="Let it wait for"
              placeholder="Let it wait for…"
              choices={free}
              onPick={(other) => tie(task.id, other)}
            />
          )}
        </Side>
        <Side
          title="Needed by"
          none="Nothing waits for it."
          tasks={after}
          project={task.project_id}
          onRemove={may ? (other) => untie(other, task.id) : undefined}
        >
          {may && (
            <Combobox
              aria-label="Let another wait for it"
              placeholder="Let another wait for it…"
              choices={free}
              onPick={(other) => tie(other, task.id)}
            />
          )}
        </Side>
      </div>
    </>
  )
}

type SideProps = {
  title: string
  none: string
  tasks: readonly Near[]
  project: string
  onRemove: ((id: string) => void) | undefined
  children: React.ReactNode
}

function Side({ title, none, tasks, project, onRemove, children }: SideProps) {
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      {tasks.length === 0 && <p className={css.faint}>{none}</p>}
      <ul className={css.list}>
        {tasks.map(({ id, title: name, status }) => (
          <li key={id}>
            <TaskLink project={project} id={id} title={name} status={status} />
            {onRemove !== undefined && (
              <Button look="quiet" icon small aria-label={`Untie ${name.slice(0, 80)}`} onClick={() => onRemove(id)}>
                <X size={13} />
              </Button>
            )}
          </li>
        ))}
      </ul>
      {children}
    </section>
  )
}

const ROOM = 600 // what a wide drawer has; narrower ones scroll
const NARROWEST = 108
const WIDEST = 170
const TALL = 34
const GAP_X = 30
const GAP_Y = 10

function here(node: SVGGElement | null): void {
  node?.scrollIntoView({ block: 'nearest', inline: 'center' })
}

function Picture({ graph, task }: { graph: Graph; task: Task }) {
  const gaps = (graph.columns - 1) * GAP_X
  const wide = Math.min(WIDEST, Math.max(NARROWEST, (ROOM - gaps) / graph.columns))
  const width = graph.columns * wide + gaps
  const height = graph.rows * TALL + (graph.rows - 1) * GAP_Y
  const x = (node: Node) => node.column * (wide + GAP_X)
  const y = (node: Node) => node.row * (TALL + GAP_Y)
  return (
    <figure className={css.picture}>
      <svg viewBox={`-2 -2 ${width + 4} ${height + 4}`} width={width} height={height} aria-label={saying(graph)}>
        {graph.edges.map(({ from, to }) => {
          const [x1, y1, x2, y2] = [x(from) + wide, y(from) + TALL / 2, x(to), y(to) + TALL / 2]
          const bend = GAP_X / 2
          return (
            <g key={`${from.id} ${to.id}`} className={css.edge} data-done={from.status === 'done' || undefined}>
              <path d={`M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2 - 5},${y2}`} />
              <path d={`M${x2 - 6},${y2 - 3.5} L${x2 - 1},${y2} L${x2 - 6},${y2 + 3.5}`} />
            </g>
          )
        })}
        {graph.nodes.map((node) => (
          <g key={node.id} transform={`translate(${x(node)} ${y(node)})`}>
            <NodeBox node={node} project={task.project_id} here={node.id === task.id} wide={wide} />
          </g>
        ))}
      </svg>
      {graph.hidden > 0 && (
        <figcaption className={css.faint}>and {graph.hidden} more that find no room here</figcaption>
      )}
    </figure>
  )
}

type BoxProps = { node: Node; project: string; here: boolean; wide: number }

function NodeBox({ node, project, here: isHere, wide }: BoxProps) {
  const navigate = useNavigate()
  const label = `${statusWord(node.status)}: ${node.title.slice(0, 200)}`
  const inside = (
    <>
      <title>{label}</title>
      <rect className={css.node} width={wide} height={TALL} rx={7} />
      <circle cx={14} cy={TALL / 2} r={4} fill={statusColor(node.status)} />
      <foreignObject x={24} y={0} width={wide - 30} height={TALL}>
        <div className={css.nodeText}>
          <bdi>{node.title.slice(0, 120)}</bdi>
        </div>
      </foreignObject>
    </>
  )
  if (isHere)
    return (
      <g data-here ref={here}>
        {inside}
      </g>
    )
  const address = `/app/projects/${encodeURIComponent(project)}?task=${encodeURIComponent(node.id)}`
  return (
    <a
      href={address}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return
        event.preventDefault()
        void navigate({
          to: '/projects/$project',
          params: { project },
          search: (before: object) => ({ ...before, task: node.id }),
        })
      }}
    >
      {inside}
    </a>
  )
}

function saying(graph: Graph): string {
  const names = graph.edges.map(({ from, to }) => `${to.title.slice(0, 60)} waits for ${from.title.slice(0, 60)}`)
  return `Dependencies: ${names.join('; ')}`
}
