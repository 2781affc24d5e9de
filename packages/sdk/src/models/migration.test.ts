// Columns that hold values of several formats while they are migrated: format v1 and v2, objects and text,
// and plaintext.
import type { EnvelopeV1 } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { boolean, bytes, type Client, date, json, number, text, toText } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'

const { service, connect } = useClients()
let eaas: Client
const fields = { email: text({ index: 'email_index' }), note: text().nullable() }
const ada = { id: 'a', email: 'ada@example.org', note: 'x' }
const bob = { id: 'b', email: 'bob@example.org', note: null }
const warnings = vi.spyOn(console, 'warn')

beforeEach(() => {
  eaas = connect()
  warnings.mockReset()
})
afterEach(() => warnings.mockReset())

const modelOf = (more: object = {}) => eaas.model({ name: 'users', keyId, bind: ['id'], fields, ...more })

describe('a model with envelope: 1', () => {
  it('writes and reads what clients in other languages share, and refuses what is bound', async () => {
    const old = eaas.model({ name: 'users', keyId, envelope: 1, fields })
    const row = await old.encrypt(ada)
    expect(row.email).toMatchObject({ envelope_version: 1 })
    expect(row.email).not.toHaveProperty('commitment')
    expect(await eaas.decryptText(row.email)).toBe(ada.email)
    expect(await old.decrypt(row)).toEqual(ada)
    const bound = await modelOf().encrypt(ada)
    expect(await failure(old.decrypt(bound))).toMatchObject({
      code: 'E_DECRYPTION',
      hint: expect.stringMatching(/^It is of format v2.*`envelope: 1`/),
    })
    expect(old.accepted).toEqual({ plaintext: 0, unbound: 0 })
  })
})

describe('a list in very many lists', () => {
  const deep: unknown = JSON.parse('['.repeat(20_000) + ']'.repeat(20_000))
  it.each(['full', 'text'] as const)(
    'fails its row alone where plaintext is accepted, in the form %s',
    async (format) => {
      const migrating = modelOf({ format, acceptPlaintext: true, warn: false })
      const { ok, failed } = await migrating.decryptMany([ada, { ...ada, email: deep }, bob] as never[])
      expect(ok).toEqual([ada, bob])
      expect(failed).toMatchObject([{ index: 1, error: { code: 'E_INVALID_INPUT', place: { field: 'email' } } }])
      for (const run of [migrating.reseal, migrating.rewrap]) {
        const items = await itemsOf(run([ada, { ...ada, note: deep }, bob] as never[]))
        expect(items.map(({ status }) => status === 'failed')).toEqual([false, true, false])
      }
    },
  )

  it('fails its row alone in a field of JSON too, which cannot be written so deep', async () => {
    const options = { name: 'users', keyId, bind: ['id'], acceptPlaintext: true, warn: false } as const
    const migrating = eaas.model({ ...options, fields: { list: json() } })
    const rows = [
      { id: 'a', list: [1] },
      { id: 'b', list: deep },
    ] as never[]
    const { ok, failed } = await migrating.decryptMany(rows)
    expect(ok).toEqual([rows[0]])
    expect(failed[0]?.error.message).toContain('nested too deeply')
    expect((await itemsOf(migrating.reseal(rows))).map(({ status }) => status)).toEqual(['changed', 'failed'])
  })
})

