import { expect } from 'vitest'
import { json, text } from '../../../packages/sdk/src/index.js'
import { apiError, type ContractCase, refusal } from './contract-case.js'

const dek = (bytes = 32) => Buffer.alloc(bytes, 5).toString('base64')

function flip(base64: string, at: number): string {
  const bytes = Buffer.from(base64, 'base64')
  bytes[at] = (bytes[at] ?? 0) ^ 1
  return bytes.toString('base64')
}

export const VALUE_CASES: ContractCase[] = [
  {
    rule: 'are sealed by one client and opened by another: one wrap, one unwrap, an entry each',
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const sealed = [
        await eaas.encrypt('é 🗝️', { keyId }),
        await eaas.encrypt(Uint8Array.of(0, 255), { keyId }),
        await eaas.encryptJson({ a: [null, 1] }, { keyId }),
      ] as const
      const reader = connect()
      expect(await reader.decryptText(sealed[0])).toBe('é 🗝️')
      expect(await reader.decrypt(sealed[1])).toEqual(Uint8Array.of(0, 255))
      expect(await reader.decryptJson(sealed[2])).toEqual({ a: [null, 1] })
      const { logs } = await reader.audit.list({ key_id: keyId })
      expect(logs.map(({ action }) => action)).toEqual(['key.unwrap', 'key.wrap', 'key.create'])
    },
  },
  {
    rule: 'sealed before a rotation open after it, and are rewrapped under the new version',
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const old = await eaas.encrypt('old', { keyId })
      await eaas.keys.rotate(keyId)
      const fresh = connect()
      expect(await fresh.decryptText(old)).toBe('old')
      const rewrapped = await fresh.rewrap(old)
      expect(rewrapped).toEqual({ ...old, wrapped_key: rewrapped.wrapped_key, key_version: 2 })
      expect(await connect().decryptText(rewrapped)).toBe('old')
      expect((await fresh.rewrap(rewrapped)).key_version).toBe(2)
      expect((await fresh.encrypt('new', { keyId })).key_version).toBe(2)
      await fresh.audit.list()
    },
  },
  {
    rule: 'whose wrapped key is altered, or of another key, are refused alike',
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const { id: other } = await eaas.keys.create({ name: 'others' })
      const envelope = await eaas.encrypt('x', { keyId })
      const wrapped = envelope.wrapped_key
      const details = new Set<string>()
      for (const altered of [
        { ...envelope, key_id: other },
        ...[0, 1, 4, 5, 16, 17, 64].map((at) => ({ ...envelope, wrapped_key: flip(wrapped, at) })),
        { ...envelope, wrapped_key: Buffer.from(wrapped, 'base64').subarray(0, 64).toString('base64') },
        { ...envelope, wrapped_key: dek(66) },
        { ...envelope, wrapped_key: dek(1) },
      ]) {
        for (const call of ['decrypt', 'rewrap'] as const) {
          const { httpStatus, problem, detail } = await apiError(connect()[call](altered))
          expect([httpStatus, problem]).toEqual([403, 'E_WRAPPED_KEY'])
          details.add(detail)
        }
      }
      expect(details.size).toBe(1)
      expect((await eaas.audit.list({ action: 'key.unwrap' })).total).toBe(0)
    },
  },
  {
    rule: 'of one turn go out as one batch, and one that fails does not spoil the others',
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('x', { keyId })
      await eaas.keys.rotate(keyId)
      const reader = connect()
      const results = await Promise.allSettled([
        reader.hash('ada', { keyId }),
        reader.decryptText(envelope),
        reader.rewrap(envelope),
        reader.decrypt({ ...envelope, wrapped_key: flip(envelope.wrapped_key, 20) }),
        reader.hash('ada', { keyId: envelope.key_id.replace(/^.{8}/, '00000000') }),
        reader.encrypt('y', { keyId }),
      ])
      expect(
        results.map((result) =>
          result.status === 'rejected' ? (result.reason.problem ?? result.reason.code) : 'done',
        ),
      ).toEqual(['done', 'done', 'done', 'E_DECRYPTION', 'E_NOT_FOUND', 'done'])
      await reader.audit.list()
    },
  },
  {
    rule: 'have a blind index of 64 digits, the same as long as the key lives',
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const { id: other } = await eaas.keys.create({ name: 'others' })
      const hash = await eaas.hash('ada@example.org', { keyId })
      expect(hash).toMatch(/^[0-9a-f]{64}$/)
      await eaas.keys.rotate(keyId)
      expect(await connect().hash('ada@example.org', { keyId })).toBe(hash)
      expect(await eaas.hash('ada@example.org', { keyId: other })).not.toBe(hash)
      for (const value of ['', 'Ada@example.org', 'é', 'e\u0301', '🗝️', '\u2028', 'x'.repeat(10_000)]) {
        expect(await eaas.hash(value, { keyId })).not.toBe(hash)
      }
      expect((await eaas.audit.list()).logs.map(({ action }) => action)).not.toContain('hash')
    },
  },
  {
    rule: 'of records and models are sealed, found and opened',
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const users = eaas.model({
        name: 'users',
        keyId,
        bind: false,
        fields: { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), prefs: json<string[]>() },
      })
      const people = [
        { id: 1, email: ' Ada@example.org', prefs: ['a'] },
        { id: 2, email: 'bob@example.org', prefs: [] },
      ]
      const rows = await users.encryptMany(people)
      const where = await users.index({ email: 'ada@example.org' })
      expect(rows.map((row) => row.email_index === where.email_index)).toEqual([true, false])
      expect((await users.decryptMany(rows)).ok).toEqual(people)
      await eaas.keys.rotate(keyId)
      for await (const { progress } of users.rewrap(rows)) expect(progress.changed).toBe(2)
      const records = await eaas.encryptMany(people, { keyId, fields: ['email'], index: { email: 'email_hash' } })
      expect((await connect().decryptMany(records, { fields: ['email'] })).map(({ email }) => email)).toEqual(
        people.map(({ email }) => email),
      )
      await eaas.audit.list({ order: 'asc' })
    },
  },
  {
    rule: 'are wrapped and verified: a client that verifies unwraps what it had wrapped',
    async run({ connect }) {
      const eaas = connect(undefined, { verify: true })
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('x', { keyId })
      expect((await eaas.audit.list()).logs.slice(0, 2).map(({ action }) => action)).toEqual(['key.unwrap', 'key.wrap'])
      expect(await connect().decryptText(envelope)).toBe('x')
    },
  },
  {
    rule: 'have DEKs of 32 bytes and wrapped keys, in base64, and nothing is taken from the prototype',
    async run({ connect, raw }) {
      const { keys } = connect()
      const { id } = await keys.create({ name: 'users' })
      expect(await raw('POST', `/v1/keys/${id}/wrap`, { dek: dek(), more: 'ignored' })).toBe(200)
      for (const [body, status] of [
        [`{"dek":"${dek()}","__proto__":{"dek":1}}`, 200],
        [`{"__proto__":{"dek":"${dek()}"}}`, 400],
        [`{"dek":"${dek()}","constructor":{"prototype":{"dek":1}}}`, 200],
      ] as const) {
        const headers = { 'content-type': 'application/json' }
        expect([body, await raw('POST', `/v1/keys/${id}/wrap`, body, headers)]).toEqual([body, status])
      }
      for (const wrong of [
        dek(0),
        dek(16),
        dek(31),
        dek(33),
        Buffer.alloc(32).toString('base64'), // a DEK that was zeroed
        dek().replace('=', ''),
        `${dek()}\n`,
        dek(32).replaceAll('F', '-'),
        7,
        null,
      ]) {
        expect([wrong, await raw('POST', `/v1/keys/${id}/wrap`, { dek: wrong })]).toEqual([wrong, 400])
      }
      for (const wrong of ['', 'x', 'AAA', 'AAA=\n', '_-==', 7, null, undefined, ['AAAA']]) {
        const status = wrong === '' ? 403 : 400
        for (const action of ['unwrap', 'rewrap']) {
          expect([wrong, await raw('POST', `/v1/keys/${id}/${action}`, { wrapped_key: wrong })]).toEqual([
            wrong,
            status,
          ])
        }
      }
    },
  },
  {
    rule: 'that are hashed by another API key give the same index, if it may',
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const { secret } = await eaas.apiKeys.create({ name: 'search', permissions: ['encrypt'] })
      expect(await connect(secret).hash('ada', { keyId })).toBe(await eaas.hash('ada', { keyId }))
      const envelope = await eaas.encrypt('x', { keyId })
      expect(await refusal(connect(secret).decrypt(envelope))).toBe('403 E_MISSING_PERMISSION')
    },
  },
]
