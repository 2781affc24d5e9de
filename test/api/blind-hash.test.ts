// Blind hashes beyond their vectors and the conformance kit: counts, destroyed keys, and the thread that evaluates them.
import { createSecretKey } from 'node:crypto'
import { once } from 'node:events'
import { encodeBase64, MAX_BLINDED_ELEMENTS } from '@eaas/protocol'
import { blindValue, deriveBlindHashKeys, finalizeBlinded } from '@eaas/protocol/blind-hash'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type BlindHashResult,
  type BlindHashTask,
  runBlindHash,
} from '../../packages/server/src/core/crypto/blind-hash.js'
import { createTaskThread } from '../../packages/server/src/core/task-thread.js'
import { ELEMENT } from '../support/audit/audit-scene.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const PROGRAM = new URL('../../packages/server/dist/blind-hash-thread-program.js', import.meta.url)
const ODD = `AQ${ELEMENT.slice(2)}`

let service: Service
let owner: Caller
let key_id: string

beforeAll(async () => {
  service = await startService({ environment: { EAAS_DESTROY_WINDOW_DAYS: '0' } })
})
afterAll(() => service?.close())

async function newTenant(): Promise<void> {
  owner = await service.createTenant()
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
}

const blindHash = (elements: readonly string[]) => owner.call('POST', '/v1/hash/blind', { key_id, elements })

describe('a blind hash', () => {
  it('is counted by its elements in the place of hashes, alone and in a batch, and has no entry', async () => {
    await newTenant()
    await blindHash([ELEMENT, ELEMENT])
    const operations = [
      { op: 'blind_hash', key_id, elements: [ELEMENT, ELEMENT, ELEMENT] },
      { op: 'hash', key_id, value: 'x' },
    ]
    await owner.call('POST', '/v1/batch', { operations })
    const { unrecorded, by_api_key } = (await owner.call('GET', '/v1/usage')).body
    expect(unrecorded).toMatchObject([{ kind: 'hash', count: 6 }])
    expect(by_api_key).toMatchObject([{ kind: 'hash', today: 6 }])
    expect((await owner.call('GET', `/v1/audit?key_id=${key_id}`)).body.total).toBe(1) // its creation
  })

  it('is counted if it is refused for an element, which the answer names and does not repeat', async () => {
    await newTenant()
    const { status, body } = await blindHash([ELEMENT, ODD])
    expect([status, body.code]).toEqual([400, 'E_VALIDATION'])
    expect(body.detail).toContain('elements.1: ')
    expect(JSON.stringify(body)).not.toContain(ODD)
    const { unrecorded } = (await owner.call('GET', '/v1/usage')).body
    const counts = unrecorded.map(({ kind, count }: { kind: string; count: number }) => [kind, count])
    expect(counts).toContainEqual(['hash', 2])
    expect(counts).toContainEqual(['invalid_refused', 1])
  })

  it('ends with its key, whose public key is then null', async () => {
    await newTenant()
    const read = async () => (await owner.call('GET', `/v1/keys/${key_id}`)).body
    expect((await read()).blind_hash_public_key).toMatch(/^[\w+/]{43}=$/)
    await owner.call('DELETE', `/v1/keys/${key_id}`)
    await owner.call('POST', `/v1/keys/${key_id}/destroy`, { confirm: 'k' })
    expect(await read()).toMatchObject({ status: 'destroyed', blind_hash_public_key: null })
    expect((await blindHash([ELEMENT])).body.code).toBe('E_KEY_DESTROYED')
  })
})

describe('a caller who leaves', () => {
  it.each([
    ['/v1/hash/blind', (one: object) => one],
    ['/v1/batch', (one: object) => ({ operations: [{ op: 'blind_hash', ...one }] })],
  ])('is noticed, and not before: %s', async (path, bodyOf) => {
    await newTenant()
    const { services } = service
    const { blindHashing } = services
    const ANSWER = { elements: [ELEMENT], proof: '' }
    let answer = (_: typeof ANSWER): void => undefined
    const began = new Promise<AbortSignal>((resolve) => {
      const evaluate: typeof blindHashing.evaluate = ({ signal }) => {
        if (signal) resolve(signal)
        return new Promise((answered) => {
          answer = answered
        })
      }
      services.blindHashing = { ...blindHashing, evaluate }
    })
    try {
      const leaving = new AbortController()
      const call = fetch(service.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${owner.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify(bodyOf({ key_id, elements: [ELEMENT] })),
        signal: leaving.signal,
      })
      const signal = await began
      await new Promise(setImmediate)
      expect(signal.aborted).toBe(false)
      const gone = once(signal, 'abort')
      leaving.abort()
      await expect(call).rejects.toThrow('aborted')
      await gone
    } finally {
      services.blindHashing = blindHashing
      answer(ANSWER)
    }
  })
})

describe('the thread that evaluates blind hashes', () => {
  it('answers as this one would, and leaves it its turns', async () => {
    const { run, close } = createTaskThread<BlindHashTask, BlindHashResult>(PROGRAM)
    try {
      const seed = new Uint8Array(32).fill(9)
      const hashKey = createSecretKey(seed)
      const values = Array.from({ length: MAX_BLINDED_ELEMENTS }, (_, at) => blindValue(Uint8Array.of(at)))
      const elements = values.map(({ blinded }) => encodeBase64(blinded))
      let turns = 0
      let isDone = false
      const count = () => {
        turns += 1
        if (!isDone) setImmediate(count)
      }
      setImmediate(count)
      const there = await run({ hashKey, elements })
      isDone = true
      expect(turns).toBeGreaterThan(MAX_BLINDED_ELEMENTS)
      if (there.wrong !== undefined) throw new Error('an element is refused')
      const { elements: evaluated, proof } = there
      const answer = { elements: evaluated.map(bytesOf), proof: bytesOf(proof) }
      const hashes = finalizeBlinded(values, answer, deriveBlindHashKeys(seed).publicKey)
      expect(new Set(hashes.map(encodeBase64)).size).toBe(MAX_BLINDED_ELEMENTS)
      const here = runBlindHash({ hashKey, elements: elements.slice(0, 2) })
      expect(here).toMatchObject({ public_key: there.public_key, elements: evaluated.slice(0, 2) })
      expect(await run({ hashKey, elements: [ELEMENT, ODD] })).toEqual({ public_key: there.public_key, wrong: 1 })
    } finally {
      await close()
    }
  })
})

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'base64'))
