/** Small marks on cards: how urgent, how old, which label. */

import { useNow } from '@/ui/Facts'
import { exactly, span } from '@/ui/time'
import css from './card.module.css'
import { isPriority, PRIORITY_NAMES } from './words'

const BARS = [
  { x: 1.5, y: 9, height: 4 },
  { x: 5.75, y: 6, height: 7 },
  { x: 10, y: 3, height: 10 },
]

/** Three bars for high, two for normal, one for low; what is critical is a sign of its own. */
export function PriorityMark({ priority }: { priority: string }) {
  const name = isPriority(priority) ? `${priority}, ${PRIORITY_NAMES[priority].toLowerCase()}` : priority
  const lit = { P1: 3, P2: 2, P3: 1 }[priority] ?? 0
  return (
    <svg className={css.priority} data-priority={priority} viewBox="0 0 14 14" role="img" aria-label={name}>
      <title>{name}</title>
      {priority === 'P0' ? (
        <>
          <rect x="0.5" y="0.5" width="13" height="13" rx="3.5" />
          <path className={css.cut} d="M7 3.4v4.4M7 10.1v.6" />
        </>
      ) : (
        BARS.map(({ x, y, height }, bar) => (
          <rect key={x} x={x} y={y} width="2.6" height={height} rx="1" opacity={bar < lit ? 1 : 0.25} />
        ))
      )}
    </svg>
  )
}

const SERIES = 6

/** A label keeps its colour wherever it is shown. */
export function labelColor(label: string): string {
  let sum = 7
  for (const letter of label) sum = (sum * 31 + letter.codePointAt(0)!) % 65_521
  return `var(--series-${(sum % SERIES) + 1})`
}

export function LabelDot({ label }: { label: string }) {
  return <span className={css.dot} style={{ background: labelColor(label) }} aria-hidden="true" />
}

/** `3 d`, with what it counts from on hover. */
export function Age({ at, since }: { at: string; since: string }) {
  const now = Math.max(useNow(), Date.now() - 10_000)
  const [count = '', unit = ''] = span((now - Date.parse(at)) / 1000).split(' ')
  return (
    <time className={css.age} dateTime={at} title={`${since} ${exactly(at)}`}>
      {unit === 's' ? 'now' : `${count} ${unit}`}
    </time>
  )
}
