import type { WrappedKey } from '@eaas/protocol'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type EncryptDekLimits, EncryptDeks } from './encrypt-deks.js'
import type { Secret } from './secret.js'

const keyId = '00000000-0000-4000-8000-000000000000'
const other = '00000000-0000-4000-8000-000000000001'
const limits: EncryptDekLimits = { maxMessages: 10, maxBytes: 1_000, maxAgeMs: 1_000, maxKeys: 8 }

afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** DEKs over a source that keeps hold of each DEK's memory and of the clock. */
function start(over: Partial<EncryptDekLimits> = {}) {
  const source = {
    time: 0,
    deks: [] as Uint8Array[],
    fail: undefined as Error | undefined,
    gate: undefined as Promise<void> | undefined,
    now: () => source.time,
    made: vi.fn<(wrapped: WrappedKey, dek: Secret) => void>(),
    async wrap(dek: Secret, key_id: string): Promise<WrappedKey> {
      const wrapped_key = `token ${dek.use((bytes) => source.deks.push(bytes))}`
      await source.gate
      if (source.fail) throw source.fail
      return { wrapped_key, key_id, key_version: 1 }
    },
  }
  const deks = new EncryptDeks({ ...limits, ...over }, source)
  const use = async (size = 1, id = keyId, signal?: AbortSignal) =>
    deks.use(id, { messages: 1, bytes: size }, signal, (dek, { wrapped_key }) =>
      dek.use((bytes) => {
        expect(isZero(bytes)).toBe(false)
        return wrapped_key
      }),
    )
  return { deks, source, use }
}

function isZero(bytes: Uint8Array | undefined): boolean {
  return bytes?.every((byte) => byte === 0) ?? false
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
}

