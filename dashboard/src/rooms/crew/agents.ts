/**
 * The agents, current to the last event. Heartbeats make no event, so the list is asked for anew while it is looked at.
 * What one decides oneself shows at once, and is taken back, with the reason, when it is refused.
 */

import { useMutation, useMutationState, useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo } from 'react'
import { type Agent, all, api, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import type { LiveEvent } from '@/live/stream'

export type Mode = Agent['autonomy_mode']
export const MODES: readonly Mode[] = ['fully_autonomous', 'advisory', 'manual']
export const MODE_NAMES: Record<Mode, string> = {
  fully_autonomous: 'Autonomous',
  advisory: 'Advisory',
  manual: 'Manual',
}
export const MODE_MEANINGS: Record<Mode, string> = {
  fully_autonomous: 'Claims, moves and writes tasks by itself.',
  advisory: 'What it wants to do waits for a person to approve it.',
  manual: 'Works on what people assign to it, and claims nothing.',
}

export const crewKey = ['crew']
const changeKey = ['crew-change']
const SIGNS = 10_000 // milliseconds between looks at who was heard of
const WORK = new Set(['task_claimed', 'task_released', 'task_transition', 'task_unassigned', 'task_deleted'])

/** Whether an event may have changed what an agent's row shows. */
export function concernsAgents({ kind }: LiveEvent): boolean {
  return kind.startsWith('agent_') || kind.startsWith('global_') || kind === 'checkpoint_submitted' || WORK.has(kind)
}

export function useAgents() {
  useRefresh(crewKey, concernsAgents, 300)
  const query = useQuery({
    queryKey: crewKey,
    queryFn: () =>
      all<Agent>((cursor) => take(api.GET('/api/v1/crew', { params: { query: { limit: 1000, cursor } } }))),
    refetchInterval: SIGNS,
  })
  return { ...query, data: useShown(query.data) }
}

export const agentKey = (name: string) => ['crew-agent', name]

export function useAgent(name: string, every = SIGNS) {
  useRefresh(agentKey(name), (event) => concernsAgents(event) && isAbout(event, name), 200)
  const query = useQuery({
    queryKey: agentKey(name),
    queryFn: () => take(api.GET('/api/v1/crew/{name}', { params: { path: { name } } })),
    refetchInterval: every,
  })
  const data = query.data
  const shown = useShown(useMemo(() => (data === undefined ? undefined : [data]), [data]))
  return { ...query, data: data === undefined ? undefined : { ...data, ...shown?.[0] } }
}

export function isAbout({ kind, data }: LiveEvent, name: string): boolean {
  return data.name === name || data.agent === name || data.actor === `agent:${name}` || kind.startsWith('global_')
}

export const policyKey = ['crew-policy']

/** How far agents to come may go. */
export function usePolicy(enabled = true) {
  useRefresh(policyKey, ({ kind }) => kind === 'global_autonomy_changed')
  return useQuery({ queryKey: policyKey, queryFn: () => take(api.GET('/api/v1/crew/autonomy')), enabled })
}

// Deciding -----------------------------------------------------------------------------------------------------------

type Change = { names: string[]; shown: Partial<Agent>; send: (name: string) => Promise<unknown> }

/** Decides about agents one by one: `shown` at once, until the server's own answer is there. */
export function useAgentChange() {
  const queries = useQueryClient()
  return useMutation({
    mutationKey: changeKey,
    mutationFn: async ({ names, send }: Change) => {
      const answers = await Promise.allSettled(names.map(send))
      await refreshed(queries)
      const refused = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as Error] : []))
      if (refused.length > 0) throw new Error(sentence(refused, names.length))
    },
  })
}

function sentence(refused: Error[], asked: number): string {
  const first = refused[0]!.message
  return asked === 1 ? first : `${refused.length} of ${asked} were refused: ${first}`
}

export async function refreshed(queries: ReturnType<typeof useQueryClient>): Promise<void> {
  await Promise.all([crewKey, ['crew-agent'], policyKey].map((queryKey) => queries.invalidateQueries({ queryKey })))
}

/** The agents as they are about to be. */
function useShown<A extends Agent>(agents: A[] | undefined): A[] | undefined {
  const pending = useMutationState({
    filters: { mutationKey: changeKey, status: 'pending' },
    select: (mutation) => mutation.state.variables as Change,
  })
  return useMemo(() => {
    if (agents === undefined || pending.length === 0) return agents
    return agents.map((agent) => {
      let shown = agent
      for (const change of pending) if (change.names.includes(agent.name)) shown = { ...shown, ...change.shown }
      return shown
    })
  }, [agents, pending])
}

const path = (name: string) => ({ params: { path: { name } } })

/** A mode that a person sets is the ceiling too, unless they give another. */
export function modeChange(names: string[], mode: Mode, ceiling: Mode = mode): Change {
  return {
    names,
    shown: { autonomy_mode: mode, autonomy_ceiling: ceiling },
    send: (name) => take(api.POST('/api/v1/crew/{name}/autonomy', { ...path(name), body: { mode, ceiling } })),
  }
}

export function pausing(names: string[], reason: string, freeze: boolean): Change {
  return {
    names,
    shown: {},
    send: (name) => take(api.POST('/api/v1/crew/{name}/pause', { ...path(name), body: { reason, freeze } })),
  }
}

export function resuming(names: string[]): Change {
  return {
    names,
    shown: { paused_at: null, pause_reason: '', frozen: false },
    send: (name) => take(api.POST('/api/v1/crew/{name}/resume', path(name))),
  }
}

export function revoking(names: string[], reason: string, flush: boolean): Change {
  return {
    names,
    shown: {},
    send: (name) =>
      take(api.POST('/api/v1/crew/{name}/revoke', { ...path(name), body: { reason, flush_required: flush } })),
  }
}

export function unregistering(names: string[]): Change {
  return { names, shown: {}, send: (name) => take(api.DELETE('/api/v1/crew/{name}', path(name))) }
}
