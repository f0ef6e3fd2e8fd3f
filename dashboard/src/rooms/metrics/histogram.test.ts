import { describe, expect, it } from 'vitest'
import { histogram, placeOf } from './histogram'

describe('histogram', () => {
  it('counts each length once, in steps of a round length', () => {
    const { step, bins } = histogram([0, 5, 9.9, 10, 61, 119], 119)
    expect(step).toBe(10)
    expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(6)
    expect(bins[0]).toEqual({ from: 0, to: 10, count: 3 })
    expect(bins[1]).toEqual({ from: 10, to: 20, count: 1 })
    expect(bins.at(-1)).toEqual({ from: 110, to: 120, count: 1 })
  })

  it('puts what took far longer than most together', () => {
    const many = Array.from({ length: 99 }, (_, at) => at)
    const found = histogram([...many, 100_000], 95)
    expect(found.bins.at(-1)).toMatchObject({ to: null, count: 1 })
    expect(found.bins.length).toBeLessThanOrEqual(21)
    expect(placeOf(found, 40)).toBe(40)
    expect(placeOf(found, 100_000)).toBe(found.bins.at(-1)!.from + found.step / 2)
  })

  it('shows seconds as well as months', () => {
    expect(histogram([0.1, 0.2, 0.3], 0.3).step).toBeLessThan(0.05)
    const months = histogram([60 * 24 * 200], 60 * 24 * 200)
    expect(months.bins.length).toBeLessThanOrEqual(21)
    expect(months.bins.reduce((sum, { count }) => sum + count, 0)).toBe(1)
  })

  it('has one empty bin for nothing, and one full one for zeros', () => {
    expect(histogram([], null).bins.map(({ count }) => count)).toEqual([0])
    expect(histogram([0, 0], 0).bins.map(({ count }) => count)).toEqual([2])
  })
})