describe('rows of format v1', () => {
  it('open with acceptUnbound only, are counted, and are bound by reseal', async () => {
    const old = await eaas.model({ name: 'users', keyId, envelope: 1, fields }).encryptMany([ada, bob])
    const users = modelOf()
    const bundle: Partial<EnvelopeV1> = { ...(old[0]?.email as EnvelopeV1 | undefined) }
    delete bundle.envelope_version // as server mode returns it
    for (const unbound of [old[0], { ...ada, email: bundle }]) {
      expect(await failure(users.decrypt(unbound as never))).toMatchObject({
        code: 'E_DECRYPTION',
        hint: expect.stringMatching(/^It is of format v1 or from server mode.*`acceptUnbound: true`/),
      })
    }
    const migrating = modelOf({ acceptUnbound: true })
    const bound = await users.encrypt(ada)
    const mixed = { ...bound, note: old[0]?.note ?? null }
    expect((await migrating.decryptMany([...old, bound, mixed])).ok).toEqual([ada, bob, ada, ada])
    expect(migrating.accepted).toEqual({ plaintext: 0, unbound: 4 })
    // What is bound is still checked.
    expect(await failure(migrating.decrypt({ ...bound, id: 'b' }))).toMatchObject({ code: 'E_DECRYPTION' })
    expect(migrating.accepted).toEqual({ plaintext: 0, unbound: 4 })
    const moved = []
    for await (const { items } of migrating.reseal([...old, mixed])) {
      for (const item of items) if (item.status === 'changed') moved.push(item.row)
    }
    expect((await users.decryptMany(moved)).ok).toEqual([ada, bob, ada])
  })

  it('are rewrapped where they are accepted', async () => {
    const old = await eaas.model({ name: 'users', keyId, envelope: 1, fields }).encryptMany([ada])
    expect(await itemsOf(modelOf().rewrap(old))).toMatchObject([{ status: 'failed' }])
    expect(await itemsOf(modelOf({ acceptUnbound: true }).rewrap(old))).toMatchObject([{ status: 'current' }])
  })
})

describe('a column of several forms', () => {
  it('opens: objects, text, JSON as text, compact, of both formats, and plaintext', async () => {
    const users = modelOf()
    const old = await eaas.model({ name: 'users', keyId, envelope: 1, fields }).encrypt(ada)
    const row = await users.encrypt(ada)
    const rows = [
      row,
      { ...row, email: toText(row.email) },
      { ...row, email: JSON.stringify(row.email) },
      users.pack(row),
      old,
      { ...old, email: toText(old.email) },
      { ...old, email: JSON.stringify(old.email) },
      eaas.model({ name: 'users', keyId, envelope: 1, fields }).pack(old),
      { ...row, email: ada.email },
      ada,
    ]
    const migrating = modelOf({ acceptUnbound: true, acceptPlaintext: true, warn: false })
    const { ok, failed } = await migrating.decryptMany(rows as never[])
    expect(failed).toEqual([])
    expect(ok).toEqual(rows.map(() => ada))
    expect(migrating.accepted).toEqual({ plaintext: 3, unbound: 8 })
  })
})

describe('compact rows in columns of type text', () => {
  // A driver writes objects into such columns as JSON, and returns the text. PostgreSQL writes that of jsonb
  // with blanks.
  const asText = (row: object, blanks = '') =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => {
        const isJson = typeof value === 'object' && value !== null
        return [
          name,
          isJson ? JSON.stringify(value).replaceAll('":"', `":${blanks}"`).replaceAll(',"', `,${blanks}"`) : value,
        ]
      }),
    )
  const strict = (more: object = {}) => modelOf({ format: 'compact', ...more })
  const accepting = (more: object = {}) => strict({ acceptPlaintext: true, warn: false, ...more })

  it('open, whichever columns are text, and are resealed and rewrapped', async () => {
    const row = await strict().encrypt(ada)
    const rows = [
      asText(row),
      asText(row, ' '),
      { ...asText(row), envelope: (row as { envelope?: unknown }).envelope },
      { ...row, email: asText(row).email },
    ]
    for (const model of [strict(), accepting()]) {
      expect(await model.decryptMany(rows as never[])).toEqual({ ok: rows.map(() => ada), failed: [] })
      expect(model.accepted.plaintext).toBe(0)
      const opened: unknown[] = []
      for (const item of await itemsOf(model.reseal(rows as never[]))) {
        opened.push(item.status === 'changed' && (await strict().decrypt(item.row as never)))
      }
      expect(opened).toEqual(rows.map(() => ada))
    }
    await eaas.keys.rotate(keyId)
    const { envelope, ...others } = asText(row)
    const items: object[] = await itemsOf(strict().rewrap([{ ...others, envelope }] as never[]))
    const [item] = items as { row: Record<string, string> }[]
    expect(item?.row).toMatchObject(others)
    expect(item?.row.envelope).not.toBe(envelope)
    expect(JSON.parse(item?.row.envelope ?? '')).toMatchObject({ key_version: 2 })
    expect(await strict().decrypt(item?.row as never)).toEqual(ada)
  })

  it('are never taken for plaintext, whatever is missing of them', async () => {
    const row = asText(await strict().encrypt(ada))
    const all = accepting()
    const { envelope: _, ...headless } = row
    const field = String(row.email)
    const cuts = [5, 6, 7, 12, 30, field.length - 1].map((length) => ({ ...row, email: field.slice(0, length) }))
    const quoted = { ...row, email: JSON.stringify(field) }
    for (const one of [headless, { ...row, envelope: 'x' }, quoted, ...cuts]) {
      expect(await failure(all.decrypt(one as never))).toMatchObject({ code: 'E_INVALID_INPUT' })
    }
    expect(all.accepted.plaintext).toBe(0)
    const json = { ...ada, email: '{"c":"red","i":1,"x":2}', note: '{"color":"internationalised"}' }
    expect(await all.decrypt(json)).toEqual(json)
  })
})

