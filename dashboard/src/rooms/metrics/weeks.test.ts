import { describe, expect, it } from 'vitest'
import { byWeek, shortDay, stretchName } from './weeks'

const days = Array.from({ length: 16 }, (_, at) => ({
  day: `2026-11-${String(at + 1).padStart(2, '0')}`,
  completed: at,
}))

describe('byWeek', () => {
  it('ends with the last day, and loses none', () => {
    const weeks = byWeek(days, (week) => ({ completed: week.reduce((sum, { completed }) => sum + completed, 0) }))
    expect(weeks.map(({ from, to }) => [from.slice(-2), to.slice(-2)])).toEqual([
      ['01', '02'],
      ['03', '09'],
      ['10', '16'],
    ])
    expect(weeks.reduce((sum, { completed }) => sum + completed, 0)).toBe((15 * 16) / 2)
  })
})

describe('names of days', () => {
  it('are those of UTC, wherever one is', () => {
    expect(shortDay('2026-11-01')).toMatch(/Nov.*1|1.*Nov/)
    expect(stretchName({ from: '2026-11-01', to: '2026-11-01' })).not.toContain('–')
    expect(stretchName({ from: '2026-11-01', to: '2026-11-07' })).toContain('–')
  })
})
