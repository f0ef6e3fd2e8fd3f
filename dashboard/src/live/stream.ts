/**
 * The server's events, as they happen: one stream for the whole browser.
 *
 *     the tab that holds the lock ── fetch /api/v1/events ──► every tab, by BroadcastChannel
 *
 * The holder reads the stream and passes on what it says; when its tab closes, the browser hands the lock to another
 * tab, which goes on after the last number seen. A tab that hears nothing for too long (the holder may be frozen in the
 * background) takes the lock over. Where locks do not exist (plain HTTP from another machine) each tab reads for
 * itself.
 */

import { createParser } from 'eventsource-parser'

export type LiveEvent = {
  seq: number
  kind: string
  data: { time: string; actor: string; project?: string; [field: string]: unknown }
}

export type StreamState = { name: 'connecting' } | { name: 'live' } | { name: 'down'; since: number }

type Said =
  | { say: 'events'; events: LiveEvent[]; last: number }
  | { say: 'state'; state: StreamState; last: number }
  | { say: 'resync' }
  | { say: 'who' }

type Options = { url?: string; silence?: number; flush?: number; refused?: () => void }

const LOCK = 'ringfence.stream'
const MANY = 2000 // after a longer absence everything on the screen is asked for anew instead

export class Stream {
  state: StreamState = { name: 'connecting' }
  last: number | undefined
  private readonly url: string
  private readonly silence: number
  private readonly flushAfter: number
  private readonly refused: () => void
  private readonly onEvents = new Set<(events: LiveEvent[]) => void>()
  private readonly onState = new Set<() => void>()
  private readonly onResync = new Set<() => void>()
  private readonly channel: BroadcastChannel
  private readonly stopping = new AbortController()
  private waiting: LiveEvent[] = []
  private flushing: ReturnType<typeof setTimeout> | undefined
  private heard = Date.now()
  private reading: AbortController | undefined
  private leads = false

  constructor(options: Options = {}) {
    this.url = options.url ?? '/api/v1/events'
    this.silence = options.silence ?? 40_000
    this.flushAfter = options.flush ?? 16
    this.refused = options.refused ?? (() => undefined)
    this.channel = new BroadcastChannel(LOCK)
    this.channel.onmessage = (message: MessageEvent<Said>) => this.hear(message.data)
  }

  start(): void {
    this.tell({ say: 'who' })
    void this.lead(false)
    const watch = setInterval(() => this.watch(), Math.max(250, this.silence / 8))
    const look = () => document.visibilityState === 'visible' && this.watch()
    document.addEventListener('visibilitychange', look)
    window.addEventListener('online', look)
    this.stopping.signal.addEventListener('abort', () => {
      clearInterval(watch)
      document.removeEventListener('visibilitychange', look)
      window.removeEventListener('online', look)
    })
  }

  stop(): void {
    this.stopping.abort()
    this.reading?.abort()
    clearTimeout(this.flushing)
    this.channel.close()
  }

  /** Events in the order of their numbers, several at a time. */
  listen(listener: (events: LiveEvent[]) => void): () => void {
    this.onEvents.add(listener)
    return () => this.onEvents.delete(listener)
  }

  /** Told when events may have been missed, so that what is shown must be asked for anew. */
  resynced(listener: () => void): () => void {
    this.onResync.add(listener)
    return () => this.onResync.delete(listener)
  }

  watchState = (listener: () => void): (() => void) => {
    this.onState.add(listener)
    return () => this.onState.delete(listener)
  }

  getState = (): StreamState => this.state

