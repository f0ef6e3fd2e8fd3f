import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, take } from '@/api/client'
import { Button, Field, Input } from '@/ui/Controls'
import css from './home.module.css'
import { useFirstTasks } from './progress'
import { Step } from './Step'

export function TaskStep({ project }: { project: string | undefined }) {
  const tasks = useFirstTasks(project)
  const [name, setName] = useState('')
  const create = useMutation({
    mutationFn: (id: string) =>
      take(
        api.POST('/api/v1/projects/{project_id}/tasks', {
          params: { path: { project_id: id } },
          body: { title: name.trim(), status: 'ready' },
        }),
      ),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (project !== undefined) create.mutate(project)
  }
  const first = tasks[0]
  const title =
    first === undefined ? (
      'Write a task'
    ) : (
      <>
        {tasks.length === 1 ? 'One task waits: ' : `${tasks.length} tasks, the first of them: `}
        <bdi>{first.title}</bdi>
      </>
    )
  return (
    <Step number={2} title={title} done={first !== undefined} open={project !== undefined && first === undefined}>
      <p>A task is what an agent does next. A title is enough to begin with.</p>
      <form onSubmit={submit} className={css.line}>
        <Field label="Title" wrong={create.error?.message}>
          {(field) => (
            <Input
              {...field}
              autoFocus
              required
              maxLength={500}
              placeholder="Parse dates with a time zone"
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <Button type="submit" look="primary" disabled={create.isPending || name.trim() === ''}>
          Create
        </Button>
      </form>
    </Step>
  )
}
