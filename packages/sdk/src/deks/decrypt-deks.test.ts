import type { WrappedKey } from '@eaas/protocol'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { usesOfModel } from '../uses.js'
import { type DecryptDekLimits, DecryptDeks } from './decrypt-deks.js'
import { createSecret, type Secret } from './secret.js'

afterEach(() => {
  vi.useRealTimers()
})

function token(name: string, key_id = '00000000-0000-4000-8000-000000000000'): WrappedKey {
  return { wrapped_key: name, key_id, key_version: 1 }
}

/** A cache over a source that keeps hold of each DEK's memory and of the clock. */
function start(over: Partial<DecryptDekLimits> = {}, Cache = DecryptDeks) {
  const source = {
    time: 0,
    requested: [] as string[],
    deks: [] as Uint8Array[],
    fail: undefined as Error | undefined,
    gate: undefined as Promise<void> | undefined,
    now: () => source.time,
    async unwrap({ wrapped_key }: WrappedKey): Promise<Uint8Array> {
      source.requested.push(wrapped_key)
      await source.gate
      if (source.fail) throw source.fail
      const dek = new Uint8Array(32).fill(source.requested.length)
      source.deks.push(dek)
      return dek
    },
  }
  const cache = new Cache({ maxDeks: 3, maxAgeMs: 1_000, ...over }, source)
  const use = async (name: string, signal?: AbortSignal) => cache.use(token(name), signal, readFirst)
  return { cache, source, use }
}

function isZero(bytes: Uint8Array | undefined): boolean {
  return bytes?.every((byte) => byte === 0) ?? false
}

/** The first byte of a DEK, which must not be zeroed. */
const readFirst = (dek: Secret) =>
  dek.use((bytes) => {
    expect(isZero(bytes)).toBe(false)
    return bytes[0]
  })

const failToOpen = () => {
  throw new Error('not authentic')
}

