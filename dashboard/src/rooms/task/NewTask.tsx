/** Writes a task: a title is enough. */

import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Tabs } from 'radix-ui'
import { type FormEvent, type KeyboardEvent, useRef, useState } from 'react'
import { api, Problem, type Schemas, take } from '@/api/client'
import { Chips } from '@/ui/Chips'
import { Button, Field, Input, Row, Select, Stack, TextArea } from '@/ui/Controls'
import { Key } from '@/ui/Facts'
import { Markdown } from '@/ui/Markdown'
import { Confirm, Dialog } from '@/ui/Overlays'
import { useToast } from '@/ui/Toasts'
import ui from '@/ui/ui.module.css'
import { useCapabilityChoices, useLabelChoices, useNameChoices, useTaskChoices } from './choices'
import { PRIORITIES } from './task'
import css from './task.module.css'

type NewTaskProps = { project: string; status?: 'backlog' | 'ready'; onClose: () => void }

type Fields = {
  title: string
  description: string
  status: 'backlog' | 'ready'
  priority: string
  labels: string[]
  capabilities: string[]
  assignee: string[]
  reviewers: string
  before: string[]
  parent: string[]
}

type Setter = <F extends keyof Fields>(field: F) => (value: Fields[F]) => void

export default function NewTask({ project, status = 'backlog', onClose }: NewTaskProps) {
  const form = useNewTask(project, status, onClose)
  const { fields, set, wrong } = form
  const [leaving, setLeaving] = useState(false)
  const leave = () => (fields.title.trim() + fields.description.trim() === '' ? onClose() : setLeaving(true))
  const press = (event: KeyboardEvent<HTMLFormElement>) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      event.currentTarget.requestSubmit()
    }
  }
  return (
    <Dialog open onOpenChange={(open) => !open && leave()} title="New task">
      <form onSubmit={form.submit} onKeyDown={press}>
        <Stack>
          <Field label="Title" wrong={wrong('title')}>
            {(field) => (
              <Input
                {...field}
                ref={form.first}
                autoFocus
                required
                maxLength={500}
                value={fields.title}
                onChange={(event) => set('title')(event.target.value)}
              />
            )}
          </Field>
          <Describe text={fields.description} onChange={set('description')} />
          <Short fields={fields} set={set} wrong={wrong} />
          <More project={project} fields={fields} set={set} wrong={wrong} />
          {form.refused !== undefined && (
            <p className={ui.wrong} role="alert">
              {form.refused}
            </p>
          )}
          <Row spread>
            <label className={css.another}>
              <input
                type="checkbox"
                checked={form.another}
                onChange={(event) => form.setAnother(event.target.checked)}
              />
              Create another
            </label>
            <Row>
              <span className={css.keys}>
                <Key>Ctrl+Enter</Key>
              </span>
              <Button type="submit" look="primary" disabled={form.busy || fields.title.trim() === ''}>
                Create
              </Button>
            </Row>
          </Row>
        </Stack>
      </form>
      <Confirm
        open={leaving}
        onOpenChange={setLeaving}
        title="Drop this task?"
        about="What you wrote is lost."
        action="Drop it"
        danger
        onConfirm={onClose}
      />
    </Dialog>
  )
}

/** The form's fields, and the request: one per key, however often it is sent. */
function useNewTask(project: string, status: 'backlog' | 'ready', onClose: () => void) {
  const [fields, setFields] = useState<Fields>(() => blank(status))
  const [another, setAnother] = useState(false)
  const key = useRef<{ value: string; body: string }>(undefined)
  const first = useRef<HTMLInputElement>(null)
  const say = useToast()
  const navigate = useNavigate()
  const create = useMutation({
    mutationFn: (body: Schemas['NewTask']) => {
      const written = JSON.stringify(body)
      if (key.current?.body !== written) key.current = { value: unique(), body: written }
      const header = { 'Idempotency-Key': key.current.value }
      const params = { path: { project_id: project }, header }
      return take(api.POST('/api/v1/projects/{project_id}/tasks', { params, body }))
    },
    onSuccess: (made) => {
      key.current = undefined
      const open = () =>
        void navigate({
          to: '/projects/$project',
          params: { project },
          search: (before: object) => ({ ...before, task: 'id' in made ? made.id : '' }),
        })
      say.done('The task is created.', { label: 'Open', run: open })
      if (!another) return onClose()
      setFields((before) => ({ ...before, title: '', description: '' }))
      first.current?.focus()
    },
  })
  const place = create.error === null ? undefined : placeOf(create.error)
  return {
    fields,
    set: ((field) => (value) => setFields((before) => ({ ...before, [field]: value }))) as Setter,
    another,
    setAnother,
    first,
    busy: create.isPending,
    wrong: (field: keyof Fields) => (place === field ? create.error?.message : undefined),
    refused: create.error !== null && place === undefined ? create.error.message : undefined,
    submit: (event: FormEvent) => {
      event.preventDefault()
      if (!create.isPending && fields.title.trim() !== '') create.mutate(bodyOf(fields))
    },
  }
}

function blank(status: 'backlog' | 'ready'): Fields {
  return {
    title: '',
    description: '',
    status,
    priority: 'P2',
    labels: [],
    capabilities: [],
    assignee: [],
    reviewers: '1',
    before: [],
    parent: [],
  }
}

