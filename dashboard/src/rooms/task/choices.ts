/** What the fields of a task offer: agents and people, labels and capabilities in use, other tasks. */

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { type Agent, all, api, type Card, type Schemas, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import type { Choice } from '@/ui/Combobox'
import { statusColor, statusWord, useOthers } from './task'

const agentsKey = ['choices', 'agents']
const capabilitiesKey = ['choices', 'capabilities']

export function useAgents(): Agent[] {
  useRefresh(agentsKey, ({ kind }) => kind === 'agent_registered' || kind === 'agent_unregistered', 2000)
  const { data } = useQuery({
    queryKey: agentsKey,
    queryFn: () =>
      all<Agent>((cursor) => take(api.GET('/api/v1/crew', { params: { query: { limit: 1000, cursor } } }))),
  })
  return data ?? []
}

function usePeople(): string[] {
  const { data } = useQuery({
    queryKey: ['choices', 'people'],
    queryFn: async () => (await take(api.GET('/api/v1/people'))).items,
  })
  return useMemo(() => (data ?? []).filter(({ disabled }) => !disabled).map(({ name }) => name), [data])
}

/** Agents, then people. An agent that lacks one of the `required` capabilities says so. */
export function useNameChoices(required: readonly string[] = []): Choice[] {
  const agents = useAgents()
  const people = usePeople()
  return useMemo(() => {
    const known = new Set(agents.map(({ name }) => name))
    return [
      ...agents.map(({ name, capabilities, status }) => {
        const lacks = required.filter((tag) => !capabilities.includes(tag))
        return { value: name, label: name, about: lacks.length > 0 ? `lacks ${lacks.join(', ')}` : status }
      }),
      ...people.filter((name) => !known.has(name)).map((name) => ({ value: name, label: name, about: 'person' })),
    ]
  }, [agents, people, required])
}

export function useLabelChoices(project: string): Choice[] {
  const { cards } = useOthers(project)
  return useMemo(() => counted(cards.flatMap(({ labels }) => labels)), [cards])
}

/** How many agents have it stands beside each capability. */
export function useCapabilityChoices(project: string): Choice[] {
  useRefresh(capabilitiesKey, ({ kind }) => kind === 'agent_capabilities_changed' || kind === 'agent_registered', 2000)
  const { cards } = useOthers(project)
  const { data } = useQuery({
    queryKey: capabilitiesKey,
    queryFn: () =>
      all<Schemas['Profile']>((cursor) =>
        take(api.GET('/api/v1/capabilities', { params: { query: { limit: 1000, cursor } } })),
      ),
  })
  return useMemo(() => {
    const had = counted(
      (data ?? []).flatMap(({ tags }) => tags),
      (count) => agents(count),
    )
    const known = new Set(had.map(({ value }) => value))
    const asked = new Set(cards.flatMap((card) => card.required_capabilities))
    const lacking = [...asked].filter((tag) => !known.has(tag))
    return [...had, ...lacking.map((tag) => ({ value: tag, label: tag, about: 'no agent' }))]
  }, [data, cards])
}

function agents(count: number): string {
  return count === 1 ? '1 agent' : `${count} agents`
}

function counted(values: string[], about: (count: number) => string = String): Choice[] {
  const counts = new Map<string, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts]
    .sort(([one, many], [other, more]) => more - many || one.localeCompare(other))
    .map(([value, count]) => ({ value, label: value, about: about(count) }))
}

/** Other tasks of the project, without those in `except`. */
export function useTaskChoices(project: string, ...except: (string | null | undefined)[]): Choice[] {
  const { cards } = useOthers(project)
  const without = except.join(' ')
  return useMemo(() => {
    const hidden = new Set(without.split(' '))
    return cards.filter(({ id }) => !hidden.has(id)).map(taskChoice)
  }, [cards, without])
}

export function taskChoice({ id, title, status }: Pick<Card, 'id' | 'title' | 'status'>): Choice {
  return { value: id, label: title.slice(0, 300), about: statusWord(status), dot: statusColor(status) }
}
