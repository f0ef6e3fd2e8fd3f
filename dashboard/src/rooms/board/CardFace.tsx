/** How a card looks, wherever it is: in its column, or under the pointer that carries it. */

import {
  Ban,
  CornerDownRight,
  Hourglass,
  ListTree,
  LockKeyhole,
  MessageSquare,
  ShieldCheck,
  Wrench,
} from 'lucide-react'
import type { ReactNode } from 'react'
import type { Card } from '@/api/client'
import { Avatar, Name } from '@/ui/Facts'
import css from './card.module.css'
import { Age, LabelDot, PriorityMark } from './Marks'
import { holderOf, isHeld, signatures } from './rules'
import { counted } from './words'

type FaceProps = { card: Card; title: ReactNode; extra?: ReactNode }

export function CardFace({ card, title, extra }: FaceProps) {
  return (
    <>
      <div className={css.head}>
        <PriorityMark priority={card.priority} />
        <div className={css.title}>{title}</div>
        {extra}
      </div>
      <Trouble card={card} />
      <Tags card={card} />
      <Foot card={card} />
    </>
  )
}

/** Why it does not go on. */
function Trouble({ card }: { card: Card }) {
  if (card.status === 'blocked')
    return (
      <p className={css.trouble} data-tone="bad">
        <Ban size={12} aria-hidden="true" />
        <span>
          <span className="sr-only">Blocked: </span>
          <bdi>{card.blocked_reason ?? 'Blocked, without a reason.'}</bdi>
        </span>
      </p>
    )
  if (card.waiting_for.length === 0 || card.status === 'done') return null
  return (
    <p className={css.trouble}>
      <Hourglass size={12} aria-hidden="true" />
      <span>Waits for {counted(card.waiting_for.length, 'other task')}</span>
    </p>
  )
}

const MOST = 3

function Tags({ card: { labels, required_capabilities } }: { card: Card }) {
  if (labels.length + required_capabilities.length === 0) return null
  return (
    <ul className={css.tags}>
      {labels.slice(0, MOST).map((label) => (
        <li key={label} className={css.tag} title={label}>
          <LabelDot label={label} />
          <bdi>{label}</bdi>
        </li>
      ))}
      <Rest of={labels} />
      {required_capabilities.slice(0, MOST).map((tag) => (
        <li key={tag} className={css.needs} title={`Needs ${tag}`}>
          <Wrench size={10} aria-hidden="true" />
          <span className="sr-only">needs </span>
          <bdi>{tag}</bdi>
        </li>
      ))}
      <Rest of={required_capabilities} />
    </ul>
  )
}

function Rest({ of }: { of: string[] }) {
  if (of.length <= MOST) return null
  return (
    <li className={css.tag} title={of.slice(MOST).join(', ')}>
      +{of.length - MOST}
    </li>
  )
}

function Foot({ card }: { card: Card }) {
  const signed = signatures(card).length
  return (
    <div className={css.foot}>
      <Holder card={card} />
      <span className={css.counts}>
        {card.parent_task_id !== null && (
          <span title="Part of another task">
            <CornerDownRight size={12} role="img" aria-label="part of another task" />
          </span>
        )}
        {card.subtasks > 0 && (
          <span title={counted(card.subtasks, 'subtask')}>
            <ListTree size={12} role="img" aria-label="subtasks:" />
            {card.subtasks}
          </span>
        )}
        {card.comments > 0 && (
          <span title={counted(card.comments, 'comment')}>
            <MessageSquare size={12} role="img" aria-label="comments:" />
            {card.comments}
          </span>
        )}
        {card.status === 'in_review' && (
          <span
            title={`${signed} of ${counted(card.required_reviewers, 'review')}`}
            data-full={signed >= card.required_reviewers || undefined}
          >
            <ShieldCheck size={12} role="img" aria-label="reviews:" />
            {signed}/{card.required_reviewers}
          </span>
        )}
        <CardAge card={card} />
      </span>
    </div>
  )
}

function Holder({ card }: { card: Card }) {
  const holder = holderOf(card)
  if (holder === null) return <span className={css.nobody}>Unassigned</span>
  const held = isHeld(card)
  return (
    <span className={css.holder} title={held ? `Claimed by ${holder}` : `Assigned to ${holder}`}>
      <Avatar name={holder} />
      <span className={css.name}>
        <Name>{holder}</Name>
      </span>
      {held && <LockKeyhole size={12} role="img" aria-label="claimed" />}
    </span>
  )
}

function CardAge({ card }: { card: Card }) {
  if (card.completed_at !== null && card.status === 'done') return <Age at={card.completed_at} since="Done" />
  if (card.started_at !== null) return <Age at={card.started_at} since="Started" />
  return <Age at={card.created_at} since="Written" />
}
