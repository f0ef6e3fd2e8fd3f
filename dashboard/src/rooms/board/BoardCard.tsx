/** A card in its column: it can be opened, chosen, lifted, and has a menu. */

import { useDraggable } from '@dnd-kit/core'
import { Check, Ellipsis } from 'lucide-react'
import { type MouseEvent, memo, useEffect, useRef } from 'react'
import type { Card } from '@/api/client'
import { CardFace } from './CardFace'
import css from './card.module.css'
import { useDesk } from './desk'

type BoardCardProps = {
  card: Card
  lane: string
  chosen: boolean
  choosing: boolean
  lifted: boolean
  tabbable: boolean
  /** The number of the wish to have the focus here; 0: none. */
  wanted: number
}

export const HOW = 'board-how'

export const BoardCard = memo(function BoardCard({ card, lane, ...state }: BoardCardProps) {
  const desk = useDesk()
  const { project, may, movable } = desk
  const place = { lane, id: card.id }
  const { setNodeRef, listeners } = useDraggable({ id: `${lane}/${card.id}`, data: { card }, disabled: !movable })
  const link = useRef<HTMLAnchorElement>(null)
  useEffect(() => {
    if (state.wanted > 0 && desk.granted(state.wanted)) link.current?.focus({ preventScroll: true })
  }, [state.wanted, desk])
  const press = (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.button !== 0) return
    event.preventDefault()
    if (event.shiftKey && may) desk.choose(place, true)
    else desk.open(card.id)
  }
  const menuAt = (event: MouseEvent) => {
    if (!may) return
    event.preventDefault()
    desk.menu(place, { x: event.clientX, y: event.clientY })
  }
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the link in it, and its menu's button, do all this by keyboard
    <div
      ref={setNodeRef}
      className={css.card}
      data-card={card.id}
      data-chosen={state.chosen || undefined}
      data-lifted={state.lifted || undefined}
      data-held={card.claimed_by !== null || undefined}
      data-movable={movable || undefined}
      onContextMenu={menuAt}
      {...listeners}
    >
      <CardFace
        card={card}
        title={
          <a
            ref={link}
            href={`/app/projects/${project}?task=${card.id}`}
            className={css.link}
            draggable={false}
            tabIndex={state.tabbable ? 0 : -1}
            aria-describedby={may ? HOW : undefined}
            data-place={card.id}
            onClick={press}
            onFocus={() => desk.focused(place)}
          >
            <bdi>{card.title}</bdi>
          </a>
        }
        extra={
          may && (
            <span className={css.tools} data-shown={state.choosing || undefined}>
              <button
                type="button"
                tabIndex={-1}
                className={css.box}
                aria-label={`Choose ${card.title}`}
                aria-pressed={state.chosen}
                onClick={(event) => desk.choose(place, event.shiftKey)}
              >
                {state.chosen && <Check size={12} strokeWidth={3} aria-hidden="true" />}
              </button>
              <button
                type="button"
                tabIndex={-1}
                className={css.more}
                aria-label={`Actions for ${card.title}`}
                onClick={(event) => desk.menu(place, below(event.currentTarget))}
              >
                <Ellipsis size={15} aria-hidden="true" />
              </button>
            </span>
          )
        }
      />
    </div>
  )
})

function below(button: Element): { x: number; y: number } {
  const { left, bottom } = button.getBoundingClientRect()
  return { x: left, y: bottom + 4 }
}
