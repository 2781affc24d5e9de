// Platforms that keep the requests of one isolate apart, Cloudflare's workerd: what one request began must hold up no other.
// The real one is in test/slow/runtimes.test.ts; here a request that dies is one whose fetch never answers.
import { randomBytes } from 'node:crypto'
import { encodeUtf8 } from '@eaas/protocol'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { selectEngine } from '../../../packages/sdk/src/engines/engine.js'
import { createClient, expiringApiKey, text } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

/** Longer than the test: a request that waits for a dead one must not end by itself. */
const OTHER_REQUEST_MS = 2 ** 31 - 1

beforeAll(() => selectEngine('node')) // found before `EdgeRuntime` hides it: workerd may have node:crypto, an edge runtime has not
beforeEach(() => vi.stubGlobal('EdgeRuntime', 'vitest'))
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

async function connect(engine: 'node' | 'web' = 'web') {
  const service = createTestService()
  const state = { dying: false, requested: [] as string[], gate: Promise.resolve() }
  const never = new Promise<never>(() => undefined)
  const fetch: typeof globalThis.fetch = async (input, init) => {
    state.requested.push(new URL(new Request(input, init).url).pathname.split('/').at(-1) ?? '')
    await state.gate
    return state.dying ? never : service.fetch(input, init)
  }
  const { secret, created_at } = { secret: service.apiKey, created_at: new Date(0).toISOString() }
  const apiKey = expiringApiKey(async () => {
    if (state.dying) return never
    return { secret, created_at, expires_at: new Date(20).toISOString() } // renewed all the time
  })
  const { id: keyId } = await createClient(service).keys.create({ name: 'users' })
  const sealed = await createClient(service).encrypt('shared', { keyId })
  const eaas = createClient({ ...service, engine, fetch, timeoutMs: OTHER_REQUEST_MS, deks: { maxMessages: 10 } })
  const renewing = createClient({ ...service, apiKey, fetch, timeoutMs: OTHER_REQUEST_MS })
  /** A request that is cancelled while it waits. */
  const die = async (request: () => Promise<unknown>[]) => {
    state.dying = true
    for (const call of request()) call.catch(() => undefined)
    for (let turns = 0; turns < 20; turns++) await nextTurn()
    state.dying = false
    state.requested.length = 0
  }
  return { eaas, renewing, keyId, sealed, state, die }
}

describe('where requests are isolated, a request', () => {
  it.each(['node', 'web'] as const)('waits for nothing that a dead one began, by engine %s', async (engine) => {
    const { eaas, renewing, keyId, sealed, die } = await connect(engine)
    await die(() => [eaas.encrypt('x', { keyId }), eaas.decrypt(sealed), eaas.hash('x', { keyId }), renewing.tenant()])
    expect(await eaas.decryptText(sealed)).toBe('shared')
    expect(await eaas.decryptText(await eaas.encrypt('mine', { keyId }))).toBe('mine')
    expect(await eaas.hash('x', { keyId })).toMatch(/^[0-9a-f]{64}$/)
    expect((await renewing.tenant()).name).toBe('test')
  })

  it('looks up the key of a model by its name itself', async () => {
    const { eaas, die } = await connect()
    const users = eaas.model({ name: 'users', key: 'users', bind: ['id'], fields: { note: text() } })
    await die(() => [users.encrypt({ id: 1, note: 'x' })])
    expect(await users.decrypt(await users.encrypt({ id: 2, note: 'mine' }))).toEqual({ id: 2, note: 'mine' })
  })

  it('uses no DEK that another one has imported as if its bytes were still there', async () => {
    vi.resetModules() // no request has tested WebCrypto yet
    const { selectEngine } = await import('../../../packages/sdk/src/engines/engine.js')
    const [one, other] = await Promise.all([selectEngine('web'), selectEngine('web')])
    const [dek, iv, plaintext] = [randomBytes(32), randomBytes(12), encodeUtf8('x')]
    const kept = new Uint8Array(dek)
    await one.seal(dek, iv, plaintext)
    const sealed = await other.seal(dek, iv, plaintext)
    expect(await one.open(kept, iv, sealed)).toEqual(plaintext)
  })

  it('still shares within a turn: one wrap, one unwrap, one batch', async () => {
    const { eaas, keyId, sealed, state } = await connect()
    await Promise.all([1, 2, 3].map((value) => eaas.encrypt(`${value}`, { keyId })))
    expect(state.requested).toEqual(['wrap'])
    await eaas.decrypt(await eaas.encrypt('x', { keyId })) // loads what opens
    state.requested.length = 0
    await Promise.all([eaas.decrypt(sealed), eaas.decrypt(sealed), eaas.hash('x', { keyId })])
    expect(state.requested).toEqual(['batch'])
    state.requested.length = 0
    await Promise.all([eaas.decrypt(sealed), eaas.encrypt('x', { keyId })]) // DEKs are values: all requests use them
    expect(state.requested).toEqual([])
  })

  it('begins nothing that would outlive it: no DEK made ready in the background, no timer', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { eaas, keyId, state } = await connect()
    for (let messages = 0; messages < 10; messages++) await eaas.encrypt('x', { keyId })
    await nextTurn()
    expect(state.requested).toEqual(['wrap'])
    expect(vi.getTimerCount()).toBe(0)
    await eaas.encrypt('x', { keyId })
    expect(state.requested).toEqual(['wrap', 'wrap'])
  })

  it('is not touched by close() of another one, and is refused when its answer has come', async () => {
    const { eaas, sealed, state } = await connect()
    const answer = new AbortController()
    state.gate = new Promise((resolve) => answer.signal.addEventListener('abort', () => resolve()))
    const controllers = vi.spyOn(AbortController.prototype, 'abort')
    const call = eaas.tenant().catch((error: unknown) => error)
    await expect.poll(() => state.requested).toEqual(['tenant'])
    eaas.close()
    expect(controllers).not.toHaveBeenCalled()
    controllers.mockRestore()
    answer.abort()
    expect(await call).toMatchObject({ code: 'E_ABORTED' })
    await expect(eaas.decrypt(sealed)).rejects.toMatchObject({ code: 'E_ABORTED' })
  })
})
