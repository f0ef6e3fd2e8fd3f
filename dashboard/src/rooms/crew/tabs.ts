/** The parts of an agent's page; the one that is open is in the address. */

export const TABS = ['tasks', 'checkpoints', 'revocations', 'proposals', 'events'] as const
export type Tab = (typeof TABS)[number]
export type AgentSearch = { tab?: Tab }

export function agentSearch(given: Record<string, unknown>): AgentSearch {
  const tab = TABS.find((one) => one === given.tab)
  return tab === undefined ? {} : { tab }
}
