/** Which events are shown. */

import { useQuery } from '@tanstack/react-query'
import { Ban, X } from 'lucide-react'
import { useMemo } from 'react'
import { type Agent, all, api, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useProjects } from '@/shell/projects'
import { Chips } from '@/ui/Chips'
import type { Choice } from '@/ui/Combobox'
import { Button, Select } from '@/ui/Controls'
import css from './activity.module.css'
import { GROUPS, kindOf } from './kinds'
import { type Filters, NO_FILTERS, useActivitySearch } from './search'

const REFUSALS = 'refused'

export function Toolbar() {
  const [search, setSearch] = useActivitySearch()
  const { kind = [], agent = '', project = '', subject } = search
  const { data: projects = [] } = useProjects()
  const agents = useAgentNames()
  const choices = useKindChoices(kind)
  const refusals = kind.length === 1 && kind[0] === REFUSALS
  return (
    <search className={css.filters} aria-label="Filter events">
      <div className={css.kinds}>
        <Chips
          aria-label="Kinds of events"
          placeholder="All kinds"
          values={kind}
          choices={choices}
          onChange={(next) => setSearch({ kind: next.length > 0 ? next : undefined })}
        />
      </div>
      <Select
        aria-label="Agent"
        value={agent}
        onChange={({ target }) => setSearch({ agent: target.value || undefined })}
      >
        <option value="">All agents</option>
        {[...new Set(agent === '' ? agents : [...agents, agent])].map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </Select>
      <Select
        aria-label="Of project"
        value={project}
        onChange={({ target }) => setSearch({ project: target.value || undefined })}
      >
        <option value="">All projects</option>
        {projects.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
        {project !== '' && projects.every(({ id }) => id !== project) && <option value={project}>{project}</option>}
      </Select>
      <Button aria-pressed={refusals} onClick={() => setSearch({ kind: refusals ? undefined : [REFUSALS] })}>
        <Ban size={15} aria-hidden="true" /> Refusals
      </Button>
      {subject !== undefined && (
        <Button onClick={() => setSearch({ subject: undefined })} aria-label={`No longer only about ${subject}`}>
          About <code className={css.clip}>{subject}</code> <X size={13} aria-hidden="true" />
        </Button>
      )}
      {isNarrowed(search) && (
        <Button look="quiet" onClick={() => setSearch(NO_FILTERS)}>
          Clear
        </Button>
      )}
    </search>
  )
}

export function isNarrowed({ kind, agent, project, subject }: Filters): boolean {
  return [kind, agent, project, subject].some((filter) => filter !== undefined)
}

/** Groups first, then every kind by itself, and those that are chosen though nobody here knows them. */
function useKindChoices(chosen: readonly string[]): Choice[] {
  return useMemo(() => {
    const groups = Object.entries(GROUPS).map(([value, { label, kinds }]) => ({
      value,
      label: `${label}: all`,
      about: `${Object.keys(kinds).length} kinds`,
    }))
    const kinds = Object.values(GROUPS).flatMap((group) =>
      Object.entries(group.kinds).map(([value, { label }]) => ({ value, label, about: group.label })),
    )
    const known = new Set([...groups, ...kinds].map(({ value }) => value))
    const others = chosen.filter((name) => !known.has(name)).map((name) => ({ value: name, label: kindOf(name).label }))
    return [...groups, ...kinds, ...others]
  }, [chosen])
}

function useAgentNames(): string[] {
  const key = ['crew', 'names']
  useRefresh(key, ({ kind }) => kind === 'agent_registered' || kind === 'agent_unregistered', 2000)
  const { data } = useQuery({
    queryKey: key,
    queryFn: () =>
      all<Agent>((cursor) => take(api.GET('/api/v1/crew', { params: { query: { limit: 1000, cursor } } }))),
    select: (agents) => agents.map(({ name }) => name),
  })
  return data ?? []
}
