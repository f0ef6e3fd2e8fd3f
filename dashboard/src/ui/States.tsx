/** What a page shows when it has nothing yet, nothing at all, or nothing to say but why not. */

import { CircleAlert, type LucideIcon, RefreshCw, Unplug } from 'lucide-react'
import type { ReactNode } from 'react'
import { Problem } from '@/api/client'
import { Button } from './Controls'
import { Outdated } from './parts'
import css from './ui.module.css'

type EmptyProps = { icon: LucideIcon; title: string; children?: ReactNode }

/** Says what will be here, and how to get it there. */
export function Empty({ icon: Icon, title, children }: EmptyProps) {
  return (
    <div className={css.state}>
      <Icon size={32} strokeWidth={1.5} aria-hidden="true" />
      <h2>{title}</h2>
      {children}
    </div>
  )
}

/** Grey shapes where rows will be; said once to screen readers. */
export function Loading({ rows = 4, height = '3rem' }: { rows?: number; height?: string }) {
  return (
    <div className={css.stack} role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all alike
        <div key={row} className={css.bone} style={{ height }} />
      ))}
    </div>
  )
}

/** What went wrong, in the server's words, with a way on. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const away = error instanceof Problem && error.status === 0
  const outdated = error instanceof Outdated
  const Icon = away ? Unplug : outdated ? RefreshCw : CircleAlert
  const message = error instanceof Error ? error.message : String(error)
  return (
    <div className={css.state} role="alert">
      <Icon size={32} strokeWidth={1.5} aria-hidden="true" />
      <h2>{title(error)}</h2>
      <p>{message}</p>
      {outdated ? (
        <Button look="primary" onClick={() => location.reload()}>
          Load the page anew
        </Button>
      ) : (
        retry !== undefined && <Button onClick={retry}>Try again</Button>
      )}
    </div>
  )
}

function title(error: unknown): string {
  if (error instanceof Outdated) return 'There is a newer dashboard'
  if (!(error instanceof Problem)) return 'This page broke'
  if (error.status === 0) return 'The server is away'
  if (error.status === 403) return 'Not for you'
  if (error.status === 404) return 'It is not here'
  return 'That did not work'
}
