/** One thing that waits, with its answers; and what is told in its place once it was answered. */

import { ChevronDown, MessageSquarePlus, X } from 'lucide-react'
import { type FormEvent, type KeyboardEvent, useState } from 'react'
import type { TaskFacts } from '@/rooms/words/tasks'
import { ActorName, ProjectName } from '@/rooms/words/Words'
import { Button, Field, Row, TextArea } from '@/ui/Controls'
import { Avatar, Time } from '@/ui/Facts'
import type { Outcome } from './answering'
import { StateBadge } from './History'
import css from './inbox.module.css'
import { type Answer, type Item, KINDS } from './kinds'
import type { Answered } from './search'

type CardProps = {
  item: Item
  tasks: TaskFacts
  current: boolean
  open: boolean
  selected: boolean
  may: boolean
  noting: Answer<Item> | undefined
  onFocus: () => void
  onOpen: () => void
  onSelect: () => void
  onAnswer: (how: Answer<Item>, noted?: boolean) => void
  onNote: (how: Answer<Item>, note: string) => void
  onCancel: () => void
}

export function ItemCard({ item, tasks, current, open, selected, may, noting, onFocus, ...on }: CardProps) {
  const kind = KINDS[item.kind]
  const why = kind.why(item)
  const titled = `${item.id}-says`
  return (
    <article
      className={css.card}
      data-item={item.id}
      data-current={current || undefined}
      data-selected={selected || undefined}
      tabIndex={current ? 0 : -1}
      aria-labelledby={titled}
      onFocus={onFocus}
    >
      <div className={css.top}>
        {may && (
          <label className={css.check}>
            <input type="checkbox" checked={selected} onChange={on.onSelect} aria-label="Select this" />
          </label>
        )}
        <Avatar name={item.agent} />
        <div className={css.body}>
          <p className={css.sentence} id={titled}>
            <kind.Sentence item={item} tasks={tasks} />
          </p>
          <p className={css.meta}>
            {item.project !== null && <ProjectName project={item.project} />}
            <span>
              asked <Time at={item.since} />
            </span>
            {item.expires !== null && (
              <span>
                ends <Time at={item.expires} />
              </span>
            )}
          </p>
          {why !== '' && <blockquote className={css.why}>{why.slice(0, 2000)}</blockquote>}
        </div>
        <Button look="quiet" icon small aria-expanded={open} aria-label="What would change" onClick={on.onOpen}>
          <ChevronDown size={16} className={css.chevron} />
        </Button>
      </div>
      {open && <kind.Details item={item} tasks={tasks} />}
      {may && noting === undefined && (
        <div className={css.answers}>
          {kind.answers.map((how) => (
            <Button key={how.name} look={how.look} onClick={() => on.onAnswer(how)}>
              {how.label}
            </Button>
          ))}
          {kind.answers
            .filter((how) => !how.noted)
            .map((how) => (
              <Button
                key={how.name}
                look="quiet"
                icon
                aria-label={`${how.label} with a note`}
                onClick={() => on.onAnswer(how, true)}
              >
                <MessageSquarePlus size={16} />
              </Button>
            ))}
        </div>
      )}
      {noting !== undefined && (
        <NoteForm how={noting} onSend={(note) => on.onNote(noting, note)} onCancel={on.onCancel} />
      )}
    </article>
  )
}

type NoteProps = { how: Answer<Item>; onSend: (note: string) => void; onCancel: () => void }

function NoteForm({ how, onSend, onCancel }: NoteProps) {
  const [note, setNote] = useState('')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onSend(note.trim())
  }
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Escape') onCancel()
    else if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) submit(event)
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  return (
    <form className={css.note} onSubmit={submit}>
      <Field label="Note" hint={`Told to the agent, and kept. Enter: ${how.label.toLowerCase()}. Escape: not now.`}>
        {(field) => (
          <TextArea
            {...field}
            autoFocus
            rows={2}
            maxLength={2000}
            placeholder="Optional"
            value={note}
            onChange={({ target }) => setNote(target.value)}
            onKeyDown={press}
          />
        )}
      </Field>
      <Row>
        <Button type="submit" look="primary">
          {how.label}
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </Row>
    </form>
  )
}

export function GoneCard({ outcome, onPutAway }: { outcome: Outcome; onPutAway: () => void }) {
  const { item, state, by, note, mine } = outcome
  const kind = KINDS[item.kind]
  return (
    <article className={css.gone} data-item={item.id} tabIndex={-1} data-state={state}>
      <StateBadge state={state as Answered} />
      <div className={css.body}>
        <p className={css.sentence}>
          <kind.Sentence item={item} tasks={new Map()} />
        </p>
        <p className={state === 'failed' ? css.failed : css.meta}>
          {!mine && (
            <span>
              by <ActorName actor={by} />
            </span>
          )}{' '}
          {note !== '' && <bdi>{note.slice(0, 500)}</bdi>}
        </p>
      </div>
      <Button look="quiet" icon small aria-label="Put away" onClick={onPutAway}>
        <X size={14} />
      </Button>
    </article>
  )
}
