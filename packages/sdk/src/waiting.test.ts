import { afterEach, describe, expect, it, vi } from 'vitest'
import { loadOn } from '../../../test/support/platforms/platform.js'
import { joinWaiters, onAbort, untilAborted, type Waiter } from './waiting.js'

const NEITHER = { setImmediate: undefined, scheduler: undefined } // as in jest's jsdom

afterEach(() => {
  vi.useRealTimers()
})

describe('listening to a signal', () => {
  it('runs everybody who listens, with one listener on the signal', () => {
    const controller = new AbortController()
    const add = vi.spyOn(controller.signal, 'addEventListener')
    const runs = Array.from({ length: 20 }, () => vi.fn())
    for (const run of runs) onAbort(controller.signal, run)
    controller.abort()
    expect(add).toHaveBeenCalledTimes(1)
    for (const run of runs) expect(run).toHaveBeenCalledTimes(1)
  })

  it('runs nobody who has left, so that a signal that lives long holds no call that is over', () => {
    const controller = new AbortController()
    const run = vi.fn()
    onAbort(controller.signal, run)()
    controller.abort()
    expect(run).not.toHaveBeenCalled()
  })

  describe('that refuses to be listened to', () => {
    const refusing = () => {
      const { signal } = new AbortController()
      vi.spyOn(signal, 'addEventListener').mockImplementation(() => {
        throw new Error('refused')
      })
      return signal
    }

    it('fails each call, not the first only', () => {
      const signal = refusing()
      for (const _ of [1, 2]) expect(() => onAbort(signal, () => undefined)).toThrow('refused')
    })

    it('leaves nobody who waits: whoever serves later finds none', async () => {
      const waiters = new Set<Waiter<unknown>>()
      const waiting = joinWaiters(
        waiters,
        refusing(),
        () => 'served',
        (waiter: Waiter<unknown>) => waiter,
      )
      await expect(waiting).rejects.toThrow('refused')
      expect(waiters.size).toBe(0)
    })

    it('lets no rejection of what was waited for escape', async () => {
      const failing = Promise.reject(new Error('later'))
      await expect(untilAborted(failing, refusing())).rejects.toThrow()
      await new Promise((resolve) => setImmediate(resolve)) // an unhandled rejection would fail the run
    })
  })
})

it.each([
  ['setImmediate', {}],
  ['scheduler', { ...NEITHER, scheduler: { yield: async () => undefined } }],
  ['setTimeout', NEITHER],
])('gives a turn by %s though timers turned fake after it was loaded', async (_, globals) => {
  const { turn } = await loadOn<typeof import('./waiting.js')>(globals, new URL('waiting.ts', import.meta.url))
  vi.useFakeTimers()
  const turned = turn()
  expect(vi.getTimerCount()).toBe(0)
  await turned
})

it.each([
  ['share one load', {}, 1],
  [
    'load each for itself where requests are isolated, since none could await the promise of another',
    { EdgeRuntime: 'edge' },
    2,
  ],
])('callers who need a part at once %s', async (_, globals, times) => {
  const { loadOnce } = await loadOn<typeof import('./waiting.js')>(globals, new URL('waiting.ts', import.meta.url))
  const load = vi.fn(async () => ({}))
  const part = loadOnce(load)
  const [one, other] = await Promise.all([part(), part()])
  expect(load).toHaveBeenCalledTimes(times)
  expect(one).toBe(other)
  expect(part()).toBe(one)
})