describe('values that are not sealed', () => {
  it('are refused without acceptPlaintext', async () => {
    expect(await failure(modelOf().decrypt(ada))).toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('open with acceptPlaintext, are counted, and write one warning, without the value', async () => {
    const migrating = modelOf({ acceptPlaintext: true })
    for (let round = 0; round < 2; round++) {
      expect((await migrating.decryptMany([ada, bob] as never[])).ok).toEqual([ada, bob])
    }
    expect(migrating.accepted).toEqual({ plaintext: 6, unbound: 0 })
    expect(warnings.mock.calls.map(([message]) => message)).toEqual([expect.stringContaining('["users","email"]')])
    expect(warnings.mock.calls.join()).not.toMatch(/ada|bob/)
    expect(service.requests).toEqual([])
  })

  it('are sealed and bound by reseal, with their indexes', async () => {
    const users = modelOf()
    const [sealed] = await users.encryptMany([ada])
    const moved = []
    for await (const { items } of modelOf({ acceptPlaintext: true, warn: false }).reseal([ada, bob] as never[])) {
      for (const item of items) if (item.status === 'changed') moved.push(item.row)
    }
    expect((await users.decryptMany(moved as never[])).ok).toEqual([ada, bob])
    expect((moved[0] as { email_index?: string }).email_index).toBe(sealed?.email_index)
  })

  it('are never what looks like an envelope, in whatever it is wrapped', async () => {
    const fields = { a: text(), j: json().optional() }
    const sealed = await eaas.model({ keyId, bind: false, name: 'all', fields }).encrypt({ a: 'x' })
    const all = eaas.model({ keyId, bind: false, name: 'all', acceptPlaintext: true, warn: false, fields })
    const [object, line] = [JSON.stringify(sealed.a), toText(sealed.a)]
    const quoted = (one: string) => JSON.stringify(one)
    const before = ['\u200b', '\ufeff', '\u00ad', '\u2060', ' \n\t', '\u0000', "'", '["', '[[', '\\"', '\u200b " ']
    const texts = [
      line,
      object,
      ...[line, object].flatMap((one) => [quoted(one), quoted(quoted(one)), `[${quoted(one)}]`]),
    ]
    for (const a of [...texts, `[${object}]`, ...[line, object].flatMap((one) => before.map((first) => first + one))]) {
      // It may be read as the envelope that it is, and is never taken for a plaintext.
      const result: unknown = await all.decrypt({ a }).then(
        (row) => row.a,
        ({ code }) => code,
      )
      expect([a, result === 'x' || result === 'E_INVALID_INPUT']).toEqual([a, true])
    }
    for (const j of [[sealed.a], [[sealed.a]], [1, line], line, quoted(line)]) {
      expect((await failure(all.decrypt({ a: 'x', j } as never))).code).toMatch(/E_INVALID_INPUT|E_DECRYPTION/)
    }
    const plain = ['eaas', '"quoted"', '[1]', '{"a":1}', '"{\\"a\\":1}"', '\u200bx', 'a eaas.2.x']
    for (const a of plain)
      expect(await all.decrypt({ a, j: [{ c: 1, i: 2 }] } as never)).toEqual({ a, j: [{ c: 1, i: 2 }] })
    expect(all.accepted.unbound).toBe(0)
  })

  it('are left as they are by rewrap', async () => {
    const items = await itemsOf(modelOf({ acceptPlaintext: true }).rewrap([ada] as never[]))
    expect(items).toEqual([{ index: 0, status: 'current', row: ada }])
  })

  it('may be of any kind of field, and of no other kind', async () => {
    const all = eaas.model({
      keyId,
      bind: false,
      name: 'all',
      acceptPlaintext: true,
      warn: false,
      fields: { a: text(), b: bytes(), c: json<{ x: number[] }>(), d: number(), e: boolean(), f: date() },
    })
    const row = { a: 'x', b: new Uint8Array([1]), c: { x: [1] }, d: 1.5, e: false, f: new Date(0) }
    expect(await all.decrypt(row)).toEqual(row)
    const wrong = [{ a: 1 }, { b: 'x' }, { d: '1,5' }, { e: 'no' }, { f: '1970' }, { a: {} }]
    for (const one of wrong) {
      expect(await failure(all.decrypt({ ...row, ...one } as never))).toMatchObject({ code: 'E_INVALID_INPUT' })
    }
  })

  it('are never what is left of an envelope', async () => {
    const migrating = modelOf({ acceptPlaintext: true })
    const row = await migrating.encrypt(ada)
    const whole = toText(row.email)
    const { ciphertext, wrapped_key } = row.email as { ciphertext: string; wrapped_key: string }
    const damaged: unknown[] = [
      whole.slice(0, -1),
      whole.slice(0, 9),
      `${whole} `,
      ` ${whole}`,
      'eaas.3.AAAA',
      JSON.stringify(row.email).slice(0, -1),
      ` ${JSON.stringify(row.email, null, 2).slice(0, -3)}`,
      { ciphertext },
      { wrapped_key },
      { c: ciphertext, i: 'x' },
      { ...row.email, iv: '' },
    ]
    for (const email of damaged) {
      expect((await failure(migrating.decrypt({ ...row, email } as never))).code).toMatch(
        /^E_(INVALID_INPUT|DECRYPTION)$/,
      )
    }
    expect(migrating.accepted.plaintext).toBe(0)
  })
})

describe('the definition', () => {
  it.each([
    ['no name', { name: undefined }],
    ['an empty name', { name: '' }],
    ['a name that is no text', { name: 7 }],
    ['format 3', { envelope: 3 }],
    ['bind in format 1', { envelope: 1 }],
    ['acceptUnbound in format 1', { envelope: 1, bind: undefined, acceptUnbound: true }],
    ['bind as text', { bind: 'id' }],
    ['a number in bind', { bind: [7] }],
    ['an empty column', { bind: [''] }],
    ['a column twice', { bind: ['id', 'id'] }],
    ['31 columns', { bind: Array.from({ length: 31 }, (_, at) => `c${at}`) }],
    ['a field', { bind: ['email'] }],
    ['a member of a field', { bind: ['email.id'] }],
    ['an index', { bind: ['email_index'] }],
    ['a field in an object', { bind: ['a.b'], fields: { 'a.b': text() } }],
    ['an object that holds a field', { bind: ['a'], fields: { 'a.b': text() } }],
    ['the header', { bind: ['envelope'] }],
    ['__proto__', { bind: ['__proto__'] }],
    ['acceptUnbound as text', { acceptUnbound: 'yes' }],
    ['acceptPlaintext as text', { acceptPlaintext: 'yes' }],
  ])('is refused with %s', (_, more) => {
    expect(() => modelOf(more)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it('takes 30 columns, and refuses names that are too long for a context at the first call', async () => {
    const bind = Array.from({ length: 30 }, (_, at) => `c${at}`)
    const row = Object.fromEntries(bind.map((column) => [column, 1]))
    const users = modelOf({ bind })
    expect((await users.decrypt(await users.encrypt({ ...row, ...ada }))).email).toBe(ada.email)
    const long = modelOf({ name: 'x'.repeat(4_097), index: { by: 'service' } })
    expect(await failure(long.encrypt(ada))).toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})
