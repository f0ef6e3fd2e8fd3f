/** Where one writes, always as oneself. */

import { useNavigate } from '@tanstack/react-router'
import { CornerUpLeft, SendHorizontal, SlidersHorizontal, X } from 'lucide-react'
import { type FormEvent, type KeyboardEvent, type RefObject, useState } from 'react'
import type { Message } from '@/api/client'
import { useMe } from '@/shell/session'
import { Button, classes, Field, Input, Row, Select, Stack, TextArea } from '@/ui/Controls'
import { Name } from '@/ui/Facts'
import { Dialog } from '@/ui/Overlays'
import { useToast } from '@/ui/Toasts'
import ui from '@/ui/ui.module.css'
import { type Opened, pairOf } from './address'
import { EVERYBODY, useNames, useSend, type Writing } from './mail'
import css from './messages.module.css'

const LIVES: [string, string][] = [
  ['', 'As the settings say'],
  ['600', '10 minutes'],
  ['3600', '1 hour'],
  ['86400', '1 day'],
  ['604800', '7 days'],
  ['2592000', '30 days'],
]

type More = { type: string; lives: string }

function MoreFields({ more, onChange }: { more: More; onChange: (more: More) => void }) {
  return (
    <>
      <Field label="Type" hint="A word for programs: text, question, request…">
        {(field) => (
          <Input
            {...field}
            placeholder="text"
            pattern="[a-z0-9_.\-]{1,32}"
            value={more.type}
            onChange={(event) => onChange({ ...more, type: event.target.value })}
          />
        )}
      </Field>
      <Field label="Expires after">
        {(field) => (
          <Select {...field} value={more.lives} onChange={(event) => onChange({ ...more, lives: event.target.value })}>
            {LIVES.map(([seconds, label]) => (
              <option key={seconds} value={seconds}>
                {label}
              </option>
            ))}
          </Select>
        )}
      </Field>
    </>
  )
}

const PLAIN: More = { type: '', lives: '' }

function written({ type, lives }: More): Partial<Writing> {
  return { ...(type === '' ? {} : { type }), ...(lives === '' ? {} : { expires_in: Number(lives) }) }
}

const named = (name: string) => (name === EVERYBODY ? 'everybody' : name)

type ComposerProps = {
  what: Opened
  open: string
  names: string[]
  answering: Message | undefined
  onAnswered: () => void
  field: RefObject<HTMLTextAreaElement | null>
}

export function Composer({ what, open, names, answering, onAnswered, field }: ComposerProps) {
  const me = useMe().name
  const others = what.kind === 'everybody' ? [EVERYBODY] : [...names.filter((name) => name !== me)]
  const choices = what.kind === 'thread' ? [...others, EVERYBODY] : others
  const [chosen, setChosen] = useState<string>()
  const [content, setContent] = useState('')
  const [more, setMore] = useState<More>()
  const send = useSend()
  const say = useToast()
  const navigate = useNavigate()
  const to = answering !== undefined ? (answering.from === me ? answering.to : answering.from) : (chosen ?? choices[0])
  if (to === undefined) return null
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (content.trim() === '' || send.isPending) return
    const answers = answering === undefined ? {} : { reply_to: answering.id }
    const thread = what.kind === 'thread' && answering === undefined ? { thread: what.id } : {}
    const body: Writing = { to, content, ...answers, ...thread, ...written(more ?? PLAIN) }
    setContent('')
    send.mutate(body, {
      onSuccess: (sent) => {
        onAnswered()
        const place = sent.thread !== null ? `thread:${sent.thread}` : placeOf(me, to)
        if (place !== open)
          void navigate({ from: '/messages', to: '/messages', search: (before) => ({ ...before, open: place }) })
      },
      onError: (error) => {
        setContent((draft) => draft || content)
        say.refused(error)
      },
    })
  }
  const keys = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit()
    if (event.key === 'Escape') field.current?.blur()
  }
  return (
    <form className={css.composer} onSubmit={submit}>
      {answering !== undefined && (
        <p className={css.answering}>
          <CornerUpLeft size={14} aria-hidden="true" />
          <span>
            Answering <Name>{answering.from}</Name>: <bdi>{answering.content.slice(0, 120)}</bdi>
          </span>
          <Button look="quiet" icon small aria-label="Do not answer this one" onClick={onAnswered}>
            <X size={14} />
          </Button>
        </p>
      )}
      <TextArea
        ref={field}
        aria-label={`Write to ${named(to)}`}
        placeholder={`Write to ${named(to)} as ${me}`}
        rows={2}
        value={content}
        onChange={(event) => setContent(event.target.value)}
        onKeyDown={keys}
      />
      {more !== undefined && (
        <Row className={css.moreFields}>
          <MoreFields more={more} onChange={setMore} />
        </Row>
      )}
      <Row spread>
        <Row>
          {choices.length > 1 && answering === undefined && (
            <Select aria-label="To" value={to} onChange={(event) => setChosen(event.target.value)}>
              {choices.map((name) => (
                <option key={name} value={name}>
                  To {named(name)}
                </option>
              ))}
            </Select>
          )}
          <Button
            look="quiet"
            icon
            aria-label="Type and expiry"
            aria-pressed={more !== undefined}
            onClick={() => setMore(more === undefined ? PLAIN : undefined)}
          >
            <SlidersHorizontal size={16} />
          </Button>
        </Row>
        <Row>
          <span className={classes(ui.hint, css.keys)}>Ctrl+Enter</span>
          <Button type="submit" look="primary" disabled={content.trim() === ''}>
            <SendHorizontal size={16} aria-hidden="true" /> Send
          </Button>
        </Row>
      </Row>
    </form>
  )
}

