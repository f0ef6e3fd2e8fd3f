/** A project: its name, who works in it, how much at a time, its files. */

import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { CircleOff, LogOut } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, Problem, take } from '@/api/client'
import { Files } from '@/rooms/files/Files'
import { useAgents, useNameChoices } from '@/rooms/task/choices'
import { useMay } from '@/shell/session'
import { Combobox } from '@/ui/Combobox'
import { Button, Field, Input, Row, Select } from '@/ui/Controls'
import { Avatar, Badge, Name, Time } from '@/ui/Facts'
import { Confirm } from '@/ui/Overlays'
import { Page, Panel } from '@/ui/Page'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import { Limits } from './Limits'
import { filesKey, inProject, useFiles, useProject, useProjectAct, type Whole } from './project'
import css from './project.module.css'

export function ProjectSettings() {
  const { project: id = '' } = useParams({ strict: false })
  const { data: project, error, refetch } = useProject(id)
  const may = useMay('operator')
  if (error instanceof Problem && error.status === 404) return <Gone name={project?.name} />
  if (project === undefined) {
    return (
      <Page title="Project">
        {error === null ? <Loading /> : <Failure error={error} retry={() => void refetch()} />}
      </Page>
    )
  }
  return (
    <Page title={project.name} about={<Facts project={project} />}>
      <div className={css.columns} key={id}>
        <div className={css.column}>
          <General project={project} may={may} />
          <Members project={project} may={may} />
          <ProjectFiles project={id} may={may} />
        </div>
        <div className={css.column}>
          <Limits project={project} may={may} />
          {may && <Delete project={project} />}
        </div>
      </div>
    </Page>
  )
}

function Gone({ name }: { name: string | undefined }) {
  return (
    <Page title={name ?? 'Project'}>
      <Empty icon={CircleOff} title={name === undefined ? 'There is no such project' : 'This project was deleted'}>
        <p>
          <Link to="/">Go to another project.</Link>
        </p>
      </Empty>
    </Page>
  )
}

function Facts({ project }: { project: Whole }) {
  return (
    <>
      <code>{project.id}</code> · <Name>{project.creator}</Name> created it <Time at={project.created_at} />
    </>
  )
}

const MEANS = {
  open: 'Every agent finds it and may claim its tasks.',
  members: 'Only its members see it. To all other agents it does not exist.',
}

function General({ project, may }: { project: Whole; may: boolean }) {
  const act = useProjectAct(project.id)
  const visibility = project.visibility === 'members' ? 'members' : 'open'
  const change = (body: { name?: string; visibility?: 'open' | 'members' }) =>
    act.mutate(() => take(api.PATCH('/api/v1/projects/{project_id}', { params: inProject(project.id), body })))
  return (
    <Panel className={css.panel}>
      <h2>General</h2>
      {may ? (
        <>
          <Rename key={project.name} name={project.name} busy={act.isPending} onRename={(name) => change({ name })} />
          <Field label="Who may work in it" hint={MEANS[visibility]}>
            {(field) => (
              <Select
                {...field}
                value={visibility}
                onChange={(event) => change({ visibility: event.target.value === 'members' ? 'members' : 'open' })}
              >
                <option value="open">All agents</option>
                <option value="members">Members only</option>
              </Select>
            )}
          </Field>
        </>
      ) : (
        <p>
          {visibility === 'open' ? 'All agents may work in it.' : 'Only its members may work in it.'}{' '}
          <span className={css.faint}>{MEANS[visibility]}</span>
        </p>
      )}
    </Panel>
  )
}

function Rename({ name, busy, onRename }: { name: string; busy: boolean; onRename: (name: string) => void }) {
  const [text, setText] = useState(name)
  const changed = text.trim() !== '' && text.trim() !== name
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (changed) onRename(text.trim())
  }
  return (
    <form onSubmit={submit}>
      <Field label="Name">
        {(field) => (
          <Row className={css.oneLine}>
            <Input
              {...field}
              required
              maxLength={200}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => event.key === 'Escape' && setText(name)}
            />
            <Button type="submit" disabled={!changed || busy}>
              Rename
            </Button>
          </Row>
        )}
      </Field>
    </form>
  )
}

