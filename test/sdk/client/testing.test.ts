// What the service in memory has of its own: errors on demand, its log, its end. That it answers as a real server does is
// shown by test/sdk/contract.db.test.ts.
import { fileURLToPath } from 'node:url'
import { MAX_KEY_VERSIONS } from '@eaas/protocol'
import { build } from 'esbuild'
import { beforeEach, describe, expect, it } from 'vitest'
import { type Client, type ClientOptions, createClient, isEaasError } from '../../../packages/sdk/src/index.js'
import {
  createTestService,
  type TestFailure,
  type TestService,
  type TestServiceOptions,
} from '../../../packages/sdk/src/testing.js'

let service: TestService
let keyId: string

function connect(options: Partial<ClientOptions> = {}): Client {
  return createClient({ ...service, ...options })
}

async function codeOf(call: Promise<unknown>): Promise<string> {
  const error: unknown = await call.then(
    () => 'none',
    (reason: unknown) => reason,
  )
  if (error === 'none') return 'none'
  if (!isEaasError(error)) throw error
  return error.code === 'E_API' ? `${error.httpStatus} ${error.problem}` : error.code
}

beforeEach(async () => {
  service = createTestService()
  keyId = (await connect().keys.create({ name: 'users' })).id
})

describe('a service in memory', () => {
  it('is handed to a client as it is, and works without a network', async () => {
    const eaas = createClient(service)
    const envelope = await eaas.encrypt('Ada', { keyId })
    expect(await createClient(service).decryptText(envelope)).toBe('Ada')
    expect(service.entries().map(({ action }) => action)).toEqual([
      'api_key.create',
      'key.create',
      'key.wrap',
      'key.unwrap',
    ])
  })

  it('wraps for real: what one service wrapped another does not open, and no DEK stands in its log', async () => {
    const envelope = await connect().encrypt('Ada', { keyId })
    const other = createTestService()
    const { id } = await createClient(other).keys.create({ name: 'users' })
    expect(await codeOf(createClient(other).decrypt({ ...envelope, key_id: id }))).toBe('E_DECRYPTION')
    expect(JSON.stringify(service.entries())).not.toContain(envelope.wrapped_key)
  })

  it('answers nobody at another address', async () => {
    expect(await codeOf(connect({ baseUrl: 'https://eaas.example.org', retries: 0 }).keys.list())).toBe('E_NETWORK')
  })

  it('gives its log out as a copy', () => {
    for (const entry of service.entries()) entry.action = 'key.export'
    expect(service.entries().map(({ action }) => action)).not.toContain('key.export')
  })

  it('forgets all but its API key when it is reset', async () => {
    service.failNext({ status: 500, times: 100 })
    service.reset()
    expect(await connect().keys.list()).toEqual({ keys: [], count: 0 })
    expect(service.entries().map(({ id, action }) => [id, action])).toEqual([[1, 'api_key.create']])
  })

  it('does what else is due where a key has as many versions as it may have', async () => {
    let now = Date.now()
    service = createTestService({ now: () => now })
    const [full, doomed] = await Promise.all(['full', 'doomed'].map((name) => connect().keys.create({ name })))
    if (!full || !doomed) throw new Error('no keys')
    await connect().keys.setRotation(full.id, 1)
    for (let version = 1; version < MAX_KEY_VERSIONS; version++) {
      now += 86_400_000
      await service.fetch(`${service.baseUrl}/health`)
    }
    await connect().keys.disable(doomed.id)
    await connect().keys.destroy(doomed.id, 'doomed')
    now += 7 * 86_400_000
    expect((await connect().keys.get(doomed.id)).status).toBe('destroyed')
    expect((await connect().keys.get(full.id)).current_version).toBe(MAX_KEY_VERSIONS)
  })

  it.each<[string, (eaas: Client) => Promise<unknown>]>([
    ['createApiKey', ({ apiKeys }) => apiKeys.create({ name: 'x', permissions: [] })],
    ['listApiKeys', ({ apiKeys }) => apiKeys.list()],
    ['updateApiKey', ({ apiKeys }) => apiKeys.update(keyId, { name: 'y' })],
    ['revokeApiKey', ({ apiKeys }) => apiKeys.revoke(keyId)],
    ['listAudit', ({ audit }) => audit.list()],
    ['verifyAudit', ({ audit }) => audit.verify()],
    ['getUsage', (eaas) => eaas.usage()],
  ])('leaves %s to a real one, and says so; it fails on demand all the same', async (operation, call) => {
    await expect(call(connect())).rejects.toMatchObject({
      problem: 'E_METHOD_NOT_ALLOWED',
      detail: `the service in memory does not answer ${operation}: test it on \`eaas dev\``,
    })
    service.failNext({ operation: operation as 'getUsage', code: 'E_MISSING_PERMISSION' })
    expect(await codeOf(call(connect()))).toBe('403 E_MISSING_PERMISSION')
  })

  it('answers one API key alone', async () => {
    expect(await codeOf(connect({ apiKey: `${service.apiKey}x` }).keys.list())).toBe('401 E_UNAUTHORIZED')
  })

  it.each<[string, TestServiceOptions]>([['a part of a day', { destroyWindowDays: 0.5 }]])(
    'refuses %s',
    (_, options) => {
      expect(() => createTestService(options)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
    },
  )
})

describe('an error on demand', () => {
  it.each<[TestFailure, string]>([
    [{ code: 'E_STATE' }, '409 E_STATE'],
    [{ code: 'E_QUOTA_EXCEEDED' }, '429 E_QUOTA_EXCEEDED'],
    [{ code: 'E_AUDIT_NOT_WRITTEN', times: 3 }, '500 E_AUDIT_NOT_WRITTEN'],
    [{ status: 404 }, '404 E_NOT_FOUND'],
    [{ status: 503, times: 3 }, '503 E_UNAVAILABLE'],
    [{ status: 502, times: 3 }, 'E_PROTOCOL'],
    [{ status: 418 }, 'E_PROTOCOL'],
    [{ network: true, times: 3 }, 'E_NETWORK'],
  ])('%j reaches the application as %s, once', async (failure, code) => {
    const eaas = connect()
    service.failNext(failure)
    expect(await codeOf(eaas.encrypt('x', { keyId }))).toBe(code)
    expect(await codeOf(eaas.encrypt('x', { keyId }))).toBe('none')
  })

  it('of a service that does not answer ends at the deadline', async () => {
    service.failNext({ timeout: true })
    expect(await codeOf(connect({ timeoutMs: 50 }).keys.list())).toBe('E_TIMEOUT')
    service.failNext({ timeout: true })
    const aborting = new AbortController()
    const call = codeOf(connect().keys.list({ signal: aborting.signal }))
    aborting.abort()
    expect(await call).toBe('E_ABORTED')
  })

  it('is outlasted by the attempts that the SDK makes by itself', async () => {
    service.failNext({ status: 503 })
    service.failNext({ network: true })
    expect(await codeOf(connect().encrypt('x', { keyId }))).toBe('none')
  })

  it('strikes the call that it names, and no other', async () => {
    const eaas = connect()
    const envelope = await eaas.encrypt('x', { keyId })
    service.failNext({ operation: 'unwrap', code: 'E_WRAPPED_KEY' })
    expect(await codeOf(connect().encrypt('x', { keyId }))).toBe('none')
    expect(await codeOf(connect().decrypt(envelope))).toBe('E_DECRYPTION')
    expect(await codeOf(connect().decrypt(envelope))).toBe('none')
  })

  it('strikes inside a batch, and leaves the others alone', async () => {
    const eaas = connect()
    const envelopes = await Promise.all([1, 2, 3].map((at) => eaas.encrypt(`${at}`, { keyId, dek: 'call' })))
    service.failNext({ operation: 'unwrap', code: 'E_AUDIT_NOT_WRITTEN' })
    const reader = connect({ retries: 0 })
    const results = await Promise.all(envelopes.map((envelope) => codeOf(reader.decrypt(envelope))))
    expect(results).toEqual(['500 E_AUDIT_NOT_WRITTEN', 'none', 'none'])
    service.failNext({ operation: 'batch', code: 'E_UNAUTHORIZED' })
    const all = await Promise.all(envelopes.map((envelope) => codeOf(connect().decrypt(envelope))))
    expect(all).toEqual(['none', 'none', 'none']) // each client has one call, and so no batch
    const together = connect()
    const batch = await Promise.all(envelopes.map((envelope) => codeOf(together.decrypt(envelope))))
    expect(new Set(batch)).toEqual(new Set(['401 E_UNAUTHORIZED']))
  })

  it('changes nothing and writes no entry', async () => {
    const before = service.entries()
    service.failNext({ code: 'E_INTERNAL' })
    expect(await codeOf(connect().keys.rotate(keyId))).toBe('500 E_INTERNAL')
    expect(service.entries()).toEqual(before)
  })

  it.each<[string, TestFailure]>([
    ['nothing', {}],
    ['two things at once', { status: 500, network: true }],
    ['a code that the API does not have', { code: 'E_NONE' as 'E_STATE' }],
    ['a status that is no error', { status: 200 }],
    ['no time at all', { status: 500, times: 0 }],
  ])('is refused when it is %s', (_, failure) => {
    expect(() => service.failNext(failure)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })
})

describe('the other entries', () => {
  it.each(['index.ts', 'offline.ts', 'broker.ts'])('hold nothing of it: %s', async (entry) => {
    const root = fileURLToPath(new URL('../../../packages/sdk/src/', import.meta.url))
    const { metafile } = await build({
      entryPoints: [`${root}${entry}`],
      absWorkingDir: root,
      bundle: true,
      packages: 'external',
      format: 'esm',
      write: false,
      metafile: true,
    })
    expect(Object.keys(metafile.inputs).length).toBeGreaterThan(1)
    expect(Object.keys(metafile.inputs).filter((path) => path.startsWith('testing'))).toEqual([])
  })
})
