/**
 * Parts of the dashboard are fetched when they are first needed. A server that is away is waited for, since it comes
 * back with the same parts; one that is there without them is another Ringfence than this page is of.
 */

import { lazyRouteComponent } from '@tanstack/react-router'
import { type ComponentType, lazy, useEffect, useSyncExternalStore } from 'react'

const PATIENCE = 3 // fetches that fail though the server is there
const AGAIN = 500 // milliseconds; doubled until
const RARELY = 4000

/** The server has no such part: it was built anew since this page was loaded. */
export class Outdated extends Error {
  constructor(cause: unknown) {
    super('The server was updated since this page was loaded.', { cause })
    this.name = 'Outdated'
  }
}

type Fetched<T> = () => Promise<T>

/** Fetches a part, as often as it takes. */
export function patiently<T>(fetchPart: Fetched<T>): Fetched<T> {
  return async () => {
    for (let failed = 0; ; ) {
      try {
        return await fetchPart()
      } catch (error) {
        if (!(await isThere())) await returned()
        else if (++failed === PATIENCE) throw new Outdated(error)
      }
    }
  }
}

/** A route's page. */
export function page<M extends Record<string, unknown>, N extends keyof M & string>(fetchPart: Fetched<M>, name: N) {
  return lazyRouteComponent(patiently(fetchPart), name)
}

/** Something that opens on a page: a dialog, a drawer. `useSoon` fetches it before it is wanted. */
// biome-ignore lint/suspicious/noExplicitAny: as React's own `lazy` has it
export function later<T extends ComponentType<any>>(fetchPart: Fetched<{ default: T }>) {
  const fetched = patiently(fetchPart)
  return Object.assign(lazy(fetched), { fetched })
}

/** Fetches these parts once the page has nothing else to do, so that they open at once, also while the server is away. */
export function useSoon(...parts: { fetched: Fetched<unknown> }[]): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: once
  useEffect(() => {
    const fetchAll = () => {
      for (const { fetched } of parts) fetched().catch(() => undefined) // said when it is opened
    }
    if ('requestIdleCallback' in window) {
      const asked = requestIdleCallback(fetchAll)
      return () => cancelIdleCallback(asked)
    }
    const timer = setTimeout(fetchAll, 1000)
    return () => clearTimeout(timer)
  }, [])
}

// Whether the server is there --------------------------------------------------------------------------------------

let away: Promise<void> | undefined
const listeners = new Set<() => void>()

async function isThere(): Promise<boolean> {
  try {
    return (await fetch('/readyz', { cache: 'no-store' })).ok
  } catch {
    return false
  }
}

/** Resolves when the server is back: however many wait, it is asked once at a time. */
function returned(): Promise<void> {
  away ??= (async () => {
    for (let pause = AGAIN; ; pause = Math.min(pause * 2, RARELY)) {
      await new Promise((resolve) => setTimeout(resolve, pause))
      if (await isThere()) break
    }
    away = undefined
    for (const listener of listeners) listener()
  })()
  for (const listener of listeners) listener()
  return away
}

function watch(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Whether some part is waited for because the server is away. */
export function useAway(): boolean {
  return useSyncExternalStore(watch, () => away !== undefined)
}
