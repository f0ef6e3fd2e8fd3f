import { Link } from '@tanstack/react-router'
import { Dot } from '@/ui/Facts'
import { statusColor, statusWord } from './task'
import css from './task.module.css'

type TaskLinkProps = { project: string; id: string; title: string | undefined; status: string | undefined }

/** Another task of the project, opened in the same drawer. */
export function TaskLink({ project, id, title, status }: TaskLinkProps) {
  return (
    <Link
      to="/projects/$project"
      params={{ project }}
      search={(before: object) => ({ ...before, task: id })}
      className={css.taskLink}
      data-done={status === 'done' || undefined}
    >
      {status !== undefined && <Dot color={statusColor(status)} />}
      {status !== undefined && <span className="sr-only">{statusWord(status)}: </span>}
      <bdi>{title ?? id}</bdi>
    </Link>
  )
}
