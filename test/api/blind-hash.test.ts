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
import { createTaskThread } from '../../packages/server/src/core/event-loop.js'
import { createBlindHashing } from '../../packages/server/src/core/runner/blind-hashing.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { suspendTenant } from '../../packages/server/src/operators/tenants.js'
import { dek, ELEMENT } from '../support/audit/audit-scene.js'
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
      const inTurn: typeof blindHashing.inTurn = (caller, ...turn) => {
        if (caller.signal) resolve(caller.signal)
        return blindHashing.inTurn(caller, ...turn)
      }
      const evaluate = () =>
        new Promise<typeof ANSWER>((answered) => {
          answer = answered
        })
      services.blindHashing = { inTurn, evaluate }
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

describe('blind hashes that wait', () => {
  /** A thread that answers once it is open: the elements of each task that it was given, and the signals of the turns that were asked for. */
  interface Held {
    tasks: number[]
    asked: (AbortSignal | undefined)[]
    open: () => void
  }
  async function withThread(test: (thread: Held) => Promise<void>) {
    const { services } = service
    const { blindHashing } = services
    const tasks: number[] = []
    let open = (): void => undefined
    const asked: Held['asked'] = []
    const isOpen = new Promise<void>((resolve) => {
      open = resolve
    })
    const held = createBlindHashing(async ({ elements }) => {
      tasks.push(elements.length)
      await isOpen
      return { elements: [...elements], proof: '' }
    })
    const inTurn: typeof held.inTurn = (...turn) => {
      asked.push(turn[0].signal)
      return held.inTurn(...turn)
    }
    services.blindHashing = { ...held, inTurn }
    try {
      await test({ tasks, asked, open })
    } finally {
      open()
      services.blindHashing = blindHashing
    }
  }
  const most = Array<string>(MAX_BLINDED_ELEMENTS).fill(ELEMENT)
  const batchOf = (calls: number, elements: readonly string[]) =>
    owner.call('POST', '/v1/batch', { operations: Array(calls).fill({ op: 'blind_hash', key_id, elements }) })
  const counted = async () => (await owner.call('GET', '/v1/usage')).body.unrecorded

  it('hold up no batch of another tenant, and are refused beyond the bound of their API key', async () => {
    await newTenant()
    await withThread(async ({ tasks, open }) => {
      const flood = Array.from({ length: 4 }, () => batchOf(1_000, [ELEMENT]))
      await expect.poll(() => tasks).not.toEqual([])
      await newTenant()
      const operations = [{ op: 'wrap', key_id, dek: dek() }]
      const { status, body } = await owner.call('POST', '/v1/batch', { operations })
      expect([status, body.results?.[0].status]).toEqual([200, 200])
      open()
      const results = (await Promise.all(flood)).flatMap((answer) => answer.body.results)
      const refused = results.filter((result) => result.status === 503)
      expect(refused.length).toBeGreaterThan(3_600)
      expect(refused[0].body).toMatchObject({ code: 'E_UNAVAILABLE', retry_after: expect.any(Number) })
    })
  })

  it('take turns by tenant, a batch in turns of the largest call', async () => {
    await newTenant()
    await withThread(async ({ tasks, asked, open }) => {
      const flood = Array.from({ length: 5 }, () => blindHash(most))
      await expect.poll(() => tasks).toHaveLength(1)
      await newTenant()
      const fair = batchOf(32, Array(8).fill(ELEMENT))
      await expect.poll(() => asked).toHaveLength(5 + 2)
      open()
      expect((await fair).body.results.map(({ status }: { status: number }) => status)).toEqual(Array(32).fill(200))
      await Promise.all(flood)
      const turns = tasks.filter((size, at) => size !== tasks[at - 1])
      expect(turns).toEqual([256, 8, 256, 8, 256])
    })
  })

  it('take nothing of a budget, and are not counted, unless they are evaluated', async () => {
    await newTenant()
    const budgets = { hash: { per_day: 3 }, when_over: 'expire' }
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'b', permissions: ['hash'], budgets })
    const victim = service.caller(body.secret)
    await withThread(async ({ tasks, asked, open }) => {
      const running = blindHash(most)
      await expect.poll(() => tasks).toHaveLength(1)
      const late = await victim.call('POST', '/v1/hash/blind', { key_id, elements: [ELEMENT, ELEMENT] })
      expect([late.status, late.body.code]).toEqual([503, 'E_UNAVAILABLE'])
      const leaving = new AbortController()
      const left = fetch(`${service.url}/v1/hash/blind`, {
        method: 'POST',
        headers: { authorization: `Bearer ${victim.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ key_id, elements: [ELEMENT, ELEMENT] }),
        signal: leaving.signal,
      })
      await expect.poll(() => asked).toHaveLength(3)
      leaving.abort()
      await expect(left).rejects.toThrow('aborted')
      await expect.poll(() => asked[2]?.aborted).toBe(true)
      open()
      await running
    })
    expect(await counted()).toMatchObject([{ kind: 'hash', count: MAX_BLINDED_ELEMENTS }])
    const elements = [ELEMENT, ELEMENT, ELEMENT]
    const { status, body: answered } = await victim.call('POST', '/v1/hash/blind', { key_id, elements })
    expect([status, answered.code]).toEqual([200, undefined])
  })

  it.each(['key', 'API key', 'tenant'])('are not evaluated once their %s is taken away', async (what) => {
    await newTenant()
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'b', permissions: ['hash'] })
    const other = service.caller(body.secret)
    await withThread(async ({ tasks, asked, open }) => {
      const running = blindHash(most)
      await expect.poll(() => tasks).toHaveLength(1)
      const single = other.call('POST', '/v1/hash/blind', { key_id, elements: [ELEMENT] })
      const operations = [{ op: 'blind_hash', key_id, elements: [ELEMENT] }]
      const batched = other.call('POST', '/v1/batch', { operations })
      await expect.poll(() => asked).toHaveLength(3)
      if (what === 'API key') await owner.call('DELETE', `/v1/api-keys/${body.id}`)
      else if (what === 'tenant') await performAsSystem(service.services, owner.tenant.tenant_id, suspendTenant({}))
      else {
        await owner.call('DELETE', `/v1/keys/${key_id}`)
        await owner.call('POST', `/v1/keys/${key_id}/destroy`, { confirm: 'k' })
      }
      open()
      await running
      const code = { key: 'E_KEY_DESTROYED', 'API key': 'E_UNAUTHORIZED', tenant: 'E_TENANT_SUSPENDED' }[what]
      const { body: answered } = await batched
      expect([(await single).body.code, answered.code ?? answered.results[0].body.code]).toEqual([code, code])
      expect(tasks).toHaveLength(1)
    })
  })

  it('do not hold up the public key', async () => {
    await newTenant()
    await withThread(async ({ tasks, open }) => {
      const running = blindHash(most)
      await expect.poll(() => tasks).toHaveLength(1)
      expect((await owner.call('GET', `/v1/keys/${key_id}`)).body.blind_hash_public_key).toMatch(/^[\w+/]{43}=$/)
      open()
      await running
    })
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
      expect(here).toMatchObject({ elements: evaluated.slice(0, 2) })
      expect(await run({ hashKey, elements: [ELEMENT, ODD] })).toEqual({ wrong: 1 })
    } finally {
      await close()
    }
  })
})

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, 'base64'))
