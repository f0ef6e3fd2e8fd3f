/** How long the task was where: a bar of its states, to scale. */

import { useMemo } from 'react'
import type { Task } from '@/api/client'
import { Dot, Time, useNow } from '@/ui/Facts'
import { Tip } from '@/ui/Overlays'
import { exactly, span } from '@/ui/time'
import { staysOf, totalsOf } from './stays'
import { statusColor, statusWord, useHistory } from './task'
import css from './task.module.css'

export function Cycle({ task }: { task: Task }) {
  const { data: history } = useHistory({ project: task.project_id, task: task.id })
  const now = Math.max(useNow(), Date.now() - 10_000)
  const stays = useMemo(() => staysOf(history ?? [], now), [history, now])
  const totals = totalsOf(stays)
  return (
    <section aria-label="Cycle time" className={css.section}>
      <h3>
        Cycle time{' '}
        <span className={css.faint}>
          <Summary task={task} now={now} />
        </span>
      </h3>
      {stays.length > 0 && (
        <>
          <div className={css.bar}>
            {stays.map((stay) => (
              <Tip
                key={`${stay.from} ${stay.status}`}
                text={`${statusWord(stay.status)}: ${span((stay.to - stay.from) / 1000)}, since ${exactly(new Date(stay.from).toISOString())}`}
              >
                <span style={{ flexGrow: Math.max(1, stay.to - stay.from), background: statusColor(stay.status) }} />
              </Tip>
            ))}
          </div>
          <ul className={css.totals} aria-label="Time in each state">
            {totals.map(([status, length]) => (
              <li key={status}>
                <Dot color={statusColor(status)} /> {statusWord(status)} <b>{span(length / 1000)}</b>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  )
}

function Summary({ task, now }: { task: Task; now: number }) {
  if (task.started_at === null) return <>not started</>
  const end = task.completed_at === null ? now : Date.parse(task.completed_at)
  return (
    <>
      {span((end - Date.parse(task.started_at)) / 1000)}
      {task.completed_at === null ? ' so far' : ''} · started <Time at={task.started_at} />
      {task.review_started_at !== null && task.status === 'in_review' && (
        <>
          {' '}
          · in review since <Time at={task.review_started_at} />
        </>
      )}
      {task.completed_at !== null && (
        <>
          {' '}
          · done <Time at={task.completed_at} />
        </>
      )}
    </>
  )
}
