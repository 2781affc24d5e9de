// Within which bounds blind hashes are evaluated.
import { createSecretKey } from 'node:crypto'
import { MAX_BATCH_ELEMENTS, MAX_BLINDED_ELEMENTS } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { costOfElements, createBlindHashing, type RunBlindHash } from './blind-hashing.js'
import { Refusal } from './refusal.js'

const hashKey = createSecretKey(new Uint8Array(32).fill(7))
const RESULT = { elements: ['a'], proof: 'b' }

/** A thread that answers when it is told to. */
function openThread() {
  const waiting: (() => void)[] = []
  const run: RunBlindHash = () => new Promise((resolve) => waiting.push(() => resolve(RESULT)))
  const hashing = createBlindHashing(run)
  const evaluate = (api_key_id: string, count: number, signal?: AbortSignal) =>
    hashing.inTurn({ tenant_id: `tenant of ${api_key_id}`, api_key_id, signal }, costOfElements(count), () =>
      hashing.evaluate(hashKey, Array(count).fill('x')),
    )
  const answer = async () => {
    while (waiting.length === 0) await Promise.resolve()
    waiting.shift()?.()
  }
  return { waiting, evaluate, answer }
}

const refusalOf = (call: Promise<unknown>) => call.then(() => undefined).catch((error: Refusal) => error)

describe('a blind hash', () => {
  it('is refused if its API key has six of the largest calls under way, and others are not', async () => {
    const { evaluate, answer } = openThread()
    const calls = Array.from({ length: 6 }, () => evaluate('one', MAX_BLINDED_ELEMENTS))
    const refused = await refusalOf(evaluate('one', 1))
    expect(refused).toBeInstanceOf(Refusal)
    expect(refused).toMatchObject({ code: 'E_UNAVAILABLE', caller: { retryAfterSeconds: 1 } })
    calls.push(evaluate('other', 1))
    for (const _ of calls) await answer()
    expect(await Promise.all(calls)).toHaveLength(7)
    const again = evaluate('one', MAX_BATCH_ELEMENTS)
    await answer()
    expect(await again).toEqual(RESULT)
  })

  it('costs four elements more than it has, so a turn has 52 of one element', async () => {
    const { waiting, evaluate, answer } = openThread()
    const calls = Array.from({ length: 60 }, (_, call) => evaluate(`key ${call}`, 1))
    await new Promise(setImmediate)
    expect(waiting).toHaveLength(52)
    for (const _ of calls) await answer()
    await Promise.all(calls)
  })

  it('is not evaluated once its caller has left', async () => {
    const { waiting, evaluate, answer } = openThread()
    const running = evaluate('one', MAX_BLINDED_ELEMENTS)
    const leaving = new AbortController()
    const left = refusalOf(evaluate('one', 1, leaving.signal))
    leaving.abort()
    await answer()
    await running
    expect(await left).toMatchObject({ code: 'E_UNAVAILABLE' })
    expect(waiting).toHaveLength(0)
  })

  it('names the element that is none', async () => {
    const { evaluate } = createBlindHashing(async () => ({ wrong: 3 }))
    const refused = await refusalOf(evaluate(hashKey, ['x']))
    expect(refused).toMatchObject({ code: 'E_VALIDATION', message: expect.stringMatching(/^elements\.3: must be /) })
  })
})
