import { expect } from 'vitest'
import { apiError, type ContractCase, refusal } from './contract-case.js'

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
    },
  },
  {
    rule: 'is closed to an envelope-only tenant, on record, alone and in a batch',
    async run({ connect, raw, entries }) {
      const eaas = connect()
      expect((await eaas.tenant()).envelope_only).toBe(true)
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('x', { keyId, envelope: 1 })
      expect((await apiError(eaas.server.encrypt('x', { keyId }))).problem).toBe('E_ENVELOPE_ONLY')
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
      expect((await entries('envelope_only.refused')).length).toBe(7)
    },
  },
]
