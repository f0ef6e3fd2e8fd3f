/** Everything that can be done with a card, or with all that are chosen. One menu for the whole board, at the pointer. */

import {
  ArrowRightLeft,
  ChevronRight,
  Link2,
  PanelRightOpen,
  Signature,
  Tag,
  Trash2,
  Undo2,
  UserRound,
  UserRoundX,
} from 'lucide-react'
import { DropdownMenu } from 'radix-ui'
import type { ReactNode } from 'react'
import type { Card } from '@/api/client'
import { classes } from '@/ui/Controls'
import { Dot } from '@/ui/Facts'
import { MenuItem, MenuSeparator } from '@/ui/Overlays'
import { useToast } from '@/ui/Toasts'
import ui from '@/ui/ui.module.css'
import { named, type Question } from './Asking'
import type { Actions } from './actions'
import css from './board.module.css'
import { STATUSES, type Status } from './cards'
import type { Point } from './desk'
import { PriorityMark } from './Marks'
import { holderOf, isHeld, type Rules, verdict } from './rules'
import { PRIORITIES, PRIORITY_NAMES, STATUS_NAMES } from './words'

type CardMenuProps = {
  at: Point
  cards: Card[]
  rules: Rules
  actions: Actions
  move: (cards: Card[], to: Status) => void
  open: (id: string) => void
  ask: (question: Question) => void
  onClose: () => void
  onFocusBack: (event: Event) => void
}

export function CardMenu({ at, onClose, onFocusBack, ...more }: CardMenuProps) {
  const { cards, actions, ask } = more
  const only = cards.length === 1 ? cards[0] : undefined
  return (
    <DropdownMenu.Root open onOpenChange={(open) => !open && onClose()} modal={false}>
      <DropdownMenu.Trigger asChild>
        <span className={css.anchor} style={{ left: at.x, top: at.y }} aria-hidden="true" />
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          className={ui.menu}
          align="start"
          sideOffset={0}
          collisionPadding={8}
          aria-label={`Actions for ${named(cards)}`}
          onCloseAutoFocus={onFocusBack}
        >
          {only === undefined ? (
            <DropdownMenu.Label className={css.menuLabel}>{named(cards)}</DropdownMenu.Label>
          ) : (
            <MenuItem onSelect={() => more.open(only.id)}>
              <PanelRightOpen size={15} /> Open
            </MenuItem>
          )}
          <MoveTo {...more} />
          <MenuItem onSelect={() => ask('assign')}>
            <UserRound size={15} /> Assign to… <small>A</small>
          </MenuItem>
          {cards.some((card) => holderOf(card) !== null) && (
            <MenuItem onSelect={() => void actions.unassign(cards)}>
              <UserRoundX size={15} /> Unassign
            </MenuItem>
          )}
          {cards.every((card) => isHeld(card) || card.status === 'in_progress') && (
            <MenuItem onSelect={() => void actions.release(cards)}>
              <Undo2 size={15} /> Give back to the queue
            </MenuItem>
          )}
          <Sign {...more} />
          <Sub icon={<PriorityMark priority={only?.priority ?? 'P2'} />} label="Priority">
            {PRIORITIES.map((priority) => (
              <MenuItem key={priority} onSelect={() => void actions.prioritise(cards, priority)}>
                <PriorityMark priority={priority} /> {PRIORITY_NAMES[priority]} <small>{priority}</small>
              </MenuItem>
            ))}
          </Sub>
          <MenuItem onSelect={() => ask('labels')}>
            <Tag size={15} /> Labels…
          </MenuItem>
          {only !== undefined && <CopyLink id={only.id} />}
          <MenuSeparator />
          <MenuItem danger onSelect={() => ask('delete')}>
            <Trash2 size={15} /> Delete…
          </MenuItem>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  )
}

type Part = Omit<CardMenuProps, 'at' | 'onClose' | 'onFocusBack'>

function Sub({ icon, label, children }: { icon: ReactNode; label: string; children: ReactNode }) {
  return (
    <DropdownMenu.Sub>
      <DropdownMenu.SubTrigger className={ui.item}>
        {icon} {label} <ChevronRight size={14} className={css.chevron} aria-hidden="true" />
      </DropdownMenu.SubTrigger>
      <DropdownMenu.Portal>
        <DropdownMenu.SubContent className={ui.menu} collisionPadding={8} sideOffset={2}>
          {children}
        </DropdownMenu.SubContent>
      </DropdownMenu.Portal>
    </DropdownMenu.Sub>
  )
}

function MoveTo({ cards, rules, move }: Part) {
  const here = cards.length === 1 ? cards[0]!.status : undefined
  return (
    <Sub icon={<ArrowRightLeft size={15} />} label="Move to">
      {STATUSES.filter((status) => status !== here).map((status) => {
        const { may, refused } = verdict(rules, cards, status)
        const none = may.length === 0
        return (
          <MenuItem
            key={status}
            className={classes(none && css.refusedItem)}
            disabled={none}
            onSelect={() => move(cards, status)}
          >
            <Dot color={`var(--c-${status})`} />
            <span>
              {STATUS_NAMES[status]}
              {status === 'blocked' && !none && '…'}
              {none && refused[0] !== undefined && <span className={css.why}>{refused[0].why}</span>}
            </span>
            {!none && refused.length > 0 && (
              <small>
                {may.length} of {cards.length}
              </small>
            )}
          </MenuItem>
        )
      })}
    </Sub>
  )
}

function Sign({ cards, rules, actions }: Part) {
  const reviewed = cards.filter((card) => card.status === 'in_review' && holderOf(card) !== rules.me)
  if (reviewed.length === 0 || reviewed.length < cards.length) return null
  const signed = reviewed.every((card) => card.reviewers.includes(rules.me))
  return (
    <MenuItem onSelect={() => void (signed ? actions.unsign(cards) : actions.sign(cards))}>
      <Signature size={15} /> {signed ? 'Take the signature back' : 'Sign the review'}
    </MenuItem>
  )
}

function CopyLink({ id }: { id: string }) {
  const say = useToast()
  const copy = async () => {
    const address = new URL(location.href)
    address.search = `?task=${id}`
    try {
      await navigator.clipboard.writeText(address.href)
      say.done('The link is copied.')
    } catch {
      say.refused('This browser does not let the page copy: open the task, and copy its address.')
    }
  }
  return (
    <MenuItem onSelect={() => void copy()}>
      <Link2 size={15} /> Copy link
    </MenuItem>
  )
}
