/** Which agents are asked for; it lives in the address. */

import type { Agent } from '@/api/client'
import { PRESENCES, type Presence } from './presence'

export type CrewSearch = { status?: Presence; type?: string; capability?: string; q?: string }

const text = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined

export function crewSearch(given: Record<string, unknown>): CrewSearch {
  const status = PRESENCES.find((presence) => presence === given.status)
  const [type, capability, q] = [text(given.type), text(given.capability), text(given.q)]
  return {
    ...(status ? { status } : {}),
    ...(type ? { type } : {}),
    ...(capability ? { capability } : {}),
    ...(q ? { q } : {}),
  }
}

export function matching(agents: Agent[], { status, type, capability, q }: CrewSearch): Agent[] {
  const tag = capability?.toLowerCase()
  const words = (q ?? '').toLowerCase().split(/\s+/).filter(Boolean)
  return agents.filter(
    (agent) =>
      (status === undefined || agent.status === status) &&
      (type === undefined || agent.type === type) &&
      (tag === undefined || agent.capabilities.some((one) => one.trim().toLowerCase() === tag)) &&
      words.every((word) => said(agent).includes(word)),
  )
}

function said(agent: Agent): string {
  return [agent.name, agent.type, agent.description, ...agent.capabilities].join(' ').toLowerCase()
}

/** Every type there is, and every capability, in lower case, each once. */
export function choices(agents: Agent[]): { types: string[]; capabilities: string[] } {
  const types = new Set(agents.map(({ type }) => type))
  const tags = new Set(agents.flatMap(({ capabilities }) => capabilities.map((tag) => tag.trim().toLowerCase())))
  return { types: [...types].sort(), capabilities: [...tags].sort() }
}