describe('a DEK that seals', () => {
  it('is wrapped once for all who wait, and serves them in the same turn', async () => {
    const { source, use } = start({ maxMessages: 100 })
    expect(new Set(await Promise.all(Array.from({ length: 64 }, () => use())))).toEqual(new Set(['token 1']))
    expect(source.deks.length).toBe(1)
  })

  it('answers without a promise once it is there', async () => {
    const { deks, use } = start()
    await use()
    expect(deks.use(keyId, { messages: 1, bytes: 1 }, undefined, () => 'at once')).toBe('at once')
  })

  it('never seals more messages than its limit, not by one, and is zeroed then', async () => {
    const { source, use } = start()
    const tokens: string[] = []
    for (let at = 0; at < 25; at++) tokens.push(await use())
    await settle()
    expect(tokens.filter((token) => token === 'token 1').length).toBe(10)
    expect(tokens.filter((token) => token === 'token 2').length).toBe(10)
    expect(source.deks.map(isZero)).toEqual([true, true, false])
  })

  it('never seals more messages than its limit when all come at once', async () => {
    const { use } = start({ maxMessages: 3 })
    const tokens = await Promise.all(Array.from({ length: 20 }, () => use()))
    const counts = [...new Set(tokens)].map((token) => tokens.filter((other) => other === token).length)
    expect(Math.max(...counts)).toBe(3)
    expect(tokens.length).toBe(20)
  })

  it('never seals more bytes than its limit, but for a first message that is longer', async () => {
    const { source, use } = start()
    expect(await use(600)).toBe('token 1')
    expect(await use(400)).toBe('token 1')
    expect(await use(1)).toBe('token 2')
    expect(await use(5_000)).toBe('token 3')
    expect(await use(1)).toBe('token 4')
    await settle()
    expect(source.deks.slice(0, 3).map(isZero)).toEqual([true, true, true])
  })

  it('seals nothing at its age, and is zeroed then', async () => {
    const { source, use } = start()
    await use()
    source.time = 999
    expect(await use()).toBe('token 1')
    await settle() // the next one is ready
    source.time = 1_000
    expect(await use()).toBe('token 2')
    expect(source.deks.map(isZero)).toEqual([true, false])
  })

  it('is zeroed at its age together with the next one, which nobody asked for in its time', async () => {
    const { source, use } = start()
    await use()
    source.time = 900
    await use()
    await settle() // the next one is ready
    source.time = 1_900
    expect(await use()).toBe('token 3')
    expect(source.deks.map(isZero)).toEqual([true, true, false])
  })

  it.each([
    [
      'messages',
      async (use: () => Promise<string>) => void (await Promise.all(Array.from({ length: 8 }, () => use()))),
    ],
    ['bytes', async (use: (size: number) => Promise<string>) => void (await use(900))],
  ])('has the next one made ready at nine tenths of its %s', async (_, spend) => {
    const { source, use } = start()
    await use()
    await settle()
    expect(source.deks.length).toBe(1)
    await spend(use)
    await settle()
    expect(source.deks.length).toBe(2)
    expect(await use()).toBe('token 1')
  })

  it('has the next one made ready at nine tenths of its age', async () => {
    const { source, use } = start()
    await use()
    source.time = 899
    await use()
    expect(source.deks.length).toBe(1)
    source.time = 900
    expect(await use()).toBe('token 1')
    expect(source.deks.length).toBe(2)
  })

  it('serves on while the next one cannot be made, which is not tried at each message', async () => {
    const { source, use } = start({ maxAgeMs: 1_000_000 })
    await use(900)
    source.fail = new Error('down')
    for (let at = 0; at < 9; at++) {
      expect(await use()).toBe('token 1')
      await settle()
    }
    expect(source.deks.length).toBe(2)
    await expect(use()).rejects.toBe(source.fail) // the limit is reached
    expect(source.deks.slice(1).every(isZero)).toBe(true)
    source.fail = undefined
    expect(await use()).toBe('token 4')
  })

  it('is announced to the reader with its token', async () => {
    const { source, use } = start()
    await use()
    expect(source.made).toHaveBeenCalledOnce()
    const [wrapped, dek] = source.made.mock.calls[0] ?? []
    expect(wrapped).toEqual({ wrapped_key: 'token 1', key_id: keyId, key_version: 1 })
    expect(dek?.use((bytes) => bytes)).toBe(source.deks[0])
  })

  it('is zeroed when its wrap fails, and all who waited are told', async () => {
    const { source, use } = start()
    source.fail = new Error('refused')
    const results = await Promise.allSettled([use(), use(), use()])
    expect(results.map((result) => result.status === 'rejected' && result.reason)).toEqual(Array(3).fill(source.fail))
    expect(source.deks.map(isZero)).toEqual([true])
    source.fail = undefined
    expect(await use()).toBe('token 2')
  })

  it('is zeroed on close, the next one too, and one that is still on its way', async () => {
    const { deks, source, use } = start()
    await Promise.all(Array.from({ length: 9 }, () => use()))
    await use(1)
    await settle()
    let open = (): void => undefined
    source.gate = new Promise((resolve) => {
      open = resolve
    })
    const waiting = use(1, other)
    await settle()
    deks.close()
    await expect(waiting).rejects.toMatchObject({ code: 'E_ABORTED' })
    open()
    await settle()
    expect(source.deks.length).toBe(3)
    expect(source.deks.every(isZero)).toBe(true)
    expect(() => deks.use(keyId, { messages: 1, bytes: 1 }, undefined, () => 0)).toThrow(
      expect.objectContaining({ code: 'E_ABORTED' }),
    )
  })

  it('is zeroed when more keys are in use than are kept: the one longest unused', async () => {
    const { source, use } = start({ maxKeys: 2 })
    const ids = [keyId, other, '00000000-0000-4000-8000-000000000002'] as const
    await use(1, ids[0])
    await use(1, ids[1])
    await use(1, ids[0])
    await use(1, ids[2])
    expect(source.deks.map(isZero)).toEqual([false, true, false])
    expect(await use(1, ids[0])).toBe('token 1')
    expect(await use(1, ids[1])).toBe('token 4')
  })

  it.each([
    ['is wrapped', undefined, 18],
    ['could not be wrapped', new Error('refused'), 20],
  ])('is zeroed too when more keys than are kept came at once, as soon as it %s', async (_, fail, zeroed) => {
    const { source, use } = start({ maxKeys: 2 })
    source.fail = fail
    const ids = Array.from({ length: 20 }, (_, at) => `00000000-0000-4000-8000-0000000000${at + 10}`)
    await Promise.allSettled(ids.map((id) => use(1, id)))
    await settle()
    expect(source.deks.map(isZero)).toEqual(Array.from({ length: 20 }, (_, at) => at < zeroed))
    source.fail = undefined
    await use(1, ids[19])
    expect(source.deks.length).toBe(fail ? 21 : 20)
  })

  it('is zeroed soon after its age even when nobody asks again', async () => {
    vi.useFakeTimers()
    const { source, use } = start()
    await use()
    source.time = 1_500
    await vi.advanceTimersByTimeAsync(1_000)
    expect(source.deks.map(isZero)).toEqual([true])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is zeroed soon after its age, the next one soon after its own, even when nobody asks again', async () => {
    vi.useFakeTimers()
    const { source, use } = start()
    await use()
    source.time = 950
    await use()
    await vi.advanceTimersByTimeAsync(1_000)
    source.time = 1_500
    await vi.advanceTimersByTimeAsync(1_000)
    expect(source.deks.map(isZero)).toEqual([true, false])
    source.time = 1_950
    await vi.advanceTimersByTimeAsync(1_000)
    expect(source.deks.map(isZero)).toEqual([true, true])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('counts a message whose sealing threw', async () => {
    const { deks, source, use } = start({ maxMessages: 2 })
    await use()
    expect(() =>
      deks.use(keyId, { messages: 1, bytes: 1 }, undefined, () => {
        throw new Error('engine')
      }),
    ).toThrow('engine')
    await settle()
    expect(await use()).toBe('token 2')
    expect(isZero(source.deks[0])).toBe(true)
  })

  it('is not lost when the one who asked for it gives up', async () => {
    const { source, use } = start()
    const controller = new AbortController()
    const gone = use(1, keyId, controller.signal)
    controller.abort()
    await expect(gone).rejects.toMatchObject({ code: 'E_ABORTED' })
    await settle()
    expect(await use()).toBe('token 1')
    expect(source.deks.length).toBe(1)
  })
})
