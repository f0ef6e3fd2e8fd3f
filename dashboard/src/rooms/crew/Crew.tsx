/** Everybody who works here: filtered by the address, steered one by one, in bulk, or all at once. */

import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { Bot, ChevronDown, Plus, SearchX } from 'lucide-react'
import { type RefObject, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Agent } from '@/api/client'
import { useCommands } from '@/shell/commands'
import { useMay } from '@/shell/session'
import { Button, Input, Select } from '@/ui/Controls'
import { Menu, MenuItem } from '@/ui/Overlays'
import { Page } from '@/ui/Page'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import { AgentRow, type RowActions } from './AgentRow'
import { MODE_NAMES, resuming, useAgentChange, useAgents, usePolicy } from './agents'
import css from './crew.module.css'
import { type CrewSearch, choices, matching } from './filter'
import { useMessageCounts } from './mail'
import { PresenceMark } from './PresenceMark'
import { LOOKS, PRESENCES } from './presence'
import { RegisterAgent } from './RegisterAgent'
import { type Act, many, type Steering, SteeringDialog } from './Steering'

const route = getRouteApi('/crew/')

export function Crew() {
  const { data: agents, error, refetch } = useAgents()
  const [steering, setSteering] = useState<Steering>()
  const [registering, setRegistering] = useState(false)
  const may = useMay('operator')
  const { types } = useMemo(() => choices(agents ?? []), [agents])
  const steer = useCallback((act: Act, names: string[]) => setSteering({ act, names }), [])
  useCommands(
    may
      ? [
          { id: 'register', label: 'Register an agent', group: 'Crew', keys: 'n', run: () => setRegistering(true) },
          { id: 'mode-all', label: 'Set the mode of all agents', group: 'Crew', run: () => steer('mode-all', []) },
          { id: 'pause-all', label: 'Pause all agents', group: 'Crew', run: () => steer('pause-all', []) },
          { id: 'resume-all', label: 'Resume all agents', group: 'Crew', run: () => steer('resume-all', []) },
        ]
      : [],
  )
  return (
    <Page
      title="Crew"
      wide
      about={<Defaults />}
      actions={may && <Steerings steer={steer} register={() => setRegistering(true)} />}
    >
      {agents === undefined ? (
        error === null ? (
          <Loading rows={8} height="2.75rem" />
        ) : (
          <Failure error={error} retry={() => void refetch()} />
        )
      ) : agents.length === 0 ? (
        <Nobody register={may ? () => setRegistering(true) : undefined} />
      ) : (
        <Roster agents={agents} may={may} steer={steer} />
      )}
      {steering !== undefined && <SteeringDialog {...steering} types={types} onClose={() => setSteering(undefined)} />}
      {registering && <RegisterAgent onClose={() => setRegistering(false)} />}
    </Page>
  )
}

/** How far agents to come may go. */
function Defaults() {
  const { data: policy } = usePolicy()
  if (policy === undefined) return null
  return (
    <>
      New agents are {MODE_NAMES[policy.mode].toLowerCase()}
      {policy.types.map(({ agent_type, mode }) => (
        <span key={agent_type}>
          , those of the type <bdi>{agent_type}</bdi> {MODE_NAMES[mode].toLowerCase()}
        </span>
      ))}
      .
    </>
  )
}

function Steerings({ steer, register }: { steer: RowActions['steer']; register: () => void }) {
  return (
    <>
      <Menu
        trigger={
          <Button>
            All agents <ChevronDown size={14} aria-hidden="true" />
          </Button>
        }
      >
        <MenuItem onSelect={() => steer('mode-all', [])}>Set mode…</MenuItem>
        <MenuItem onSelect={() => steer('pause-all', [])}>Pause…</MenuItem>
        <MenuItem onSelect={() => steer('resume-all', [])}>Resume…</MenuItem>
      </Menu>
      <Button look="primary" onClick={register}>
        <Plus size={16} aria-hidden="true" /> Register agent
      </Button>
    </>
  )
}

function Nobody({ register }: { register: (() => void) | undefined }) {
  return (
    <Empty icon={Bot} title="No agent works here yet">
      <p>An agent registers with a token that you make for it. Then it claims tasks from the board.</p>
      {register !== undefined && (
        <Button look="primary" onClick={register}>
          Register the first agent
        </Button>
      )}
    </Empty>
  )
}

