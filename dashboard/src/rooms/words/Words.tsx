/** Tasks, agents and columns, named inside sentences. */

import { Link } from '@tanstack/react-router'
import { useProjects } from '@/shell/projects'
import { Dot } from '@/ui/Facts'
import type { TaskFacts } from './tasks'
import css from './words.module.css'

export function AgentName({ name }: { name: string }) {
  return (
    <Link to="/crew/$agent" params={{ agent: name }} className={css.name}>
      <bdi>{name}</bdi>
    </Link>
  )
}

/** `agent:claude`, `operator:ada` or `system`, as people say it. */
export function ActorName({ actor }: { actor: string }) {
  const [kind, ...rest] = actor.split(':')
  if (rest.length === 0) return actor === 'system' ? <>Ringfence</> : <bdi>{actor}</bdi>
  const name = rest.join(':')
  return kind === 'agent' ? <AgentName name={name} /> : <bdi className={css.person}>{name}</bdi>
}

type TaskNameProps = { project: string | null; task: string | null; title?: string | undefined; tasks?: TaskFacts }

/** The task's title, leading to it; without one, what is known of it. */
export function TaskName({ project, task, title, tasks }: TaskNameProps) {
  if (task === null) return <>a task</>
  const card = tasks?.get(task)
  const words = card?.title ?? title
  if (words === undefined) return <code className={css.id}>{task}</code>
  const text = <bdi>“{words.length > 300 ? `${words.slice(0, 300)}…` : words}”</bdi>
  if (project === null || (tasks !== undefined && card === undefined)) return text
  return (
    <Link to="/projects/$project" params={{ project }} search={{ task }} className={css.name}>
      {text}
    </Link>
  )
}

export function ProjectName({ project, name }: { project: string; name?: string | undefined }) {
  const { data: projects } = useProjects()
  const found = projects?.find(({ id }) => id === project)
  if (found === undefined) return name === undefined ? <code className={css.id}>{project}</code> : <bdi>{name}</bdi>
  return (
    <Link to="/projects/$project" params={{ project }} className={css.name}>
      <bdi>{found.name}</bdi>
    </Link>
  )
}

const COLUMNS: Record<string, string> = {
  backlog: 'backlog',
  ready: 'ready',
  in_progress: 'in progress',
  in_review: 'in review',
  blocked: 'blocked',
  done: 'done',
}

export function columnName(status: string): string {
  return COLUMNS[status] ?? status.slice(0, 40)
}

export function ColumnName({ status }: { status: string }) {
  return (
    <span className={css.column}>
      {status in COLUMNS && <Dot color={`var(--c-${status})`} />}
      {columnName(status)}
    </span>
  )
}
