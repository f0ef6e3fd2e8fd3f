import { describe, expect, it, vi } from 'vitest'
import { paced } from './refresh'

describe('paced', () => {
  it('works at once, and once more for all that was asked meanwhile', async () => {
    vi.useFakeTimers()
    const work = vi.fn(async () => undefined)
    const { ask } = paced(work, 100)
    ask()
    expect(work).toHaveBeenCalledTimes(1)
    for (let more = 0; more < 50; more++) ask()
    expect(work).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(100)
    expect(work).toHaveBeenCalledTimes(2)
    await vi.advanceTimersByTimeAsync(1000)
    expect(work).toHaveBeenCalledTimes(2)
    vi.useRealTimers()
  })

  it('is never at work twice at a time', async () => {
    vi.useFakeTimers()
    let busy = 0
    let most = 0
    const { ask } = paced(async () => {
      busy++
      most = Math.max(most, busy)
      await new Promise((resolve) => setTimeout(resolve, 500))
      busy--
    }, 10)
    for (let time = 0; time < 20; time++) {
      ask()
      await vi.advanceTimersByTimeAsync(100)
    }
    expect(most).toBe(1)
    vi.useRealTimers()
  })

  it('goes on after a failure, and not after its end', async () => {
    vi.useFakeTimers()
    const work = vi.fn(() => Promise.reject(new Error('no')))
    const { ask, stop } = paced(work, 10)
    ask()
    await vi.advanceTimersByTimeAsync(50)
    ask()
    expect(work).toHaveBeenCalledTimes(2)
    stop()
    await vi.advanceTimersByTimeAsync(50)
    ask()
    expect(work).toHaveBeenCalledTimes(2)
    vi.useRealTimers()
  })
})
