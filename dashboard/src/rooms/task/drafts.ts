/** Text that somebody writes and has not sent: it is not lost without asking, and overwrites nothing unseen. */

import { createContext, useCallback, useContext, useEffect, useId, useState } from 'react'

export const DraftsContext = createContext<(name: string, written: boolean) => void>(() => undefined)

/** Whether something was written, in any of the fields beneath the context. */
export function useDrafts(): [boolean, (name: string, written: boolean) => void] {
  const [names, setNames] = useState<ReadonlySet<string>>(new Set())
  const tell = useCallback((name: string, written: boolean) => {
    setNames((before) => {
      if (before.has(name) === written) return before
      const after = new Set(before)
      if (written) after.add(name)
      else after.delete(name)
      return after
    })
  }, [])
  return [names.size > 0, tell]
}

/** Says that there is unsent text while `written`. */
export function useUnsent(written: boolean): void {
  const tell = useContext(DraftsContext)
  const name = useId()
  useEffect(() => {
    tell(name, written)
    return () => tell(name, false)
  }, [tell, name, written])
}

export type Draft = {
  text: string | null
  /** Somebody else changed what this draft began from. */
  overtaken: boolean
  begin: () => void
  write: (text: string) => void
  leave: () => void
  /** Goes on from what is there now: the next save overwrites it knowingly. */
  rebase: () => void
}

/** A draft of `value`; `text` is null while nobody edits. */
export function useDraft(value: string): Draft {
  const [draft, setDraft] = useState<{ text: string; from: string } | null>(null)
  useUnsent(draft !== null && draft.text !== draft.from)
  return {
    text: draft?.text ?? null,
    overtaken: draft !== null && draft.from !== value && draft.text !== value,
    begin: () => setDraft((before) => before ?? { text: value, from: value }),
    write: (text) => setDraft((before) => ({ from: value, ...before, text })),
    leave: () => setDraft(null),
    rebase: () => setDraft((before) => before && { ...before, from: value }),
  }
}
