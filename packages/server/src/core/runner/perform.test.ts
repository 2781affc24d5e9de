// Who zeroes the secrets of a decision, and when: the committer is one that decides again whenever the test
// says so. And who is told of an alarm.
import { describe, expect, it } from 'vitest'
import type { DecideOn } from '../audit/append/tenant-log.js'
import { ChainAlarmError } from '../audit/append-errors.js'
import type { Caller, Decision, Operation, Services } from './operation.js'
import { carryOut, performAsSystem } from './perform.js'
import { unauthorized } from './refusal.js'

const TENANT = '7c9e6679-7425-40de-944b-e07fc1f90ae7'

function start() {
  let decideAgain: (() => Promise<unknown>) | undefined
  const state = { tenant: { tenant_id: TENANT, monthly_encrypt_quota: null }, policy_version: 1 }
  const services = {
    actor: 'system',
    states: { find: () => state, recent: () => state },
    committer: {
      append: async ({ decide }: { decide: (on: DecideOn) => Promise<unknown> }) => {
        decideAgain = () => decide({ policy_version: 1, quotaLeft: 1 })
      },
    },
  } as unknown as Services
  const made: Uint8Array[] = []
  let answer = (): void => undefined
  const gate = new Promise<void>((resolve) => {
    answer = resolve
  })
  const operation: Operation<string> = () => {
    const secret = new Uint8Array(32).fill(7)
    made.push(secret)
    return {
      entries: [{ action: 'key.unwrap' }],
      release: async () => {
        await gate
        return Buffer.from(secret).toString('hex')
      },
      secrets: [secret],
    }
  }
  const answered = performAsSystem(services, TENANT, operation)
  return { made, answered, answer: () => answer(), decideAgain: () => decideAgain?.() }
}

const zeros = new Uint8Array(32)
const settle = () => new Promise((resolve) => setImmediate(resolve))

it('the secrets of a decision are zeroed after its answer', async () => {
  const { made, answered, answer } = start()
  await settle()
  expect(made).toEqual([new Uint8Array(32).fill(7)])
  answer()
  expect(await answered).toBe('07'.repeat(32))
  expect(made).toEqual([zeros])
})

it('an answer that is being made keeps its secrets, although the call is decided again, and those of both are zeroed', async () => {
  const { made, answered, answer, decideAgain } = start()
  await settle()
  await decideAgain()
  answer()
  expect(await answered).toBe('07'.repeat(32))
  expect(made).toEqual([zeros, zeros])
})

it('a call whose caller has gone is refused where it is decided again, which fails no other call', async () => {
  const { made, answered, answer, decideAgain } = start()
  answer()
  await answered
  expect(await decideAgain()).toMatchObject({ entries: [], refused: { message: 'the caller stopped waiting' } })
  expect(made).toEqual([zeros, zeros])
})

it('uses of a budget that a transaction counted are counted again after its rollback, and others are not', async () => {
  const apiKey = { keys: null, budgets: JSON.stringify({ hash: { per_day: 9 } }) }
  const caller = { actor: 'a', ip_address: null, apiKey } as unknown as Caller
  const state = { tenant: { tenant_id: TENANT, monthly_encrypt_quota: null }, policy_version: 1 }
  const counted: unknown[] = []
  const transactions = ['rolled back', 'committed', 'committed'].map((sql) => ({ sql }) as never)
  const services = {
    sql: 'at once',
    states: { find: () => state, renew: async () => undefined, underLock: async () => ({ state }) },
    committer: {
      append: async ({ decide }: { decide: (on: DecideOn) => Promise<unknown> }) => {
        // The committed one decides twice, as it does where the quota is exceeded.
        for (const lock of transactions) await decide({ policy_version: 1, lock, quotaLeft: 1 })
      },
      currentPolicyVersion: async () => 2, // the state is always out of date, so the call decides in its turn
    },
    takeUses: async (sql: unknown, _: unknown, __: unknown, before: { counts: { hash: number } }) => {
      if (before.counts.hash > 0) return undefined
      counted.push(sql)
      return { ...before, counts: { ...before.counts, hash: 1 } }
    },
  } as unknown as Services
  const findCaller = () => ({ caller, fault: undefined })
  const call = (underLock: boolean) =>
    carryOut(services, { tenant_id: TENANT, findCaller, underLock }, () => ({ entries: [], release: () => 'hashed' }))
  expect(await call(true)).toBe('hashed')
  expect(counted).toEqual(['rolled back', 'committed'])
  expect(await call(false)).toBe('hashed')
  expect(counted.slice(2)).toEqual(['at once'])
})

describe('while a tenant has an alarm, a caller', () => {
  const alarm = new ChainAlarmError('the log went back')
  const caller = { actor: 'system', ip_address: null } as Caller
  const entry = { action: 'key.unwrap' } as const

  /** Calls where the alarm is found once the state was out of date so many times. */
  function call(stale: number, decision: Partial<Decision<string>>, admit = (): Caller => caller) {
    const state = { tenant: { tenant_id: TENANT, monthly_encrypt_quota: null }, policy_version: 1 }
    const find = () => {
      if (stale-- > 0) return Promise.resolve(2)
      return Promise.reject(alarm)
    }
    const services = {
      states: { find: () => state, renew: async () => undefined },
      committer: { append: () => Promise.reject(alarm), currentPolicyVersion: find },
    } as unknown as Services
    const operation: Operation<string> = () => ({ entries: [], release: () => 'answer', ...decision })
    const findCaller = () => ({ caller: admit(), fault: undefined })
    return carryOut(services, { tenant_id: TENANT, findCaller }, operation)
  }
  const refuse = (): Caller => {
    throw unauthorized('unknown')
  }

  it.each([0, 1, 2])(
    'without a valid API key is refused as one, where the state was out of date %d times',
    async (stale) => {
      const refused = { code: 'E_UNAUTHORIZED', caller: { reason: 'unknown' } }
      await expect(call(stale, {}, refuse)).rejects.toMatchObject(refused)
      await expect(call(stale, { freshness: 'cached' }, refuse)).rejects.toMatchObject(refused)
      await expect(call(stale, { freshness: 'as_found' }, refuse)).rejects.toMatchObject(refused)
    },
  )

  it.each([0, 1, 2])('with one is told of it, where the state was out of date %d times', async (stale) => {
    await expect(call(stale, {})).rejects.toBe(alarm)
    await expect(call(stale, { entries: [entry] })).rejects.toBe(alarm)
  })

  it('may verify', async () => {
    expect(await call(0, { freshness: 'as_found' })).toBe('answer')
  })
})
