// Work that is done periodically: when its first run begins, and what becomes of it when the server stops
// before.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { type Periodic, type PeriodicOptions, startPeriodic } from './periodic.js'

const INTERVAL_MS = 1_000

let started: Periodic[]
beforeEach(() => {
  vi.useFakeTimers()
  started = []
})
afterEach(async () => {
  await Promise.all(started.map((job) => job.stop()))
  vi.useRealTimers()
})

/** Starts work of which each run lasts until `end` is called. */
function start({ after }: Pick<PeriodicOptions, 'after'> = {}) {
  let runs = 0
  let end: (error?: Error) => void = () => undefined
  const work = () =>
    new Promise<void>((resolve, reject) => {
      runs += 1
      end = (error) => (error ? reject(error) : resolve())
    })
  const errors: unknown[] = []
  const onError = (error: unknown) => void errors.push(error)
  const job = startPeriodic({ intervalMs: INTERVAL_MS, work, onError, ...(after && { after }) })
  const stop = () => {
    end()
    return job.stop()
  }
  started.push({ ...job, stop })
  return { job, errors, runs: () => runs, end: (error?: Error) => end(error) }
}
const settled = () => vi.advanceTimersByTimeAsync(0)

it('begins its first run at once, or when the one that it waits for has ended or failed', async () => {
  const first = start()
  const second = start({ after: first.job.firstRun })
  const third = start({ after: second.job.firstRun })
  const runs = async () => {
    await settled()
    return [first.runs(), second.runs(), third.runs()]
  }
  expect(await runs()).toEqual([1, 0, 0])
  first.end()
  expect(await runs()).toEqual([1, 1, 0])
  second.end(new Error('no database'))
  expect(await runs()).toEqual([1, 1, 1])
  expect(second.errors).toHaveLength(1)
})

it('waits for no first run longer than its interval', async () => {
  const first = start()
  const second = start({ after: first.job.firstRun })
  await vi.advanceTimersByTimeAsync(INTERVAL_MS - 1)
  expect(second.runs()).toBe(0)
  await vi.advanceTimersByTimeAsync(1)
  expect([first.runs(), second.runs()]).toEqual([1, 1])
})

it('does not run any more once it was stopped, though what it waited for ends', async () => {
  const first = start()
  const second = start({ after: first.job.firstRun })
  await second.job.stop()
  first.end()
  await settled()
  expect(second.runs()).toBe(0)
})
