/** In the place of what is being fetched: nothing at first, grey shapes soon, and the reason when it takes longer. */

import { Hourglass, Unplug } from 'lucide-react'
import { useAway } from './parts'
import { Empty, Loading } from './States'
import css from './ui.module.css'

export function ComingPage() {
  const away = useAway()
  if (!away)
    return (
      <div className={css.page}>
        <Loading />
      </div>
    )
  return (
    <div role="status">
      <Empty icon={Unplug} title="The server is away">
        <p>This page opens by itself when it is back.</p>
      </Empty>
    </div>
  )
}

/** For what opens over a page. */
export function Coming() {
  const away = useAway()
  return (
    <div role="status" className={css.coming} data-away={away || undefined}>
      {away ? <Unplug size={16} aria-hidden="true" /> : <Hourglass size={16} aria-hidden="true" />}
      {away ? 'The server is away: this opens when it is back.' : 'Opening…'}
    </div>
  )
}
