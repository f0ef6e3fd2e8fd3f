/** Who signed the task, and how many must. */

import { Check, Signature, X } from 'lucide-react'
import { api, type Task, take } from '@/api/client'
import { useMe } from '@/shell/session'
import { Combobox } from '@/ui/Combobox'
import { Button, Input, Row, Stack } from '@/ui/Controls'
import { Avatar, Badge, Name } from '@/ui/Facts'
import { Popover } from '@/ui/Overlays'
import { useNameChoices } from './choices'
import { pathOf, useTaskAct, useTaskChange } from './task'
import css from './task.module.css'

export function Reviews({ task, may }: { task: Task; may: boolean }) {
  const me = useMe()
  const where = { project: task.project_id, task: task.id }
  const act = useTaskAct(where)
  const choices = useNameChoices()
  const enough = task.reviewers.length >= task.required_reviewers
  const works = (name: string) => name === task.assigned_to || name === task.claimed_by
  const of = (name: string) => ({ path: { ...pathOf(where).path, name } })
  const T = '/api/v1/projects/{project_id}/tasks/{task_id}/reviewers/{name}' as const
  const sign = (name: string) => act.mutate(() => take(api.POST(T, { params: of(name) })))
  const takeBack = (name: string) => act.mutate(() => take(api.DELETE(T, { params: of(name) })))
  return (
    <Row className={css.value}>
      <Badge tone={enough ? 'good' : 'plain'}>
        {task.reviewers.length} of {task.required_reviewers} signed
      </Badge>
      {task.reviewers.map((name) => (
        <span key={name} className={css.person}>
          <Avatar name={name} />{' '}
          <span className={css.clip}>
            <Name>{name}</Name>
          </span>
          {may && (
            <Button
              look="quiet"
              icon
              small
              aria-label={`Take back the review of ${name}`}
              onClick={() => takeBack(name)}
            >
              <X size={12} />
            </Button>
          )}
        </span>
      ))}
      {may && !task.reviewers.includes(me.name) && !works(me.name) && (
        <Button look="quiet" small disabled={act.isPending} onClick={() => sign(me.name)}>
          <Check size={14} aria-hidden="true" /> Sign
        </Button>
      )}
      {may && (
        <Popover
          trigger={
            <Button look="quiet" icon small aria-label="More about reviews">
              <Signature size={14} />
            </Button>
          }
        >
          <Stack className={css.hands}>
            <Combobox
              aria-label="Record a review by"
              placeholder="Record a review by…"
              free
              choices={choices.filter(({ value }) => !works(value) && !task.reviewers.includes(value))}
              onPick={sign}
            />
            <Required task={task} />
          </Stack>
        </Popover>
      )}
    </Row>
  )
}

function Required({ task }: { task: Task }) {
  const change = useTaskChange({ project: task.project_id, task: task.id })
  const save = (text: string) => {
    const count = Number.parseInt(text, 10)
    if (Number.isInteger(count) && count !== task.required_reviewers) change.mutate({ required_reviewers: count })
  }
  return (
    <div className={css.required}>
      <span id="signatures-needed">Signatures needed</span>
      <Input
        aria-labelledby="signatures-needed"
        key={task.required_reviewers}
        type="number"
        min={0}
        max={100}
        defaultValue={task.required_reviewers}
        onBlur={(event) => save(event.target.value)}
        onKeyDown={(event) => event.key === 'Enter' && save(event.currentTarget.value)}
      />
    </div>
  )
}
