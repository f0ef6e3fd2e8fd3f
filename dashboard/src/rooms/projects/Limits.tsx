/** How many tasks may be in a column: of each agent, of all together, of single agents. */

import { X } from 'lucide-react'
import { type FormEvent, type KeyboardEvent, useState } from 'react'
import { api, type Schemas, take } from '@/api/client'
import type { Status } from '@/rooms/board/cards'
import { useNameChoices } from '@/rooms/task/choices'
import { StatusBadge } from '@/rooms/task/Moving'
import { STATUS_WORDS, statusWord } from '@/rooms/task/task'
import { Chips } from '@/ui/Chips'
import { Button, Input, Select } from '@/ui/Controls'
import { Avatar, Name } from '@/ui/Facts'
import { Panel } from '@/ui/Page'
import ui from '@/ui/ui.module.css'
import { inProject, useProjectAct, type Whole } from './project'
import css from './project.module.css'

const COLUMNS: readonly Status[] = ['backlog', 'ready', 'in_progress', 'in_review', 'blocked']

type SetLimit = (body: Schemas['LimitBody']) => void

export function Limits({ project, may }: { project: Whole; may: boolean }) {
  const act = useProjectAct(project.id)
  const set: SetLimit = (body) =>
    act.mutate(() => take(api.PUT('/api/v1/projects/{project_id}/wip', { params: inProject(project.id), body })))
  return (
    <Panel className={css.panel}>
      <h2>Work in progress</h2>
      <p className={css.faint}>
        How many tasks may be in a column at a time. A claimed task counts as in progress. Who would exceed a limit is
        refused, people too; an empty field is no limit.
      </p>
      <table className={ui.table}>
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">Each agent</th>
            <th scope="col">All together</th>
          </tr>
        </thead>
        <tbody>
          {COLUMNS.map((status) => (
            <tr key={status}>
              <th scope="row" className={css.rowHead}>
                <StatusBadge status={status} />
              </th>
              <td>
                <Limit
                  label={`${statusWord(status)}, each agent`}
                  value={project.wip_limits[status]}
                  onSet={may ? (limit) => set({ status, limit, scope: 'agent' }) : undefined}
                />
              </td>
              <td>
                <Limit
                  label={`${statusWord(status)}, all together`}
                  value={project.wip_limits_of_columns[status]}
                  onSet={may ? (limit) => set({ status, limit, scope: 'column' }) : undefined}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Single project={project} may={may} set={set} />
    </Panel>
  )
}

type LimitProps = { label: string; value: number | undefined; onSet: ((limit: number | null) => void) | undefined }

/** Saved by Enter and by leaving; Escape leaves it as it was. */
function Limit({ label, value, onSet }: LimitProps) {
  if (onSet === undefined) return <span>{value ?? '–'}</span>
  const was = value === undefined ? '' : String(value)
  const save = (field: HTMLInputElement) => {
    if (field.value === was || !field.reportValidity()) return
    onSet(field.value === '' ? null : Number(field.value))
  }
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'Enter') save(event.currentTarget)
    else if (event.key === 'Escape') event.currentTarget.value = was
  }
  return (
    <Input
      key={was}
      aria-label={label}
      className={css.limit}
      type="number"
      min={0}
      max={1_000_000}
      placeholder="none"
      defaultValue={was}
      onBlur={(event) => save(event.target)}
      onKeyDown={press}
    />
  )
}

function Single({ project, may, set }: { project: Whole; may: boolean; set: SetLimit }) {
  const single = Object.entries(project.wip_limits_by_agent).flatMap(([agent, limits]) =>
    Object.entries(limits).map(([status, limit]) => ({ agent, status, limit })),
  )
  if (!may && single.length === 0) return null
  return (
    <>
      <h3>Single agents</h3>
      <p className={css.faint}>Counts for that agent instead of what each agent has.</p>
      <ul className={css.members} aria-label="Limits of single agents">
        {single.map(({ agent, status, limit }) => (
          <li key={`${agent} ${status}`}>
            <Avatar name={agent} />
            <span className={css.clip}>
              <Name>{agent}</Name>
            </span>
            <span className={css.about}>
              <StatusBadge status={status} />
            </span>
            <Limit
              label={`${statusWord(status)}, ${agent}`}
              value={limit}
              onSet={may ? (to) => set({ status, limit: to, agent, scope: 'agent' }) : undefined}
            />
            {may && (
              <Button
                look="quiet"
                icon
                small
                aria-label={`Lift the limit of ${agent} in ${statusWord(status).toLowerCase()}`}
                onClick={() => set({ status, limit: null, agent, scope: 'agent' })}
              >
                <X size={14} />
              </Button>
            )}
          </li>
        ))}
      </ul>
      {may && <AddSingle set={set} />}
    </>
  )
}

function AddSingle({ set }: { set: SetLimit }) {
  const choices = useNameChoices()
  const [agent, setAgent] = useState<string[]>([])
  const [status, setStatus] = useState<string>('in_progress')
  const [limit, setLimit] = useState('1')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const [name] = agent
    if (name === undefined || limit === '') return
    set({ status, limit: Number(limit), agent: name, scope: 'agent' })
    setAgent([])
  }
  return (
    <form onSubmit={submit} className={css.single}>
      <Chips
        free
        most={1}
        aria-label="Agent"
        placeholder="Agent"
        values={agent}
        onChange={setAgent}
        choices={choices}
      />
      <Select aria-label="Column" value={status} onChange={(event) => setStatus(event.target.value)}>
        {COLUMNS.map((column) => (
          <option key={column} value={column}>
            {STATUS_WORDS[column]}
          </option>
        ))}
      </Select>
      <Input
        aria-label="Limit"
        className={css.limit}
        type="number"
        min={0}
        max={1_000_000}
        required
        value={limit}
        onChange={(event) => setLimit(event.target.value)}
      />
      <Button type="submit" disabled={agent.length === 0}>
        Add
      </Button>
    </form>
  )
}
