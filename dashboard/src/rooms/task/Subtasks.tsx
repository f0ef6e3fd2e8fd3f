import { Plus } from 'lucide-react'
import { type FormEvent, useRef, useState } from 'react'
import { api, type Task, take } from '@/api/client'
import { Button, Input, Row } from '@/ui/Controls'
import { useUnsent } from './drafts'
import { TaskLink } from './TaskLink'
import { useOthers, useTaskAct } from './task'
import css from './task.module.css'

export function Subtasks({ task, may }: { task: Task; may: boolean }) {
  const { board } = useOthers(task.project_id)
  const [adding, setAdding] = useState(false)
  const subtasks = task.subtasks.map((id) => ({ id, card: board?.cards.get(id) }))
  const done = subtasks.filter(({ card }) => card?.status === 'done').length
  if (!may && subtasks.length === 0) return null
  return (
    <section aria-label="Subtasks" className={css.section}>
      {subtasks.length > 0 && (
        <>
          <h3>
            Subtasks{' '}
            <span className={css.faint}>
              {done} of {subtasks.length} done
            </span>
          </h3>
          <ul className={css.list}>
            {subtasks.map(({ id, card }) => (
              <li key={id}>
                <TaskLink project={task.project_id} id={id} title={card?.title} status={card?.status} />
              </li>
            ))}
          </ul>
        </>
      )}
      {adding ? (
        <AddSubtask task={task} onLeave={() => setAdding(false)} />
      ) : (
        may && (
          <Button look="quiet" small className={css.edit} onClick={() => setAdding(true)}>
            <Plus size={14} aria-hidden="true" /> Add a subtask
          </Button>
        )
      )}
    </section>
  )
}

function AddSubtask({ task, onLeave }: { task: Task; onLeave: () => void }) {
  const [title, setTitle] = useState('')
  const field = useRef<HTMLInputElement>(null)
  const act = useTaskAct({ project: task.project_id, task: task.id })
  useUnsent(title.trim() !== '')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (title.trim() === '') return onLeave()
    const params = { path: { project_id: task.project_id } }
    const body = { title: title.trim(), parent_task_id: task.id, priority: task.priority }
    act.mutate(() => take(api.POST('/api/v1/projects/{project_id}/tasks', { params, body })), {
      onSuccess: () => {
        setTitle('')
        field.current?.focus()
      },
    })
  }
  return (
    <form onSubmit={submit} data-escape>
      <Row className={css.oneLine}>
        <Input
          ref={field}
          autoFocus
          aria-label="Title of the subtask"
          placeholder="Title of the subtask"
          maxLength={500}
          value={title}
          onChange={(event) => setTitle(event.target.value)}
          onKeyDown={(event) => event.key === 'Escape' && onLeave()}
        />
        <Button type="submit" small disabled={act.isPending}>
          Add
        </Button>
      </Row>
    </form>
  )
}
