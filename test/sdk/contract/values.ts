import { expect } from 'vitest'
import { flip } from '../../../packages/conformance/src/cases/case.js'
import { json, text } from '../../../packages/sdk/src/index.js'
import type { ContractCase } from './contract-case.js'

export const VALUE_CASES: ContractCase[] = [
  {
    rule: 'are sealed by one client and opened by another: one wrap, one unwrap, an entry each',
    async run({ connect, entries }) {
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
      expect((await entries()).map(({ action }) => action)).toEqual(['key.create', 'key.wrap', 'key.unwrap'])
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
    },
  },
  {
    rule: 'are wrapped and verified: a client that verifies unwraps what it had wrapped',
    async run({ connect, entries }) {
      const eaas = connect({ verify: true })
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('x', { keyId })
      expect((await entries()).map(({ action }) => action)).toEqual(['key.create', 'key.wrap', 'key.unwrap'])
      expect(await connect().decryptText(envelope)).toBe('x')
    },
  },
]
