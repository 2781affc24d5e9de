// When the keys that were derived from a DEK are kept, and when they are zeroed.
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { boundKeysOf, zeroDek } from './bound-keys.js'

const zeros = new Uint8Array(32)

describe.each([false, true])('the keys of a DEK, with requests isolated: %s', (isolated) => {
  beforeEach(() => {
    if (isolated) vi.stubGlobal('EdgeRuntime', 'vitest')
  })
  afterEach(() => {
    vi.unstubAllGlobals()
  })

  const okm = () => new Uint8Array(randomBytes(64))
  const deriving = () => vi.fn(async () => okm())

  it('are derived once, and zeroed with the DEK', async () => {
    const dek = new Uint8Array(randomBytes(32))
    const derive = deriving()
    const keys = await boundKeysOf(dek, derive)
    expect(await boundKeysOf(dek, derive)).toBe(keys)
    expect(derive).toHaveBeenCalledOnce()
    expect(keys.key).not.toEqual(zeros)
    zeroDek(dek)
    expect([dek, keys.key]).toEqual([zeros, zeros])
  })

  it('that are derived while the DEK is zeroed are given to those who wait, then zeroed, and not kept', async () => {
    const dek = new Uint8Array(randomBytes(32))
    const derived = okm()
    const expected = derived.slice(0, 32)
    const seen: Uint8Array[] = []
    const waiting = Promise.resolve(boundKeysOf(dek, async () => derived)).then((keys) => {
      seen.push(keys.key.slice())
      return keys
    })
    zeroDek(dek)
    const { key } = await waiting
    expect(seen).toEqual([expected])
    expect(key).toEqual(zeros)
    const derive = deriving()
    await boundKeysOf(dek, derive)
    expect(derive).toHaveBeenCalledOnce()
  })

  it('are derived again after a derivation that failed', async () => {
    const dek = new Uint8Array(randomBytes(32))
    const failing = boundKeysOf(dek, () => Promise.reject(new Error('on purpose')))
    await expect(failing).rejects.toThrow('on purpose')
    const derive = deriving()
    const keys = await boundKeysOf(dek, derive)
    expect(await boundKeysOf(dek, derive)).toBe(keys)
    expect(derive).toHaveBeenCalledOnce()
  })
})
