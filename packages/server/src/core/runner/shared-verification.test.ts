// Which callers share a verification, and when one ends that nobody waits for.
import type { wire } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { createSharedVerifications } from './shared-verification.js'

const shareVerification = createSharedVerifications()
let tenants = 0

/** Verifications of a tenant of its own, each of which ends when it is told to. */
function makeTenant() {
  const tenant_id = `tenant ${++tenants}`
  const runs: { end: () => void; gone: AbortSignal }[] = []
  const ask = (scope = 'all', signal?: AbortSignal) =>
    shareVerification({ tenant_id, scope, signal }, (gone) => {
      const total_entries = runs.length + 1
      return new Promise((resolve) => {
        runs.push({ gone, end: () => resolve({ total_entries } as wire.Verification) })
      })
    })
  return { ask, runs }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('verifications of one tenant', () => {
  it('are shared by all who asked before one began, and never by those who asked later', async () => {
    const { ask, runs } = makeTenant()
    const [first, ...others] = [ask(), ask(), ask()]
    await settled()
    const later = [ask(), ask(), ask()]
    await settled()
    expect(runs).toHaveLength(1)
    runs[0]?.end()
    expect((await Promise.all([first, ...others])).map((answer) => answer?.total_entries)).toEqual([1, 1, 1])
    await settled()
    expect(runs).toHaveLength(2)
    runs[1]?.end()
    expect((await Promise.all(later)).map((answer) => answer.total_entries)).toEqual([2, 2, 2])
  })

  it('of different stretches wait for one another', async () => {
    const { ask, runs } = makeTenant()
    const answers = [ask('all'), ask('the end')]
    await settled()
    expect(runs).toHaveLength(1)
    runs[0]?.end()
    await settled()
    runs[1]?.end()
    expect((await Promise.all(answers)).map((answer) => answer.total_entries)).toEqual([1, 2])
  })

  it('of too many different stretches are refused', async () => {
    const { ask, runs } = makeTenant()
    const running = ask()
    await settled()
    const waiting = Array.from({ length: 8 }, (_, at) => ask(`stretch ${at}`))
    await expect(ask('one more')).rejects.toMatchObject({ code: 'E_UNAVAILABLE' })
    for (let at = 0; at < 9; at++) {
      runs[at]?.end()
      await settled()
    }
    expect(await Promise.all([running, ...waiting])).toHaveLength(9)
  })

  it('end when the last who waited is gone, and not before', async () => {
    const { ask, runs } = makeTenant()
    const [one, two] = [new AbortController(), new AbortController()]
    const answers = [ask('all', one.signal), ask('all', two.signal)].map((answer) => answer.catch((error) => error))
    await settled()
    one.abort()
    expect(await answers[0]).toMatchObject({ code: 'E_UNAVAILABLE' })
    expect(runs[0]?.gone.aborted).toBe(false)
    two.abort()
    expect(await answers[1]).toMatchObject({ code: 'E_UNAVAILABLE' })
    expect(runs[0]?.gone.aborted).toBe(true)
    runs[0]?.end()
  })
})

describe('a verification that nobody waits for any more', () => {
  it('is not shared by who asks later, and leaves its place', async () => {
    const { ask, runs } = makeTenant()
    const running = ask()
    await settled()
    for (let at = 0; at < 9; at++) {
      const gone = new AbortController()
      const answer = ask('the end', gone.signal)
      gone.abort()
      await expect(answer).rejects.toMatchObject({ code: 'E_UNAVAILABLE' })
    }
    const later = ask('the end')
    runs[0]?.end()
    await running
    await settled()
    runs[1]?.end()
    expect((await later).total_entries).toBe(2)
    expect(runs).toHaveLength(2)
  })
})

describe('verifications of many tenants', () => {
  it('are of two at once; a third one gets its turn, however many the others have waiting', async () => {
    const [a, b, c] = [makeTenant(), makeTenant(), makeTenant()]
    const answers = [a.ask('all'), b.ask('all'), a.ask('the end'), b.ask('the end')]
    await settled()
    const answer = c.ask()
    await settled()
    expect([a, b, c].map(({ runs }) => runs.length)).toEqual([1, 1, 0])
    a.runs[0]?.end()
    await settled()
    expect([a, b, c].map(({ runs }) => runs.length)).toEqual([1, 1, 1])
    c.runs[0]?.end()
    expect((await answer).total_entries).toBe(1)
    await settled()
    expect([a, b, c].map(({ runs }) => runs.length)).toEqual([2, 1, 1])
    for (const end of [() => b.runs[0], () => a.runs[1], () => b.runs[1]]) {
      end()?.end()
      await settled()
    }
    expect(await Promise.all(answers)).toHaveLength(4)
  })

  it('leave a tenant its place where a caller is gone, for those of its callers that still wait', async () => {
    const [a, b, c] = [makeTenant(), makeTenant(), makeTenant()]
    const answers = [a.ask('all'), a.ask('the end'), b.ask()]
    await settled()
    const gone = new AbortController()
    const given = c.ask('all', gone.signal)
    gone.abort()
    await expect(given).rejects.toMatchObject({ code: 'E_UNAVAILABLE' })
    const later = c.ask('the end')
    a.runs[0]?.end()
    await settled()
    expect([a, b, c].map(({ runs }) => runs.length)).toEqual([1, 1, 1])
    c.runs[0]?.end()
    await later
    await settled()
    for (const run of [a.runs[1], b.runs[0]]) run?.end()
    expect(await Promise.all(answers)).toHaveLength(3)
  })
})
