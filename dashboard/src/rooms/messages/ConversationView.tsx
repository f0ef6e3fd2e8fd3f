/** One conversation, the oldest message at the top, and what became of each. */

import { Link } from '@tanstack/react-router'
import { CheckCheck, CornerUpLeft, MessageSquareOff, MessagesSquare } from 'lucide-react'
import { useMemo, useRef, useState } from 'react'
import type { Message } from '@/api/client'
import { useCommands } from '@/shell/commands'
import { useMay, useMe } from '@/shell/session'
import { Button } from '@/ui/Controls'
import { Avatar, Badge, Name, Time, useNow } from '@/ui/Facts'
import { Popover, Tip } from '@/ui/Overlays'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import { isNamed, type Opened } from './address'
import { Composer } from './Composer'
import { EVERYBODY, useAcknowledge, useConversation, useDeliveries, useSending } from './mail'
import css from './messages.module.css'
import { Said } from './Said'
import { FATES, type Fate, fateOf, fateOfDelivery, isOpen } from './state'

type ViewProps = { what: Opened; open: string }

export function ConversationView({ what, open }: ViewProps) {
  const { messages, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useConversation(what, open)
  const sending = useSending(what)
  const [answering, setAnswering] = useState<Message>()
  const field = useRef<HTMLTextAreaElement>(null)
  const may = useMay('operator')
  const names = useMemo(() => takingPart(what, messages ?? []), [what, messages])
  const answer = (message: Message) => {
    setAnswering(message)
    field.current?.focus()
  }
  useCommands(
    may ? [{ id: 'write', label: 'Write here', group: 'Messages', keys: 'r', run: () => field.current?.focus() }] : [],
  )
  return (
    <section className={css.conversation} aria-label="Conversation">
      <Head what={what} names={names} messages={messages ?? []} />
      <div className={css.scroll}>
        {messages === undefined ? (
          error === null ? (
            <Loading rows={4} />
          ) : (
            <Failure error={error} retry={() => void refetch()} />
          )
        ) : (
          <div className={css.log}>
            {hasNextPage && (
              <Button look="quiet" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
                Show older
              </Button>
            )}
            {messages.length === 0 && sending.length === 0 && !hasNextPage && (
              <Empty icon={MessageSquareOff} title="Nothing was said here">
                <p>Messages that expired, or were kept long enough, are removed.</p>
              </Empty>
            )}
            <ol aria-live="polite" aria-label="Messages">
              {messages.toReversed().map((message) => (
                <OneMessage key={message.id} message={message} all={messages} what={what} may={may} onAnswer={answer} />
              ))}
              {sending.map((draft, place) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: they have no name before they are sent
                <li key={place} className={css.message} data-sending>
                  <Avatar name={draft.to} />
                  <div className={css.body}>
                    <p className={css.faint}>Sending…</p>
                    <Said text={draft.content ?? ''} />
                  </div>
                </li>
              ))}
            </ol>
          </div>
        )}
      </div>
      {may && messages !== undefined && (
        <Composer
          key={open}
          what={what}
          open={open}
          names={names}
          answering={answering}
          onAnswered={() => setAnswering(undefined)}
          field={field}
        />
      )}
    </section>
  )
}

function takingPart(what: Opened, messages: Message[]): string[] {
  if (what.kind === 'pair') return [what.one, what.other]
  const names = messages.flatMap(({ from, to }) => (to === EVERYBODY ? [from] : [from, to]))
  return [...new Set(names)]
}

function Head({ what, names, messages }: { what: Opened; names: string[]; messages: Message[] }) {
  const me = useMe().name
  const may = useMay('operator')
  const now = useNow()
  const acknowledge = useAcknowledge()
  const say = useToast()
  const mine = messages.filter((message) => message.to === me && isOpen(fateOf(message, now))).map(({ id }) => id)
  return (
    <header className={css.head}>
      <div>
        <h2>
          {what.kind === 'everybody' && 'To everybody'}
          {what.kind === 'thread' && (isNamed(what.id) ? <Name>{what.id}</Name> : 'Thread')}
          {what.kind === 'pair' && (
            <>
              <Who name={what.one} /> <span className={css.faint}>and</span> <Who name={what.other} />
            </>
          )}
        </h2>
        {what.kind === 'thread' && names.length > 0 && (
          <p className={css.faint}>
            {isNamed(what.id) ? 'Thread with ' : 'With '}
            {names.map((name, place) => (
              <span key={name}>
                {place > 0 && ', '}
                <Name>{name}</Name>
              </span>
            ))}
          </p>
        )}
        {what.kind === 'everybody' && <p className={css.faint}>What went to every agent there was.</p>}
      </div>
      {may && mine.length > 0 && (
        <Button
          small
          disabled={acknowledge.isPending}
          onClick={() => acknowledge.mutate(mine, { onError: say.refused })}
        >
          <CheckCheck size={14} aria-hidden="true" /> Acknowledge {mine.length === 1 ? 'it' : `all ${mine.length}`}
        </Button>
      )}
    </header>
  )
}