describe('a DEK that opens', () => {
  it('is unwrapped once for all who wait, and then answered without a promise', async () => {
    const { cache, source, use } = start()
    expect(new Set(await Promise.all(Array.from({ length: 1_000 }, () => use('a'))))).toEqual(new Set([1]))
    expect(source.requested).toEqual(['a'])
    expect(cache.use(token('a'), undefined, readFirst)).toBe(1)
  })

  it('is another one under another key, even with the same token', async () => {
    const { cache, source, use } = start()
    await use('a')
    await cache.use(token('a', '00000000-0000-4000-8000-000000000001'), undefined, readFirst)
    expect(source.requested).toEqual(['a', 'a'])
  })

  it('is another one for another use, even where the text of a token ends as the name of that use', async () => {
    const { cache, source } = start()
    const { use } = usesOfModel('users', () => ({}))
    const texts = ['a', `a/${use.name}`, `a${use.name}`, `${use.name}a`, `/${use.name}/a`]
    await cache.use({ ...token('a'), use }, undefined, readFirst)
    for (const text of texts) await cache.use(token(text), undefined, readFirst)
    expect(source.requested).toEqual(['a', ...texts])
  })

  it('is kept for an absolute time, however often it is used, and zeroed then', async () => {
    const { source, use } = start()
    for (source.time = 0; source.time < 1_000; source.time += 100) await use('a')
    expect(source.requested.length).toBe(1)
    source.time = 1_000
    await use('a')
    expect(source.requested.length).toBe(2)
    expect(source.deks.map(isZero)).toEqual([true, false])
  })

  it('gives way to others when more are in use than are kept: the one longest unused, zeroed', async () => {
    const { source, use } = start()
    for (const name of ['a', 'b', 'c', 'a', 'd']) await use(name)
    expect(source.deks.map(isZero)).toEqual([false, true, false, false])
    await use('a')
    expect(source.requested).toEqual(['a', 'b', 'c', 'd'])
  })

  it('is not remembered when its unwrap failed', async () => {
    const { source, use } = start()
    source.fail = new Error('refused')
    const results = await Promise.allSettled([use('a'), use('a')])
    expect(results.map((result) => result.status === 'rejected' && result.reason)).toEqual([source.fail, source.fail])
    expect(source.requested.length).toBe(1)
    source.fail = undefined
    await use('a')
    expect(source.requested.length).toBe(2)
  })

  it('is zeroed and not remembered as long as it has opened nothing', async () => {
    const { cache, source, use } = start()
    await expect(cache.use(token('a'), undefined, failToOpen)).rejects.toThrow('not authentic')
    expect(source.deks.map(isZero)).toEqual([true])
    await use('a')
    expect(source.requested.length).toBe(2)
  })

  it('stays when it has opened something and another envelope is altered', async () => {
    const { cache, source, use } = start()
    await use('a')
    expect(() => cache.use(token('a'), undefined, failToOpen)).toThrow('not authentic')
    await use('a')
    expect(source.requested.length).toBe(1)
  })

  it('is known without a request when the client made it, and zeroed once both have let go of it', async () => {
    const { cache, source, use } = start()
    const bytes = new Uint8Array(32).fill(9)
    const dek = createSecret(bytes)
    cache.add(token('a'), dek)
    dek.release()
    expect(await use('a')).toBe(9)
    expect(source.requested).toEqual([])
    cache.close()
    expect(isZero(bytes)).toBe(true)
  })

  it('is zeroed at once when none are kept, and each use is a request of its own', async () => {
    const { cache, source, use } = start({ maxDeks: 0 })
    cache.add(token('a'), createSecret(new Uint8Array(32).fill(9)))
    await Promise.all([use('a'), use('a')])
    await use('a')
    expect(source.requested.length).toBe(3)
    expect(source.deks.map(isZero)).toEqual([true, true, true])
  })

  it('is zeroed on close, and one still on its way too', async () => {
    const { cache, source, use } = start()
    await use('a')
    let open = (): void => undefined
    source.gate = new Promise((resolve) => {
      open = resolve
    })
    const waiting = use('b')
    cache.close()
    await expect(waiting).rejects.toMatchObject({ code: 'E_ABORTED' })
    open()
    await new Promise((resolve) => setImmediate(resolve))
    expect(source.deks.map(isZero)).toEqual([true, true])
    expect(() => cache.use(token('a'), undefined, () => 0)).toThrow(expect.objectContaining({ code: 'E_ABORTED' }))
    cache.add(token('c'), createSecret(new Uint8Array(32).fill(9)))
    expect(() => cache.use(token('c'), undefined, () => 0)).toThrow(expect.objectContaining({ code: 'E_ABORTED' }))
  })

  it('is not kept after the close', () => {
    const { cache } = start()
    const bytes = new Uint8Array(32).fill(9)
    const dek = createSecret(bytes)
    cache.close()
    cache.add(token('a'), dek)
    dek.release()
    expect(isZero(bytes)).toBe(true)
  })

  it('is zeroed soon after its age even when nobody asks again', async () => {
    vi.useFakeTimers()
    const { source, use } = start()
    await use('a')
    source.time = 1_500
    await vi.advanceTimersByTimeAsync(1_000)
    expect(source.deks.map(isZero)).toEqual([true])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('still serves the others when one who waits gives up', async () => {
    const { source, use } = start()
    const controller = new AbortController()
    const gone = use('a', controller.signal)
    const stays = use('a')
    controller.abort()
    await expect(gone).rejects.toMatchObject({ code: 'E_ABORTED' })
    expect(await stays).toBe(1)
    expect(source.requested.length).toBe(1)
  })
})

describe('a DEK that opens by promise', () => {
  it('is not kept before it has opened something, and who comes meanwhile shares it', async () => {
    const { cache, source } = start()
    let open: ((text: string) => void) | undefined
    const opening = new Promise<string>((resolve) => {
      open = resolve
    })
    const first = cache.use(token('a'), undefined, () => opening)
    await expect.poll(() => source.deks.length).toBe(1)
    const second = cache.use(token('a'), undefined, async () => 'second')
    open?.('first')
    expect(await Promise.all([first, second])).toEqual(['first', 'second'])
    expect(source.requested).toEqual(['a'])
    await expect.poll(() => cache.use(token('a'), undefined, () => 'at once')).toBe('at once')
    expect(source.requested).toEqual(['a'])
  })

  it('is kept as soon as it has opened something, while others still open, and until its time from its arrival', async () => {
    const { cache, source } = start()
    const opened: (() => void)[] = []
    const open = () => new Promise<void>((resolve) => opened.push(resolve))
    const first = cache.use(token('a'), undefined, open)
    await expect.poll(() => opened.length).toBe(1)
    source.time = 400
    void cache.use(token('a'), undefined, open)
    opened[0]?.()
    await first
    expect(opened.length).toBe(2)
    expect(cache.use(token('a'), undefined, () => 'at once')).toBe('at once')
    source.time = 1_000
    await cache.use(token('a'), undefined, async () => 'x')
    expect(source.requested).toEqual(['a', 'a'])
    expect(source.deks.map(isZero)).toEqual([true, false])
  })

  it('is zeroed when the client is closed while something is opened with it', async () => {
    const { cache, source } = start()
    const opened: (() => void)[] = []
    const first = cache.use(token('a'), undefined, () => new Promise<void>((resolve) => opened.push(resolve)))
    await expect.poll(() => opened.length).toBe(1)
    cache.close()
    opened[0]?.()
    await first
    await expect.poll(() => source.deks.map(isZero)).toEqual([true])
  })

  it('is zeroed and not kept when it opens nothing', async () => {
    const { cache, source } = start()
    const failing = async () => failToOpen()
    await expect(cache.use(token('a'), undefined, failing)).rejects.toThrow('not authentic')
    await expect.poll(() => isZero(source.deks[0])).toBe(true)
    await cache.use(token('a'), undefined, async () => 'x')
    expect(source.requested).toEqual(['a', 'a'])
  })
})
