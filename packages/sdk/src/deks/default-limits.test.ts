// What holds where an application sets nothing: how long and for how much a DEK serves. That limits are kept,
// whatever they are, is shown beside the caches.
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { loadOn } from '../../../../test/support/platforms/platform.js'
import type { Client } from '../index.js'
import { keyId, useClients } from '../test-support/clients.js'
import { API_KEY } from '../test-support/service.js'
import type { EncryptDekLimits } from './encrypt-deks.js'

const MINUTE_MS = 60_000
const limits: EncryptDekLimits[] = []

vi.mock('./encrypt-deks.js', async (load) => {
  const all = await load<typeof import('./encrypt-deks.js')>()
  return {
    ...all,
    EncryptDeks: class extends all.EncryptDeks {
      constructor(...args: ConstructorParameters<typeof all.EncryptDeks>) {
        super(...args)
        limits.push(args[0])
      }
    },
  }
})

const { service, connect } = useClients()
let now: number

beforeEach(() => {
  now = 0
  vi.spyOn(performance, 'now').mockImplementation(() => now)
})
afterEach(() => vi.restoreAllMocks())

async function connectInBrowser(): Promise<Client> {
  const { createClient } = await loadOn<typeof import('../index.js')>(
    { process: undefined },
    new URL('../index.ts', import.meta.url),
  )
  const eaas = createClient({ baseUrl: service.url, apiKey: API_KEY })
  onTestFinished(() => eaas.close())
  return eaas
}

describe('a DEK of the key, by default', () => {
  it('seals 2^20 messages, 64 GiB, of 1,024 keys', async () => {
    await connect().encrypt('x', { keyId })
    expect(limits.at(-1)).toEqual({
      maxMessages: 1_048_576,
      maxBytes: 68_719_476_736,
      maxAgeMs: 60 * MINUTE_MS,
      maxKeys: 1_024,
    })
  })

  it.each([
    ['an hour on Node', async () => connect(), 60],
    ['15 minutes in browsers', connectInBrowser, 15],
  ])('seals for %s, and nothing from then on', async (_, make, minutes) => {
    const eaas = await make()
    const sealedAt = async (ms: number) => {
      now = ms
      return (await eaas.encrypt('x', { keyId })).wrapped_key
    }
    const first = await sealedAt(0)
    expect(await sealedAt(minutes * MINUTE_MS - 1)).toBe(first)
    expect(await sealedAt(minutes * MINUTE_MS)).not.toBe(first)
  })
})

describe('a DEK for reading, by default', () => {
  it('is kept for 5 minutes from its arrival, however often it is used', async () => {
    const envelope = await connect().encrypt('x', { keyId })
    const reader = connect()
    for (const minute of [0, 1, 2, 3, 4]) {
      now = minute * MINUTE_MS
      await reader.decrypt(envelope)
    }
    now = 5 * MINUTE_MS - 1
    await reader.decrypt(envelope)
    expect(service.count('unwrap')).toBe(1)
    now = 5 * MINUTE_MS
    await reader.decrypt(envelope)
    expect(service.count('unwrap')).toBe(2)
  })

  it('is one of 1,024: one more, and the one longest unused is gone', async () => {
    const rows = Array.from({ length: 1_025 }, () => ({ a: 'x' }))
    const sealed = (await connect().encryptMany(rows, { keyId, fields: ['a'], dek: 'record' })).map(({ a }) => a)
    const [first, second] = sealed
    if (!first || !second) return expect.unreachable()
    const reader = connect()
    await Promise.all(sealed.slice(0, 1_024).map((envelope) => reader.decrypt(envelope)))
    service.requests.length = 0
    await reader.decrypt(first)
    expect(service.requests).toEqual([])
    for (const envelope of [sealed.at(-1) ?? first, first]) await reader.decrypt(envelope)
    expect(service.count('unwrap')).toBe(1)
    await reader.decrypt(second)
    expect(service.count('unwrap')).toBe(2)
  })
})
