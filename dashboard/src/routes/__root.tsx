import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'
import { createRootRouteWithContext, Outlet } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { onSignedOut, whoAmI } from '@/api/client'
import { StreamContext } from '@/live/StreamContext'
import { Stream } from '@/live/stream'
import { Commands, CommandsContext } from '@/shell/commands'
import { Shell } from '@/shell/Shell'
import { SignedOut } from '@/shell/SignedOut'
import { SessionContext } from '@/shell/session'
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
  if (error !== null && me === undefined) return <Failure error={error} retry={() => void refetch()} />
  if (me === undefined) return null
  if (me === null) return <SignedOut />
  return (
    <SessionContext value={me}>
      <SignedIn />
    </SessionContext>
  )
}

/** Pages are shown once the stream is there, so that nothing changes unseen between asking and listening. */
function SignedIn() {
  const queries = useQueryClient()
  const [stream, setStream] = useState<Stream | null>(null)
  const commands = useMemo(() => new Commands(), [])
  useEffect(() => {
    const opened = new Stream({ refused: () => queries.setQueryData(meKey, null) })
    opened.resynced(() => void queries.invalidateQueries())
    opened.start()
    void opened.ready(FIRST).then(() => setStream(opened))
    return () => opened.stop()
  }, [queries])
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