  /** Resolves when the stream is live, or after `most` milliseconds. What is asked for after that misses no event. */
  ready(most: number): Promise<void> {
    if (this.state.name === 'live') return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        stop()
        resolve()
      }
      const timer = setTimeout(done, most)
      const stop = this.watchState(() => this.state.name === 'live' && done())
    })
  }

  // Who reads ------------------------------------------------------------------------------------------------------

  private async lead(steal: boolean): Promise<void> {
    const { locks } = navigator as { locks?: LockManager }
    if (locks === undefined) return this.read(this.stopping.signal)
    const options: LockOptions = steal ? { steal: true } : { signal: this.stopping.signal }
    try {
      await locks.request(LOCK, options, async () => {
        this.leads = true
        this.reading = new AbortController()
        await this.read(AbortSignal.any([this.stopping.signal, this.reading.signal]))
      })
    } catch {
      // Stopped, or another tab took over: then wait for the lock again.
    }
    this.leads = false
    this.reading?.abort()
    if (!this.stopping.signal.aborted) void this.lead(false)
  }

  /** Too long a silence: whoever reads is gone without having said so. */
  private watch(): void {
    if (Date.now() - this.heard < this.silence || this.leads) return
    this.become({ name: 'down', since: this.heard })
    if (document.visibilityState === 'visible' && 'locks' in navigator) {
      this.heard = Date.now()
      void this.lead(true)
    }
  }

  private hear(said: Said): void {
    if (said.say === 'who') {
      if (this.leads) this.tell({ say: 'state', state: this.state, last: this.last ?? 0 })
      return
    }
    this.heard = Date.now()
    if (this.leads) return
    switch (said.say) {
      case 'events':
        if (this.last !== undefined) this.take(said.events)
        this.last = said.last
        break
      case 'state':
        if (said.state.name === 'live') this.last ??= said.last
        this.become(said.state)
        break
      case 'resync':
        this.resync()
    }
  }

  private tell(said: Said): void {
    if (!this.stopping.signal.aborted) this.channel.postMessage(said)
  }

  // Reading --------------------------------------------------------------------------------------------------------

  private async read(stop: AbortSignal): Promise<void> {
    let wait = 0
    while (!stop.aborted) {
      try {
        await this.readOnce(stop)
        wait = 0
      } catch {
        // Refused, cut off or silent: again.
      }
      if (stop.aborted) break
      this.announce({ name: 'down', since: this.heard })
      await pause(wait, stop)
      wait = Math.min(Math.max(wait * 2, 250), 5000)
    }
  }

  private async readOnce(stop: AbortSignal): Promise<void> {
    const silent = new AbortController()
    let timer = setTimeout(() => silent.abort(), this.silence)
    const signal = AbortSignal.any([stop, silent.signal])
    const from = this.last === undefined ? '' : `?after=${this.last}`
    try {
      const response = await fetch(this.url + from, { signal, headers: { accept: 'text/event-stream' } })
      if (response.status === 401) this.refused()
      if (!response.ok || response.body === null) throw new Error(`the stream was answered ${response.status}`)
      let found: LiveEvent[] = []
      const parser = createParser({
        onEvent: ({ id, event, data }) => {
          if (event !== undefined) found.push({ seq: Number(id), kind: event, data: JSON.parse(data) })
        },
        onComment: (comment) => {
          if (comment.includes('connected')) this.connected(Number(lastId))
        },
      })
      let lastId = ''
      const decoder = new TextDecoder()
      const reader = response.body.getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        clearTimeout(timer)
        timer = setTimeout(() => silent.abort(), this.silence)
        this.heard = Date.now()
        const text = decoder.decode(value, { stream: true })
        if (this.state.name !== 'live') lastId = /^id: (\d+)$/m.exec(text)?.[1] ?? lastId
        parser.feed(text)
        if (found.length > 0) {
          this.last = found[found.length - 1]!.seq
          this.tell({ say: 'events', events: found, last: this.last })
          this.take(found)
          found = []
        } else {
          this.tell({ say: 'state', state: this.state, last: this.last ?? 0 })
        }
      }
    } finally {
      clearTimeout(timer)
    }
  }

  /** The server said from where it tells: later than asked for means that another history began there. */
  private connected(from: number): void {
    if (this.last !== undefined && from < this.last) {
      this.tell({ say: 'resync' })
      this.resync()
    }
    this.last = from
    this.announce({ name: 'live' })
  }

  private announce(state: StreamState): void {
    this.become(state)
    this.tell({ say: 'state', state: this.state, last: this.last ?? 0 })
  }

  private become(state: StreamState): void {
    if (state.name === this.state.name) return
    // What was asked for while the server was away may have failed, though its event was heard.
    const returned = state.name === 'live' && this.state.name === 'down'
    this.state = state
    for (const listener of this.onState) listener()
    if (returned) this.resync()
  }

  // Passing on -----------------------------------------------------------------------------------------------------

  /** Kept for a frame, so that five hundred events a second are a few renderings, not five hundred. */
  private take(events: LiveEvent[]): void {
    this.waiting.push(...events)
    this.flushing ??= setTimeout(() => this.flush(), this.flushAfter)
  }

  private flush(): void {
    this.flushing = undefined
    const events = this.waiting
    this.waiting = []
    if (events.length > MANY) this.resync()
    else for (const listener of this.onEvents) listener(events)
  }

  private resync(): void {
    for (const listener of this.onResync) listener()
  }
}

function pause(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds)
    stop.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
