/** The board's keys. They work on the card that has, or last had, the focus, or on all that are chosen. */

import { type Command, useCommands } from '@/shell/commands'
import type { Question } from './Asking'
import type { Direction } from './lanes'

type BoardKeys = {
  may: boolean
  /** Nothing lies over the board, and nothing is lifted. */
  free: boolean
  current: boolean
  several: boolean
  go: (to: Direction) => void
  open: () => void
  choose: () => void
  lift: () => void
  menu: () => void
  ask: (question: Question) => void
  clear: () => void
  create: () => void
  search: () => void
  clearFilters: () => void
}

const GROUP = 'Board'

/** Keys that buttons and links use themselves count only on a card, or where nothing has the focus. */
function onCard(): boolean {
  const focused = document.activeElement
  return focused instanceof HTMLElement && focused.dataset.place !== undefined
}

function onBoard(): boolean {
  return onCard() || document.activeElement === document.body || document.activeElement?.id === 'content'
}

const WAYS: [Direction, string, string, string][] = [
  ['down', 'The card below', 'j', 'ArrowDown'],
  ['up', 'The card above', 'k', 'ArrowUp'],
  ['left', 'The column to the left', 'h', 'ArrowLeft'],
  ['right', 'The column to the right', 'l', 'ArrowRight'],
]

const ASKED: [Question, string, string][] = [
  ['move', 'Move…', 'm'],
  ['assign', 'Assign…', 'a'],
  ['priority', 'Priority…', 'p'],
  ['labels', 'Labels…', 'Shift+L'],
  ['delete', 'Delete…', 'Delete'],
]

export function useBoardCommands(keys: BoardKeys): void {
  const { may, free, current, several } = keys
  const with_ = (commands: Omit<Command, 'group'>[]) => commands.map((command) => ({ ...command, group: GROUP }))
  const moving = WAYS.flatMap(([to, label, letter, arrow]) => [
    { id: `board-${to}`, label, keys: letter, run: () => keys.go(to) },
    { id: `board-${to}-arrow`, label, keys: arrow, when: onBoard, run: () => keys.go(to) },
  ])
  const reading = [
    ...moving,
    { id: 'board-open', label: 'Open the card', keys: 'Enter', when: onCard, run: keys.open },
    { id: 'board-search', label: 'Search this board', keys: '/', run: keys.search },
    { id: 'board-clear-filters', label: 'Clear all filters', run: keys.clearFilters },
  ]
  const doing = [
    { id: 'board-new', label: 'New task', keys: 'c', run: keys.create },
    { id: 'board-choose', label: 'Choose the card, or not', keys: 'x', run: keys.choose },
    { id: 'board-lift', label: 'Lift the card, to drop it in a column', keys: 'Space', when: onCard, run: keys.lift },
    { id: 'board-menu', label: 'Actions for the card', keys: '.', run: keys.menu },
    ...(current || several
      ? ASKED.map(([question, label, key]) => ({
          id: `board-${question}`,
          label,
          keys: key,
          run: () => keys.ask(question),
        }))
      : []),
    ...(several ? [{ id: 'board-none', label: 'Choose none', keys: 'Escape', when: onBoard, run: keys.clear }] : []),
  ]
  useCommands(free ? with_([...reading, ...(may ? doing : [])]) : [])
}
