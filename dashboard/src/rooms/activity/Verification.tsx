/** The state of the record itself: whether it is what was written, as far as somebody had that checked. */

import { Link } from '@tanstack/react-router'
import { ShieldAlert, ShieldCheck, ShieldQuestion } from 'lucide-react'
import type { ReactNode } from 'react'
import { ActorName } from '@/rooms/words/Words'
import { useCommands } from '@/shell/commands'
import { useMay } from '@/shell/session'
import { Button } from '@/ui/Controls'
import { Time } from '@/ui/Facts'
import css from './activity.module.css'
import { type Progress, useLastVerification, useVerify } from './verification'

export function Verification() {
  const may = useMay('operator')
  const { data, error, refetch } = useLastVerification()
  const { progress, start, stop } = useVerify()
  useCommands(
    may
      ? [{ id: 'verify', label: 'Verify the record', group: 'Activity', when: () => progress === null, run: start }]
      : [],
  )
  const { last, newest } = data ?? {}
  const state = progress !== null ? 'running' : last == null ? 'none' : last.ok ? 'good' : 'bad'
  const Icon = ICONS[state]
  return (
    <section className={css.chain} data-state={state} aria-label="Verification of the record">
      <Icon size={20} aria-hidden="true" />
      <div className={css.found} aria-live="polite">
        {progress !== null ? (
          <Running progress={progress} />
        ) : data === undefined ? (
          <Line about={error?.message ?? ''}>{error === null ? 'Looking…' : 'What was found last is not known'}</Line>
        ) : last == null ? (
          <Line about="Each event holds the hash of the one before it. Verifying follows them all, and finds what was edited, removed or added.">
            Not verified yet
          </Line>
        ) : last.ok ? (
          <Line
            about={
              <>
                Verified <Time at={last.time} /> by <ActorName actor={last.by} />
                {since(newest, last.last)}
              </>
            }
          >
            Events {last.first.toLocaleString()} to {last.last.toLocaleString()} are as they were written
          </Line>
        ) : (
          <Line
            about={
              <>
                Found <Time at={last.time} /> by <ActorName actor={last.by} />. The {last.checked.toLocaleString()}{' '}
                events before it are as they were written.{' '}
                {last.at !== null && (
                  <Link
                    from="/activity"
                    search={(before) => ({ ...before, event: last.at ?? undefined })}
                    resetScroll={false}
                  >
                    Open event {last.at.toLocaleString()}
                  </Link>
                )}
              </>
            }
          >
            The record was changed: <bdi>{last.problem?.slice(0, 300)}</bdi>
          </Line>
        )}
      </div>
      {error !== null && data === undefined && <Button onClick={() => void refetch()}>Try again</Button>}
      {may &&
        (progress === null ? (
          <Button onClick={() => void start()}>Verify now</Button>
        ) : (
          <Button onClick={stop}>Stop</Button>
        ))}
    </section>
  )
}

const ICONS = { running: ShieldQuestion, none: ShieldQuestion, good: ShieldCheck, bad: ShieldAlert }

function Line({ children, about }: { children: ReactNode; about: ReactNode }) {
  return (
    <>
      <p className={css.verdict}>{children}</p>
      <p className={css.about}>{about}</p>
    </>
  )
}

function since(newest: number | undefined, last: number): string {
  const more = (newest ?? last) - last - 1 // the verification is an event itself
  if (more < 1) return ''
  return ` · ${more.toLocaleString()} ${more === 1 ? 'event' : 'events'} since`
}

function Running({ progress: { checked, of } }: { progress: Progress }) {
  return (
    <>
      <p className={css.verdict}>
        Following the chain: {checked.toLocaleString()}
        {of > 0 && <> of {of.toLocaleString()} events</>}
      </p>
      <progress className={css.progress} aria-label="Events that were checked" max={of || 1} value={checked} />
    </>
  )
}