function placeOf(me: string, to: string): string {
  return to === EVERYBODY ? 'everybody' : pairOf(me, to)
}

/** A message to anybody, or to every agent. */
export function NewMessage({ to: first, onClose }: { to: string; onClose: () => void }) {
  const me = useMe().name
  const { data: names } = useNames()
  const [to, setTo] = useState(first)
  const [content, setContent] = useState('')
  const [thread, setThread] = useState('')
  const [more, setMore] = useState(PLAIN)
  const send = useSend()
  const say = useToast()
  const navigate = useNavigate()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const body: Writing = {
      to: to.trim(),
      content,
      ...(thread.trim() === '' ? {} : { thread: thread.trim() }),
      ...written(more),
    }
    send.mutate(body, {
      onSuccess: (sent) => {
        say.done(`Sent to ${named(sent.to)}.`)
        const open = sent.thread !== null ? `thread:${sent.thread}` : placeOf(me, sent.to)
        void navigate({ to: '/messages', search: { open } })
      },
    })
  }
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title="New message">
      <form onSubmit={submit}>
        <Stack>
          <Field
            label="To"
            hint={
              to === EVERYBODY ? `Every agent: ${names?.agents.length ?? '…'} now.` : 'A name, or * for every agent.'
            }
            wrong={send.error?.message}
          >
            {(field) => (
              <Input
                {...field}
                required
                autoFocus={first === ''}
                autoComplete="off"
                list="message-names"
                value={to}
                onChange={(event) => setTo(event.target.value)}
              />
            )}
          </Field>
          <datalist id="message-names">
            <option value={EVERYBODY}>Every agent</option>
            {names?.agents.map((name) => (
              <option key={name} value={name} />
            ))}
            {names?.people.map((name) => (
              <option key={`person ${name}`} value={name}>
                Person
              </option>
            ))}
          </datalist>
          <Field label="Message" hint={`Sent as ${me}.`}>
            {(field) => (
              <TextArea
                {...field}
                autoFocus={first !== ''}
                required
                rows={5}
                value={content}
                onChange={(event) => setContent(event.target.value)}
              />
            )}
          </Field>
          <Row className={css.moreFields}>
            <Field label="Thread" hint="Leave empty for none.">
              {(field) => (
                <Input {...field} maxLength={64} value={thread} onChange={(event) => setThread(event.target.value)} />
              )}
            </Field>
            <MoreFields more={more} onChange={setMore} />
          </Row>
          <Row className={ui.end}>
            <Button type="submit" look="primary" disabled={send.isPending || to.trim() === ''}>
              Send
            </Button>
          </Row>
        </Stack>
      </form>
    </Dialog>
  )
}
