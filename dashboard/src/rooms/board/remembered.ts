/** What this browser remembers of how one looks at boards. */

import { useCallback, useState } from 'react'

function read(key: string): ReadonlySet<string> {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key) ?? '[]')
    return new Set(Array.isArray(found) ? found.filter((one) => typeof one === 'string') : [])
  } catch {
    return new Set()
  }
}

/** A set that outlives the page, and a way to put something in or out. */
export function useRemembered(key: string): [ReadonlySet<string>, (name: string) => void] {
  const [names, setNames] = useState(() => read(key))
  const toggle = useCallback(
    (name: string) =>
      setNames((before) => {
        const after = new Set(before)
        if (!after.delete(name)) after.add(name)
        try {
          localStorage.setItem(key, JSON.stringify([...after]))
        } catch {
          // Not remembered, then.
        }
        return after
      }),
    [key],
  )
  return [names, toggle]
}

export function toggled<T>(before: ReadonlySet<T>, one: T): ReadonlySet<T> {
  const after = new Set(before)
  if (!after.delete(one)) after.add(one)
  return after
}
