import { describe, expect, it } from 'vitest'
import type { AuditEvent } from '@/api/client'
import { type Ask, Feed, KEPT, WAITING } from './feed'

/** A record that pages as the server's does: `looks` events at a time where it has to look for them. */
class Recorded {
  events: AuditEvent[] = []
  asked = 0
  looks = Number.POSITIVE_INFINITY
  fails = false

  add(count: number, kind = 'told'): void {
    for (let each = 0; each < count; each++) this.events.push(eventOf(this.events.length + 1, kind))
  }

  get last(): number {
    return this.events.length
  }

  ask(kinds: readonly string[] = []): Ask {
    return async ({ newest_first, cursor, limit }) => {
      this.asked++
      if (this.fails) throw new Error('away')
      const wanted = (event: AuditEvent) => kinds.length === 0 || kinds.includes(event.kind)
      const looks = kinds.length === 0 ? Number.POSITIVE_INFINITY : this.looks
      const start = cursor === undefined ? (newest_first ? this.last + 1 : 0) : Number(cursor)
      const end = newest_first ? Math.max(1, start - looks) : Math.min(this.last, start + looks)
      const between = this.events.filter(({ seq }) =>
        newest_first ? seq < start && seq >= end : seq > start && seq <= end,
      )
      if (newest_first) between.reverse()
      const items = between.filter(wanted).slice(0, limit)
      if (items.length === limit) return { items, next: String(items.at(-1)!.seq) }
      return { items, next: end === (newest_first ? 1 : this.last) || between.length === 0 ? null : String(end) }
    }
  }
}

function eventOf(seq: number, kind: string): AuditEvent {
  const time = new Date(seq * 1000).toISOString()
  return {
    seq,
    time,
    kind,
    actor: 'system',
    via: null,
    agent: null,
    project: null,
    subject: null,
    data: {},
    prev: '',
    hash: '',
  }
}

const seqs = (feed: Feed) => (feed.state.events ?? []).map(({ seq }) => seq)
const upTo = (last: number, count: number) => Array.from({ length: count }, (_, at) => last - at)
const told = new Set(['told'])

async function begun(record: Recorded, kinds: string[] = []): Promise<Feed> {
  const feed = new Feed(record.ask(kinds), kinds.length === 0 ? null : new Set(kinds))
  await feed.begin(record.last)
  return feed
}

describe('the feed', () => {
  it('shows the newest first, and older ones when they are asked for, to the very first', async () => {
    const record = new Recorded()
    record.add(250)
    const feed = await begun(record)
    expect(seqs(feed)).toEqual(upTo(250, 100))
    expect(feed.state.more).toBe(true)
    await feed.further()
    await feed.further()
    expect(seqs(feed)).toEqual(upTo(250, 250))
    await feed.further()
    expect(feed.state.more).toBe(false)
    expect(seqs(feed)).toHaveLength(250)
  })

  it('puts what comes above, each event once', async () => {
    const record = new Recorded()
    record.add(10)
    const feed = await begun(record)
    record.add(700)
    await feed.catchUp(record.last, told)
    await feed.catchUp(record.last, told)
    expect(seqs(feed)).toEqual(upTo(710, 710))
  })

  it('lets what comes wait while somebody reads', async () => {
    const record = new Recorded()
    record.add(10)
    const feed = await begun(record)
    feed.following = false
    record.add(3)
    await feed.catchUp(record.last, told)
    record.add(2)
    await feed.catchUp(record.last, told)
    expect(seqs(feed)).toEqual(upTo(10, 10))
    expect(feed.state.waiting.map(({ seq }) => seq)).toEqual([15, 14, 13, 12, 11])
    await feed.reveal()
    expect(seqs(feed)).toEqual(upTo(15, 15))
    expect(feed.state.waiting).toEqual([])
  })

  it('keeps no more than is worth keeping, and finds the rest again', async () => {
    const record = new Recorded()
    record.add(10)
    const feed = await begun(record)
    for (let round = 0; round < 6; round++) {
      record.add(500)
      await feed.catchUp(record.last, told)
    }
    expect(seqs(feed)).toEqual(upTo(record.last, KEPT))
    await feed.further()
    expect(seqs(feed)).toEqual(upTo(record.last, KEPT + 100))
  })

  it('begins anew where too much came at once', async () => {
    const record = new Recorded()
    record.add(10)
    const feed = await begun(record)
    feed.following = false
    record.add(WAITING * 3)
    await feed.catchUp(record.last, told)
    expect(feed.state.flooded).toBe(true)
    const asked = record.asked
    await feed.catchUp(record.last + 1, told)
    expect(record.asked).toBe(asked)
    await feed.reveal()
    expect(seqs(feed)).toEqual(upTo(record.last, 100))
    expect(feed.state.flooded).toBe(false)
  })

  it('asks for nothing when no event is of its kinds', async () => {
    const record = new Recorded()
    record.add(5, 'rare')
    const feed = await begun(record, ['rare'])
    const asked = record.asked
    record.add(100)
    await feed.catchUp(record.last, told)
    expect(record.asked).toBe(asked)
    record.add(1, 'rare')
    await feed.catchUp(record.last, new Set(['told', 'rare']))
    expect(seqs(feed)).toEqual([106, 5, 4, 3, 2, 1])
  })

  it('goes on looking where a page brings little', async () => {
    const record = new Recorded()
    record.looks = 50
    record.add(2, 'rare')
    record.add(500)
    const feed = await begun(record, ['rare'])
    expect(seqs(feed)).toEqual([2, 1])
    expect(feed.state.more).toBe(false)
    expect(record.asked).toBeGreaterThan(5)
  })

  it('says what went wrong, keeps what it has, and goes on', async () => {
    const record = new Recorded()
    record.add(150)
    const feed = await begun(record)
    record.fails = true
    await feed.further()
    expect(feed.state.error).toBeInstanceOf(Error)
    expect(seqs(feed)).toHaveLength(100)
    record.add(1)
    await expect(feed.catchUp(record.last, told)).rejects.toThrow('away')
    record.fails = false
    await feed.further()
    await feed.catchUp(record.last)
    expect(seqs(feed)).toEqual(upTo(151, 151))
    expect(feed.state.error).toBeNull()
  })

  it('stays as it is after an absence, unless it is another record', async () => {
    const record = new Recorded()
    record.add(20)
    const feed = await begun(record)
    record.add(5)
    await feed.resync(record.last)
    expect(seqs(feed)).toEqual(upTo(25, 25))
    record.events = record.events.slice(0, 8)
    await feed.resync(record.last)
    expect(seqs(feed)).toEqual(upTo(8, 8))
  })
})
