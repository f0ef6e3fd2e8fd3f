/** A column: its head, its cards, and, while something is lifted, whether that may come here. */

import { useDroppable } from '@dnd-kit/core'
import { Ban, ChevronsLeftRight, ChevronsRightLeft, CircleCheck, Plus } from 'lucide-react'
import type { CSSProperties } from 'react'
import { Button, classes } from '@/ui/Controls'
import { Dot } from '@/ui/Facts'
import css from './board.module.css'
import { CardList } from './CardList'
import type { Status } from './cards'
import { Limits } from './Limits'
import type { Lane } from './lanes'
import type { Fate } from './lifting'
import { QuickAdd } from './QuickAdd'
import type { Rules } from './rules'
import { STATUS_NAMES } from './words'

export type ColumnProps = {
  project: string
  status: Status
  rules: Rules
  may: boolean
  /** How many are shown, and how many there are. */
  count: number
  total: number
  closed: boolean
  onToggle: (() => void) | undefined
  onNew: (status: 'backlog' | 'ready') => void
}

export function isStart(status: Status): status is 'backlog' | 'ready' {
  return status === 'backlog' || status === 'ready'
}

export function ColumnHead({ status, rules, may, count, total, closed, onToggle, onNew }: ColumnProps) {
  const name = STATUS_NAMES[status]
  const said = count === total ? String(count) : `${count} of ${total}`
  if (closed)
    return (
      <button type="button" className={css.closed} onClick={onToggle} aria-expanded={false} aria-label={`Open ${name}`}>
        <ChevronsLeftRight size={14} aria-hidden="true" />
        <Dot color={`var(--c-${status})`} />
        <span className={css.upright}>{name}</span>
        <span className={css.count}>{total}</span>
      </button>
    )
  return (
    <header className={css.head}>
      <Dot color={`var(--c-${status})`} />
      <h2>{name}</h2>
      <span className={css.count} data-count={status}>
        {said}
        <span className="sr-only">{total === 1 ? ' task' : ' tasks'}</span>
      </span>
      <span className={css.tools}>
        {may && isStart(status) && (
          <Button look="quiet" icon small aria-label={`New task in ${name}`} onClick={() => onNew(status)}>
            <Plus size={15} />
          </Button>
        )}
        <Limits status={status} rules={rules} may={may} />
        {onToggle !== undefined && (
          <Button look="quiet" icon small aria-expanded aria-label={`Close ${name}`} onClick={onToggle}>
            <ChevronsRightLeft size={14} />
          </Button>
        )}
      </span>
    </header>
  )
}

const EMPTY: Record<Status, string> = {
  backlog: 'Nothing is waiting to be planned.',
  ready: 'Nothing to claim. Move tasks here when they can be started.',
  in_progress: 'Nobody works on anything just now.',
  in_review: 'Nothing waits for a review.',
  blocked: 'Nothing is blocked.',
  done: 'Nothing is done yet.',
}

export function Column({ lane, fate, ...column }: ColumnProps & { lane: Lane; fate: Fate | undefined }) {
  const { status, closed, count, total, may, project } = column
  const name = STATUS_NAMES[status]
  return (
    <section className={css.column} aria-label={name} data-column={status} data-closed={closed || undefined}>
      <ColumnHead {...column} />
      {!closed && (
        <>
          <CardList lane={lane.key} label={`${name} tasks`} cards={lane.columns[status]}>
            {count === 0 && (
              <p className={css.none}>{total > 0 ? 'Nothing here passes the filters.' : EMPTY[status]}</p>
            )}
          </CardList>
          {may && isStart(status) && <QuickAdd project={project} status={status} />}
        </>
      )}
      <DropZone status={status} fate={fate} closed={closed} />
    </section>
  )
}

type DropZoneProps = { status: Status; fate: Fate | undefined; closed?: boolean; style?: CSSProperties }

/** Covers a column while something is lifted, and says what dropping it here would do, or why it may not. */
export function DropZone({ status, fate, closed, style }: DropZoneProps) {
  const { setNodeRef } = useDroppable({ id: status })
  return (
    <div
      ref={setNodeRef}
      className={css.zone}
      style={style}
      data-drop={fate === undefined ? undefined : fate.kind}
      data-over={fate?.over || undefined}
    >
      {fate !== undefined && fate.kind !== 'home' && !closed && (fate.kind === 'refused' || fate.over) && (
        <p className={classes(css.fate)}>
          {fate.kind === 'refused' ? (
            <Ban size={13} aria-hidden="true" />
          ) : (
            <CircleCheck size={13} aria-hidden="true" />
          )}
          <bdi>{fate.text}</bdi>
        </p>
      )}
    </div>
  )
}
