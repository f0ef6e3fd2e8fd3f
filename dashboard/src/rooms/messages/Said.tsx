/** What a message says: plain text as it was written, with only such links as a person can follow without harm. */

import { useState } from 'react'
import { Button } from '@/ui/Controls'
import { harmless } from '@/ui/links'
import css from './messages.module.css'

const LONG = 1500
const LINK = /\bhttps?:\/\/[^\s<>"'`\u202a-\u202e\u2066-\u2069]{1,2000}/gi

export function Said({ text }: { text: string }) {
  const [whole, setWhole] = useState(false)
  if (text === '') return <p className={css.nothing}>Nothing but its type.</p>
  const long = text.length > LONG
  return (
    <>
      <p className={css.said} dir="auto">
        <WithLinks text={whole || !long ? text : text.slice(0, LONG)} />
        {long && !whole && '…'}
      </p>
      {long && (
        <Button small look="quiet" onClick={() => setWhole(!whole)}>
          {whole ? 'Show less' : `Show all ${text.length.toLocaleString()} characters`}
        </Button>
      )}
    </>
  )
}

function WithLinks({ text }: { text: string }) {
  const parts = []
  let from = 0
  for (const found of text.matchAll(LINK)) {
    const written = found[0].replace(/[.,;:!?)\]}]+$/, '')
    const href = harmless(written)
    if (href === '') continue
    parts.push(
      text.slice(from, found.index),
      <a key={found.index} href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">
        {written}
      </a>,
    )
    from = found.index + written.length
  }
  return [...parts, text.slice(from)]
}
