/**
 * What can wait for a person, each kind with its words and its answers. A further kind (a prompt of a terminal, an ask
 * of the gate) joins `Item` and `KINDS`, and says in `waiting.ts` and `items.ts` where its items come from; the page needs no change.
 */

import type { ComponentType } from 'react'
import type { TaskFacts } from '@/rooms/words/tasks'
import type { ProposalItem } from './proposals'
import { proposals } from './proposals'

export type Waiting = {
  id: string
  agent: string
  project: string | null
  task: string | null
  since: string
  expires: string | null
}

export type Answer<I> = {
  name: string
  label: string
  done: string
  key: string
  look: 'primary' | 'plain'
  /** Whether it is asked with a note first; otherwise it is done at once, and `withNote` names the other way. */
  noted: boolean
  /** What to say before it is done, when it cannot be made good again. */
  asks: (item: I, tasks: TaskFacts) => { title: string; about: string; action: string } | null
  send: (item: I, note: string) => Promise<unknown>
}

export type Kind<I> = {
  label: string
  icon: ComponentType<{ size?: number; 'aria-hidden'?: 'true' }>
  Sentence: ComponentType<{ item: I; tasks: TaskFacts }>
  /** In one line, for what is not looked at closely: who says what they want. */
  why: (item: I) => string
  Details: ComponentType<{ item: I; tasks: TaskFacts }>
  answers: readonly Answer<I>[]
}

export type Item = ProposalItem

export const KINDS: { [K in Item['kind']]: Kind<Extract<Item, { kind: K }>> } = { proposal: proposals }