function bodyOf(fields: Fields): Schemas['NewTask'] {
  const reviewers = Number.parseInt(fields.reviewers, 10)
  return {
    title: fields.title.trim(),
    description: fields.description,
    status: fields.status,
    priority: fields.priority,
    labels: fields.labels,
    required_capabilities: fields.capabilities,
    required_reviewers: Number.isInteger(reviewers) ? reviewers : 1,
    assigned_to: fields.assignee[0] ?? null,
    depends_on: fields.before,
    parent_task_id: fields.parent[0] ?? null,
  }
}

const PLACES: [RegExp, keyof Fields][] = [
  [/^label/, 'labels'],
  [/^(capability|required_capabilities)/, 'capabilities'],
  [/^depends_on|would be a circle/, 'before'],
  [/^parent_task_id/, 'parent'],
  [/^required_reviewers/, 'reviewers'],
  [/^title/, 'title'],
  [/^assigned_to/, 'assignee'],
]
const CODES: Record<string, keyof Fields> = {
  capabilities_insufficient: 'assignee',
  not_a_member: 'assignee',
  invalid_name: 'assignee',
  wip_limit: 'status',
}

/** The field that a refusal is about, if it is about one. */
function placeOf(error: Error): keyof Fields | undefined {
  const byCode = error instanceof Problem ? CODES[error.code] : undefined
  return byCode ?? PLACES.find(([words]) => words.test(error.message))?.[1]
}

/** `crypto.randomUUID` exists on HTTPS and on this machine only. */
function unique(): string {
  const { randomUUID } = crypto as { randomUUID?: () => string }
  if (randomUUID !== undefined) return crypto.randomUUID()
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

function Describe({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  return (
    <Tabs.Root defaultValue="write">
      <Row spread className={css.describeHead}>
        <span className={ui.label} id="new-task-description">
          Description
        </span>
        <Tabs.List aria-label="Description" className={css.small}>
          <Tabs.Trigger value="write">Write</Tabs.Trigger>
          <Tabs.Trigger value="preview">Preview</Tabs.Trigger>
        </Tabs.List>
      </Row>
      <Tabs.Content value="write" tabIndex={-1}>
        <TextArea
          aria-labelledby="new-task-description"
          className={css.newDescription}
          placeholder="Markdown"
          maxLength={200_000}
          value={text}
          onChange={(event) => onChange(event.target.value)}
        />
      </Tabs.Content>
      <Tabs.Content value="preview" className={css.preview}>
        {text.trim() === '' ? <p className={css.faint}>Nothing to show yet.</p> : <Markdown text={text} />}
      </Tabs.Content>
    </Tabs.Root>
  )
}

type PartProps = { fields: Fields; set: Setter; wrong: (field: keyof Fields) => string | undefined }

function Short({ fields, set, wrong }: PartProps) {
  return (
    <div className={css.three}>
      <Field label="State" wrong={wrong('status')}>
        {(field) => (
          <Select
            {...field}
            value={fields.status}
            onChange={(event) => set('status')(event.target.value === 'ready' ? 'ready' : 'backlog')}
          >
            <option value="backlog">Backlog</option>
            <option value="ready">Ready</option>
          </Select>
        )}
      </Field>
      <Field label="Priority">
        {(field) => (
          <Select {...field} value={fields.priority} onChange={(event) => set('priority')(event.target.value)}>
            {PRIORITIES.map(({ value, label }) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Select>
        )}
      </Field>
      <Field label="Signatures needed" wrong={wrong('reviewers')}>
        {(field) => (
          <Input
            {...field}
            type="number"
            min={0}
            max={100}
            value={fields.reviewers}
            onChange={(event) => set('reviewers')(event.target.value)}
          />
        )}
      </Field>
    </div>
  )
}

function More({ project, fields, set, wrong }: PartProps & { project: string }) {
  const labels = useLabelChoices(project)
  const capabilities = useCapabilityChoices(project)
  const names = useNameChoices(fields.capabilities)
  const tasks = useTaskChoices(project)
  return (
    <div className={css.two}>
      <Field label="Labels" wrong={wrong('labels')}>
        {(field) => <Chips {...field} free values={fields.labels} onChange={set('labels')} choices={labels} />}
      </Field>
      <Field label="Capabilities" wrong={wrong('capabilities')}>
        {(field) => (
          <Chips {...field} free values={fields.capabilities} onChange={set('capabilities')} choices={capabilities} />
        )}
      </Field>
      <Field label="Who does it" wrong={wrong('assignee')}>
        {(field) => (
          <Chips
            {...field}
            free
            most={1}
            placeholder="Whoever claims it"
            values={fields.assignee}
            onChange={set('assignee')}
            choices={names}
          />
        )}
      </Field>
      <Field label="Part of" wrong={wrong('parent')}>
        {(field) => (
          <Chips
            {...field}
            most={1}
            placeholder="A larger task"
            values={fields.parent}
            onChange={set('parent')}
            choices={tasks}
          />
        )}
      </Field>
      <div className={css.whole}>
        <Field label="Waits for" wrong={wrong('before')}>
          {(field) => (
            <Chips
              {...field}
              placeholder="Other tasks"
              values={fields.before}
              onChange={set('before')}
              choices={tasks}
            />
          )}
        </Field>
      </div>
    </div>
  )
}
