// The clock of a machine whose database has no other: leaps are told from sleep, and what the log says
// counts.
import { beforeEach, describe, expect, it } from 'vitest'
import { type Clock, createClock, WrongClockError } from './clock.js'

const START = Date.parse('2026-11-20T09:00:00.000Z')
const MINUTE_MS = 60_000
const DAY_MS = 1_440 * MINUTE_MS

let time: number
let steady: number
let up: number
let messages: string[]
let clock: Clock

beforeEach(() => {
  time = START
  steady = 5_000
  up = 100_000
  messages = []
  clock = createClock({
    now: () => time,
    toleranceMs: 5 * MINUTE_MS,
    isDatabaseLocal: true,
    onWrong: (message) => messages.push(message),
    steadyNow: () => steady,
    machineUptime: () => up,
  })
})

const pass = (ms: number, { asleep = false } = {}) => {
  time += ms
  up += ms
  if (!asleep) steady += ms
}
const read = (created_at = '2026-11-20T08:59:59.000Z') => clock.read({ created_at })

describe('the clock beside an embedded database', () => {
  it.each([10 * DAY_MS, 6 * MINUTE_MS, -6 * MINUTE_MS, -DAY_MS])('is refused after a leap of %d ms', (leap) => {
    pass(DAY_MS)
    expect(read()).toBe(START + DAY_MS)
    pass(1_000)
    time += leap
    expect(read).toThrow(WrongClockError)
    pass(MINUTE_MS)
    expect(read).toThrow(WrongClockError)
    time -= leap
    expect(read()).toBe(START + DAY_MS + MINUTE_MS + 1_000)
  })

  it('is taken after a sleep, after small steps, and after a day of them', () => {
    pass(8 * 60 * MINUTE_MS, { asleep: true })
    expect(read()).toBe(time)
    for (let step = 0; step < 1_000; step++) {
      pass(10_000)
      time -= 1_000
      expect(read()).toBe(time)
    }
    pass(DAY_MS, { asleep: true })
    expect(read()).toBe(time)
  })

  it('is refused where the last entry is in its future', () => {
    expect(read('2026-11-20T09:05:00.000Z')).toBe(START)
    expect(() => read('2026-11-20T09:05:00.001Z')).toThrow('behind the last audit entry')
  })

  it('is found wrong without an entry, and right again, after a leap, and not because a single log is ahead of it', async () => {
    const find = () => clock.findFault(async () => time)
    expect(await find()).toBeUndefined()
    time += DAY_MS
    expect([await find(), clock.isWrong()]).toEqual([expect.stringContaining('jumped by 86400 s'), true])
    time -= DAY_MS
    expect([await find(), clock.isWrong()]).toEqual([undefined, false])
    expect(() => read('2026-11-20T09:10:00.000Z')).toThrow(WrongClockError)
    expect([await find(), clock.isWrong()]).toEqual([undefined, false])
  })

  it.each([365 * DAY_MS, -365 * DAY_MS])(
    'tells the time as if nobody had set it by %d ms, until it is right',
    (leap) => {
      pass(DAY_MS, { asleep: true })
      time += leap
      pass(MINUTE_MS)
      expect(clock.now()).toBe(START + DAY_MS + MINUTE_MS)
      expect(clock.latest()).toBe(Math.max(time, START + DAY_MS + MINUTE_MS))
      pass(60 * MINUTE_MS, { asleep: true })
      expect(clock.now()).toBe(START + DAY_MS + 61 * MINUTE_MS)
      time -= leap
      expect([clock.now(), clock.latest()]).toEqual([time, time])
    },
  )

  it('is reported once a minute', () => {
    time += DAY_MS
    for (let second = 0; second < 61; second++) {
      expect(read).toThrow(WrongClockError)
      pass(1_000)
    }
    expect(messages).toHaveLength(2)
    expect(clock.isWrong()).toBe(true)
  })
})

describe('the clock beside a database with one of its own', () => {
  it('is not found wrong because the database answers late', async () => {
    const other = createClock({ now: () => time, toleranceMs: 5 * MINUTE_MS })
    const answer = (after: number, difference: number) =>
      other.findFault(async () => {
        pass(after)
        return time + difference
      })
    expect(await answer(6 * MINUTE_MS, 0)).toBeUndefined()
    expect(await answer(0, 6 * MINUTE_MS)).toContain("360 s behind the database's")
    expect(await answer(0, -6 * MINUTE_MS)).toContain("360 s ahead of the database's")
    expect(messages).toEqual([])
  })

  describe('that never agreed with it', () => {
    const begin = (skew: number) => {
      time = START + skew
      const began = createClock({
        now: () => time,
        toleranceMs: 5 * MINUTE_MS,
        steadyNow: () => steady,
        machineUptime: () => up,
      })
      return { began, compare: (theirs: number) => began.findFault(async () => theirs) }
    }

    it('tells no later time than the database, and expires what either may say has expired', async () => {
      const { began, compare } = begin(365 * DAY_MS)
      await compare(START)
      pass(MINUTE_MS)
      expect(began.now()).toBe(START + MINUTE_MS)
      expect(began.latest()).toBe(START + 365 * DAY_MS + MINUTE_MS)
      time -= 365 * DAY_MS
      expect(began.now()).toBe(START + MINUTE_MS)
      await compare(time)
      expect([began.now(), began.latest()]).toEqual([time, time])
    })

    it('is not taken back by a database that goes wrong after they agreed', async () => {
      const { began, compare } = begin(0)
      await compare(START)
      await compare(START - 365 * DAY_MS)
      expect([began.now(), began.latest()]).toEqual([START, START])
    })
  })
})
