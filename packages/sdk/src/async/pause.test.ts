import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { pause } from './pause.js'

const reason = new Error('on purpose')

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

it('ends when the signal is aborted, with its reason and without a timer that stays', async () => {
  const controller = new AbortController()
  const pausing = pause(100, controller.signal)
  controller.abort(reason)
  await expect(pausing).rejects.toBe(reason)
  expect(vi.getTimerCount()).toBe(0)
})

it('does not begin when the signal is aborted already', async () => {
  await expect(pause(100, AbortSignal.abort(reason))).rejects.toBe(reason)
  expect(vi.getTimerCount()).toBe(0)
})

it('asks for no negative time, of which Node 26 warns', async () => {
  const asked = vi.spyOn(globalThis, 'setTimeout')
  const pausing = pause(-5, undefined)
  expect(asked.mock.calls.map(([, ms]) => ms)).toEqual([0])
  vi.runAllTimers()
  await pausing
  asked.mockRestore()
})
