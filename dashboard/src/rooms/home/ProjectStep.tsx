import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, type Project, take } from '@/api/client'
import { projectsKey } from '@/shell/projects'
import { Button, Field, Input } from '@/ui/Controls'
import css from './home.module.css'
import { Step } from './Step'

type ProjectStepProps = { project: Project | undefined; onMade: (id: string) => void }

export function ProjectStep({ project, onMade }: ProjectStepProps) {
  const queries = useQueryClient()
  const [name, setName] = useState('')
  const create = useMutation({
    mutationFn: () => take(api.POST('/api/v1/projects', { body: { name: name.trim() } })),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: projectsKey })
      onMade(id)
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate()
  }
  const title =
    project === undefined ? (
      'Make a project'
    ) : (
      <>
        Your project is{' '}
        <Link to="/projects/$project" params={{ project: project.id }}>
          <bdi>{project.name}</bdi>
        </Link>
      </>
    )
  return (
    <Step number={1} title={title} done={project !== undefined} open={project === undefined}>
      <p>A project is a board, with the tasks and files of one piece of work.</p>
      <form onSubmit={submit} className={css.line}>
        <Field label="Name" wrong={create.error?.message}>
          {(field) => (
            <Input
              {...field}
              required
              maxLength={200}
              placeholder="Apollo"
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
