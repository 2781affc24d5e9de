// Server mode: the server encrypts and decrypts for tenants that have it enabled; for all others it refuses, and logs the refusal.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

let now = Date.parse('2026-05-31T23:59:00.000Z')
let service: Service
let open: Caller
let closed: Caller
let key_id: string

beforeAll(async () => {
  service = await startService({ now: () => now })
  open = await service.createTenant({ envelope_only: false })
  closed = await service.createTenant()
  key_id = (await open.call('POST', '/v1/keys', { name: 'k' })).body.id
})
afterAll(() => service?.close())

describe('encrypt and decrypt', () => {
  it('give a text with a NUL back from a batch too, and a batch hashes one as the single call does', async () => {
    const value = 'a\0b'
    const encrypted = await open.call('POST', '/v1/batch', {
      operations: [
        { op: 'encrypt', plaintext: value, key_id },
        { op: 'hash', value, key_id },
      ],
    })
    const [sealed, hashed] = encrypted.body.results
    const opened = await open.call('POST', '/v1/batch', { operations: [{ op: 'decrypt', ...sealed.body }] })
    expect(opened.body.results).toEqual([{ status: 200, body: { plaintext: value } }])
    const alone = await open.call('POST', '/v1/hash', { value, key_id })
    expect([alone.status, hashed.body]).toEqual([200, alone.body])
    const other = await open.call('POST', '/v1/hash', { value: 'a', key_id })
    expect(other.body.hash).not.toBe(alone.body.hash)
  })

  it('give bytes back under base64, and never guess', async () => {
    const bytes = randomBytes(300)
    const { body } = await open.call('POST', '/v1/encrypt', {
      plaintext: bytes.toString('base64'),
      key_id,
      encoding: 'base64',
    })
    expect((await open.call('POST', '/v1/decrypt', { ...body, encoding: 'base64' })).body.plaintext).toBe(
      bytes.toString('base64'),
    )
    const decryptions = async () => (await open.call('GET', '/v1/audit?action=decrypt&limit=1')).body.total
    const before = await decryptions()
    const asText = await open.call('POST', '/v1/decrypt', body)
    expect([asText.status, asText.body.code]).toEqual([422, 'E_DECRYPTION_FAILED'])
    expect(asText.body.detail).toContain('encoding: base64')
    const { results } = (await open.call('POST', '/v1/batch', { operations: [{ op: 'decrypt', ...body }] })).body
    expect(results).toMatchObject([{ status: 422, body: asText.body }])
    expect(await decryptions()).toBe(before + 2) // both answers say something of the plaintext
    const text = (await open.call('POST', '/v1/encrypt', { plaintext: 'AAAA', key_id })).body
    expect((await open.call('POST', '/v1/decrypt', text)).body.plaintext).toBe('AAAA')
  })

  it('take and give base64 where the tenant is set to it and the call does not say, 65,536 bytes after decoding', async () => {
    const { database } = service
    const tenant = await service.createTenant({ envelope_only: false })
    const { id } = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body
    const encrypt = (plaintext: string, fields = {}) =>
      tenant.call('POST', '/v1/encrypt', { plaintext, key_id: id, ...fields })
    const text = (await encrypt('AAAA')).body
    const set = (encoding: string) =>
      runCommand(['tenant', 'set', tenant.tenant.tenant_id, '--plaintext-encoding', encoding], {
        database,
        rootKey: ROOT_KEY,
      })
    expect(await set('base64')).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('base64') })
    expect((await tenant.call('GET', '/v1/tenant')).body.plaintext_encoding).toBe('base64')
    expect((await tenant.call('GET', '/v1/audit?limit=1')).body.logs[0].metadata).toEqual({
      status: 'active',
      envelope_only: false,
      plaintext_encoding: 'base64',
      plaintext_encoding_before: 'utf8',
      replaces: 1,
    })
    const bytes = randomBytes(65_536).toString('base64')
    const sealed = await encrypt(bytes)
    expect([sealed.status, (await tenant.call('POST', '/v1/decrypt', sealed.body)).body.plaintext]).toEqual([
      200,
      bytes,
    ])
    const large = await encrypt(randomBytes(65_537).toString('base64'))
    expect([large.status, large.body.code]).toEqual([400, 'E_PLAINTEXT_TOO_LARGE'])
    const wrong = await encrypt('no base64')
    expect([wrong.status, wrong.body.code]).toEqual([400, 'E_VALIDATION'])
    expect((await encrypt('no base64', { encoding: 'utf8' })).status).toBe(200)
    // Text that is base64 by chance is decoded without an error, as other-languages.md says.
    const chance = (await encrypt('test')).body
    const asText = await tenant.call('POST', '/v1/decrypt', { ...chance, encoding: 'utf8' })
    expect([(await tenant.call('POST', '/v1/decrypt', chance)).body.plaintext, asText.status]).toEqual(['test', 422])
    const decrypt = async (fields = {}) =>
      (await tenant.call('POST', '/v1/decrypt', { ...text, ...fields })).body.plaintext
    expect([await decrypt(), await decrypt({ encoding: 'utf8' })]).toEqual(['QUFBQQ==', 'AAAA'])
    const batch = await tenant.call('POST', '/v1/batch', { operations: [{ op: 'decrypt', ...text }] })
    expect(batch.body.results[0].body).toEqual({ plaintext: 'QUFBQQ==' })
    expect((await tenant.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
    expect(await set('utf8')).toMatchObject({ code: 0, stderr: '' })
    expect([await decrypt(), 'plaintext_encoding' in (await tenant.call('GET', '/v1/tenant')).body]).toEqual([
      'AAAA',
      false,
    ])
    expect((await set('hex')).code).not.toBe(0)
  })

  it('zero the bytes of what they encrypted', async () => {
    const plaintext = randomBytes(48).toString('base64')
    const zeroed: string[] = []
    const fill = Uint8Array.prototype.fill
    const spy = vi.spyOn(Uint8Array.prototype, 'fill').mockImplementation(function (this: Uint8Array, ...args) {
      zeroed.push(Buffer.from(this).toString())
      return fill.apply(this, args)
    })
    try {
      expect((await open.call('POST', '/v1/encrypt', { plaintext, key_id })).status).toBe(200)
      expect(zeroed).toContain(plaintext)
    } finally {
      spy.mockRestore()
    }
  })

  it('refuse what UTF-8 or base64 cannot carry, naming the field', async () => {
    for (const fields of ['"plaintext":"\\ud83d"', '"plaintext":"A","encoding":"base64"', '"plaintext":1']) {
      const { status, body } = await open.call('POST', '/v1/encrypt', `{${fields},"key_id":"${key_id}"}`)
      expect([fields, status, body.code]).toEqual([fields, 400, 'E_VALIDATION'])
      expect(body.detail).toContain('plaintext')
    }
    expect((await open.call('POST', '/v1/encrypt', { plaintext: 'x', key_id, encoding: 'hex' })).body.detail).toContain(
      'encoding',
    )
  })
})

