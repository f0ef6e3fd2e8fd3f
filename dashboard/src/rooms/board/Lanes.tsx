/** The board cut into swim lanes: one head for all, and of the lanes and their cards only what is in view. */

import { useVirtualizer } from '@tanstack/react-virtual'
import { ChevronDown, ChevronRight } from 'lucide-react'
import { type CSSProperties, useCallback, useRef } from 'react'
import { Avatar, Name } from '@/ui/Facts'
import css from './board.module.css'
import { CardList } from './CardList'
import { ColumnHead, type ColumnProps, DropZone } from './Column'
import type { Status } from './cards'
import type { Lane } from './lanes'
import type { Fate } from './lifting'
import { LabelDot, PriorityMark } from './Marks'
import type { LaneKind } from './search'
import { counted, isPriority, PRIORITY_NAMES, STATUS_NAMES } from './words'

type LanesProps = {
  kind: LaneKind
  lanes: Lane[]
  columns: readonly Status[]
  head: (status: Status) => ColumnProps
  fates: Record<Status, Fate> | undefined
  closed: ReadonlySet<string>
  onToggle: (lane: string) => void
  style: CSSProperties
}

export function Lanes({ kind, lanes, columns, head, fates, closed, onToggle, style }: LanesProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: lanes.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (closed.has(lanes[index]?.key ?? '') ? 40 : 240),
    getItemKey: useCallback((index: number) => lanes[index]?.key ?? index, [lanes]),
    overscan: 2,
    useFlushSync: false,
  })
  return (
    <div ref={scroller} className={css.lanes} style={style}>
      <div className={css.sheet}>
        <div className={css.heads}>
          {columns.map((status) => (
            <ColumnHead key={status} {...head(status)} />
          ))}
        </div>
        {lanes.length === 0 && <p className={css.none}>Nothing here passes the filters.</p>}
        <div className={css.rows} style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, key, start }) => {
            const lane = lanes[index]
            if (lane === undefined) return null
            return (
              <section
                key={key}
                ref={virtual.measureElement}
                data-index={index}
                data-lane={lane.name ?? ''}
                className={css.lane}
                style={{ transform: `translateY(${start}px)` }}
                aria-label={laneName(kind, lane.name)}
              >
                <LaneHead kind={kind} lane={lane} closed={closed.has(lane.key)} onToggle={() => onToggle(lane.key)} />
                {!closed.has(lane.key) && <Cells lane={lane} columns={columns} head={head} />}
              </section>
            )
          })}
        </div>
        <div className={css.zones} data-lifting={fates !== undefined || undefined}>
          {columns.map((status) => (
            <DropZone key={status} status={status} fate={fates?.[status]} closed={head(status).closed} />
          ))}
        </div>
      </div>
    </div>
  )
}

function Cells({ lane, columns, head }: Pick<LanesProps, 'columns' | 'head'> & { lane: Lane }) {
  return (
    <div className={css.cells}>
      {columns.map((status) =>
        head(status).closed ? (
          <span key={status} className={css.closedCell}>
            {lane.columns[status].length || ''}
          </span>
        ) : (
          <div key={status} data-column={status} className={css.cell}>
            <CardList lane={lane.key} label={`${STATUS_NAMES[status]} tasks`} cards={lane.columns[status]} bounded />
          </div>
        ),
      )}
    </div>
  )
}

export function laneName(kind: LaneKind, name: string | null): string {
  if (name === null) return kind === 'agent' ? 'Unassigned' : 'No label'
  return kind === 'priority' && isPriority(name) ? `${name} ${PRIORITY_NAMES[name]}` : name
}

type LaneHeadProps = { kind: LaneKind; lane: Lane; closed: boolean; onToggle: () => void }

function LaneHead({ kind, lane, closed, onToggle }: LaneHeadProps) {
  const Chevron = closed ? ChevronRight : ChevronDown
  return (
    <button type="button" className={css.laneHead} aria-expanded={!closed} onClick={onToggle}>
      <Chevron size={14} aria-hidden="true" />
      {lane.name !== null && kind === 'agent' && <Avatar name={lane.name} />}
      {lane.name !== null && kind === 'label' && <LabelDot label={lane.name} />}
      {lane.name !== null && kind === 'priority' && <PriorityMark priority={lane.name} />}
      <span className={css.laneName}>
        <Name>{laneName(kind, lane.name)}</Name>
      </span>
      <span className={css.count}>
        {lane.count}
        <span className="sr-only"> {counted(lane.count, 'task').replace(/^\S+ /, '')}</span>
      </span>
    </button>
  )
}
