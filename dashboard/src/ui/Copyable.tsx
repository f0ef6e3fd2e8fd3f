/** Text to take elsewhere, exactly as it stands, with a button that copies it. */

import { Check, Copy } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { Button } from './Controls'
import css from './copyable.module.css'

export function Copyable({ text, label }: { text: string; label: string }) {
  const shown = useRef<HTMLPreElement>(null)
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 2500)
    return () => clearTimeout(timer)
  }, [copied])
  const copy = async () => {
    setCopied(await toClipboard(text, shown.current))
  }
  return (
    <div className={css.copyable}>
      <section aria-label={label}>
        <pre ref={shown}>{text}</pre>
      </section>
      <Button small onClick={() => void copy()} aria-label={`Copy: ${label}`}>
        {copied ? <Check size={14} aria-hidden="true" /> : <Copy size={14} aria-hidden="true" />}
        <span aria-live="polite">{copied ? 'Copied' : 'Copy'}</span>
      </Button>
    </div>
  )
}

/** Over plain HTTP from another machine there is no clipboard: then the text is selected and copied as by hand. */
async function toClipboard(text: string, shown: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    if (shown === null) return false
    getSelection()?.selectAllChildren(shown)
    return document.execCommand('copy')
  }
}