describe('an envelope-only tenant', () => {
  it('is refused on record, whatever the body is, and after authentication and permission', async () => {
    const bodies = [{ plaintext: 'x', key_id }, {}, [], '{', '', 'x'.repeat(2_000_000), '{"plaintext":"\\ud800"}']
    for (const path of ['/v1/encrypt', '/v1/decrypt']) {
      for (const body of bodies) {
        const before = (await closed.call('GET', '/v1/audit?limit=1')).body.total
        const answer = await closed.call('POST', path, body)
        expect([answer.status, answer.body.code]).toEqual([403, 'E_ENVELOPE_ONLY'])
        expect(answer.body.detail).toMatch(/^E_ENVELOPE_ONLY:/)
        const { logs, total } = (await closed.call('GET', '/v1/audit?limit=1')).body
        expect([total, logs[0].action]).toEqual([before + 1, 'envelope_only.refused'])
        expect(logs[0].metadata).toEqual({ operation: path.slice('/v1/'.length) })
      }
    }
    const { body } = await closed.call('POST', '/v1/api-keys', { name: 'x', permissions: ['audit:read'] })
    const before = (await closed.call('GET', '/v1/audit?limit=1')).body.total
    expect((await service.caller(body.secret).call('POST', '/v1/encrypt', {})).body.code).toBe('E_MISSING_PERMISSION')
    expect((await closed.call('GET', '/v1/audit?limit=1')).body.total).toBe(before)
  })

  it('is refused no longer, and has no refusal on record, from the moment that another process opened server mode', async () => {
    const { database } = service
    const tenant = await service.createTenant()
    const { id } = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body
    const encrypt = () => tenant.call('POST', '/v1/encrypt', { plaintext: 'x', key_id: id })
    expect((await encrypt()).body.code).toBe('E_ENVELOPE_ONLY')
    const set = ['tenant', 'set', tenant.tenant.tenant_id, '--envelope-only', 'false']
    expect(await runCommand(set, { database, rootKey: ROOT_KEY })).toMatchObject({ code: 0, stderr: '' })
    expect((await encrypt()).status).toBe(200)
    expect((await tenant.call('GET', '/v1/audit?action=envelope_only.refused')).body.total).toBe(1)
  })

  it('keeps its blind index', async () => {
    const { id } = (await closed.call('POST', '/v1/keys', { name: 'k' })).body
    expect((await closed.call('POST', '/v1/hash', { value: 'x', key_id: id })).status).toBe(200)
  })
})

