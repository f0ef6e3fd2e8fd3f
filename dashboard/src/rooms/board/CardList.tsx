/** The cards of one column, or of one lane's part of it: only those in view, and the one in hand, are in the page. */

import { defaultRangeExtractor, type Range, useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useCallback, useEffect, useRef } from 'react'
import type { Card } from '@/api/client'
import { BoardCard } from './BoardCard'
import css from './board.module.css'
import { useHands } from './desk'

type CardListProps = { lane: string; label: string; cards: Card[]; bounded?: boolean; children?: ReactNode }

const HEIGHT = 88 // of a card, until it is measured

export function CardList({ lane, label, cards, bounded, children }: CardListProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const { chosen, cursor, wish, lift } = useHands()
  const indexOf = (id: string | undefined) => (id === undefined ? -1 : cards.findIndex((card) => card.id === id))
  const on = cursor?.lane === lane ? indexOf(cursor.id) : -1
  const carried = lift?.place.lane === lane ? indexOf(lift.place.id) : -1
  const virtual = useVirtualizer({
    count: cards.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => HEIGHT,
    getItemKey: useCallback((index: number) => cards[index]?.id ?? index, [cards]),
    rangeExtractor: useCallback((range: Range) => withKept(range, [on, carried]), [on, carried]),
    overscan: 4,
    gap: 6,
    paddingStart: 2,
    paddingEnd: 6,
    useFlushSync: false,
  })
  const wished = wish?.place.lane === lane ? indexOf(wish.place.id) : -1
  const number = wish?.number
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each wish, not each time that cards change
  useEffect(() => {
    if (wished >= 0) virtual.scrollToIndex(wished, { align: 'auto' })
  }, [number])
  const items = virtual.getVirtualItems()
  const tabbable = on >= 0 ? on : items[0]?.index
  const size = virtual.getTotalSize()
  return (
    <div ref={scroller} className={css.scroller} data-bounded={bounded || undefined}>
      <ul aria-label={label} className={css.list} style={{ height: cards.length === 0 ? 0 : size }}>
        {items.map(({ index, key, start }) => {
          const card = cards[index]
          if (card === undefined) return null
          return (
            <li
              key={key}
              ref={virtual.measureElement}
              data-index={index}
              className={css.item}
              style={{ transform: `translateY(${start}px)` }}
              aria-setsize={cards.length}
              aria-posinset={index + 1}
            >
              <BoardCard
                card={card}
                lane={lane}
                chosen={chosen.has(card.id)}
                choosing={chosen.size > 0}
                lifted={lift?.ids.includes(card.id) ?? false}
                tabbable={index === tabbable}
                wanted={wish !== null && index === wished ? wish.number : 0}
              />
            </li>
          )
        })}
      </ul>
      {children}
    </div>
  )
}

function withKept(range: Range, kept: number[]): number[] {
  const shown = defaultRangeExtractor(range)
  const more = kept.filter((index) => index >= 0 && index < range.count && !shown.includes(index))
  return more.length === 0 ? shown : [...new Set([...shown, ...more])].sort((one, other) => one - other)
}
