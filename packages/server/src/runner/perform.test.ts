// Who zeroes the secrets of a decision, and when. The committer is one that decides again whenever the test
// says so.
import { expect, it } from 'vitest'
import type { DecideOn } from '../audit/append/committer.js'
import type { Operation, Services } from './operation.js'
import { performAsSystem } from './perform.js'

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
