/** A title, Enter, and the next one. */

import { Plus } from 'lucide-react'
import { type FormEvent, useRef, useState } from 'react'
import { api, take } from '@/api/client'
import { Input } from '@/ui/Controls'
import { useToast } from '@/ui/Toasts'
import css from './board.module.css'
import { useCardRefresh } from './cards'
import { STATUS_NAMES } from './words'

type QuickAddProps = { project: string; status: 'backlog' | 'ready' }

export function QuickAdd({ project, status }: QuickAddProps) {
  const [open, setOpen] = useState(false)
  const [title, setTitle] = useState('')
  const [busy, setBusy] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const refresh = useCardRefresh(project)
  const say = useToast()
  const add = async (event: FormEvent) => {
    event.preventDefault()
    const said = title.trim()
    if (said === '' || busy) return
    setBusy(true)
    try {
      const body = { title: said, status }
      const made = await take(
        api.POST('/api/v1/projects/{project_id}/tasks', { params: { path: { project_id: project } }, body }),
      )
      setTitle((now) => (now.trim() === said ? '' : now))
      if ('id' in made) await refresh([made.id]).catch(() => undefined)
    } catch (error) {
      say.refused(error)
    } finally {
      setBusy(false)
    }
  }
  const close = () => {
    setOpen(false)
    setTimeout(() => opener.current?.focus())
  }
  if (!open)
    return (
      <button ref={opener} type="button" className={css.add} onClick={() => setOpen(true)}>
        <Plus size={14} aria-hidden="true" /> Add
        <span className="sr-only"> to {STATUS_NAMES[status]}</span>
      </button>
    )
  return (
    <form className={css.adding} onSubmit={add}>
      <Input
        autoFocus
        aria-label={`Title of a new task in ${STATUS_NAMES[status]}`}
        placeholder="A title, then Enter"
        maxLength={500}
        value={title}
        onChange={(event) => setTitle(event.target.value)}
        onBlur={() => title.trim() === '' && !busy && setOpen(false)}
        onKeyDown={(event) => event.key === 'Escape' && close()}
      />
    </form>
  )
}
