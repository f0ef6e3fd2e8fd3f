import { Tip } from '@/ui/Overlays'
import css from './crew.module.css'
import { LOOKS, type Presence } from './presence'

export function PresenceMark({ status, size = 14 }: { status: Presence; size?: number }) {
  const { mark: Mark, color, filled } = LOOKS[status]
  return (
    <Mark
      size={size}
      color={color}
      fill={filled ? color : 'none'}
      strokeWidth={2.25}
      aria-hidden="true"
      data-presence
    />
  )
}

/** The mark with its word; what it means on hover. */
export function PresenceWord({ status }: { status: Presence }) {
  const { word, meaning, color } = LOOKS[status]
  return (
    <Tip text={meaning}>
      <span className={css.presence} style={{ color }} data-status={status}>
        <PresenceMark status={status} />
        {word}
      </span>
    </Tip>
  )
}
