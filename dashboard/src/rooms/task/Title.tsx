import { Pencil } from 'lucide-react'
import { type KeyboardEvent, useState } from 'react'
import type { Task } from '@/api/client'
import { Button, TextArea } from '@/ui/Controls'
import ui from '@/ui/ui.module.css'
import { useDraft } from './drafts'
import { useTaskChange } from './task'
import css from './task.module.css'

/** Enter saves, and so does leaving; Escape leaves it as it was. */
export function Title({ task, may }: { task: Task; may: boolean }) {
  const draft = useDraft(task.title)
  const change = useTaskChange({ project: task.project_id, task: task.id }, { quiet: true })
  const [wrong, setWrong] = useState<string>()
  const leave = () => {
    draft.leave()
    setWrong(undefined)
  }
  const save = async () => {
    const title = draft.text?.trim() ?? ''
    if (title === '' || title === task.title) return leave()
    if (draft.overtaken) return draft.rebase()
    try {
      await change.mutateAsync({ title })
      leave()
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error))
    }
  }
  const press = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === 'Enter') {
      event.preventDefault()
      void save()
    } else if (event.key === 'Escape') leave()
  }
  if (draft.text === null) {
    return (
      <div className={css.title}>
        <h2>
          <bdi>{task.title}</bdi>
        </h2>
        {may && (
          <Button look="quiet" icon small aria-label="Edit the title" onClick={draft.begin}>
            <Pencil size={14} />
          </Button>
        )}
      </div>
    )
  }
  return (
    <div data-escape>
      <TextArea
        autoFocus
        aria-label="Title"
        className={css.titleField}
        rows={1}
        maxLength={500}
        value={draft.text}
        onFocus={(event) => event.target.select()}
        onChange={(event) => draft.write(event.target.value.replace(/\n/g, ' '))}
        onKeyDown={press}
        onBlur={() => void save()}
      />
      {draft.overtaken && (
        <p className={ui.wrong} role="alert">
          Meanwhile it became “<bdi>{task.title}</bdi>”. Enter again replaces that, Escape keeps it.
        </p>
      )}
      {wrong !== undefined && (
        <p className={ui.wrong} role="alert">
          {wrong}
        </p>
      )}
    </div>
  )
}
