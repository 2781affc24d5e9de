import { createSecretKey } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { DATABASE_DEADLINE_MS } from '../../store/deadline.js'
import { OverloadError } from '../append-errors.js'
import { AppendQueue } from './append-queue.js'
import type { Append } from './tenant-log.js'

const DRAFT = {
  action: 'key.wrap',
  key_id: null,
  key_version: null,
  actor: 'system',
  ip_address: null,
  metadata: null,
} as const

const draftsOf = (length: number) => Array.from({ length }, () => DRAFT)
const decide = async () => undefined

function appendOf(entries: number, more: Partial<Append> = {}): Append {
  const auditKey = createSecretKey(Buffer.alloc(32, 1))
  return { tenant_id: 'a', auditKey, policy_version: 1, entries: draftsOf(entries), decide, ...more }
}

describe('the appends that wait for a log', () => {
  it('are bounded by their entries, of the tenant and of all', async () => {
    const all = { entries: 0 }
    const [first, ...others] = Array.from({ length: 3 }, () => new AppendQueue(all))
    const fill = (queue?: AppendQueue) => Array.from({ length: 20 }, () => queue?.add(appendOf(1_000)).catch(String))
    fill(first)
    await expect(first?.add(appendOf(1))).rejects.toThrow(OverloadError)
    others.flatMap(fill)
    expect(all.entries).toBe(50_000)
    await expect(others[1]?.add(appendOf(1))).rejects.toThrow(OverloadError)
    expect(first?.take()).toHaveLength(1)
    first?.answer()
    expect(all.entries).toBe(49_000)
    first?.add(appendOf(1_000)).catch(String)
    expect(all.entries).toBe(50_000)
  })

  it('are taken in their order, up to the size of a statement', () => {
    const queue = new AppendQueue({ entries: 0 })
    for (const size of [1, 500, 12, 1, 1_000]) queue.add(appendOf(size)).catch(String)
    const sizes = Array.from({ length: 4 }, () => queue.take().map(({ append }) => append.entries.length))
    expect(sizes).toEqual([[1, 500], [12, 1], [1_000], []])
  })

  it('are taken apart from changes, whichever came first: one group of the other kind passes a call at most', () => {
    const queue = new AppendQueue({ entries: 0 })
    const change = async () => 1
    const kinds = [{}, { change }, {}, { change }, { entries: [] }, {}]
    for (const more of kinds) queue.add(appendOf(1, more)).catch(String)
    const groups = Array.from({ length: 3 }, () => queue.take().map(({ append: { change } }) => change !== undefined))
    expect(groups).toEqual([[false, false, false], [true, true, false], []])
    for (let at = 0; at < 40; at++) queue.add(appendOf(1, { change })).catch(String)
    queue.add(appendOf(1)).catch(String)
    expect(Array.from({ length: 4 }, () => queue.take().length)).toEqual([16, 16, 8, 1])
  })

  it('are refused one by one with what their last decisions refused with', async () => {
    const queue = new AppendQueue({ entries: 0 })
    const outcomes = [1, 2].map(() => queue.add(appendOf(1)).catch(({ message }) => message))
    const [first] = queue.take()
    if (first) first.decided = { entries: [], refused: new Error('revoked') }
    queue.answer()
    expect(await Promise.all(outcomes)).toEqual(['revoked', undefined])
  })
})

describe('an append that waits for too long', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
  const told = async (outcome: Promise<unknown>) =>
    outcome.then(
      () => 'committed',
      (error) => (error.mayBeWritten ? 'perhaps written' : 'not written'),
    )
  const never = () => new Promise<never>(() => undefined)

  it('is told so at its own time, and whether it may be written', async () => {
    const all = { entries: 0 }
    const queue = new AppendQueue(all)
    const change = async () => 1
    const [begun, waits] = [told(queue.add(appendOf(1, { change }))), told(queue.add(appendOf(1)))]
    const [taken] = queue.take()
    const failed = expect(queue.whileAwaited(never())).rejects.toThrow('4000 ms')
    vi.advanceTimersByTime(DATABASE_DEADLINE_MS)
    expect(await Promise.all([begun, waits])).toEqual(['perhaps written', 'not written'])
    await failed
    expect([taken?.isGivenUp, queue.take(), all.entries]).toEqual([true, [], 0])
  })

  it('is told so at its own time behind a group of the other kind that began with later ones', async () => {
    const queue = new AppendQueue({ entries: 0 })
    const change = async () => 1
    const first = told(queue.add(appendOf(1, { change })))
    vi.advanceTimersByTime(1_000)
    const waits = told(queue.add(appendOf(1)))
    vi.advanceTimersByTime(1_000)
    const late = told(queue.add(appendOf(1, { change })))
    queue.take()
    queue.whileAwaited(never()).catch(String)
    vi.advanceTimersByTime(DATABASE_DEADLINE_MS - 1_000)
    queue.answer()
    expect(await Promise.all([first, late])).toEqual(['perhaps written', 'committed'])
    expect(queue.take()).toEqual([])
    expect(await waits).toBe('not written')
  })

  it('leaves those that came later in the same group their time', async () => {
    const queue = new AppendQueue({ entries: 0 })
    const early = told(queue.add(appendOf(1)))
    vi.advanceTimersByTime(1_000)
    const late = told(queue.add(appendOf(1)))
    queue.take()
    let isAbandoned = false
    queue.whileAwaited(never()).catch(() => {
      isAbandoned = true
    })
    vi.advanceTimersByTime(DATABASE_DEADLINE_MS - 1_000)
    expect([await early, isAbandoned]).toEqual(['perhaps written', false])
    queue.answer()
    expect(await late).toBe('committed')
  })

  it('is given up on though the next came when the timer was running already', async () => {
    const queue = new AppendQueue({ entries: 0 })
    const first = told(queue.add(appendOf(1)))
    queue.take()
    queue.answer()
    expect(await first).toBe('committed')
    vi.advanceTimersByTime(3_000)
    const second = told(queue.add(appendOf(1)))
    vi.advanceTimersByTime(DATABASE_DEADLINE_MS)
    expect(await second).toBe('not written')
  })
})
