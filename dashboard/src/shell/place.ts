/** Where somebody was when their session ended, so that they come back there when they sign in again in this tab. */

const KEY = 'ringfence.place'
const START = '/app/'
const LONGEST = 500 // what the server takes as a way on

function here(): string {
  const place = location.pathname + location.search + location.hash
  return place.length > LONGEST ? location.pathname : place
}

/** Remembers this page, unless it is where everybody begins. */
export function keepPlace(): void {
  if (location.pathname === START) return
  try {
    sessionStorage.setItem(KEY, here())
  } catch {
    // Then they begin at the beginning.
  }
}

export function keptPlace(): string {
  if (location.pathname !== START) return here()
  try {
    return sessionStorage.getItem(KEY) ?? START
  } catch {
    return START
  }
}

/** The page to go back to, once. Who opened another page meanwhile stays there. */
export function takePlace(): string | null {
  try {
    const kept = sessionStorage.getItem(KEY)
    sessionStorage.removeItem(KEY)
    return location.pathname === START && kept?.startsWith(START) ? kept : null
  } catch {
    return null
  }
}
