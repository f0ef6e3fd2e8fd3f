/** Which cards pass the filters. */

import type { Card } from '@/api/client'
import { holderOf, signatures } from './rules'
import { type Filters, NOBODY, type Only } from './search'

const ONLY_RULES: Record<Only, (card: Card, me: string) => boolean> = {
  blocked: (card) => card.status === 'blocked',
  waiting: (card) => card.waiting_for.length > 0,
  claimed: (card) => card.claimed_by !== null || card.status === 'in_progress',
  review: (card, me) =>
    card.status === 'in_review' &&
    holderOf(card) !== me &&
    !card.reviewers.includes(me) &&
    signatures(card).length < card.required_reviewers,
}

/** Whether a card passes every filter; `described`: the tasks whose description has the text. */
export function passing(filters: Filters, me: string, described: ReadonlySet<string>): (card: Card) => boolean {
  const sought = filters.q?.trim().toLowerCase().split(/\s+/) ?? []
  const { agent, priority, label, capability, only } = filters
  return (card) =>
    (agent === undefined || agent.includes(holderOf(card) ?? NOBODY)) &&
    (priority === undefined || priority.some((one) => one === card.priority)) &&
    (label === undefined || label.some((one) => card.labels.includes(one))) &&
    (capability === undefined || capability.some((one) => card.required_capabilities.includes(one))) &&
    (only === undefined || only.every((one) => ONLY_RULES[one](card, me))) &&
    (sought.length === 0 || described.has(card.id) || mentions(card, sought))
}

function mentions(card: Card, sought: string[]): boolean {
  const said = [card.id, card.title, holderOf(card) ?? '', ...card.labels, ...card.required_capabilities]
  const all = said.join('\n').toLowerCase()
  return sought.every((word) => all.includes(word))
}