function Members({ project, may }: { project: Whole; may: boolean }) {
  const agents = new Map(useAgents().map((agent) => [agent.name, agent]))
  const choices = useNameChoices().filter(({ value }) => agents.has(value) && !project.members.includes(value))
  const act = useProjectAct(project.id)
  const params = inProject(project.id)
  const join = (agent: string) =>
    act.mutate(() => take(api.POST('/api/v1/projects/{project_id}/join', { params, body: { agent } })))
  const leave = (agent: string) =>
    act.mutate(() => take(api.POST('/api/v1/projects/{project_id}/leave', { params, body: { agent } })))
  return (
    <Panel className={css.panel}>
      <h2>
        Members <span className={css.count}>{project.members.length}</span>
      </h2>
      <p className={css.faint}>
        {project.visibility === 'members'
          ? 'These agents see the project and may work in it.'
          : 'The project is open: membership tells who usually works in it.'}
      </p>
      {project.members.length === 0 && <p className={css.faint}>Nobody is a member yet.</p>}
      <ul className={css.members} aria-label="Members">
        {project.members.map((name) => {
          const agent = agents.get(name)
          return (
            <li key={name}>
              <Avatar name={name} />
              <span className={css.clip}>
                {agent === undefined ? (
                  <Name>{name}</Name>
                ) : (
                  <Link to="/crew/$agent" params={{ agent: name }}>
                    <Name>{name}</Name>
                  </Link>
                )}
              </span>
              <span className={css.about}>
                {agent === undefined ? (
                  'person'
                ) : (
                  <>
                    {agent.status}
                    {agent.capabilities.slice(0, 3).map((tag) => (
                      <Badge key={tag}>
                        <bdi>{tag}</bdi>
                      </Badge>
                    ))}
                  </>
                )}
              </span>
              {may && (
                <Button
                  look="quiet"
                  icon
                  small
                  aria-label={`Let ${name} leave`}
                  disabled={act.isPending}
                  onClick={() => leave(name)}
                >
                  <LogOut size={14} />
                </Button>
              )}
            </li>
          )
        })}
      </ul>
      {may && (
        <Combobox
          free
          aria-label="Let an agent join"
          placeholder="Let an agent join…"
          choices={choices}
          onPick={join}
        />
      )}
    </Panel>
  )
}

function ProjectFiles({ project, may }: { project: string; may: boolean }) {
  const { data: files, error, refetch } = useFiles(project)
  const remove = (filename: string) =>
    take(
      api.DELETE('/api/v1/projects/{project_id}/files/{filename}', {
        params: { path: { project_id: project, filename } },
      }),
    )
  return (
    <Panel className={css.panel}>
      <h2>Files {files !== undefined && <span className={css.count}>{files.length}</span>}</h2>
      {files === undefined ? (
        error === null ? (
          <Loading rows={2} height="2rem" />
        ) : (
          <Failure error={error} retry={() => void refetch()} />
        )
      ) : (
        <Files
          path={`/api/v1/projects/${encodeURIComponent(project)}/files`}
          queryKey={filesKey(project)}
          files={files}
          may={may}
          none="No files yet. Agents of the project read and write them, too."
          onDelete={remove}
        />
      )}
    </Panel>
  )
}

function Delete({ project }: { project: Whole }) {
  const [asking, setAsking] = useState(false)
  const [typed, setTyped] = useState('')
  const navigate = useNavigate()
  const say = useToast()
  const remove = async () => {
    await take(api.DELETE('/api/v1/projects/{project_id}', { params: inProject(project.id) }))
    say.done('The project is deleted.')
    await navigate({ to: '/' })
  }
  return (
    <Panel className={css.panel}>
      <h2>Delete the project</h2>
      <Row spread>
        <p className={css.faint}>Its tasks, comments and files are gone for good. The audit log stays.</p>
        <Button look="danger" onClick={() => setAsking(true)}>
          Delete…
        </Button>
      </Row>
      <Confirm
        open={asking}
        onOpenChange={(open) => {
          setAsking(open)
          setTyped('')
        }}
        title="Delete this project?"
        about={
          <p>
            All tasks and files of <bdi>“{project.name}”</bdi> are gone for good. Agents that work on them are told
            nothing.
          </p>
        }
        action="Delete the project"
        danger
        ready={typed.trim() === project.name.trim() || typed.trim() === project.id}
        onConfirm={remove}
      >
        <Field label="Type its name, or its id">
          {(field) => (
            <Input
              {...field}
              autoFocus
              autoComplete="off"
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
            />
          )}
        </Field>
      </Confirm>
    </Panel>
  )
}
