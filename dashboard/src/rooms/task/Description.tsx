import { Pencil } from 'lucide-react'
import { type KeyboardEvent, type Ref, useImperativeHandle, useRef, useState } from 'react'
import { api, type Task, take } from '@/api/client'
import { useEvents } from '@/live/refresh'
import { Button, Row, TextArea } from '@/ui/Controls'
import { Key } from '@/ui/Facts'
import { Markdown } from '@/ui/Markdown'
import { Confirm } from '@/ui/Overlays'
import { type Draft, useDraft } from './drafts'
import { pathOf, useTaskChange } from './task'
import css from './task.module.css'

export type Editor = { edit: () => void }

type DescriptionProps = { task: Task; may: boolean; editor: Ref<Editor> }

export function Description({ task, may, editor }: DescriptionProps) {
  const draft = useDraft(task.description)
  useImperativeHandle(editor, () => ({ edit: draft.begin }))
  if (draft.text !== null) return <Editing task={task} draft={draft} />
  return (
    <section aria-label="Description" className={css.description}>
      {task.description === '' ? (
        <p className={css.faint}>{may ? 'No description yet.' : 'It has no description.'}</p>
      ) : (
        <Markdown text={task.description} />
      )}
      {may && (
        <Button look="quiet" small className={css.edit} onClick={draft.begin}>
          <Pencil size={14} aria-hidden="true" /> {task.description === '' ? 'Describe it' : 'Edit'}
        </Button>
      )}
    </section>
  )
}

function Editing({ task, draft }: { task: Task; draft: Draft }) {
  const where = { project: task.project_id, task: task.id }
  const change = useTaskChange(where, { quiet: true })
  const theirs = useOthersText(task, draft)
  const [leaving, setLeaving] = useState(false)
  const field = useRef<HTMLTextAreaElement>(null)
  const text = draft.text ?? ''
  const save = async () => {
    if (text === task.description) return draft.leave()
    if (theirs.text !== null || (await theirs.look())) return
    await change.mutateAsync({ description: text }).then(draft.leave, () => undefined) // said below
  }
  const leave = () => (text === task.description || theirs.began === text ? draft.leave() : setLeaving(true))
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void save()
    else if (event.key === 'Escape') leave()
  }
  return (
    <section aria-label="Description" className={css.editing} data-escape>
      <TextArea
        ref={field}
        autoFocus
        aria-label="Description, as Markdown"
        className={css.descriptionField}
        maxLength={200_000}
        value={text}
        onChange={(event) => draft.write(event.target.value)}
        onKeyDown={press}
      />
      {theirs.text !== null && (
        <div className={css.conflict} role="alert">
          <p>
            <bdi>{theirs.by ?? 'Somebody'}</bdi> changed the description while you were writing. It says now:
          </p>
          <div className={css.theirs}>
            <Markdown text={theirs.text === '' ? '*nothing*' : theirs.text} />
          </div>
          <Row>
            <Button
              small
              onClick={() => {
                theirs.accept()
                field.current?.focus()
              }}
            >
              Keep mine, and replace that
            </Button>
            <Button small onClick={draft.leave}>
              Take theirs, and drop mine
            </Button>
          </Row>
        </div>
      )}
      {change.error !== null && (
        <p className={css.wrong} role="alert">
          {change.error.message}
        </p>
      )}
      <Row spread>
        <span className={css.faint}>
          Markdown. <Key>Ctrl+Enter</Key> saves, <Key>Esc</Key> leaves.
        </span>
        <Row>
          <Button small onClick={leave}>
            Cancel
          </Button>
          <Button small look="primary" disabled={change.isPending || theirs.text !== null} onClick={() => void save()}>
            Save
          </Button>
        </Row>
      </Row>
      <Confirm
        open={leaving}
        onOpenChange={setLeaving}
        title="Drop what you wrote?"
        about="The description stays as it was."
        action="Drop it"
        danger
        onConfirm={draft.leave}
      />
    </section>
  )
}

/** What somebody else made of the description since the draft began; `look` asks the server once more before saving. */
function useOthersText(task: Task, draft: Draft) {
  const [began] = useState(task.description)
  const [accepted, setAccepted] = useState(began)
  const [found, setFound] = useState<string | null>(null)
  const [by, setBy] = useState<string>()
  useEvents((events) => {
    for (const { kind, data } of events) {
      const fields = Array.isArray(data.changed) ? data.changed : []
      if (kind === 'task_changed' && data.task_id === task.id && fields.includes('description')) {
        setBy(data.actor.slice(data.actor.indexOf(':') + 1))
      }
    }
  })
  const now = found ?? task.description
  const path = pathOf({ project: task.project_id, task: task.id })
  return {
    began,
    by,
    text: now === accepted || now === draft.text ? null : now,
    accept: () => {
      setAccepted(now)
      setFound(null)
      draft.rebase()
    },
    look: async () => {
      const fresh = await take(api.GET('/api/v1/projects/{project_id}/tasks/{task_id}', { params: path })).catch(
        () => undefined, // then saving says why
      )
      if (fresh === undefined || fresh.description === accepted) return false
      setFound(fresh.description)
      return true
    },
  }
}
