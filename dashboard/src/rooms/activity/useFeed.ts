import { useEffect, useMemo, useSyncExternalStore } from 'react'
import { api, take } from '@/api/client'
import { paced } from '@/live/refresh'
import { useStream } from '@/live/StreamContext'
import { Feed, type FeedState } from './feed'
import { type Filters, query } from './search'

const EVERY = 250 // milliseconds between questions for what is new: hundreds of events a second are a few of them

/** The record under these filters, current to the last event. */
export function useFeed(filters: Filters): { feed: Feed; state: FeedState } {
  const stream = useStream()
  const text = JSON.stringify(query(filters))
  const feed = useMemo(() => {
    const wanted = JSON.parse(text) as ReturnType<typeof query>
    return new Feed(
      (page) => take(api.GET('/api/v1/audit', { params: { query: { ...wanted, ...page } } })),
      wanted.kind === undefined ? null : new Set(wanted.kind),
    )
  }, [text])
  useEffect(() => {
    let kinds = new Set<string>()
    const catchUp = paced(async () => {
      const heard = kinds
      kinds = new Set()
      try {
        await feed.catchUp(stream.last, heard)
      } catch (error) {
        for (const kind of heard) kinds.add(kind)
        throw error
      }
    }, EVERY)
    const stops = [
      stream.listen((events) => {
        for (const { kind } of events) kinds.add(kind)
        catchUp.ask()
      }),
      stream.resynced(() => void feed.resync(stream.last).catch(() => undefined)),
      () => catchUp.stop(),
      () => feed.stop(),
    ]
    void feed
      .begin(stream.last)
      .then(() => feed.catchUp(stream.last))
      .catch(() => undefined) // the next event asks again
    return () => {
      for (const stop of stops) stop()
    }
  }, [feed, stream])
  return { feed, state: useSyncExternalStore(feed.watch, feed.getState) }
}
