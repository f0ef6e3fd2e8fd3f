/** One event: what changed, in words and field by field, and its place in the chain. */

import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ChevronDown, ChevronUp, CircleOff, Link2, X } from 'lucide-react'
import type { ReactNode } from 'react'
import { type AuditEvent, api, Problem, take } from '@/api/client'
import { ActorName, AgentName, ProjectName } from '@/rooms/words/Words'
import { useCommands } from '@/shell/commands'
import { Button } from '@/ui/Controls'
import { Copyable } from '@/ui/Copyable'
import { Badge, Time } from '@/ui/Facts'
import { Sheet } from '@/ui/Overlays'
import { Empty, Failure, Loading } from '@/ui/States'
import { useToast } from '@/ui/Toasts'
import { exactly } from '@/ui/time'
import { changesOf, fieldName, fieldsOf } from './changes'
import { KindIcon, toneOf } from './EventRow'
import css from './event.module.css'
import { kindOf } from './kinds'
import { Sentence, TaskLink } from './Sentence'
import { Changes, Value } from './Values'

type DrawerProps = { seq: number; events: AuditEvent[]; onOpen: (seq: number) => void; onClose: () => void }

export default function EventDrawer({ seq, events, onOpen, onClose }: DrawerProps) {
  const at = events.findIndex((event) => event.seq === seq)
  const known = events[at]
  const {
    data: event,
    error,
    refetch,
  } = useQuery({
    queryKey: ['audit', 'event', seq],
    queryFn: () => take(api.GET('/api/v1/audit/events/{seq}', { params: { path: { seq: String(seq) } } })),
    ...(known === undefined ? {} : { initialData: known }),
    staleTime: Number.POSITIVE_INFINITY, // an event never changes
  })
  const newer = at > 0 ? events[at - 1]?.seq : undefined
  const older = at >= 0 ? events[at + 1]?.seq : undefined
  const go = (to: number | undefined) => to !== undefined && onOpen(to)
  useCommands([
    {
      id: 'event-older',
      label: 'The event before it',
      group: 'Event',
      keys: 'j',
      where: 'event',
      run: () => go(older),
    },
    { id: 'event-newer', label: 'The event after it', group: 'Event', keys: 'k', where: 'event', run: () => go(newer) },
  ])
  return (
    <Sheet open onClose={onClose} title={`Event ${seq}`} commands="event">
      <header className={css.head}>
        <span className={css.number}>Event {seq.toLocaleString()}</span>
        <CopyLink seq={seq} />
        <Step label="Newer event" to={newer} onOpen={onOpen} icon={<ChevronUp size={16} />} />
        <Step label="Older event" to={older} onOpen={onOpen} icon={<ChevronDown size={16} />} />
        <Button look="quiet" icon small aria-label="Close" onClick={onClose}>
          <X size={16} />
        </Button>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls */}
      <section className={css.body} key={seq} tabIndex={0} ref={focused} aria-label="The event">
        {event !== undefined ? (
          <Content event={event} />
        ) : error instanceof Problem && error.status === 404 ? (
          <Empty icon={CircleOff} title="There is no such event">
            <p>It may have been pruned, or it is of a project that you do not see.</p>
          </Empty>
        ) : error !== null ? (
          <Failure error={error} retry={() => void refetch()} />
        ) : (
          <Loading />
        )}
      </section>
    </Sheet>
  )
}

/** Keys count at once, and the arrows scroll. */
function focused(body: HTMLElement | null): void {
  body?.focus({ preventScroll: true })
}

type StepProps = { label: string; to: number | undefined; onOpen: (seq: number) => void; icon: ReactNode }

function Step({ label, to, onOpen, icon }: StepProps) {
  return (
    <Button look="quiet" icon small aria-label={label} disabled={to === undefined} onClick={() => onOpen(to!)}>
      {icon}
    </Button>
  )
}

function CopyLink({ seq }: { seq: number }) {
  const say = useToast()
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(`${location.origin}/app/activity?event=${seq}`)
      say.done('The link is copied.')
    } catch {
      say.refused(new Error('The browser does not let pages copy here. The address above is the link.'))
    }
  }
  return (
    <Button look="quiet" icon small aria-label="Copy the link" onClick={() => void copy()}>
      <Link2 size={15} />
    </Button>
  )
}

function Content({ event }: { event: AuditEvent }) {
  const changes = changesOf(event)
  const fields = fieldsOf(event)
  return (
    <>
      <div className={css.title}>
        <KindIcon event={event} />
        <div>
          <Badge tone={toneOf(event)}>{kindOf(event.kind).label}</Badge>
          <h2 className={css.whole} dir="auto">
            <Sentence event={event} />
          </h2>
        </div>
      </div>
      {changes.length > 0 && <Changes changes={changes} />}
      <Where event={event} />
      {fields.length > 0 && (
        <section>
          <h3>What else was recorded</h3>
          <dl className={css.facts}>
            {fields.map(([field, value]) => (
              <Fact key={field} name={fieldName(field)}>
                <Value field={field} value={value} project={event.project} />
              </Fact>
            ))}
          </dl>
        </section>
      )}
      <Chain event={event} />
      <details className={css.raw}>
        <summary>As it is recorded</summary>
        <Copyable label="The event as JSON" text={JSON.stringify(event, null, 2)} />
      </details>
    </>
  )
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Where({ event }: { event: AuditEvent }) {
  const task = TaskLink({ event })
  return (
    <section>
      <h3>Who, when and where</h3>
      <dl className={css.facts}>
        <Fact name="When">
          {exactly(event.time)}{' '}
          <span className={css.faint}>
            (<Time at={event.time} />)
          </span>
        </Fact>
        <Fact name="Who">
          <ActorName actor={event.actor} />
          {event.via !== null && (
            <>
              , through <ActorName actor={event.via} />
            </>
          )}
        </Fact>
        {event.agent !== null && (
          <Fact name="Agent">
            <AgentName name={event.agent} />
          </Fact>
        )}
        {event.project !== null && (
          <Fact name="Project">
            <ProjectName project={event.project} />
          </Fact>
        )}
        {task !== null && <Fact name="Task">{task}</Fact>}
        {event.subject !== null && (
          <Fact name="About">
            <Link to="/activity" search={{ subject: event.subject }}>
              <bdi>{event.subject}</bdi>
            </Link>{' '}
            <span className={css.faint}>(all its events)</span>
          </Fact>
        )}
      </dl>
    </section>
  )
}

function Chain({ event }: { event: AuditEvent }) {
  return (
    <section>
      <h3>In the chain</h3>
      <dl className={css.facts}>
        <Fact name="Hash">
          <code className={css.hash}>{event.hash}</code>
        </Fact>
        <Fact name="Before it">
          {event.seq > 1 ? (
            <Link from="/activity" search={(before) => ({ ...before, event: event.seq - 1 })} resetScroll={false}>
              Event {(event.seq - 1).toLocaleString()}
            </Link>
          ) : (
            'Nothing: the record begins here'
          )}
          <code className={css.hash}>{event.prev}</code>
        </Fact>
      </dl>
    </section>
  )
}