describe('the monthly quota', () => {
  it('stops encrypt alone, counts no refused call, and begins anew with the month in UTC', async () => {
    const tenant = await service.createTenant({ envelope_only: false })
    const { id } = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body
    await setQuota(tenant, 5)
    const encrypt = () => tenant.call('POST', '/v1/encrypt', { plaintext: 'x', key_id: id })
    const answers = await Promise.all(Array.from({ length: 12 }, encrypt))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused).toHaveLength(7)
    expect(refused[0]?.body).toMatchObject({ title: 'Quota Exceeded', code: 'E_QUOTA_EXCEEDED' })
    expect((await tenant.call('GET', '/v1/usage')).body).toMatchObject({ month: '2026-05', operations: { encrypt: 5 } })
    expect((await tenant.call('POST', '/v1/decrypt', answers[0]?.body)).status).toBe(200)
    expect((await tenant.call('POST', `/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64') })).status).toBe(
      200,
    )
    now += 60_000 // 2026-06-01T00:00:00.000Z
    expect((await encrypt()).status).toBe(200)
    expect((await tenant.call('GET', '/v1/usage')).body).toMatchObject({ month: '2026-06', operations: { encrypt: 1 } })
    expect((await tenant.call('GET', '/v1/usage?month=2026-05')).body.operations.encrypt).toBe(5)
  })

  it('is counted in the month of the log where the clock went back behind it', async () => {
    const tenant = await service.createTenant({ envelope_only: false })
    const { id } = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body
    await setQuota(tenant, 2)
    const month = 40 * 86_400_000
    now -= month
    const answers = []
    for (let at = 0; at < 4; at++) {
      answers.push((await tenant.call('POST', '/v1/encrypt', { plaintext: 'x', key_id: id })).status)
    }
    now += month
    expect(answers).toEqual([200, 200, 429, 429])
  })

  it('is filled to the last by a batch, item by item', async () => {
    const tenant = await service.createTenant({ envelope_only: false })
    const { id } = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body
    await setQuota(tenant, 3)
    const operations = Array.from({ length: 5 }, () => ({ op: 'encrypt', key_id: id, plaintext: 'x' }))
    const { body } = await tenant.call('POST', '/v1/batch', { operations })
    expect(body.results.map((result: { status: number }) => result.status)).toEqual([200, 200, 200, 429, 429])
  })

  it('of the tenant and its usage are told to those who may ask', async () => {
    expect((await open.call('GET', '/v1/tenant')).body).toEqual({
      tenant_id: open.tenant.tenant_id,
      name: open.tenant.name,
      envelope_only: false,
      created_at: open.tenant.created_at,
      monthly_encrypt_quota: null,
    })
    for (const month of ['2026', '2026-13', '2026-1', '2026-06-01', '']) {
      expect([month, (await open.call('GET', `/v1/usage?month=${month}`)).status]).toEqual([month, 400])
    }
  })
})

async function setQuota(tenant: Caller, monthly_encrypt_quota: number) {
  const { performAsSystem } = await import('../../packages/server/src/core/runner/perform.js')
  const { updateTenant } = await import('../../packages/server/src/operators/tenants.js')
  await performAsSystem(service.services, tenant.tenant.tenant_id, updateTenant({ monthly_encrypt_quota }))
}
