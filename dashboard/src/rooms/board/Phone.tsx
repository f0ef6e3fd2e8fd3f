/** On a phone, one column at a time: tabs with counts, and a swipe to the column beside. */

import { type ReactNode, type TouchEvent, useEffect, useRef } from 'react'
import { Dot } from '@/ui/Facts'
import css from './board.module.css'
import { STATUSES, type Status } from './cards'
import { nextColumn } from './search'
import { STATUS_NAMES } from './words'

type ColumnTabsProps = {
  column: Status
  counts: Record<Status, number>
  onColumn: (column: Status) => void
  children: ReactNode
}

const FAR = 60 // pixels that make a swipe

export function ColumnTabs({ column, counts, onColumn, children }: ColumnTabsProps) {
  const began = useRef<{ x: number; y: number } | null>(null)
  const tabs = useRef<HTMLDivElement>(null)
  useEffect(() => {
    tabs.current?.querySelector(`[data-tab="${column}"]`)?.scrollIntoView({ inline: 'center', block: 'nearest' })
  }, [column])
  const start = ({ touches }: TouchEvent) => {
    const finger = touches[0]
    began.current = finger !== undefined && touches.length === 1 ? { x: finger.clientX, y: finger.clientY } : null
  }
  const end = ({ changedTouches }: TouchEvent) => {
    const finger = changedTouches[0]
    if (finger === undefined || began.current === null) return
    const x = finger.clientX - began.current.x
    if (Math.abs(x) < FAR || Math.abs(x) < 2 * Math.abs(finger.clientY - began.current.y)) return
    onColumn(nextColumn(column, x < 0 ? 1 : -1))
  }
  return (
    <>
      <div ref={tabs} className={css.tabs} role="tablist" aria-label="Columns">
        {STATUSES.map((status) => (
          <button
            key={status}
            type="button"
            role="tab"
            id={`tab-${status}`}
            data-tab={status}
            aria-selected={status === column}
            aria-controls="board-column"
            tabIndex={status === column ? 0 : -1}
            className={css.tab}
            onClick={() => onColumn(status)}
            onKeyDown={(event) => {
              if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') {
                const next = nextColumn(column, event.key === 'ArrowRight' ? 1 : -1)
                onColumn(next)
                document.getElementById(`tab-${next}`)?.focus()
                event.preventDefault()
              }
            }}
          >
            <Dot color={`var(--c-${status})`} />
            {STATUS_NAMES[status]}
            <span className={css.count}>{counts[status]}</span>
          </button>
        ))}
      </div>
      <div
        id="board-column"
        role="tabpanel"
        aria-labelledby={`tab-${column}`}
        className={css.phoneColumn}
        onTouchStart={start}
        onTouchEnd={end}
      >
        {children}
      </div>
    </>
  )
}
