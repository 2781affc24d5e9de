// What pages hold: API keys that live for minutes, or none at all before a broker.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type ClientOptions, createClient, expiringApiKey, type ShortLivedApiKey } from '../index.js'
import { useService } from '../test-support/clients.js'
import { API_KEY } from '../test-support/service.js'

const MINUTE_MS = 60_000

const service = useService()
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

/** Hands out key-1, key-2, …, each for so long. */
function minting(lifeMs: number, more: (at: number) => Partial<ShortLivedApiKey> = () => ({})) {
  let count = 0
  return vi.fn(async () => {
    const now = Date.now()
    return { secret: `key-${++count}`, expires_at: new Date(now + lifeMs).toISOString(), ...more(now) }
  })
}

describe('a short-lived API key', () => {
  it('is fetched once, and renewed shortly before it expires', async () => {
    vi.useFakeTimers()
    const fetchKey = minting(5 * MINUTE_MS)
    const apiKey = expiringApiKey(fetchKey)
    expect([await apiKey(), await apiKey()]).toEqual(['key-1', 'key-1'])
    vi.advanceTimersByTime(4.4 * MINUTE_MS)
    expect(await apiKey()).toBe('key-1')
    vi.advanceTimersByTime(0.2 * MINUTE_MS)
    expect(await apiKey()).toBe('key-2')
    expect(fetchKey).toHaveBeenCalledTimes(2)
  })

  it('is fetched once for all that wait for it', async () => {
    const fetchKey = minting(MINUTE_MS)
    const apiKey = expiringApiKey(fetchKey)
    expect(new Set(await Promise.all([apiKey(), apiKey(), apiKey()]))).toEqual(new Set(['key-1']))
    expect(new Set(await Promise.all([apiKey('key-1'), apiKey('key-1')]))).toEqual(new Set(['key-2']))
    expect(fetchKey).toHaveBeenCalledTimes(2)
  })

  it('is not fetched again for a refusal of the one before', async () => {
    const fetchKey = minting(MINUTE_MS)
    const apiKey = expiringApiKey(fetchKey)
    await apiKey()
    await apiKey('key-1')
    expect(await apiKey('key-1')).toBe('key-2')
    expect(fetchKey).toHaveBeenCalledTimes(2)
  })

  it('is fetched anew where the fetch of ten seconds ago has not ended', async () => {
    vi.useFakeTimers()
    const fetchKey = minting(MINUTE_MS).mockReturnValueOnce(new Promise(() => undefined))
    const apiKey = expiringApiKey(fetchKey)
    void apiKey()
    void apiKey()
    vi.advanceTimersByTime(9_000)
    void apiKey()
    expect(fetchKey).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(1_000)
    expect(await apiKey()).toBe('key-1')
  })

  it('is fetched anew after a failure, which is passed on', async () => {
    const reason = new Error('offline')
    const fetchKey = minting(MINUTE_MS).mockRejectedValueOnce(reason)
    const apiKey = expiringApiKey(fetchKey)
    await expect(Promise.all([apiKey(), apiKey()])).rejects.toBe(reason)
    expect(await apiKey()).toBe('key-1')
  })

  it('is fetched anew after a failure that was thrown at once', async () => {
    const reason = new Error('not logged in')
    const apiKey = expiringApiKey(
      minting(MINUTE_MS).mockImplementationOnce(() => {
        throw reason
      }),
    )
    await expect(apiKey()).rejects.toBe(reason)
    expect(await apiKey()).toBe('key-1')
  })

  it('is not fetched at each call because the clock here is wrong', async () => {
    vi.useFakeTimers()
    const late = minting(-10 * MINUTE_MS)
    const apiKey = expiringApiKey(late)
    expect([await apiKey(), await apiKey()]).toEqual(['key-1', 'key-1'])
    const told = expiringApiKey(
      minting(-10 * MINUTE_MS, (now) => ({ created_at: new Date(now - 15 * MINUTE_MS).toISOString() })),
    )
    await told()
    vi.advanceTimersByTime(4 * MINUTE_MS)
    expect(await told()).toBe('key-1')
    vi.advanceTimersByTime(MINUTE_MS)
    expect(await told()).toBe('key-2')
  })

  it.each([
    undefined,
    null,
    {},
    { secret: 'x' },
    { secret: 7, expires_at: '2030-01-01T00:00:00Z' },
    { secret: 'x', expires_at: 'soon' },
  ])('is refused when it is %j', async (key) => {
    const apiKey = expiringApiKey(async () => key as ShortLivedApiKey)
    await expect(apiKey()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})

describe('a client whose API key is refused', () => {
  it('asks for another one, and makes the call again, creating included', async () => {
    const asked: unknown[] = []
    const apiKey = async (refused?: string) => {
      asked.push(refused)
      return refused === undefined ? 'eaas_sk_expired' : API_KEY
    }
    const eaas = createClient({ baseUrl: service.url, apiKey })
    await expect(eaas.keys.create({ name: 'after renewal' })).resolves.toMatchObject({ name: 'after renewal' })
    expect(asked).toEqual([undefined, 'eaas_sk_expired'])
    expect(service.requests).toHaveLength(2)
  })

  it('asks once only', async () => {
    let count = 0
    const eaas = createClient({ baseUrl: service.url, apiKey: async () => `eaas_sk_wrong_${++count}` })
    await expect(eaas.keys.list()).rejects.toMatchObject({ httpStatus: 401 })
    expect(service.requests).toHaveLength(2)
  })

  it.each([
    ['a string', 'eaas_sk_wrong'],
    ['the same again', async () => 'eaas_sk_wrong'],
  ])('does not repeat the call with %s', async (_, apiKey) => {
    const eaas = createClient({ baseUrl: service.url, apiKey })
    await expect(eaas.keys.list()).rejects.toMatchObject({ httpStatus: 401 })
    expect(service.requests).toHaveLength(1)
  })
})

describe('a client in a page', () => {
  const inPage = (origin: string) => vi.stubGlobal('location', { origin })
  const seen = async (options: ClientOptions) => {
    const requests: Request[] = []
    const eaas = createClient({
      ...options,
      retries: 0,
      fetch: async (input, init) => {
        requests.push(new Request(input, init))
        throw new TypeError('not today')
      },
    })
    await expect(eaas.keys.list()).rejects.toMatchObject({ code: 'E_NETWORK' })
    return requests[0]
  }

  it.each([
    ['a path of its own origin', '/api/eaas', 'https://app.example.org'],
    ['the address of a broker of another origin', 'https://api.example.org/api/eaas', 'https://api.example.org'],
  ])('takes %s, and needs no API key: cookies go with the call', async (_, baseUrl, origin) => {
    inPage('https://app.example.org')
    const request = await seen({ baseUrl })
    expect(request?.url).toBe(`${origin}/api/eaas/v1/keys`)
    expect(request?.headers.has('authorization')).toBe(false)
    expect(request?.credentials).toBe('include')
  })

  it('sends no cookies with an API key', async () => {
    inPage('https://app.example.org')
    expect((await seen({ baseUrl: '/eaas', apiKey: 'k' }))?.credentials).toBe('omit')
  })

  it.each(['//evil.example', '/\\evil.example', 'api/eaas', '/api?x', '/api#x'])('refuses the path %j', (baseUrl) => {
    inPage('https://app.example.org')
    expect(() => createClient({ baseUrl })).toThrow(/baseUrl/)
  })

  it.each(['null', 'file://', undefined])('has no path of its own where the origin is %j', async (origin) => {
    if (origin !== undefined) inPage(origin)
    await expect(createClient({ baseUrl: '/api/eaas', apiKey: 'k' }).keys.list()).rejects.toThrow(
      'in pages and workers only',
    )
    await expect(createClient({ baseUrl: 'https://eaas.example.org' }).keys.list()).rejects.toThrow('apiKey is missing')
  })
})