function Roster({ agents, may, steer }: { agents: Agent[]; may: boolean; steer: RowActions['steer'] }) {
  const search = route.useSearch()
  const shown = useMemo(() => matching(agents, search), [agents, search])
  const [selected, setSelected] = useSelection(agents)
  const change = useAgentChange()
  const say = useToast()
  const resume = useCallback(
    (names: string[]) =>
      change.mutate(resuming(names), { onSuccess: () => say.done(`${many(names)} resumed.`), onError: say.refused }),
    [change.mutate, say],
  )
  return (
    <>
      <Filters agents={agents} />
      {shown.length === 0 ? (
        <NoneSuch />
      ) : (
        <List agents={shown} may={may} selected={selected} onSelect={setSelected} steer={steer} resume={resume} />
      )}
      {may && selected.size > 0 && (
        <section className={css.bulk} aria-label="Selected agents">
          <strong aria-live="polite">{selected.size} selected</strong>
          <Button small onClick={() => steer('mode', [...selected])}>
            Set mode…
          </Button>
          <Button small onClick={() => steer('pause', [...selected])}>
            Pause…
          </Button>
          <Button small onClick={() => resume([...selected])}>
            Resume
          </Button>
          <Button small onClick={() => steer('revoke', [...selected])}>
            Revoke…
          </Button>
          <Button small onClick={() => steer('unregister', [...selected])}>
            Unregister…
          </Button>
          <Button small look="quiet" onClick={() => setSelected(new Set())}>
            Clear
          </Button>
        </section>
      )}
    </>
  )
}

/** Who is selected; who is gone is selected no longer. */
function useSelection(agents: Agent[]): [ReadonlySet<string>, (names: ReadonlySet<string>) => void] {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const selected = useMemo(
    () => new Set(agents.flatMap(({ name }) => (chosen.has(name) ? [name] : []))),
    [agents, chosen],
  )
  return [selected, setChosen]
}

function NoneSuch() {
  const navigate = useNavigate()
  return (
    <Empty icon={SearchX} title="No agent is like that">
      <Button onClick={() => void navigate({ to: '/crew', search: {} })}>Show all</Button>
    </Empty>
  )
}

function Filters({ agents }: { agents: Agent[] }) {
  const search = route.useSearch()
  const navigate = useNavigate()
  const field = useRef<HTMLInputElement>(null)
  const { types, capabilities } = useMemo(() => choices(agents), [agents])
  const counts = Map.groupBy(agents, ({ status }) => status)
  const set = (change: CrewSearch, replace = false) =>
    void navigate({ from: '/crew/', to: '/crew', search: (before) => ({ ...before, ...change }), replace })
  useCommands([{ id: 'find', label: 'Find an agent', group: 'Crew', keys: '/', run: () => field.current?.focus() }])
  return (
    <div className={css.filters}>
      <fieldset className={css.counts} aria-label="Presence">
        <Button
          small
          look="quiet"
          aria-pressed={search.status === undefined}
          onClick={() => set({ status: undefined })}
        >
          All <small>{agents.length}</small>
        </Button>
        {PRESENCES.map((presence) => {
          const count = counts.get(presence)?.length ?? 0
          if (count === 0 && search.status !== presence) return null
          const chosen = search.status === presence
          return (
            <Button
              key={presence}
              small
              look="quiet"
              aria-pressed={chosen}
              onClick={() => set({ status: chosen ? undefined : presence })}
            >
              <PresenceMark status={presence} size={12} /> {LOOKS[presence].word} <small>{count}</small>
            </Button>
          )
        })}
      </fieldset>
      <div className={css.facets}>
        <Facet label="Type" all="All types" options={types} value={search.type} onChange={(type) => set({ type })} />
        <Facet
          label="Capability"
          all="All capabilities"
          options={capabilities}
          value={search.capability}
          onChange={(capability) => set({ capability })}
        />
        <Input
          ref={field}
          type="search"
          aria-label="Find an agent"
          placeholder="Name, type, capability…"
          value={search.q ?? ''}
          onChange={(event) => set({ q: event.target.value || undefined }, true)}
          onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
        />
      </div>
    </div>
  )
}

type FacetProps = {
  label: string
  all: string
  options: string[]
  value: string | undefined
  onChange: (value: string | undefined) => void
}

function Facet({ label, all, options, value, onChange }: FacetProps) {
  if (options.length === 0 && value === undefined) return null
  const known = value === undefined || options.includes(value) ? options : [value, ...options]
  return (
    <Select aria-label={label} value={value ?? ''} onChange={(event) => onChange(event.target.value || undefined)}>
      <option value="">{all}</option>
      {known.map((option) => (
        <option key={option} value={option}>
          {option}
        </option>
      ))}
    </Select>
  )
}

type ListProps = {
  agents: Agent[]
  may: boolean
  selected: ReadonlySet<string>
  onSelect: (names: ReadonlySet<string>) => void
  steer: RowActions['steer']
  resume: RowActions['resume']
}

const HEADS = ['Agent', 'Presence', 'Mode', 'Current task', 'Checkpoint', 'Messages', 'Last seen']

