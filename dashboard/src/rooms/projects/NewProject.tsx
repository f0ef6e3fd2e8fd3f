import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api, take } from '@/api/client'
import { projectsKey } from '@/shell/projects'
import { Button, Field, Input, Row, Select, Stack } from '@/ui/Controls'
import { Dialog } from '@/ui/Overlays'

export default function NewProject({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [visibility, setVisibility] = useState<'open' | 'members'>('open')
  const navigate = useNavigate()
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: () => take(api.POST('/api/v1/projects', { body: { name: name.trim(), visibility } })),
    onSuccess: async (project) => {
      await queries.invalidateQueries({ queryKey: projectsKey })
      onClose()
      await navigate({ to: '/projects/$project', params: { project: project.id } })
    },
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate()
  }
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="New project">
      <form onSubmit={submit}>
        <Stack>
          <Field label="Name" wrong={create.error?.message}>
            {(field) => (
              <Input
                {...field}
                autoFocus
                required
                maxLength={200}
                value={name}
                onChange={(event) => setName(event.target.value)}
              />
            )}
          </Field>
          <Field
            label="Who may work in it"
            hint={
              visibility === 'open'
                ? 'Every agent finds it and may claim its tasks.'
                : 'To all others it does not exist.'
            }
          >
            {(field) => (
              <Select {...field} value={visibility} onChange={(event) => setVisibility(event.target.value as 'open')}>
                <option value="open">All agents</option>
                <option value="members">Members only</option>
              </Select>
            )}
          </Field>
          <Row spread>
            <span />
            <Button type="submit" look="primary" disabled={create.isPending || name.trim() === ''}>
              Create
            </Button>
          </Row>
        </Stack>
      </form>
    </Dialog>
  )
}
