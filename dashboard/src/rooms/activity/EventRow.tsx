/** One event in a line. All of it opens the event; names in it lead to whom and what they name. */

import { Link } from '@tanstack/react-router'
import { memo } from 'react'
import type { AuditEvent } from '@/api/client'
import { ProjectName } from '@/rooms/words/Words'
import { Time } from '@/ui/Facts'
import css from './event.module.css'
import { kindOf, type Tone } from './kinds'
import { Sentence } from './Sentence'

export const EventRow = memo(function EventRow({ event, placed }: { event: AuditEvent; placed: boolean }) {
  return (
    <article className={css.row} data-kind={event.kind} data-seq={event.seq}>
      <KindIcon event={event} />
      <p className={css.sentence} dir="auto">
        <Sentence event={event} />
      </p>
      {placed && <span className={css.place}>{event.project !== null && <ProjectName project={event.project} />}</span>}
      <span className={css.when}>
        <Time at={event.time} />
      </span>
      <Link
        from="/activity"
        search={(before) => ({ ...before, event: event.seq })}
        resetScroll={false}
        className={css.open}
        aria-label={`Event ${event.seq}: ${kindOf(event.kind).label}`}
      >
        {event.seq}
      </Link>
    </article>
  )
})

export function KindIcon({ event }: { event: AuditEvent }) {
  const { icon: Icon } = kindOf(event.kind)
  return (
    <span className={css.icon} data-tone={toneOf(event)}>
      <Icon size={14} aria-hidden="true" />
    </span>
  )
}

export function toneOf({ kind, data }: AuditEvent): Tone {
  if (kind === 'audit_verified') return data.ok === true ? 'good' : 'bad'
  if (kind === 'task_transition' && data.new_status === 'done') return 'good'
  if (kind === 'task_transition' && data.new_status === 'blocked') return 'warn'
  return kindOf(kind).tone ?? 'plain'
}
