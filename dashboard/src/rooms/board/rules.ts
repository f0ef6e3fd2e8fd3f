/**
 * The server's rules of moving and assigning, said before anything is dropped. The server decides; what it refuses
 * beyond this is taken back with its own sentence. The state machine itself comes from the server (`board.moves`).
 */

import type { Agent, Card } from '@/api/client'
import type { Board, Status } from './cards'
import { counted, isStatus, listed, quoted, STATUS_NAMES } from './words'

export type Rules = {
  board: Board
  cards: ReadonlyMap<string, Card>
  agents: ReadonlyMap<string, Agent>
  me: string
}

/** Claimed, and not yet begun. */
export function isHeld(card: Card): boolean {
  return card.status === 'ready' && card.claimed_by !== null
}

export function holderOf(card: Card): string | null {
  return card.claimed_by ?? card.assigned_to
}

/** The column whose WIP limits a card counts for: what is claimed counts as in progress. */
function countsIn(card: Card): string {
  return isHeld(card) ? 'in_progress' : card.status
}

/** How many tasks count for a column's limit, of one agent or of all. */
export function countedIn(cards: Iterable<Card>, status: Status, agent: string | null, besides?: string): number {
  let count = 0
  for (const card of cards) {
    if (card.id === besides || countsIn(card) !== status) continue
    if (agent === null || card.assigned_to === agent) count++
  }
  return count
}

/** Why a person may not move the card there now; null when they may. */
export function refusal(rules: Rules, card: Card, to: Status): string | null {
  const possible = rules.board.moves[isHeld(card) ? 'held' : card.status] ?? []
  if (!possible.includes(to)) return wrongWay(card, possible)
  const begins = to === 'in_progress' || (to === 'in_review' && isHeld(card))
  return (
    (begins ? waits(rules, card) : null) ??
    (begins ? lacks(rules, card, holderOf(card)) : null) ??
    (to === 'done' ? unreviewed(rules, card) : null) ??
    full(rules, to, holderOf(card), card.id)
  )
}

function wrongWay(card: Card, possible: string[]): string {
  const names = possible.filter(isStatus).map((status) => STATUS_NAMES[status])
  const from = isStatus(card.status) ? STATUS_NAMES[card.status] : card.status
  return `From ${from} a task goes to ${listed(names, 'or')}.`
}

function waits(rules: Rules, card: Card): string | null {
  const [first, ...more] = card.waiting_for
  if (first === undefined) return null
  const title = rules.cards.get(first)?.title
  const named = title === undefined ? 'another task' : quoted(title)
  return `It waits for ${named}${more.length > 0 ? ` and ${counted(more.length, 'more', 'more')}` : ''}.`
}

function lacks(rules: Rules, card: Card, name: string | null): string | null {
  if (name === null || card.required_capabilities.length === 0) return null
  const has = new Set(rules.agents.get(name)?.capabilities ?? [])
  const missing = card.required_capabilities.filter((tag) => !has.has(tag))
  return missing.length === 0 ? null : `${name} lacks ${listed(missing, 'and')}.`
}

/** Whether moving it to done signs the review in one's own name. */
export function signsByMoving(rules: Rules, card: Card): boolean {
  return !card.reviewers.includes(rules.me) && card.assigned_to !== rules.me
}

/** The signatures that count: not those of who works on it. */
export function signatures(card: Card): string[] {
  return card.reviewers.filter((name) => name !== card.assigned_to && name !== card.claimed_by)
}

function unreviewed(rules: Rules, card: Card): string | null {
  const signs = signsByMoving(rules, card)
  const missing = card.required_reviewers - signatures(card).length - (signs ? 1 : 0)
  if (missing <= 0) return null
  return `${counted(missing, 'more review')} ${missing === 1 ? 'is' : 'are'} missing${signs ? ', besides yours' : ''}.`
}

function full(rules: Rules, to: Status, agent: string | null, besides: string): string | null {
  const { agent: each, agents, columns } = rules.board.wip_limits
  const mine = agent === null ? undefined : (agents[agent]?.[to] ?? each[to])
  const column = columns[to]
  if (agent !== null && mine !== undefined) {
    const count = countedIn(rules.cards.values(), to, agent, besides)
    if (count >= mine) return `${agent} is at the limit: ${count} of ${mine} ${STATUS_NAMES[to].toLowerCase()}.`
  }
  if (column !== undefined) {
    const count = countedIn(rules.cards.values(), to, null, besides)
    if (count >= column) return `The column is full: ${count} of ${column}.`
  }
  return null
}

/** Why the card may not be assigned to this agent now; null when it may. */
export function assignRefusal(rules: Rules, card: Card, agent: string): string | null {
  if (card.status === 'done') return 'It is done: move it to the backlog first.'
  const { visibility, members } = rules.board.project
  if (visibility === 'members' && !members.includes(agent)) return `${agent} is no member of this project.`
  return (
    lacks(rules, card, agent) ??
    full(rules, 'in_progress', agent, card.id) ??
    (card.status === 'ready' ? null : full(rules, 'ready', agent, card.id))
  )
}

export type Verdict = { may: Card[]; refused: { card: Card; why: string }[] }

/** What would become of moving these, one after the other. */
export function verdict(rules: Rules, cards: Card[], to: Status): Verdict {
  const after = new Map(rules.cards)
  const found: Verdict = { may: [], refused: [] }
  for (const card of cards) {
    const why = refusal({ ...rules, cards: after }, card, to)
    if (why !== null) found.refused.push({ card, why })
    else {
      found.may.push(card)
      after.set(card.id, { ...card, ...moved(card, to, rules.me) })
    }
  }
  return found
}

function released(card: Card): Partial<Card> {
  return { claimed_by: null, assigned_to: card.claimed_by === card.assigned_to ? null : card.assigned_to }
}

/** What moving changes in a card, as the server is about to. */
export function moved(card: Card, to: Status, me: string, reason: string | null = null): Partial<Card> {
  const now = new Date().toISOString()
  const changed: Partial<Card> = { status: to, updated_at: now, blocked_reason: to === 'blocked' ? reason : null }
  switch (to) {
    case 'in_progress':
      return {
        ...changed,
        started_at: card.started_at ?? now,
        ...(card.status === 'in_review' ? { reviewers: [] } : {}),
      }
    case 'in_review':
      return { ...changed, started_at: card.started_at ?? now }
    case 'done': {
      const signs = !card.reviewers.includes(me) && card.assigned_to !== me
      return {
        ...changed,
        completed_at: now,
        claimed_by: null,
        reviewers: signs ? [...card.reviewers, me] : card.reviewers,
      }
    }
    case 'backlog':
      return { ...changed, ...released(card), started_at: null, completed_at: null, reviewers: [] }
    case 'ready':
      return card.status === 'blocked' ? changed : { ...changed, ...released(card) }
    default:
      return changed
  }
}
