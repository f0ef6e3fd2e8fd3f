/** What is on the screen is asked for anew when an event says that it changed. */

import { type QueryKey, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useSyncExternalStore } from 'react'
import { useStream } from './StreamContext'
import type { LiveEvent, Stream, StreamState } from './stream'

/** Runs `work` at once when called, then no more often than every `every` milliseconds, and never twice at a time. */
export function paced(work: () => Promise<unknown>, every: number): { ask(): void; stop(): void } {
  let asked = false
  let busy = false
  let stopped = false
  const run = async () => {
    busy = true
    while (asked && !stopped) {
      asked = false
      await work().catch(() => undefined) // the query shows its own error
      await new Promise((resolve) => setTimeout(resolve, every))
    }
    busy = false
  }
  return {
    ask() {
      asked = true
      if (!busy && !stopped) void run()
    },
    stop() {
      stopped = true
    },
  }
}

/** Keeps the queries under `key` current while the component is there: asked for anew after every event that `concerns` them. */
export function useRefresh(key: QueryKey, concerns: (event: LiveEvent) => boolean, every = 250): void {
  const client = useQueryClient()
  const stream = useStream()
  const latest = useRef(concerns)
  latest.current = concerns
  const text = JSON.stringify(key)
  useEffect(() => {
    const refresh = paced(() => client.invalidateQueries({ queryKey: JSON.parse(text) as QueryKey }), every)
    const stop = stream.listen((events) => events.some((event) => latest.current(event)) && refresh.ask())
    return () => {
      stop()
      refresh.stop()
    }
  }, [client, stream, text, every])
}

/** Hears every event while the component is there. */
export function useEvents(listener: (events: LiveEvent[]) => void): void {
  const stream = useStream()
  const latest = useRef(listener)
  latest.current = listener
  useEffect(() => stream.listen((events) => latest.current(events)), [stream])
}

export function useStreamState(): StreamState {
  const stream: Stream = useStream()
  return useSyncExternalStore(stream.watchState, stream.getState)
}