function List({ agents, may, selected, onSelect, steer, resume }: ListProps) {
  const counts = useMessageCounts()
  const list = useRef<HTMLTableSectionElement>(null)
  const rows = useWindowVirtualizer({
    count: agents.length,
    estimateSize: () => 51,
    overscan: 6,
    scrollMargin: list.current?.offsetTop ?? 0,
    getItemKey: (index) => agents[index]?.name ?? index,
  })
  const select = useRowSelection(agents, selected, onSelect)
  const [current, setCurrent, move] = useCursor(agents, list, rows.scrollToIndex)
  const keyed = selected.size > 0 ? [...selected] : current === undefined ? [] : [current]
  useCommands([
    { id: 'next', label: 'Next agent', group: 'Crew', keys: 'j', run: () => move(1) },
    { id: 'previous', label: 'Previous agent', group: 'Crew', keys: 'k', run: () => move(-1) },
    ...(may && keyed.length > 0
      ? [
          {
            id: 'select',
            label: 'Select the agent',
            group: 'Crew',
            keys: 'x',
            run: () => current !== undefined && select(current, !selected.has(current), false),
          },
          { id: 'mode', label: 'Set mode', group: 'Crew', keys: 'm', run: () => steer('mode', keyed) },
          { id: 'pause', label: 'Pause', group: 'Crew', keys: 'p', run: () => steer('pause', keyed) },
          { id: 'resume', label: 'Resume', group: 'Crew', keys: 'r', run: () => resume(keyed) },
          { id: 'revoke', label: 'Revoke', group: 'Crew', keys: 'Shift+R', run: () => steer('revoke', keyed) },
        ]
      : []),
  ])
  const actions = useMemo(() => ({ select, steer, resume }), [select, steer, resume])
  const all = selected.size > 0 && agents.every(({ name }) => selected.has(name))
  return (
    <table className={css.table} aria-label="Agents" aria-rowcount={agents.length + 1} data-may={may}>
      <thead className={css.head}>
        <tr aria-rowindex={1} className={css.row}>
          {may && (
            <th scope="col" className={css.select}>
              <input
                type="checkbox"
                aria-label="Select all that are shown"
                checked={all}
                onChange={() => onSelect(all ? new Set() : new Set(agents.map(({ name }) => name)))}
              />
            </th>
          )}
          {HEADS.map((head) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
          {may && (
            <th scope="col">
              <span className="sr-only">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody ref={list} className={css.rows} style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, key, start }) => {
          const agent = agents[index]
          if (agent === undefined) return null
          return (
            <tr
              key={key}
              ref={rows.measureElement}
              aria-rowindex={index + 2}
              data-selected={selected.has(agent.name) || undefined}
              className={css.row}
              data-index={index}
              data-current={current === agent.name || undefined}
              style={{ transform: `translateY(${start - rows.options.scrollMargin}px)` }}
              onFocus={() => setCurrent(agent.name)}
            >
              <AgentRow
                agent={agent}
                messages={counts.get(agent.name) ?? 0}
                selected={selected.has(agent.name)}
                may={may}
                actions={actions}
              />
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

/** With Shift held, everything between the last choice and this one. */
function useRowSelection(
  agents: Agent[],
  selected: ReadonlySet<string>,
  onSelect: ListProps['onSelect'],
): RowActions['select'] {
  const last = useRef<string>(undefined)
  const latest = useRef({ agents, selected, onSelect })
  latest.current = { agents, selected, onSelect }
  return useCallback((name, on, range) => {
    const { agents, selected, onSelect } = latest.current
    const names = agents.map((agent) => agent.name)
    const [from, to] = [names.indexOf(last.current ?? name), names.indexOf(name)].sort((one, other) => one - other)
    const chosen = range && from !== undefined && from >= 0 ? names.slice(from, to! + 1) : [name]
    const next = new Set(selected)
    for (const one of chosen) on ? next.add(one) : next.delete(one)
    last.current = name
    onSelect(next)
  }, [])
}

type Cursor = [string | undefined, (name: string) => void, (by: number) => void]

/** The agent that keys act on: its name has the focus. */
function useCursor(agents: Agent[], list: RefObject<HTMLElement | null>, scrollTo: (index: number) => void): Cursor {
  const [current, setCurrent] = useState<string>()
  const wanted = useRef<string>(undefined)
  const focus = useCallback(() => {
    const link = list.current?.querySelector<HTMLElement>(`[data-agent="${CSS.escape(wanted.current ?? '')}"]`)
    if (link === null || link === undefined) return
    wanted.current = undefined
    link.focus({ preventScroll: true })
  }, [list])
  useEffect(() => {
    if (wanted.current !== undefined) focus()
  })
  const move = (by: number) => {
    const at = agents.findIndex(({ name }) => name === current)
    const next = agents[Math.min(Math.max(at < 0 ? 0 : at + by, 0), agents.length - 1)]
    if (next === undefined) return
    wanted.current = next.name
    setCurrent(next.name)
    scrollTo(agents.indexOf(next))
    focus()
  }
  return [current, setCurrent, move]
}
