/** Seen only when changes do not arrive: what is on the screen may be old, and since when. */

import { CloudOff } from 'lucide-react'
import { useEffect, useState } from 'react'
import { useStreamState } from '@/live/refresh'
import css from './shell.module.css'

const GRACE = 1200 // a restart that is quicker than this need not be told

export function StreamNotice() {
  const state = useStreamState()
  const [told, setTold] = useState(false)
  useEffect(() => {
    if (state.name === 'live') {
      setTold(false)
      return
    }
    const timer = setTimeout(() => setTold(true), GRACE)
    return () => clearTimeout(timer)
  }, [state.name])
  return (
    <div role="status" data-stream={state.name}>
      {told && state.name !== 'live' && (
        <div className={css.notice}>
          <CloudOff size={16} aria-hidden="true" />
          {state.name === 'down'
            ? `Changes do not arrive since ${new Date(state.since).toLocaleTimeString()}. Trying again…`
            : 'Connecting…'}
        </div>
      )}
    </div>
  )
}
