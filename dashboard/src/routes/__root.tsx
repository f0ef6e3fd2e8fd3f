import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'
import { createRootRouteWithContext, Outlet, useRouter } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { onSignedOut, whoAmI } from '@/api/client'
import { StreamContext } from '@/live/StreamContext'
import { Stream } from '@/live/stream'
import { Commands, CommandsContext } from '@/shell/commands'
import { takePlace } from '@/shell/place'
import { Shell } from '@/shell/Shell'
import { SignedOut } from '@/shell/SignedOut'
import { SessionContext, useMe } from '@/shell/session'
import { TipProvider } from '@/ui/Overlays'
import { Failure } from '@/ui/States'
import { Toasts } from '@/ui/Toasts'

export const Route = createRootRouteWithContext<{ queries: QueryClient }>()({ component: Root })

const meKey = ['me']
const FIRST = 800 // milliseconds to wait for the stream before showing pages without it

function Root() {
  const queries = useQueryClient()
  const {
    data: me,
    error,
    refetch,
  } = useQuery({ queryKey: meKey, queryFn: whoAmI, staleTime: Number.POSITIVE_INFINITY })
  useEffect(() => onSignedOut(() => queries.setQueryData(meKey, null)), [queries])
  const wasSignedIn = useRef(false)
  if (me) wasSignedIn.current = true
  if (error !== null && me === undefined) return <Failure error={error} retry={() => void refetch()} />
  if (me === undefined) return null
  if (me === null) return <SignedOut ended={wasSignedIn.current} />
  return (
    <SessionContext value={me}>
      <SignedIn />
    </SessionContext>
  )
}

/** Pages are shown once the stream is there, so that nothing changes unseen between asking and listening. */
function SignedIn() {
  const queries = useQueryClient()
  const { name } = useMe()
  const { history } = useRouter()
  const [stream, setStream] = useState<Stream | null>(null)
  const commands = useMemo(() => new Commands(), [])
  useEffect(() => {
    const opened = new Stream({ refused: () => queries.setQueryData(meKey, null) })
    opened.resynced(() => void queries.invalidateQueries())
    opened.listen((events) => {
      const ours = events.some(({ kind, data }) => kind === 'person_changed' && data.name === name)
      if (ours) void queries.invalidateQueries({ queryKey: meKey }) // what one may do here may be another
    })
    opened.start()
    void opened.ready(FIRST).then(() => {
      setStream(opened)
      // What was asked for before the stream was there may be older than the first event that it tells.
      if (opened.state.name === 'live') return
      const stop = opened.watchState(() => {
        if (opened.state.name !== 'live') return
        stop()
        void queries.invalidateQueries()
      })
    })
    return () => opened.stop()
  }, [queries, name])
  useEffect(() => {
    const place = takePlace()
    if (place !== null) history.replace(place)
  }, [history])
  useEffect(() => {
    document.addEventListener('keydown', commands.press)
    return () => document.removeEventListener('keydown', commands.press)
  }, [commands])
  if (stream === null) return null
  return (
    <StreamContext value={stream}>
      <CommandsContext value={commands}>
        <TipProvider delayDuration={400}>
          <Toasts>
            <Shell>
              <Outlet />
            </Shell>
          </Toasts>
        </TipProvider>
      </CommandsContext>
    </StreamContext>
  )
}
