import { createContext, useContext } from 'react'
import type { Stream } from './stream'

export const StreamContext = createContext<Stream | null>(null)

export function useStream(): Stream {
  const stream = useContext(StreamContext)
  if (stream === null) throw new Error('there is no stream around this component')
  return stream
}
