/**
 * The record as it is shown: the newest events first, older ones page after page, and what happens meanwhile.
 *
 *     the stream says that there is something up to number N ──► catchUp(N) asks for what was not seen yet
 *         somebody follows: it stands above the rest          somebody reads: it waits until they ask for it
 *
 * Which events these are the server decides: filters and who may see what are the same for both ends of the list.
 */

import type { AuditEvent } from '@/api/client'

export type Page = { items: AuditEvent[]; next: string | null }
export type Ask = (query: { newest_first: boolean; cursor?: string; limit: number }) => Promise<Page>

export type FeedState = {
  /** The newest first; nothing before the first answer. */
  events: AuditEvent[] | undefined
  /** What came since, while nobody follows; `flooded`: more than is worth keeping. */
  waiting: AuditEvent[]
  flooded: boolean
  /** Whether there are older ones, and whether they are being asked for. */
  more: boolean
  looking: boolean
  /** How far back it was looked, when little was found on the way. */
  lookedTo: number | undefined
  error: unknown
}

const PAGE = 100
const AT_ONCE = 500 // events that one answer brings while we catch up
export const WAITING = 1000
export const KEPT = 2000 // while one follows; older ones are asked for again
const ENOUGH = 30 // found events that are worth stopping for

const EMPTY: FeedState = {
  events: undefined,
  waiting: [],
  flooded: false,
  more: false,
  looking: false,
  lookedTo: undefined,
  error: null,
}

export class Feed {
  state: FeedState = EMPTY
  following = true
  private reached: number | undefined
  private older: string | null = null
  private round = 0
  private readonly listeners = new Set<() => void>()

  constructor(
    private readonly ask: Ask,
    private readonly kinds: ReadonlySet<string> | null = null,
  ) {}

  watch = (listener: () => void): (() => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  getState = (): FeedState => this.state

  stop(): void {
    this.round++
  }

  /** Ask for the newest, of which everything up to number `seen` is old news. */
  async begin(seen: number | undefined): Promise<void> {
    const round = ++this.round
    this.set({ looking: true, error: null })
    try {
      const found: AuditEvent[] = []
      const older = await this.backwards(undefined, found, round)
      if (round !== this.round) return
      this.reached = Math.max(seen ?? 0, found[0]?.seq ?? 0)
      if (seen === undefined && found.length === 0) this.reached = undefined
      this.older = older
      this.set({ ...EMPTY, events: found, more: older !== null })
    } catch (error) {
      if (round === this.round) this.set({ looking: false, error })
    }
  }

  /** Ask for older ones. */
  async further(): Promise<void> {
    const { events, looking } = this.state
    if (events === undefined || looking || this.older === null) return
    const round = this.round
    this.set({ looking: true, error: null })
    try {
      const found: AuditEvent[] = []
      this.older = await this.backwards(this.older, found, round)
      if (round !== this.round) return
      const after = [...(this.state.events ?? []), ...found]
      this.set({ events: after, more: this.older !== null, looking: false, lookedTo: undefined })
    } catch (error) {
      if (round === this.round) this.set({ looking: false, lookedTo: undefined, error })
    }
  }

  /** There are events up to number `last`, of these kinds if they are known. */
  async catchUp(last: number | undefined, kinds?: ReadonlySet<string>): Promise<void> {
    if (last === undefined || this.state.events === undefined || this.state.flooded) return
    if (this.reached === undefined) return this.begin(last)
    if (last <= this.reached) return
    if (kinds !== undefined && this.kinds !== null && !overlap(kinds, this.kinds)) {
      this.reached = last
      return
    }
    const round = this.round
    const found: AuditEvent[] = []
    let cursor: string | null = String(this.reached)
    while (cursor !== null && found.length <= WAITING) {
      const page: Page = await this.ask({ newest_first: false, cursor, limit: AT_ONCE })
      if (round !== this.round) return
      found.push(...page.items)
      cursor = page.next
    }
    if (found.length > WAITING) return this.flood(last)
    this.reached = Math.max(last, found.at(-1)?.seq ?? 0)
    if (found.length > 0) this.came(found.reverse())
  }

  /** The stream returned after an absence: what is recorded stays as it was, unless it is another record now. */
  async resync(last: number | undefined): Promise<void> {
    const other = last !== undefined && this.reached !== undefined && last < this.reached
    if (other || this.state.error !== null) return this.begin(last)
    return this.catchUp(last)
  }

  /** Show what waited. */
  reveal(): Promise<void> | undefined {
    const { waiting, flooded, events = [] } = this.state
    if (flooded) return this.begin(undefined)
    if (waiting.length > 0) this.set({ events: [...waiting, ...events], waiting: [] })
    return undefined
  }

  private came(newer: AuditEvent[]): void {
    if (this.following) {
      const events = [...newer, ...this.state.waiting, ...(this.state.events ?? [])]
      if (events.length > KEPT) {
        events.length = KEPT
        this.older = String(events[KEPT - 1]!.seq)
      }
      this.set({ events, waiting: [], more: this.older !== null })
      return
    }
    const waiting = [...newer, ...this.state.waiting]
    if (waiting.length > WAITING) this.set({ waiting: [], flooded: true })
    else this.set({ waiting })
  }

  /** Too much came at once to show all of it: those who follow see the newest, others are told. */
  private async flood(last: number): Promise<void> {
    if (this.following) return this.begin(last)
    this.set({ waiting: [], flooded: true })
  }

  private async backwards(from: string | undefined, found: AuditEvent[], round: number): Promise<string | null> {
    let cursor = from
    for (;;) {
      const page = await this.ask({ newest_first: true, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) })
      if (round !== this.round) return null
      found.push(...page.items)
      if (page.next === null || found.length >= ENOUGH) return page.next
      cursor = page.next
      this.set({ lookedTo: Number(cursor) })
    }
  }

  private set(change: Partial<FeedState>): void {
    this.state = { ...this.state, ...change }
    for (const listener of this.listeners) listener()
  }
}

function overlap(one: ReadonlySet<string>, other: ReadonlySet<string>): boolean {
  return [...one].some((kind) => other.has(kind))
}
