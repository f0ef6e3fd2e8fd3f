/** Small facts: badges, names, times, keys. */

import { type ReactNode, useSyncExternalStore } from 'react'
import { classes } from './Controls'
import { Tip } from './Overlays'
import { exactly, relatively } from './time'
import css from './ui.module.css'

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info'

export function Badge({ tone = 'plain', dot, children, title }: BadgeProps) {
  return (
    <span className={classes(css.badge, tone !== 'plain' && css[tone])} title={title}>
      {dot !== undefined && <Dot color={dot} />}
      <span>{children}</span>
    </span>
  )
}

type BadgeProps = { tone?: Tone; dot?: string; children: ReactNode; title?: string }

/** `color` is a token: `var(--good)`. */
export function Dot({ color }: { color: string }) {
  return <span className={css.dot} style={{ background: color }} aria-hidden="true" />
}

/** A name that somebody chose: its direction stays its own. */
export function Name({ children }: { children: string }) {
  return <bdi>{children}</bdi>
}

export function Avatar({ name, large }: { name: string; large?: boolean }) {
  return (
    <span
      className={css.avatar}
      style={{ '--hue': hueOf(name) } as object}
      data-large={large || undefined}
      data-letters={initials(name)}
      aria-hidden="true"
    />
  )
}

/** The colour of a name, the same wherever it stands. */
export function hueOf(name: string): number {
  let hue = 0
  for (const letter of name) hue = (hue * 31 + letter.codePointAt(0)!) % 360
  return hue
}

/** Of one word its first two letters; of several the first of the first and of the last, which tells `build-1` from `build-2`. */
export function initials(name: string): string {
  const words = name.match(/[\p{L}\p{N}]+/gu) ?? ['?']
  const [first = '', second = ''] =
    words.length > 1 ? [words[0]!, words.at(-1)!].map((word) => [...word][0]) : words[0]!
  return first + second
}

export function Key({ children }: { children: string }) {
  return <kbd className={css.kbd}>{children}</kbd>
}

// One clock for all the times on a page, so that they tick together.
const ticking = new Set<() => void>()
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

function tick(listener: () => void): () => void {
  ticking.add(listener)
  timer ??= setInterval(() => {
    now = Date.now()
    for (const told of ticking) told()
  }, 10_000)
  return () => {
    ticking.delete(listener)
    if (ticking.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** The present, to the tenth second. */
export function useNow(): number {
  return useSyncExternalStore(tick, () => now)
}

/** "3 min ago", with the exact time on hover. */
export function Time({ at }: { at: string }) {
  const present = Math.max(useNow(), Date.now() - 10_000)
  return (
    <Tip text={exactly(at)}>
      <time dateTime={at}>{relatively(at, present)}</time>
    </Tip>
  )
}
