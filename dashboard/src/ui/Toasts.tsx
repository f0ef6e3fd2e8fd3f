/** Short notes at the edge: what was done, and what was refused. They stay while the pointer or the focus is on them. */

import { X } from 'lucide-react'
import { Toast } from 'radix-ui'
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from 'react'
import { Button } from './Controls'
import css from './ui.module.css'

type Note = { id: number; tone: 'good' | 'bad' | 'plain'; text: ReactNode; action?: { label: string; run: () => void } }
type Say = {
  done: (text: ReactNode, action?: Note['action']) => void
  refused: (error: unknown) => void
}

const ToastContext = createContext<Say | null>(null)
const MOST = 4

export function useToast(): Say {
  const say = useContext(ToastContext)
  if (say === null) throw new Error('there are no toasts around this component')
  return say
}

let numbers = 0

export function Toasts({ children }: { children: ReactNode }) {
  const [notes, setNotes] = useState<Note[]>([])
  const add = useCallback((note: Omit<Note, 'id'>) => {
    setNotes((before) => [...before.slice(1 - MOST), { ...note, id: ++numbers }])
  }, [])
  const drop = useCallback((id: number) => setNotes((before) => before.filter((note) => note.id !== id)), [])
  const say = useMemo<Say>(
    () => ({
      done: (text, action) => add({ tone: 'good', text, ...(action ? { action } : {}) }),
      refused: (error) => add({ tone: 'bad', text: error instanceof Error ? error.message : String(error) }),
    }),
    [add],
  )
  return (
    <ToastContext value={say}>
      <Toast.Provider swipeDirection="right" duration={7000}>
        {children}
        {notes.map((note) => (
          <Toast.Root
            key={note.id}
            className={css.toast}
            data-tone={note.tone}
            type={note.tone === 'bad' ? 'foreground' : 'background'}
            onOpenChange={(open) => !open && drop(note.id)}
          >
            <Toast.Description asChild>
              <p>{note.text}</p>
            </Toast.Description>
            {note.action !== undefined && (
              <Toast.Action altText={note.action.label} asChild>
                <Button small onClick={note.action.run}>
                  {note.action.label}
                </Button>
              </Toast.Action>
            )}
            <Toast.Close asChild>
              <Button look="quiet" icon small aria-label="Dismiss">
                <X size={14} />
              </Button>
            </Toast.Close>
          </Toast.Root>
        ))}
        <Toast.Viewport className={css.toasts} label="Notifications ({hotkey})" />
      </Toast.Provider>
    </ToastContext>
  )
}
