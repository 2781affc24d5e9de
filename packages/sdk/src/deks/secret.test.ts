// How long the bytes of a key stay, and the keys that are derived from them.
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createSecret } from './secret.js'

const zeros = new Uint8Array(32)
const randomKey = () => new Uint8Array(randomBytes(32))
const aborted = expect.objectContaining({ code: 'E_ABORTED' })

/** A promise, and what settles it. */
function defer<T>() {
  let resolve: (value: T) => void = () => undefined
  let reject: (error: unknown) => void = () => undefined
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue
    reject = onError
  })
  return { promise, resolve, reject }
}

describe('the bytes of a key', () => {
  it('are zeroed at once where nobody uses them, and given to nobody afterwards', () => {
    const bytes = randomKey()
    const secret = createSecret(bytes)
    expect(secret.use((given) => given === bytes)).toBe(true)
    secret.release()
    expect(bytes).toEqual(zeros)
    const run = vi.fn()
    expect(() => secret.use(run)).toThrow(aborted)
    expect(() => secret.useBound(run, run)).toThrow(aborted)
    expect(() => secret.share()).toThrow(aborted)
    expect(run).not.toHaveBeenCalled()
  })

  it.each(['resolves', 'rejects'] as const)('stay until the last use of them %s', async (how) => {
    const bytes = randomKey()
    const before = bytes.slice()
    const secret = createSecret(bytes)
    const [one, other] = [defer<void>(), defer<void>()]
    const uses = [secret.use(() => one.promise), secret.use(() => other.promise)]
    secret.release()
    one.resolve()
    await uses[0]
    expect(bytes).toEqual(before)
    if (how === 'resolves') other.resolve()
    else other.reject(new Error('on purpose'))
    await Promise.allSettled(uses)
    expect(bytes).toEqual(zeros)
  })

  it('are let go of by a use that throws', () => {
    const bytes = randomKey()
    const secret = createSecret(bytes)
    expect(() =>
      secret.use(() => {
        throw new Error('on purpose')
      }),
    ).toThrow('on purpose')
    secret.release()
    expect(bytes).toEqual(zeros)
  })

  it('stay for everybody who shares them, and are released once by each, however often each says so', () => {
    const bytes = randomKey()
    const before = bytes.slice()
    const secret = createSecret(bytes)
    const [one, other] = [secret.share(), secret.share()]
    for (const _ of [1, 2, 3]) one.release()
    secret.release()
    expect(other.use((given) => given)).toEqual(before)
    other.release()
    expect(bytes).toEqual(zeros)
  })

  it('are released by a use of themselves, and stay for it', async () => {
    const bytes = randomKey()
    const before = bytes.slice()
    const secret = createSecret(bytes)
    const seen = await secret.use(async (given) => {
      secret.release()
      await undefined
      return given.slice()
    })
    expect(seen).toEqual(before)
    expect(bytes).toEqual(zeros)
  })
})

describe.each([false, true])('the keys that are derived from a key, with requests isolated: %s', (isolated) => {
  beforeEach(() => {
    if (isolated) vi.stubGlobal('EdgeRuntime', 'vitest')
  })
  afterEach(() => {
    vi.unstubAllGlobals()
  })

  const deriving = () => vi.fn(async (_: Uint8Array) => new Uint8Array(randomBytes(64)))

  it('are derived once, and zeroed with it', async () => {
    const bytes = randomKey()
    const secret = createSecret(bytes)
    const derive = deriving()
    const keys = await secret.useBound(derive, (given) => given)
    expect(await secret.useBound(derive, (given) => given)).toBe(keys)
    expect(derive).toHaveBeenCalledExactlyOnceWith(bytes)
    expect(keys.key).not.toEqual(zeros)
    secret.release()
    expect([bytes, keys.key]).toEqual([zeros, zeros])
  })

  it('reach all who asked for them before the key was released, however long they keep them, and are zeroed then', async () => {
    const secret = createSecret(randomKey())
    const okm = defer<Uint8Array>()
    const end = defer<void>()
    const given: Uint8Array[] = []
    const seen: string[] = []
    const run = async ({ key }: { key: Uint8Array }) => {
      given.push(key)
      await end.promise
      seen.push(Buffer.from(key).toString('hex'))
    }
    const derived = new Uint8Array(randomBytes(64))
    const expected = Buffer.from(derived.subarray(0, 32)).toString('hex')
    const derive = () => okm.promise.then((bytes) => bytes.slice())
    const uses = [1, 2, 3].map(() => secret.useBound(derive, run))
    secret.release()
    okm.resolve(derived)
    await new Promise((resolve) => setImmediate(resolve))
    end.resolve()
    await Promise.all(uses)
    expect(seen).toEqual([expected, expected, expected])
    for (const key of given) expect(key).toEqual(zeros)
  })

  it('are derived again after a derivation that failed', async () => {
    const secret = createSecret(randomKey())
    const failing = secret.useBound(
      () => Promise.reject(new Error('on purpose')),
      () => 0,
    )
    await expect(failing).rejects.toThrow('on purpose')
    const derive = deriving()
    const keys = await secret.useBound(derive, (given) => given)
    expect(await secret.useBound(derive, (given) => given)).toBe(keys)
    expect(derive).toHaveBeenCalledOnce()
  })
})
