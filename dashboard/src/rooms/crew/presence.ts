/** Whether an agent is there, and if not, why not: each with a mark of its own, a word and a colour. */

import { Ban, Circle, CircleDashed, CircleOff, CirclePause, Hourglass, type LucideIcon } from 'lucide-react'
import type { Agent } from '@/api/client'

export type Presence = Agent['status']
export const PRESENCES: readonly Presence[] = ['online', 'busy', 'stalled', 'stale', 'offline', 'revoked']

type Look = { word: string; mark: LucideIcon; filled?: boolean; color: string; meaning: string }

export const LOOKS: Record<Presence, Look> = {
  online: { word: 'Online', mark: Circle, filled: true, color: 'var(--good)', meaning: 'Heard of a moment ago.' },
  busy: { word: 'Paused', mark: CirclePause, color: 'var(--info)', meaning: 'Keeps what it holds, does nothing new.' },
  stalled: {
    word: 'Stalled',
    mark: Hourglass,
    color: 'var(--warn)',
    meaning: 'Holds work, and submits no checkpoints.',
  },
  stale: { word: 'Stale', mark: CircleDashed, color: 'var(--warn)', meaning: 'Silent for a while.' },
  offline: {
    word: 'Offline',
    mark: CircleOff,
    color: 'var(--idle)',
    meaning: 'Silent for so long that its tasks returned.',
  },
  revoked: { word: 'Revoked', mark: Ban, color: 'var(--bad)', meaning: 'Halted, until it acknowledges.' },
}

/** Since when an agent is as it is shown, where that is known. */
export function since(agent: Agent): string | null {
  switch (agent.status) {
    case 'busy':
      return agent.paused_at
    case 'stalled':
      return agent.stalled_at
    case 'stale':
      return agent.stale_at
    case 'offline':
      return agent.offline_at
    default:
      return null
  }
}
