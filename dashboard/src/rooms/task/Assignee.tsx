/** Who has the task: claimed by an agent itself, or assigned to somebody. */

import { ChevronDown, Undo2, UserRoundMinus } from 'lucide-react'
import { api, type Task, take } from '@/api/client'
import { Combobox } from '@/ui/Combobox'
import { Button, Row, Stack } from '@/ui/Controls'
import { Avatar, Name } from '@/ui/Facts'
import { Popover } from '@/ui/Overlays'
import { useNameChoices } from './choices'
import { pathOf, useTaskAct } from './task'
import css from './task.module.css'

type AssigneeProps = { task: Task; may: boolean; open: boolean; onOpenChange: (open: boolean) => void }

export function Assignee({ task, may, open, onOpenChange }: AssigneeProps) {
  const holder = task.claimed_by ?? task.assigned_to
  const who =
    holder === null ? (
      <span className={css.faint}>Nobody</span>
    ) : (
      <>
        <Avatar name={holder} />{' '}
        <span className={css.clip}>
          <Name>{holder}</Name>
        </span>{' '}
        <span className={css.faint}>{wordOf(task)}</span>
      </>
    )
  if (!may) return <Row className={css.value}>{who}</Row>
  return (
    <Popover
      open={open}
      onOpenChange={onOpenChange}
      trigger={
        <Button
          look="quiet"
          small
          className={css.valueButton}
          aria-label={`Who has it: ${holder === null ? 'Nobody' : `${holder} ${wordOf(task)}`}. Change it`}
        >
          {who} <ChevronDown size={14} aria-hidden="true" />
        </Button>
      }
    >
      {open && <Hands task={task} onDone={() => onOpenChange(false)} />}
    </Popover>
  )
}

function wordOf(task: Task): string {
  if (task.claimed_by === null) return 'assigned'
  return task.status === 'ready' ? 'claimed, not begun' : 'claimed'
}

function Hands({ task, onDone }: { task: Task; onDone: () => void }) {
  const act = useTaskAct({ project: task.project_id, task: task.id })
  const choices = useNameChoices(task.required_capabilities)
  const params = pathOf({ project: task.project_id, task: task.id })
  const T = '/api/v1/projects/{project_id}/tasks/{task_id}' as const
  const run = (call: () => Promise<unknown>) => act.mutate(call, { onSuccess: onDone })
  const claimed = task.claimed_by !== null && (task.status === 'ready' || task.status === 'in_progress')
  return (
    <Stack className={css.hands}>
      <Combobox
        aria-label="Assign to"
        placeholder="Assign to…"
        autoFocus
        free
        choices={choices}
        onPick={(agent) => run(() => take(api.POST(`${T}/assign`, { params, body: { agent } })))}
      />
      <p className={css.faint}>It becomes ready, for them alone.</p>
      {claimed && (
        <Button small onClick={() => run(() => take(api.POST(`${T}/release`, { params, body: {} })))}>
          <Undo2 size={14} aria-hidden="true" /> Release: back to the queue
        </Button>
      )}
      {(task.claimed_by ?? task.assigned_to) !== null && (
        <Button small onClick={() => run(() => take(api.POST(`${T}/unassign`, { params })))}>
          <UserRoundMinus size={14} aria-hidden="true" /> Unassign: back to the backlog
        </Button>
      )}
    </Stack>
  )
}
