/** Places of the agents in the picture, computed beside the page; they stay while the dashboard is open. */

import { useEffect, useMemo, useState } from 'react'
import type { Places, Task } from './layout'

let kept: Places = {}

export function usePlaces(nodes: Task['nodes'], links: Task['links']): { places: Places; anew: () => void } {
  const [places, setPlaces] = useState(kept)
  const [round, setRound] = useState(0)
  const who = nodes
    .map(({ id }) => id)
    .sort()
    .join(' ')
  const task = useMemo(() => ({ nodes, links }), [nodes, links])
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new count moves nobody, only who is there does
  useEffect(() => {
    if (task.nodes.every(({ id }) => id in kept)) return
    const worker = new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' })
    worker.onmessage = ({ data }: MessageEvent<Places>) => {
      kept = data
      setPlaces(data)
      worker.terminate()
    }
    worker.postMessage({ ...task, kept })
    return () => worker.terminate()
  }, [who, round])
  const anew = () => {
    kept = {}
    setRound(round + 1)
  }
  return { places, anew }
}
