/** What is to be taken elsewhere: a link, a token, lines for a terminal. */

import { Check, Copy as CopyIcon } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { Button, type ButtonProps } from './Controls'
import css from './copy.module.css'

const SHOWN = 2000 // milliseconds for which "Copied" stands

/** Browsers keep the clipboard from pages of plain HTTP; selecting works everywhere. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    area.className = 'sr-only'
    const parent = document.activeElement?.closest('[role=dialog]') ?? document.body
    parent.append(area)
    area.select()
    const done = document.execCommand('copy')
    area.remove()
    return done
  }
}

type CopyProps = Omit<ButtonProps, 'onClick' | 'children'> & { text: string; label?: string }

export function Copy({ text, label = 'Copy', ...more }: CopyProps) {
  const [state, setState] = useState<'idle' | 'copied' | 'refused'>('idle')
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  const press = async () => {
    setState((await copy(text)) ? 'copied' : 'refused')
    clearTimeout(timer.current)
    timer.current = setTimeout(() => setState('idle'), SHOWN)
  }
  const said = { idle: label, copied: 'Copied', refused: 'Select it by hand' }[state]
  return (
    <Button {...more} onClick={() => void press()}>
      {state === 'copied' ? <Check size={14} aria-hidden="true" /> : <CopyIcon size={14} aria-hidden="true" />}
      <span aria-live="polite">{said}</span>
    </Button>
  )
}

/** Text to copy, whole and selectable; `title` says what it is. */
export function Copyable({ text, title, label }: { text: string; title: string; label?: string }) {
  return (
    <figure className={css.copyable}>
      <figcaption>
        <span>{title}</span>
        <Copy small look="quiet" text={text} aria-label={`Copy: ${title}`} {...(label ? { label } : {})} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <pre tabIndex={0}>{text}</pre>
    </figure>
  )
}
