/** How many tasks may be in a column: what the limits are, whom they hold, and, for operators, changing them. */

import { Gauge, X } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, type Schemas, take } from '@/api/client'
import { Button, Field, Input, Row, Select, Stack } from '@/ui/Controls'
import { Avatar, Name } from '@/ui/Facts'
import { Popover } from '@/ui/Overlays'
import { useToast } from '@/ui/Toasts'
import css from './board.module.css'
import type { Status } from './cards'
import { countedIn, isHeld, type Rules } from './rules'
import { counted, STATUS_NAMES } from './words'

type LimitsProps = { status: Status; rules: Rules; may: boolean }

export function Limits({ status, rules, may }: LimitsProps) {
  const [open, setOpen] = useState(false)
  const limit = rules.board.wip_limits.columns[status]
  const count = countedIn(rules.cards.values(), status, null)
  const name = STATUS_NAMES[status]
  const about = limit === undefined ? `Limits of ${name}` : `Limits of ${name}: ${count} of ${limit}`
  return (
    <Popover
      open={open}
      onOpenChange={setOpen}
      align="end"
      trigger={
        <button
          type="button"
          className={css.gauge}
          aria-label={about}
          data-full={limit !== undefined && count >= limit}
          data-limit={limit}
        >
          {limit === undefined ? <Gauge size={14} aria-hidden="true" /> : `${count}/${limit}`}
        </button>
      }
    >
      <LimitsForm status={status} rules={rules} may={may} onDone={() => setOpen(false)} />
    </Popover>
  )
}

type Draft = { column: string; each: string; agents: [name: string, limit: string][] }

function LimitsForm({ status, rules, may, onDone }: LimitsProps & { onDone: () => void }) {
  const { columns, agent: each, agents } = rules.board.wip_limits
  const [draft, setDraft] = useState<Draft>(() => ({
    column: String(columns[status] ?? ''),
    each: String(each[status] ?? ''),
    agents: Object.entries(agents).flatMap(([name, limits]) =>
      limits[status] === undefined ? [] : [[name, String(limits[status])] satisfies [string, string]],
    ),
  }))
  const [wrong, setWrong] = useState<string>()
  const say = useToast()
  const save = async (event: FormEvent) => {
    event.preventDefault()
    const bodies = changes(status, rules, draft)
    try {
      for (const body of bodies) {
        const params = { path: { project_id: rules.board.project.id } }
        await take(api.PUT('/api/v1/projects/{project_id}/wip', { params, body }))
      }
      if (bodies.length > 0) say.done(`The limits of ${STATUS_NAMES[status]} are changed.`)
      onDone()
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error))
    }
  }
  return (
    <form className={css.limits} onSubmit={save} aria-label={`Limits of ${STATUS_NAMES[status]}`}>
      <Stack>
        <h3>Limits of {STATUS_NAMES[status]}</h3>
        <Explained status={status} rules={rules} />
        {may ? (
          <>
            <Field label="All together" hint="Tasks in the column, whoever has them.">
              {(field) => (
                <LimitInput {...field} value={draft.column} onValue={(column) => setDraft({ ...draft, column })} />
              )}
            </Field>
            <Field label="Each agent">
              {(field) => (
                <LimitInput {...field} value={draft.each} onValue={(one) => setDraft({ ...draft, each: one })} />
              )}
            </Field>
            <SingleAgents rules={rules} draft={draft} onDraft={setDraft} />
            {wrong !== undefined && <p role="alert">{wrong}</p>}
            <Row spread>
              <Button small onClick={onDone}>
                Cancel
              </Button>
              <Button small type="submit" look="primary">
                Save
              </Button>
            </Row>
          </>
        ) : (
          <Told draft={draft} />
        )}
      </Stack>
    </form>
  )
}

function Explained({ status, rules }: { status: Status; rules: Rules }) {
  if (status !== 'in_progress') return null
  const held = [...rules.cards.values()].filter(isHeld).length
  return (
    <p className={css.hint}>
      A claimed task counts as in progress while it is still in Ready: {held === 0 ? 'none now' : `${held} now`}.
    </p>
  )
}

function Told({ draft: { column, each, agents } }: { draft: Draft }) {
  if (column === '' && each === '' && agents.length === 0) return <p className={css.hint}>There are none.</p>
  return (
    <ul className={css.told}>
      {column !== '' && <li>All together: {counted(Number(column), 'task')}</li>}
      {each !== '' && <li>Each agent: {counted(Number(each), 'task')}</li>}
      {agents.map(([name, limit]) => (
        <li key={name}>
          <Name>{name}</Name>: {counted(Number(limit), 'task')}
        </li>
      ))}
    </ul>
  )
}

type LimitInputProps = { value: string; onValue: (value: string) => void; 'aria-label'?: string; id?: string }

function LimitInput({ onValue, ...more }: LimitInputProps) {
  return (
    <Input
      {...more}
      type="number"
      min={0}
      max={1_000_000}
      placeholder="No limit"
      className={css.limit}
      onChange={(event) => onValue(event.target.value)}
    />
  )
}

type SingleProps = { rules: Rules; draft: Draft; onDraft: (draft: Draft) => void }

function SingleAgents({ rules, draft, onDraft }: SingleProps) {
  const others = [...rules.agents.keys()].filter((name) => draft.agents.every(([known]) => known !== name))
  const put = (agents: Draft['agents']) => onDraft({ ...draft, agents })
  if (draft.agents.length + others.length === 0) return null
  return (
    <Stack>
      {draft.agents.map(([name, limit], place) => (
        <Row key={name} className={css.single}>
          <Avatar name={name} />
          <span className={css.name}>
            <Name>{name}</Name>
          </span>
          <LimitInput
            aria-label={`Limit of ${name}`}
            value={limit}
            onValue={(value) => put(draft.agents.with(place, [name, value]))}
          />
          <Button
            look="quiet"
            icon
            small
            aria-label={`No limit of its own for ${name}`}
            onClick={() => put(draft.agents.toSpliced(place, 1))}
          >
            <X size={14} />
          </Button>
        </Row>
      ))}
      {others.length > 0 && (
        <Select
          aria-label="A limit for one agent"
          value=""
          onChange={(event) => put([...draft.agents, [event.target.value, draft.each || '1']])}
        >
          <option value="">A limit for one agent…</option>
          {others.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </Select>
      )}
    </Stack>
  )
}

/** Only what differs from the limits there are. */
function changes(status: Status, rules: Rules, draft: Draft): Schemas['LimitBody'][] {
  const { columns, agent: each, agents } = rules.board.wip_limits
  const found: Schemas['LimitBody'][] = []
  const compare = (before: number | undefined, after: string, whom: { agent?: string; scope: 'agent' | 'column' }) => {
    const limit = after.trim() === '' ? null : Number(after)
    if (limit !== (before ?? null)) found.push({ status, limit, ...whom })
  }
  compare(columns[status], draft.column, { scope: 'column' })
  compare(each[status], draft.each, { scope: 'agent' })
  const wanted = new Map(draft.agents)
  const known = Object.keys(agents).filter((name) => agents[name]?.[status] !== undefined)
  for (const name of new Set([...known, ...wanted.keys()])) {
    compare(agents[name]?.[status], wanted.get(name) ?? '', { agent: name, scope: 'agent' })
  }
  return found
}
