/** What became of a message. */

import { Archive, Check, CheckCheck, CircleDot, Clock, type LucideIcon, Megaphone, TimerOff } from 'lucide-react'
import type { Message, Schemas } from '@/api/client'

export type Fate = 'acknowledged' | 'set aside' | 'expired' | 'delivered' | 'waiting' | 'broadcast'
type Look = { word: string; mark: LucideIcon; meaning: string; color: string }

export const FATES: Record<Fate, Look> = {
  acknowledged: {
    word: 'Acknowledged',
    mark: CheckCheck,
    meaning: 'Its recipient has dealt with it.',
    color: 'var(--good)',
  },
  'set aside': {
    word: 'Set aside',
    mark: Archive,
    meaning: 'Its recipient was revoked or left before reading it.',
    color: 'var(--ink-3)',
  },
  expired: { word: 'Expired', mark: TimerOff, meaning: 'Its time ran out before it was read.', color: 'var(--ink-3)' },
  delivered: {
    word: 'Delivered',
    mark: Check,
    meaning: 'Handed out, and not acknowledged yet.',
    color: 'var(--info)',
  },
  waiting: { word: 'Not delivered yet', mark: Clock, meaning: 'Its recipient has not asked.', color: 'var(--warn)' },
  broadcast: { word: 'To everybody', mark: Megaphone, meaning: 'Each agent has its own.', color: 'var(--ink-3)' },
}

export const UNREAD = CircleDot

export function fateOf(message: Message, now: number): Fate {
  if (message.acknowledged === null) return 'broadcast'
  if (message.set_aside) return 'set aside'
  if (message.acknowledged) return 'acknowledged'
  if (Date.parse(message.expires_at) <= now) return 'expired'
  return message.delivered ? 'delivered' : 'waiting'
}

export function fateOfDelivery(delivery: Schemas['DeliveryView'], expires: string, now: number): Fate {
  if (delivery.set_aside_at !== null) return 'set aside'
  if (delivery.acknowledged_at !== null) return 'acknowledged'
  if (Date.parse(expires) <= now) return 'expired'
  return delivery.delivered_at === null ? 'waiting' : 'delivered'
}

export function isOpen(fate: Fate): boolean {
  return fate === 'waiting' || fate === 'delivered'
}
