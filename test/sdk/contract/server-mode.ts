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
