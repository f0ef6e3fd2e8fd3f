import { describe, expect, it } from 'vitest'
import { relatively, span } from './time'

describe('times', () => {
  const now = Date.parse('2026-11-19T12:00:00Z')
  it.each([
    ['2026-11-19T11:59:55Z', 'just now'],
    ['2026-11-19T11:59:00Z', '1 min ago'],
    ['2026-11-19T09:30:00Z', '2 h 30 min ago'],
    ['2026-11-17T12:00:00Z', '2 d ago'],
    ['2026-11-19T12:05:00Z', 'in 5 min'],
  ])('%s is %s', (at, said) => {
    expect(relatively(at, now)).toBe(said)
  })

  it('names the year only when it is another', () => {
    expect(relatively('2026-03-01T12:00:00Z', now)).not.toMatch(/2026/)
    expect(relatively('2024-03-01T12:00:00Z', now)).toMatch(/2024/)
  })

  it.each([
    [-3, '0 s'],
    [59.4, '59 s'],
    [60, '1 min'],
    [3600, '1 h'],
    [90_000, '1 d 1 h'],
  ])('%d seconds are %s', (seconds, said) => {
    expect(span(seconds)).toBe(said)
  })
})
