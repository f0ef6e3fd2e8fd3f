/** What the board asks before it does something: where to, whom, how urgent, which labels, why, and whether really. */

import { Suspense, useState } from 'react'
import type { Card } from '@/api/client'
import { Coming } from '@/ui/Coming'
import { Button, Field, Row, Stack, TextArea } from '@/ui/Controls'
import { Avatar, Dot, Name } from '@/ui/Facts'
import { Confirm, Dialog } from '@/ui/Overlays'
import { later } from '@/ui/parts'
import type { Actions } from './actions'
import type { Choice } from './Chooser'
import { STATUSES, type Status } from './cards'
import { LabelDot, PriorityMark } from './Marks'
import { assignRefusal, holderOf, type Rules, verdict } from './rules'
import { counted, PRIORITIES, PRIORITY_NAMES, quoted, STATUS_NAMES } from './words'

export const Chooser = later(() => import('./Chooser'))

export type Question = 'move' | 'assign' | 'priority' | 'labels' | 'delete' | 'block'

type AskingProps = {
  question: Question
  cards: Card[]
  rules: Rules
  actions: Actions
  move: (cards: Card[], to: Status) => void
  onClose: () => void
  onFocusBack: (event: Event) => void
}

export function Asking({ question, ...more }: AskingProps) {
  switch (question) {
    case 'block':
      return <BlockDialog {...more} />
    case 'delete':
      return <DeleteDialog {...more} />
    default:
      return (
        <Suspense fallback={<Coming />}>
          <Choosing question={question} {...more} />
        </Suspense>
      )
  }
}

type Part = Omit<AskingProps, 'question'>

export function named(cards: Card[]): string {
  return cards.length === 1 ? quoted(cards[0]!.title) : counted(cards.length, 'task')
}

const TITLES = { move: 'Move', assign: 'Assign', priority: 'Priority of', labels: 'Labels of' }
const PLACEHOLDERS = {
  move: 'Move to…',
  assign: 'Assign to…',
  priority: 'Set the priority…',
  labels: 'Find or add a label…',
}

function Choosing({ question, ...part }: Part & { question: Exclude<Question, 'block' | 'delete'> }) {
  const { cards, rules, actions, onClose, onFocusBack } = part
  const choices = { move: moves, assign: assignees, priority: priorities, labels }[question](part)
  const create = {
    label: (text: string) => `Add the label “${text}”`,
    run: (text: string) => void actions.label(cards, text, true),
  }
  return (
    <Chooser
      title={`${TITLES[question]} ${named(cards)}`}
      placeholder={PLACEHOLDERS[question]}
      choices={choices}
      onClose={onClose}
      onCloseAutoFocus={onFocusBack}
      {...(question === 'labels' ? { several: true, create } : {})}
      key={rules.me}
    />
  )
}

function moves({ cards, rules, move }: Part): Choice[] {
  const here = new Set(cards.map(({ status }) => status))
  return STATUSES.filter((status) => !(here.size === 1 && here.has(status))).map((status) => {
    const { may, refused } = verdict(rules, cards, status)
    const why = may.length === 0 ? (refused[0]?.why ?? null) : null
    return {
      value: STATUS_NAMES[status],
      label: (
        <>
          <Dot color={`var(--c-${status})`} /> <span>{STATUS_NAMES[status]}</span>
        </>
      ),
      note: refused.length > 0 ? `${may.length} of ${cards.length}` : undefined,
      why,
      run: () => move(cards, status),
    }
  })
}

function assignees({ cards, rules, actions }: Part): Choice[] {
  const { members, visibility } = rules.board.project
  const names = new Set([...rules.agents.keys(), ...(visibility === 'members' ? members : [])])
  for (const card of rules.cards.values()) if (card.assigned_to !== null) names.add(card.assigned_to)
  const choices = [...names].sort().map((name) => {
    const whys = cards.map((card) => assignRefusal(rules, card, name))
    const possible = whys.filter((why) => why === null).length
    return {
      value: name,
      label: (
        <>
          <Avatar name={name} /> <Name>{name}</Name>
        </>
      ),
      note:
        possible < cards.length ? `${possible} of ${cards.length}` : rules.agents.get(name)?.capabilities.join(', '),
      why: possible === 0 ? whys[0] : null,
      run: () => void actions.assign(cards, name),
    }
  })
  const nobody: Choice = {
    value: 'Nobody',
    label: <span>Nobody</span>,
    note: 'back to the backlog',
    run: () => void actions.unassign(cards),
  }
  return cards.some((card) => holderOf(card) !== null) ? [nobody, ...choices] : choices
}

function priorities({ cards, actions }: Part): Choice[] {
  return PRIORITIES.map((priority) => ({
    value: `${priority} ${PRIORITY_NAMES[priority]}`,
    label: (
      <>
        <PriorityMark priority={priority} />{' '}
        <span>
          {priority} {PRIORITY_NAMES[priority]}
        </span>
      </>
    ),
    run: () => void actions.prioritise(cards, priority),
  }))
}

function labels({ cards, rules, actions }: Part): Choice[] {
  const known = new Set<string>()
  for (const card of rules.cards.values()) for (const label of card.labels) known.add(label)
  return [...known].sort().map((label) => {
    const count = cards.filter((card) => card.labels.includes(label)).length
    const on = count === cards.length ? true : count > 0 ? 'some' : false
    return {
      value: label,
      label: (
        <>
          <LabelDot label={label} /> <bdi>{label}</bdi>
        </>
      ),
      on,
      run: () => void actions.label(cards, label, on !== true),
    }
  })
}

function BlockDialog({ cards, actions, onClose }: Part) {
  const [reason, setReason] = useState('')
  const said = reason.trim()
  const block = () => {
    void actions.move(cards, 'blocked', said)
    onClose()
  }
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={cards.length === 1 ? 'What blocks it?' : `What blocks these ${cards.length} tasks?`}
      about={cards.length === 1 ? <bdi>{quoted(cards[0]!.title)}</bdi> : undefined}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (said !== '') block()
        }}
      >
        <Stack>
          <Field label="Reason" hint="Everybody who looks at the board reads it, and so does the agent.">
            {(field) => (
              <TextArea
                {...field}
                autoFocus
                required
                maxLength={4000}
                value={reason}
                onChange={(event) => setReason(event.target.value)}
                onKeyDown={(event) => {
                  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && said !== '') block()
                }}
              />
            )}
          </Field>
          <Row spread>
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" look="primary" disabled={said === ''}>
              Move to Blocked
            </Button>
          </Row>
        </Stack>
      </form>
    </Dialog>
  )
}

function DeleteDialog({ cards, actions, onClose }: Part) {
  return (
    <Confirm
      open
      onOpenChange={(open) => !open && onClose()}
      title={cards.length === 1 ? 'Delete this task?' : `Delete ${counted(cards.length, 'task')}?`}
      about={
        <>
          <bdi>{cards.length === 1 ? `${quoted(cards[0]!.title)} goes` : 'They go'}</bdi> with all comments and files.
          What waited for {cards.length === 1 ? 'it' : 'them'} is blocked. This cannot be undone.
        </>
      }
      action="Delete"
      danger
      onConfirm={() => {
        void actions.remove(cards)
      }}
    />
  )
}
