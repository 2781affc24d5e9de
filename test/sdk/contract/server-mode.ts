import { expect } from 'vitest'
import { apiError, type ContractCase, refusal } from './contract-case.js'
import { DAY_MS } from './scene.js'

const LIMIT = 65_536

export const SERVER_MODE_CASES: ContractCase[] = [
  {
    rule: 'seals what the SDK opens locally, and opens what the SDK sealed',
    options: { serverMode: true },
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      for (const value of ['', 'é 🗝️', 'a\0b', 'x'.repeat(LIMIT)]) {
        const bundle = await eaas.server.encrypt(value, { keyId })
        expect(await eaas.decryptText(bundle)).toBe(value)
        expect(await eaas.server.decryptText(bundle)).toBe(value)
        expect(await eaas.server.decryptText(await eaas.encrypt(value, { keyId, envelope: 1 }))).toBe(value)
      }
      const bytes = Uint8Array.of(0, 128, 255)
      expect(await eaas.server.decrypt(await eaas.server.encrypt(bytes, { keyId }))).toEqual(bytes)
      await eaas.keys.rotate(keyId)
      await eaas.audit.list()
      await eaas.usage()
    },
  },
  {
    rule: 'takes text and base64 as it is told, and never guesses',
    options: { serverMode: true },
    async run({ connect, raw }) {
      const { keys, server } = connect()
      const { id: key_id } = await keys.create({ name: 'users' })
      const cases: [number, object][] = [
        [200, { plaintext: 'AAAA' }],
        [200, { plaintext: 'AAAA', encoding: 'utf8' }],
        [200, { plaintext: 'AAAA', encoding: 'base64' }],
        [200, { plaintext: '', encoding: 'base64' }],
        [400, { plaintext: 'AAA', encoding: 'base64' }],
        [400, { plaintext: 'AAAA', encoding: 'hex' }],
        [200, { plaintext: 'a\0b' }],
        [400, { plaintext: '\ud83d' }],
        [400, { plaintext: 1 }],
        [400, {}],
        [400, { plaintext: 'é'.repeat(LIMIT / 2 + 1) }],
        [400, { plaintext: Buffer.alloc(LIMIT + 1).toString('base64'), encoding: 'base64' }],
      ]
      for (const [status, body] of cases) {
        expect([body, await raw('POST', '/v1/encrypt', { ...body, key_id })]).toEqual([body, status])
      }
      const bundle = await server.encrypt(Uint8Array.of(255), { keyId: key_id })
      expect(await raw('POST', '/v1/decrypt', bundle)).toBe(422)
      expect(await raw('POST', '/v1/decrypt', { ...bundle, encoding: 'base64' })).toBe(200)
    },
  },
  {
    rule: 'refuses what is altered, and never tells which part of it',
    options: { serverMode: true },
    async run({ connect, raw }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const { id: other } = await eaas.keys.create({ name: 'others' })
      const bundle = await eaas.server.encrypt('a secret', { keyId })
      const flip = (text: string) => Buffer.from(text, 'base64').map((byte, at) => (at === 9 ? byte ^ 1 : byte))
      const details = new Set<string>()
      for (const change of [
        { ciphertext: Buffer.from(flip(bundle.ciphertext)).toString('base64') },
        { ciphertext: bundle.ciphertext.slice(0, 20) },
        { ciphertext: '' },
        { iv: Buffer.from(flip(bundle.iv)).toString('base64') },
        { key_version: 2 },
        { key_id: other },
        { wrapped_key: Buffer.from(flip(bundle.wrapped_key)).toString('base64') },
      ]) {
        const { httpStatus, problem, detail } = await apiError(eaas.server.decrypt({ ...bundle, ...change }))
        expect([change, httpStatus, problem]).toEqual([change, 422, 'E_DECRYPTION_FAILED'])
        details.add(detail)
      }
      expect(details.size).toBe(1)
      for (const wrong of [
        { iv: 'AAAA' },
        { key_version: 0 },
        { key_version: '1' },
        { ciphertext: '_' },
        { key_id: 1 },
      ]) {
        expect([wrong, await raw('POST', '/v1/decrypt', { ...bundle, ...wrong })]).toEqual([wrong, 400])
      }
      expect((await eaas.audit.list({ action: 'decrypt' })).total).toBe(0)
    },
  },
  {
    rule: 'is closed to an envelope-only tenant, on record, alone and in a batch',
    async run({ connect, raw }) {
      const eaas = connect()
      expect((await eaas.tenant()).envelope_only).toBe(true)
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('x', { keyId, envelope: 1 })
      expect((await apiError(eaas.server.encrypt('x', { keyId }))).detail).toMatch(/^E_ENVELOPE_ONLY:/)
      expect(await refusal(eaas.server.decrypt(envelope))).toBe('403 E_ENVELOPE_ONLY')
      const operations = [
        { op: 'encrypt', key_id: keyId, plaintext: 'x' },
        { op: 'decrypt', key_id: 7 },
        { op: 'hash', key_id: keyId, value: 'x' },
      ]
      expect(await raw('POST', '/v1/batch', { operations })).toBe(200)
      for (const body of ['{', '', JSON.stringify({ plaintext: 'x'.repeat(2_000_000) })]) {
        const json = { 'content-type': 'application/json' }
        expect(await raw('POST', '/v1/encrypt', body, json)).toBe(403)
      }
      expect((await eaas.audit.list({ action: 'envelope_only.refused' })).total).toBe(7)
      expect((await eaas.usage()).operations['envelope_only.refused']).toBe(7)
    },
  },
  {
    rule: 'has a monthly quota, on encrypt alone, that refused calls do not use up',
    options: { serverMode: true, monthlyEncryptQuota: 3 },
    async run({ connect, raw, pass }) {
      const eaas = connect()
      expect((await eaas.tenant()).monthly_encrypt_quota).toBe(3)
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const bundle = await eaas.server.encrypt('x', { keyId })
      expect(await raw('POST', '/v1/encrypt', { key_id: keyId })).toBe(400)
      const operations = Array.from({ length: 4 }, () => ({ op: 'encrypt', key_id: keyId, plaintext: 'x' }))
      expect(await raw('POST', '/v1/batch', { operations })).toBe(200)
      expect(await refusal(eaas.server.encrypt('x', { keyId }))).toBe('429 E_QUOTA_EXCEEDED')
      await eaas.keys.disable(keyId)
      expect(await refusal(eaas.server.encrypt('x', { keyId }))).toBe('409 E_STATE')
      await eaas.keys.enable(keyId)
      expect(await eaas.server.decryptText(bundle)).toBe('x')
      expect(await eaas.decryptText(await eaas.encrypt('x', { keyId }))).toBe('x')
      expect((await eaas.usage()).operations.encrypt).toBe(3)
      await pass(DAY_MS)
      await eaas.server.encrypt('x', { keyId })
      expect((await eaas.usage()).operations).toEqual({ encrypt: 1 })
      expect((await eaas.usage('2026-05')).operations.encrypt).toBe(3)
      expect((await eaas.usage('2020-01')).operations).toEqual({})
    },
  },
  {
    rule: 'has a quota of none',
    options: { serverMode: true, monthlyEncryptQuota: 0 },
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      expect(await refusal(eaas.server.encrypt('x', { keyId }))).toBe('429 E_QUOTA_EXCEEDED')
    },
  },
]
