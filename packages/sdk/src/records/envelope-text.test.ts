// The text form (envelope-text.md) through what applications call: every function that takes an envelope
// takes its text, and its JSON.
import { describe, expect, it } from 'vitest'
import vectors from '../../../protocol/src/envelope-text.vectors.json' with { type: 'json' }
import { type Client, type Envelope, fromText, isEnvelope, type StoredEnvelope, text, toText } from '../index.js'
import { openExport } from '../offline.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'
import { createTestService } from '../testing.js'

const { service, connect } = useClients()
const context = { table: 'users', row: '7' }

describe('toText and fromText', () => {
  it.each(vectors.encode)('give the published text, and the envelope back: $name', ({ envelope, text }) => {
    const given = envelope as unknown as Envelope
    expect(toText(given)).toBe(text)
    expect(toText(JSON.stringify(given))).toBe(text)
    expect(toText(text)).toBe(text)
    expect(fromText(text)).toEqual({ envelope_version: 1, ...envelope })
    expect([given, text, JSON.stringify(given)].map(isEnvelope)).toEqual([true, true, true])
  })

  it.each(vectors.refuse.filter(({ name }) => name !== 'JSON'))('refuse: $name', ({ text }) => {
    for (const run of [() => fromText(text), () => toText(text)]) {
      expect(run).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
    }
    expect(isEnvelope(text)).toBe(false)
  })

  it.each(vectors.refuse_envelope)('refuse $name', ({ envelope }) => {
    expect(() => toText(envelope as unknown as Envelope)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it.each<[string, unknown]>([
    ['null', null],
    ['undefined', undefined],
    ['a number', 7],
    ['an object', {}],
    ['a list', []],
    ['JSON of something else', '{"a":1}'],
    ['JSON that is cut', '{"ciphertext":"AAAA'],
    ['JSON of a list', '[]'],
    ['a plaintext', '+33 6 12 34 56 78'],
    ['no text', ''],
  ])('tell that it is no envelope: %s', (_, value) => {
    expect(isEnvelope(value)).toBe(false)
    expect(() => toText(value as string)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it('repeat nothing of a refused text in the error', () => {
    for (const secret of ['eaas.1.secret secret', '{"secret":"secret', 'secret']) {
      expect(() => fromText(secret)).toThrow(
        expect.not.objectContaining({ message: expect.stringContaining('secret') }),
      )
    }
  })
})

describe('the text of an envelope', () => {
  it('takes at most 68 % of the JSON for a short value', async () => {
    const eaas = connect(createTestService()) // whose wrapped keys are as long as those of a server
    const { id } = await eaas.keys.create({ name: 'users' })
    for (const value of ['', '1', '+33 6 12 34 56 78', 'ada.lovelace@example.org']) {
      for (const envelope of [
        await eaas.encrypt(value, { keyId: id }),
        await eaas.encrypt(value, { keyId: id, context }),
      ]) {
        expect(toText(envelope).length / JSON.stringify(envelope).length).toBeLessThanOrEqual(0.68)
      }
    }
  })

  it.each([
    ['its text', toText],
    ['its JSON', (envelope: StoredEnvelope) => JSON.stringify(envelope)],
  ])('opens wherever an envelope does: %s', async (_, form) => {
    const eaas = connect(createTestService({ envelopeOnly: false }))
    const { id } = await eaas.keys.create({ name: 'users' })
    const stored = form(await eaas.encrypt('a', { keyId: id, envelope: 1 }))
    const bound = form(await eaas.encrypt('a', { keyId: id, context }))
    const json = form(await eaas.encryptJson(['a'], { keyId: id }))
    expect(await eaas.decryptText(stored)).toBe('a')
    expect(await eaas.decryptText(bound, { context })).toBe('a')
    expect(await eaas.decryptJson(json)).toEqual(['a'])
    expect(await eaas.decrypt(stored)).toEqual(new TextEncoder().encode('a'))
    expect(await eaas.decryptMany([{ a: stored }, { a: null }], { fields: ['a'] })).toEqual([{ a: 'a' }, { a: null }])
    expect(await eaas.decryptMany([{ a: bound }], { fields: ['a'], context })).toEqual([{ a: 'a' }])
    expect(await eaas.server.decryptText(stored)).toBe('a')
    const exported = openExport(await eaas.keys.export(id))
    expect(await exported.decryptText(stored)).toBe('a')
    expect(await exported.decryptText(bound, { context })).toBe('a')
    const users = eaas.model({ name: 'users', keyId: id, bind: false, acceptUnbound: true, fields: { a: text() } })
    expect(await users.decrypt({ a: stored })).toEqual({ a: 'a' })
    expect(await users.decrypt(users.pack({ a: stored }))).toEqual({ a: 'a' })
    await eaas.keys.rotate(id)
    const rewrapped = await eaas.rewrap(bound)
    expect(rewrapped.slice(0, 5)).toBe(bound.slice(0, 5)) // in the same form
    expect(await eaas.decryptText(rewrapped, { context })).toBe('a')
    const [item] = await itemsOf(users.rewrap([{ a: stored }]))
    if (item?.status !== 'changed') throw new Error('not rewrapped')
    expect(item.row.a.slice(0, 5)).toBe(stored.slice(0, 5))
    expect(await users.decrypt(item.row)).toEqual({ a: 'a' })
  })

  it('of a plaintext column is refused as the plaintext that it is, without repeating it', async () => {
    for (const value of ['+33 6 12 34 56 78', '{"secret": 1}', '{"secret', '']) {
      const error = await failure(connect().decrypt(value))
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.not.stringMatching(/secret|33/) })
    }
    expect(service.requests).toEqual([])
  })
})

describe('a model with format "text"', () => {
  const fields = { a: text({ index: 'a_index' }), 'b.c': text().optional() }
  const usersOf = (eaas: Client, format: 'text' | 'full' | 'compact' = 'text') =>
    eaas.model({ name: 'users', keyId, bind: false, format, fields })

  it('stores a text in each field, and reads all other forms too', async () => {
    const eaas = connect()
    const users = usersOf(eaas)
    const plain = { id: 7, a: 'x', b: { c: 'y', d: 1 } }
    const row = await users.encrypt(plain)
    expect(row.a).toMatch(/^eaas\.2\.[\w-]+$/)
    expect(row).toMatchObject({ id: 7, b: { c: expect.stringMatching(/^eaas\.2\./), d: 1 } })
    expect(await usersOf(connect()).decrypt(row)).toEqual(plain)
    const full = await usersOf(eaas, 'full').encrypt(plain)
    const compact = await usersOf(eaas, 'compact').encrypt(plain)
    const json = { ...full, a: JSON.stringify(full.a) }
    const { ok, failed } = await users.decryptMany([row, full, compact, json])
    expect([ok.length, failed]).toEqual([4, []])
    expect(ok.every(({ a, b }) => a === 'x' && b.c === 'y')).toBe(true)
    expect(await usersOf(eaas, 'full').decrypt(row)).toEqual(plain)
  })

  it('keeps the form when rows are resealed', async () => {
    const users = usersOf(connect())
    const rows = await users.encryptMany([{ a: 'x', b: {} }])
    const changed = { status: 'changed', row: { a: expect.stringMatching(/^eaas\.2\./) } }
    expect(await itemsOf(users.reseal(rows))).toMatchObject([changed])
  })
})
