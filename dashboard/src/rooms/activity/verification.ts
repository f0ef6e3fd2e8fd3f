/** Whether the chain of events is as it was written: what was found last, and finding it out now. */

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { createParser } from 'eventsource-parser'
import { useCallback, useEffect, useRef, useState } from 'react'
import { api, Problem, type Schemas, take } from '@/api/client'
import { useRefresh } from '@/live/refresh'
import { useToast } from '@/ui/Toasts'

export type Verdict = Schemas['VerdictView']
export type Progress = { checked: number; of: number }

const key = ['audit', 'verification']

export function useLastVerification() {
  useRefresh(key, ({ kind }) => kind === 'audit_verified')
  return useQuery({ queryKey: key, queryFn: () => take(api.GET('/api/v1/audit/verification')) })
}

/** `progress` while it is being found out here; `stop` ends that, and nothing is kept. */
export function useVerify() {
  const queries = useQueryClient()
  const say = useToast()
  const [progress, setProgress] = useState<Progress | null>(null)
  const stopping = useRef<AbortController>(undefined)
  useEffect(() => () => stopping.current?.abort(), [])
  const start = useCallback(async () => {
    const stop = new AbortController()
    stopping.current = stop
    setProgress({ checked: 0, of: 0 })
    try {
      await follow(stop.signal, setProgress)
      await queries.invalidateQueries({ queryKey: key })
    } catch (error) {
      if (!stop.signal.aborted) say.refused(error)
    } finally {
      setProgress(null)
    }
  }, [queries, say])
  return { progress, start, stop: () => stopping.current?.abort() }
}

async function follow(signal: AbortSignal, onProgress: (progress: Progress) => void): Promise<Verdict> {
  const stream = await take(api.POST('/api/v1/audit/verify', { parseAs: 'stream', signal }))
  let verdict: Verdict | undefined
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (event === 'progress') onProgress(JSON.parse(data))
      if (event === 'verdict') verdict = JSON.parse(data)
    },
  })
  const reader = (stream as ReadableStream<Uint8Array>).getReader()
  const decoder = new TextDecoder()
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    parser.feed(decoder.decode(read.value, { stream: true }))
  }
  if (verdict === undefined) throw new Problem(0, { detail: 'The server stopped before the end: verify once more.' })
  return verdict
}
