/** What of a board is shown, as its address says it. */

import { isPriority, isStatus, type Priority, STATUSES, type Status } from './words'

export const LANES = ['agent', 'priority', 'label'] as const
export type LaneKind = (typeof LANES)[number]

export type Filters = {
  q?: string
  agent?: string[]
  priority?: Priority[]
  label?: string[]
  capability?: string[]
  only?: Only[]
}

export const TABS = ['comments', 'dependencies', 'attachments', 'history'] as const
export type Tab = (typeof TABS)[number]

/** `tab` is what of the task is open. */
export type BoardSearch = Filters & { task?: string; tab?: Tab; lanes?: LaneKind; column?: Status }

export const ONLY = ['blocked', 'waiting', 'claimed', 'review'] as const
export type Only = (typeof ONLY)[number]
export const ONLY_NAMES: Record<Only, string> = {
  blocked: 'Blocked',
  waiting: 'Waiting for other tasks',
  claimed: 'Claimed or in progress',
  review: 'Mine to review',
}

/** An agent's filter that means: nobody has it. No agent can be called so. */
export const NOBODY = '-'

const LONGEST = 200

function text(given: unknown): string | undefined {
  const said = typeof given === 'number' || typeof given === 'boolean' ? String(given) : given
  return typeof said === 'string' && said !== '' ? said.slice(0, LONGEST) : undefined
}

function several(given: unknown): string[] | undefined {
  const found = (Array.isArray(given) ? given : [given]).map(text).filter((said) => said !== undefined)
  return found.length > 0 ? [...new Set(found)].slice(0, 50) : undefined
}

function some<T extends string>(given: unknown, fits: (said: string) => said is T): T[] | undefined {
  const found = several(given)?.filter(fits)
  return found !== undefined && found.length > 0 ? found : undefined
}

const isOnly = (given: string): given is Only => ONLY.some((name) => name === given)
const isTab = (given: string): given is Tab => TABS.some((name) => name === given)
const isLane = (given: string): given is LaneKind => LANES.some((name) => name === given)

/** An address is anybody's: whatever in it means nothing is left out. */
export function boardSearch(given: Record<string, unknown>): BoardSearch {
  const lanes = text(given.lanes)
  const column = text(given.column)
  const task = text(given.task)
  const tab = text(given.tab)
  return clean({
    task,
    tab: task !== undefined && tab !== undefined && isTab(tab) ? tab : undefined,
    q: text(given.q),
    agent: several(given.agent),
    priority: some(given.priority, isPriority),
    label: several(given.label),
    capability: several(given.capability),
    only: some(given.only, isOnly),
    lanes: lanes !== undefined && isLane(lanes) ? lanes : undefined,
    column: column !== undefined && isStatus(column) ? column : undefined,
  })
}

function clean(found: { [name in keyof BoardSearch]: BoardSearch[name] | undefined }): BoardSearch {
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined))
}

export function isFiltered({ q, agent, priority, label, capability, only }: Filters): boolean {
  return [q, agent, priority, label, capability, only].some((filter) => filter !== undefined)
}

export const NO_FILTERS = {
  q: undefined,
  agent: undefined,
  priority: undefined,
  label: undefined,
  capability: undefined,
  only: undefined,
}

export function nextColumn(from: Status, by: number): Status {
  const place = Math.min(Math.max(STATUSES.indexOf(from) + by, 0), STATUSES.length - 1)
  return STATUSES[place]!
}
