import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Globals, loadOn } from '../../../../test/support/platforms/platform.js'
import { RandomnessError } from '../index.js'
import { createIvPool, random32 } from './random.js'

afterEach(() => vi.restoreAllMocks())

const load = (globals: Globals) => loadOn<typeof import('./random.js')>(globals, new URL('random.ts', import.meta.url))
const keyId = '00000000-0000-4000-8000-000000000000'
const broken: [string, unknown][] = [
  ['is missing', undefined],
  ['has no getRandomValues', {}],
  [
    'throws',
    {
      getRandomValues() {
        throw new Error('entropy: SECRET')
      },
    },
  ],
  ['does nothing', { getRandomValues: (bytes: Uint8Array) => bytes }],
]

describe('randomness', () => {
  it.each(broken)('is refused when crypto %s, for DEKs and ivs alike', async (_, crypto) => {
    const { createIvPool, random32 } = await load({ crypto })
    vi.spyOn(Math, 'random').mockImplementation(() => expect.unreachable('Math.random was asked'))
    const refused = expect.objectContaining({ code: 'E_RANDOMNESS' })
    expect(() => random32()).toThrow(refused)
    expect(() => createIvPool()()).toThrow(refused)
  })

  it.each(broken)('encrypt fails and sends nothing when crypto %s', async (_, crypto) => {
    const { createClient } = await loadOn<typeof import('../index.js')>(
      { crypto },
      new URL('../index.ts', import.meta.url),
    )
    const fetch = vi.fn<typeof globalThis.fetch>()
    const eaas = createClient({ baseUrl: 'http://127.0.0.1:9', apiKey: 'k', fetch })
    await expect(eaas.encrypt('x', { keyId })).rejects.toMatchObject({ code: 'E_RANDOMNESS' })
    expect(fetch).not.toHaveBeenCalled()
  })

  it('comes from crypto.getRandomValues and from nowhere else', () => {
    vi.spyOn(Math, 'random').mockImplementation(() => expect.unreachable('Math.random was asked'))
    const draw = vi.spyOn(crypto, 'getRandomValues')
    expect(new Set(random32()).size).toBeGreaterThan(5)
    createIvPool()()
    expect(draw).toHaveBeenCalledTimes(2)
  })

  it('leaves no trace of what the bytes held before', async () => {
    const bytes = new Uint8Array(32).fill(1)
    const { fillRandom } = await load({ crypto: { getRandomValues: (filled: Uint8Array) => filled.fill(9, 0, 16) } })
    fillRandom(bytes)
    expect(bytes).toEqual(new Uint8Array(32).fill(9, 0, 16))
  })
})

describe('an iv', () => {
  // By their first eight bytes: that two share those by chance comes once in 900 million runs.
  it('is never handed out twice: 200,000 are distinct', () => {
    const take = createIvPool()
    const seen = new BigUint64Array(200_000)
    for (let at = 0; at < seen.length; at++) seen[at] = new DataView(take().buffer).getBigUint64(0)
    seen.sort()
    expect(seen.filter((iv, at) => iv === seen[at + 1]).length).toBe(0)
  })

  it('is what the source drew, in order, 512 a draw, and is wiped from the pool once taken', () => {
    let draws = 0
    let pool = new Uint8Array(0)
    const take = createIvPool((bytes) => {
      draws++
      pool = bytes as Uint8Array<ArrayBuffer>
      for (let at = 0; at < bytes.length; at++) bytes[at] = 1 + ((at + draws) % 255)
    })
    for (let at = 0; at < 512; at++) {
      const iv = take()
      expect(iv[0]).toBe(1 + ((at * 12 + 1) % 255))
      expect(iv.length).toBe(12)
      iv.fill(0) // its own memory, not the pool's
    }
    expect(draws).toBe(1)
    expect(pool).toEqual(new Uint8Array(512 * 12))
    take()
    expect(draws).toBe(2)
  })

  it('is drawn in the turn that takes it: no process that starts from a snapshot has it too', async () => {
    const pools: Uint8Array[] = []
    const take = createIvPool((bytes) => {
      pools.push(bytes)
      bytes.fill(pools.length)
    })
    expect(take()).toEqual(new Uint8Array(12).fill(1))
    await new Promise((resolve) => setImmediate(resolve))
    expect(pools[0]).toEqual(new Uint8Array(512 * 12))
    expect(take()).toEqual(new Uint8Array(12).fill(2))
  })

  it('is not kept for long either where there is no setImmediate, as in browsers', async () => {
    const { createIvPool } = await load({ setImmediate: undefined })
    let pool = new Uint8Array(0)
    createIvPool((bytes) => {
      pool = bytes.fill(1) as Uint8Array<ArrayBuffer>
    })()
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(pool).toEqual(new Uint8Array(512 * 12))
  })

  it('is never taken from a draw that failed half-way', () => {
    let fail = false
    const take = createIvPool((bytes) => {
      bytes.fill(0)
      if (fail) throw new RandomnessError('stopped')
      bytes.fill(5)
    })
    for (let at = 0; at < 512; at++) take()
    fail = true
    for (let at = 0; at < 3; at++) expect(() => take()).toThrow(RandomnessError)
    fail = false
    expect(take()).toEqual(new Uint8Array(12).fill(5))
  })
})
