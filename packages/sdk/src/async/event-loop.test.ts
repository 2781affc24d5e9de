import { afterEach, expect, it, vi } from 'vitest'
import { loadOn } from '../../../../test/support/platform.js'

const NEITHER = { setImmediate: undefined, scheduler: undefined } // as in jest's jsdom

afterEach(() => {
  vi.useRealTimers()
})

it.each([
  ['setImmediate', {}],
  ['scheduler', { ...NEITHER, scheduler: { yield: async () => undefined } }],
  ['setTimeout', NEITHER],
])('gives a turn by %s though timers turned fake after it was loaded', async (_, globals) => {
  const { turn } = await loadOn<typeof import('./event-loop.js')>(globals, new URL('event-loop.ts', import.meta.url))
  vi.useFakeTimers()
  const turned = turn()
  expect(vi.getTimerCount()).toBe(0)
  await turned
})
