/** The state of a task, and where it may go from there. */

import { ChevronDown } from 'lucide-react'
import { type FormEvent, type KeyboardEvent, useState } from 'react'
import type { Task } from '@/api/client'
import { STATUSES, type Status } from '@/rooms/board/cards'
import { useMe } from '@/shell/session'
import { Chips } from '@/ui/Chips'
import { Button, Field, Input, Row, Stack } from '@/ui/Controls'
import { Dot } from '@/ui/Facts'
import { Popover } from '@/ui/Overlays'
import ui from '@/ui/ui.module.css'
import { useTaskChoices } from './choices'
import { statusColor, statusWord, useOthers, useTaskChange } from './task'
import css from './task.module.css'

type MovingProps = { task: Task; open: boolean; onOpenChange: (open: boolean) => void }

export function StatusBadge({ status }: { status: string }) {
  return (
    <span className={css.status}>
      <Dot color={statusColor(status)} /> {statusWord(status)}
    </span>
  )
}

export function Moving({ task, open, onOpenChange }: MovingProps) {
  return (
    <Popover
      open={open}
      onOpenChange={onOpenChange}
      trigger={
        <Button small aria-label={`State: ${statusWord(task.status)}. Move it`}>
          <StatusBadge status={task.status} /> <ChevronDown size={14} aria-hidden="true" />
        </Button>
      }
    >
      {open && <Moves task={task} onDone={() => onOpenChange(false)} />}
    </Popover>
  )
}

function Moves({ task, onDone }: { task: Task; onDone: () => void }) {
  const me = useMe()
  const { board } = useOthers(task.project_id)
  const change = useTaskChange({ project: task.project_id, task: task.id }, { quiet: true })
  const [note, setNote] = useState('')
  const [blocking, setBlocking] = useState(false)
  const held = task.status === 'ready' && task.claimed_by !== null
  const moves = board?.moves ?? {}
  const from = held ? 'held' : task.status
  const allowed = moves[from] ?? STATUSES
  const go = (body: Parameters<typeof change.mutate>[0]) =>
    change.mutate({ note: note.trim(), ...body }, { onSuccess: onDone })
  const wrong = change.error?.message
  if (blocking) return <Block task={task} wrong={wrong} busy={change.isPending} onBlock={go} />
  return (
    <Stack className={css.moves} onKeyDown={byArrows}>
      {STATUSES.filter((status) => status !== task.status).map((status) => {
        const refused = allowed.includes(status) ? unsigned(task, status, me.name) : detour(moves, from, status)
        return (
          <Button
            key={status}
            look="quiet"
            className={css.move}
            disabled={refused !== undefined || change.isPending}
            onClick={() => (status === 'blocked' ? setBlocking(true) : go({ status }))}
          >
            <StatusBadge status={status} />
            <small>{refused ?? hintOf(task, status)}</small>
          </Button>
        )
      })}
      <Input
        aria-label="A note for the history"
        placeholder="A note for the history"
        maxLength={4000}
        value={note}
        onChange={(event) => setNote(event.target.value)}
      />
      {wrong !== undefined && (
        <p className={ui.wrong} role="alert">
          {wrong}
        </p>
      )}
    </Stack>
  )
}

/** Why it cannot be done yet: who moves it there signs by that, unless they work on it. */
function unsigned(task: Task, to: Status, me: string): string | undefined {
  if (to !== 'done') return undefined
  const works = [task.assigned_to, task.claimed_by]
  const signed = new Set(works.includes(me) ? task.reviewers : [...task.reviewers, me])
  const missing = task.required_reviewers - [...signed].filter((name) => !works.includes(name)).length
  return missing > 0 ? `${missing} more must sign it first` : undefined
}

/** The first step of the shortest way there. */
function detour(moves: Record<string, string[]>, from: string, to: Status): string {
  const came = new Map<string, string>((moves[from] ?? []).map((step) => [step, step]))
  const ahead = [...came.keys()]
  for (const here of ahead) {
    if (here === 'done') continue
    for (const next of moves[here] ?? []) {
      if (next === to) return `First to ${statusWord(came.get(here) ?? here).toLowerCase()}`
      if (came.has(next)) continue
      came.set(next, came.get(here) ?? here)
      ahead.push(next)
    }
  }
  return 'Not possible'
}

/** What else a move means. */
function hintOf(task: Task, to: Status): string | undefined {
  if (to === 'done') return `${task.reviewers.length} of ${task.required_reviewers} signed; yours counts`
  if (to === 'backlog' && (task.assigned_to ?? task.claimed_by) !== null) return 'Nobody’s, when it was claimed'
  if (to === 'in_progress' && task.status === 'in_review') return 'Rework; clears the signatures'
  if (to === 'in_progress' && task.waiting_for.length > 0) return `Waits for ${task.waiting_for.length}`
  return undefined
}

function byArrows(event: KeyboardEvent<HTMLElement>): void {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  const places = [...event.currentTarget.querySelectorAll<HTMLElement>('button:enabled, input')]
  const here = places.indexOf(document.activeElement as HTMLElement)
  const next = places[(here + (event.key === 'ArrowDown' ? 1 : -1) + places.length) % places.length]
  event.preventDefault()
  next?.focus()
}

type BlockProps = {
  task: Task
  wrong: string | undefined
  busy: boolean
  onBlock: (body: { status: string; blocked_reason: string | null; blocked_by: string | null }) => void
}

function Block({ task, wrong, busy, onBlock }: BlockProps) {
  const [reason, setReason] = useState('')
  const [by, setBy] = useState<string[]>([])
  const choices = useTaskChoices(task.project_id, task.id)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    onBlock({ status: 'blocked', blocked_reason: reason.trim() || null, blocked_by: by[0] ?? null })
  }
  return (
    <form onSubmit={submit} className={css.block}>
      <Stack>
        <Field label="What blocks it">
          {(field) => (
            <Input
              {...field}
              autoFocus
              maxLength={4000}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
          )}
        </Field>
        <Field label="Blocked by" hint="When that task is done, this one is ready again.">
          {(field) => (
            <Chips {...field} most={1} values={by} onChange={setBy} choices={choices} placeholder="Another task" />
          )}
        </Field>
        {wrong !== undefined && (
          <p className={ui.wrong} role="alert">
            {wrong}
          </p>
        )}
        <Row className={ui.end}>
          <Button type="submit" small look="primary" disabled={busy}>
            Block
          </Button>
        </Row>
      </Stack>
    </form>
  )
}
