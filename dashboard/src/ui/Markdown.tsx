/**
 * What people and agents wrote, as Markdown. Raw HTML stays text, links lead only where a browser may safely go and
 * open apart, pictures from elsewhere are links: nothing that an agent writes makes this page ask another machine.
 */

import { Suspense } from 'react'
import { later } from './parts'

/** What renders it is large, and fetched when there is something to render. */
export const Rendered = later(() => import('./MarkdownRendered'))

export function Markdown({ text }: { text: string }) {
  return (
    <Suspense fallback={<p style={{ whiteSpace: 'pre-wrap' }}>{text.slice(0, 2000)}</p>}>
      <Rendered text={text} />
    </Suspense>
  )
}
