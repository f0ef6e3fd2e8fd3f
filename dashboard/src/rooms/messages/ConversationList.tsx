/** The conversations, that with the newest message first. */

import { Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { Megaphone, MessagesSquare } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { useCommands } from '@/shell/commands'
import { useMe } from '@/shell/session'
import { Avatar, Badge, Name, Time } from '@/ui/Facts'
import { isNamed } from './address'
import type { Conversation } from './conversations'
import css from './messages.module.css'

type ListProps = { conversations: Conversation[]; open: string | undefined }

export function ConversationList({ conversations, open }: ListProps) {
  const box = useRef<HTMLDivElement>(null)
  const navigate = useNavigate()
  const rows = useVirtualizer({
    count: conversations.length,
    getScrollElement: () => box.current,
    estimateSize: () => 60,
    overscan: 8,
    getItemKey: (index) => conversations[index]?.open ?? index,
  })
  const at = conversations.findIndex((conversation) => conversation.open === open)
  const go = (by: number) => {
    const next = conversations[at < 0 ? 0 : Math.min(Math.max(at + by, 0), conversations.length - 1)]
    if (next !== undefined) {
      void navigate({
        from: '/messages',
        to: '/messages',
        search: (before) => ({ ...before, open: next.open }),
        replace: at >= 0,
      })
    }
  }
  useCommands([
    { id: 'next', label: 'Next conversation', group: 'Messages', keys: 'j', run: () => go(1) },
    { id: 'previous', label: 'Previous conversation', group: 'Messages', keys: 'k', run: () => go(-1) },
  ])
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at)
  }, [at, rows.scrollToIndex])
  return (
    <nav ref={box} className={css.list} aria-label="Conversations">
      <ul style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, key, start }) => {
          const conversation = conversations[index]
          if (conversation === undefined) return null
          return (
            <li key={key} style={{ transform: `translateY(${start}px)` }}>
              <Entry conversation={conversation} current={conversation.open === open} />
            </li>
          )
        })}
      </ul>
    </nav>
  )
}

function Entry({ conversation, current }: { conversation: Conversation; current: boolean }) {
  const { open, kind, at, last, waiting, mine } = conversation
  return (
    <Link
      from="/messages"
      to="/messages"
      search={(before) => ({ ...before, open })}
      className={css.entry}
      aria-current={current ? 'true' : undefined}
      data-mine={mine > 0 || undefined}
    >
      <span className={css.faces}>
        {kind === 'pair' && conversation.names.map((name) => <Avatar key={name} name={name} />)}
        {kind === 'thread' && <MessagesSquare size={18} aria-label="Thread" />}
        {kind === 'everybody' && <Megaphone size={18} aria-hidden="true" />}
      </span>
      <span className={css.entryTitle}>
        <Title conversation={conversation} />
      </span>
      <span className={css.entryWhen}>{at !== null && <Time at={at} />}</span>
      <span className={css.entryText}>
        {last === undefined ? (
          <span className={css.faint}>Earlier</span>
        ) : (
          <>
            {kind !== 'pair' && (
              <>
                <Name>{last.from}</Name>:{' '}
              </>
            )}
            <bdi>{last.content.slice(0, 140) || last.type}</bdi>
          </>
        )}
      </span>
      <span className={css.entryCount}>
        {mine > 0 && <Badge tone="info">{mine} for you</Badge>}
        {mine === 0 && waiting > 0 && (
          <Badge tone="warn" title="Not acknowledged by their recipients">
            {waiting} open
          </Badge>
        )}
      </span>
    </Link>
  )
}

function Several({ names }: { names: string[] }) {
  if (names.length === 0) return 'A thread'
  return names.map((name, place) => (
    <span key={name}>
      {place > 0 && ', '}
      <Name>{name}</Name>
    </span>
  ))
}

function Title({ conversation }: { conversation: Conversation }) {
  const me = useMe().name
  if (conversation.kind === 'everybody') return 'To everybody'
  if (conversation.kind === 'thread' && isNamed(conversation.title)) return <Name>{conversation.title}</Name>
  if (conversation.kind === 'thread') return <Several names={conversation.names} />
  const [one = '', other = ''] = conversation.names
  if (one === me || other === me) return <Name>{one === me ? other : one}</Name>
  return (
    <>
      <Name>{one}</Name> <span className={css.faint}>and</span> <Name>{other}</Name>
    </>
  )
}