function Who({ name }: { name: string }) {
  const me = useMe().name
  if (name === me) return 'You'
  return (
    <Link to="/crew/$agent" params={{ agent: name }}>
      <Name>{name}</Name>
    </Link>
  )
}

type MessageProps = {
  message: Message
  all: Message[]
  what: Opened
  may: boolean
  onAnswer: (message: Message) => void
}

function OneMessage({ message, all, what, may, onAnswer }: MessageProps) {
  const me = useMe().name
  const now = useNow()
  const acknowledge = useAcknowledge()
  const say = useToast()
  const fate = fateOf(message, now)
  const takesPart = message.from === me || message.to === me
  const answered = message.reply_to === null ? undefined : all.find(({ id }) => id === message.reply_to)
  return (
    <li className={css.message} data-message={message.id} data-mine={(message.to === me && isOpen(fate)) || undefined}>
      <Avatar name={message.from} />
      <div className={css.body}>
        <p className={css.line}>
          <strong>
            <Name>{message.from}</Name>
          </strong>
          {what.kind !== 'pair' && (
            <span className={css.faint}>
              to <Name>{message.to === EVERYBODY ? 'everybody' : message.to}</Name>
            </span>
          )}
          {message.type !== 'text' && <Badge>{message.type}</Badge>}
          <span className={css.faint}>
            <Time at={message.timestamp} />
          </span>
          <FateWord message={message} fate={fate} />
        </p>
        {answered !== undefined && (
          <p className={css.quoted}>
            <CornerUpLeft size={12} aria-hidden="true" /> <Name>{answered.from}</Name>{' '}
            <bdi>{answered.content.slice(0, 160)}</bdi>
          </p>
        )}
        <Said text={message.content} />
        <div className={css.acts}>
          {may && message.to === me && isOpen(fate) && (
            <Button small onClick={() => acknowledge.mutate([message.id], { onError: say.refused })}>
              <CheckCheck size={14} aria-hidden="true" /> Acknowledge
            </Button>
          )}
          {may && takesPart && message.to !== EVERYBODY && (
            <Button small look="quiet" onClick={() => onAnswer(message)}>
              <CornerUpLeft size={14} aria-hidden="true" /> Reply
            </Button>
          )}
          {message.thread !== null && what.kind !== 'thread' && (
            <Link to="/messages" search={{ open: `thread:${message.thread}` }} className={css.act}>
              <MessagesSquare size={14} aria-hidden="true" /> Thread
            </Link>
          )}
        </div>
      </div>
    </li>
  )
}

function FateWord({ message, fate }: { message: Message; fate: Fate }) {
  const { mark: Mark, word, meaning, color } = FATES[fate]
  if (fate === 'broadcast') return <Deliveries message={message} />
  return (
    <Tip text={meaning}>
      <span className={css.fate} style={{ color }} data-fate={fate}>
        <Mark size={14} aria-hidden="true" /> <span>{word}</span>
      </span>
    </Tip>
  )
}

/** Of a broadcast: what became of it for each. */
function Deliveries({ message }: { message: Message }) {
  const [open, setOpen] = useState(false)
  const { data } = useDeliveries(message.id, open)
  const now = useNow()
  const { mark: Mark } = FATES.broadcast
  return (
    <Popover
      open={open}
      onOpenChange={setOpen}
      trigger={
        <button type="button" className={css.act}>
          <Mark size={14} aria-hidden="true" /> Who has it
        </button>
      }
    >
      <ul className={css.deliveries} aria-label="Deliveries">
        {data === undefined && <li>…</li>}
        {data?.deliveries.length === 0 && <li>There was nobody to send it to.</li>}
        {data?.deliveries.map((delivery) => {
          const look = FATES[fateOfDelivery(delivery, data.expires_at, now)]
          return (
            <li key={delivery.recipient}>
              <Name>{delivery.recipient}</Name>
              <span className={css.fate} style={{ color: look.color }}>
                <look.mark size={14} aria-hidden="true" /> {look.word}
              </span>
            </li>
          )
        })}
      </ul>
    </Popover>
  )
}
