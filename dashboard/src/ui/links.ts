const LINKS = /^(https?:|mailto:)/i

/** Only addresses a person can follow without harm; everything else, `javascript:` and paths here included, is none. */
export function harmless(address: string): string {
  return LINKS.test(address.trim()) ? address.trim() : ''
}
