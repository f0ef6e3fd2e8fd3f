/** The events, however many: only those in view are in the page. Older ones are asked for when one comes near the end. */

import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import type { AuditEvent } from '@/api/client'
import { useCommands } from '@/shell/commands'
import { Button } from '@/ui/Controls'
import css from './activity.module.css'
import { type Day, dayName, withDays } from './days'
import { EventRow } from './EventRow'
import type { Feed, FeedState } from './feed'

const HEIGHT = 41 // of a row, until it is measured
const NEAR = 12 // rows before the end
const TRIES = 20 // frames in which a row that was scrolled to comes to be there

type Row = Day | AuditEvent
const isDay = (row: Row): row is Day => 'day' in row

type ListProps = { feed: Feed; state: FeedState; events: AuditEvent[]; placed: boolean }

export function EventList({ feed, state, events, placed }: ListProps) {
  const list = useRef<HTMLOListElement>(null)
  const rows = useMemo<Row[]>(() => withDays(events), [events])
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => HEIGHT,
    getItemKey: useCallback((index: number) => keyOf(rows[index]) ?? index, [rows]),
    scrollMargin: useOffset(list),
    overscan: 8,
    useFlushSync: false,
  })
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  const near = state.more && last >= rows.length - NEAR
  useEffect(() => {
    if (near && state.error === null && !state.looking) void feed.further()
  }, [near, feed, state.error, state.looking])
  useRowKeys(rows, (index) => virtual.scrollToIndex(index, { align: 'auto' }))
  return (
    <>
      <ol
        ref={list}
        className={css.list}
        aria-label="Events, the newest first"
        style={{ height: virtual.getTotalSize() }}
      >
        {items.map(({ index, key, start }) => {
          const row = rows[index]
          if (row === undefined) return null
          return (
            <li
              key={key}
              ref={virtual.measureElement}
              data-index={index}
              className={css.item}
              style={{ transform: `translateY(${start - virtual.options.scrollMargin}px)` }}
            >
              {isDay(row) ? (
                <h2 className={css.day}>{dayName(row.day, new Date())}</h2>
              ) : (
                <EventRow event={row} placed={placed} />
              )}
            </li>
          )
        })}
      </ol>
      <End feed={feed} state={state} />
    </>
  )
}

function keyOf(row: Row | undefined): string | number | undefined {
  return row === undefined ? undefined : isDay(row) ? `day ${row.day}` : row.seq
}

function End({ feed, state }: { feed: Feed; state: FeedState }) {
  if (state.error !== null && state.more) {
    return (
      <p className={css.end} role="alert">
        {state.error instanceof Error ? state.error.message : String(state.error)}{' '}
        <Button small onClick={() => void feed.further()}>
          Try again
        </Button>
      </p>
    )
  }
  if (!state.more) return <p className={css.end}>This is where the record begins.</p>
  return (
    <p className={css.end} role="status">
      {state.looking
        ? `Looking further back…${state.lookedTo === undefined ? '' : ` at event ${state.lookedTo.toLocaleString()}`}`
        : ''}
    </p>
  )
}

/** How far below the top of the page the list begins; what is above it may grow. */
function useOffset(list: React.RefObject<HTMLElement | null>): number {
  const [offset, setOffset] = useState(0)
  useLayoutEffect(() => {
    const measure = () => {
      const box = list.current?.getBoundingClientRect()
      if (box !== undefined) setOffset(Math.round(box.top + window.scrollY))
    }
    measure()
    const watched = new ResizeObserver(measure)
    watched.observe(document.body)
    return () => watched.disconnect()
  }, [list])
  return offset
}

/** j and k go from event to event, also faster than the list can follow. */
function useRowKeys(rows: Row[], scrollTo: (index: number) => void): void {
  const going = useRef<number>(undefined)
  const focus = (seq: number, tries: number) => {
    if (going.current !== seq) return
    const link = document.querySelector<HTMLElement>(`[data-seq="${seq}"] a:last-of-type`)
    if (link === null && tries > 0) {
      requestAnimationFrame(() => focus(seq, tries - 1))
      return
    }
    going.current = undefined
    link?.focus({ preventScroll: true })
  }
  const go = (by: 1 | -1) => {
    const focused = document.activeElement?.closest<HTMLElement>('[data-seq]')?.dataset.seq
    const here = going.current ?? Number(focused)
    let at = rows.findIndex((row) => !isDay(row) && row.seq === here)
    do at += by
    while (at >= 0 && at < rows.length && isDay(rows[at]!))
    const row = rows[Math.max(at, 0)]
    if (row === undefined || isDay(row)) return
    going.current = row.seq
    scrollTo(at)
    focus(row.seq, TRIES)
  }
  useCommands([
    { id: 'event-next', label: 'Next event', group: 'Activity', keys: 'j', run: () => go(1) },
    { id: 'event-previous', label: 'Previous event', group: 'Activity', keys: 'k', run: () => go(-1) },
  ])
}
