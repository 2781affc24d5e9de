import { inspect } from 'node:util'
import { type Envelope, encodeBase64 } from '@eaas/protocol'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, expectTypeOf, it, vi } from 'vitest'
import vectors from '../../../protocol/src/envelope.vectors.json' with { type: 'json' }
import {
  boolean,
  bytes,
  type Client,
  type CompactField,
  date,
  type EnvelopeHeader,
  json,
  type Normalizer,
  number,
  type PlainRow,
  type StoredRow,
  text,
} from '../index.js'
import { clientsOf, useService } from '../test-support/clients.js'
import { problem, send } from '../test-support/service.js'

interface Prefs {
  theme: 'dark' | 'light'
}

const service = useService()
let keyId: string
const connect = clientsOf(service)

function usersOf<T extends 'full' | 'compact' = 'full'>(eaas: Client, format: T = 'full' as T) {
  return eaas.model({
    keyId,
    format,
    fields: {
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase', 'NFC'] }),
      phone: text().nullable(),
      prefs: json<Prefs>().optional(),
      avatar: bytes().optional(),
      age: number(),
      ok: boolean(),
      born: date(),
      'address.street': text({ normalize: ['lowercase'] }),
      'address.code': text({ normalize: ['digits'] }).optional(),
    },
    indexes: { place_index: { fields: ['address.street', 'address.code'], bits: 32 } },
  })
}

const ada = {
  id: 7,
  email: 'Ada@Example.org',
  phone: null,
  prefs: { theme: 'dark' as const },
  avatar: new Uint8Array([0, 255]),
  age: -0,
  ok: false,
  born: new Date('1815-12-10T00:00:00.000Z'),
  address: { street: 'Main St', code: 'N-1', city: 'London' },
}

const operations = () => service.requests.map(({ operation }) => operation)

beforeEach(() => {
  keyId = service.createKey()
})
afterEach(() => {
  vi.restoreAllMocks()
})

describe.each(['full', 'compact'] as const)('a model with format %s', (format) => {
  it.each(['node', 'web', 'noble'] as const)(
    'opens what it sealed, every kind of field, by engine %s',
    async (engine) => {
      const before = structuredClone(ada)
      const row = await usersOf(connect({ engine }), format).encrypt(ada)
      expect(ada).toEqual(before)
      expect(row).toMatchObject({ id: 7, phone: null, address: { city: 'London' } })
      expect(row.email_index).toMatch(/^[0-9a-f]{64}$/)
      expect(row.place_index).toMatch(/^[0-9a-f]{8}$/)
      expect(JSON.stringify(row)).not.toMatch(/Ada@|Main St|"dark"|1815-/)
      expect(await usersOf(connect({ engine }), format).decrypt(row)).toEqual(ada)
    },
  )

  it('opens rows of either form', async () => {
    const other = format === 'full' ? 'compact' : 'full'
    const row = await usersOf(connect(), other).encrypt(ada)
    expect(await usersOf(connect(), format).decrypt(row as never)).toEqual(ada)
  })

  it('seals and indexes a first row with one request, and a second one with one hash for each index', async () => {
    const users = usersOf(connect(), format)
    await users.encrypt(ada)
    expect(operations()).toEqual(['batch'])
    expect(service.requests[0]?.operations.map(({ op }) => op).sort()).toEqual(['hash', 'hash', 'wrap'])
  })

  it('sends one request for rows that are sealed, and one for rows that are opened, one by one in one turn', async () => {
    const users = usersOf(connect(), format)
    const list = Array.from({ length: 50 }, (_, at) => ({ ...ada, email: `user${at}@example.org` }))
    const rows = await Promise.all(list.map((user) => users.encrypt(user)))
    expect(operations()).toEqual(['batch'])
    expect(service.count('wrap')).toBe(1)
    const own = await Promise.all(
      Array.from({ length: 20 }, () => usersOf(connect({ deks: { maxMessages: 9 } }), format).encrypt(ada)),
    )
    service.requests.length = 0
    const reader = usersOf(connect(), format)
    const back = await Promise.all([...rows, ...own].map((row) => reader.decrypt(row as never)))
    expect(back).toEqual([...list, ...own.map(() => ada)])
    expect(operations()).toEqual(['batch'])
    expect(service.count('unwrap')).toBe(21)
  })

  it('makes one wrap for all rows and one unwrap to read them', async () => {
    const rows = await usersOf(connect(), format).encryptMany(Array.from({ length: 2_500 }, () => ada))
    expect(service.count('wrap')).toBe(1)
    expect(service.count('hash')).toBe(2)
    service.requests.length = 0
    const { ok, failed } = await usersOf(connect(), format).decryptMany(rows)
    expect(ok).toEqual(Array.from({ length: 2_500 }, () => ada))
    expect(failed).toEqual([])
    expect(operations()).toEqual(['unwrap'])
  })

  it('with a DEK for each record makes a wrap for each, in one request, and no two records share one', async () => {
    const eaas = connect()
    const notes = eaas.model({ keyId, format, dek: 'record', fields: { a: text(), b: text() } })
    const list = Array.from({ length: 50 }, (_, at) => ({ a: `a${at}`, b: 'b' }))
    const rows = await notes.encryptMany(list)
    expect(operations()).toEqual(['batch'])
    expect(service.count('wrap')).toBe(50)
    expect(new Set(service.wrappedDeks().map((dek) => dek.toString('hex'))).size).toBe(50)
    service.requests.length = 0
    expect(
      (
        await connect()
          .model({ keyId, fields: { a: text(), b: text() } })
          .decryptMany(rows as never)
      ).ok,
    ).toEqual(list)
    expect(operations()).toEqual(['batch'])
  })

  it('gives back any text, JSON, bytes, number and date, exactly', async () => {
    const all = connect().model({
      keyId,
      format,
      fields: {
        t: text(),
        j: json<unknown>(),
        b: bytes(),
        n: number(),
        o: boolean(),
        d: date(),
        'x.y': text().optional(),
      },
    })
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          t: fc.string({ unit: 'binary' }),
          j: fc.jsonValue({ noUnicodeString: false } as never),
          b: fc.uint8Array(),
          n: fc.double({ noNaN: true, noDefaultInfinity: true }),
          o: fc.boolean(),
          d: fc.date({ noInvalidDate: true }),
          x: fc.record({ y: fc.string(), z: fc.anything() }, { requiredKeys: [] }),
        }),
        async (row) => {
          const { j, ...rest } = row
          const back = await all.decrypt((await all.encrypt(row as never)) as never)
          const { j: json, ...others } = back as unknown as typeof row
          expect(others).toEqual(rest)
          expect(JSON.stringify(json)).toBe(JSON.stringify(j)) // JSON itself has no -0
        },
      ),
      { numRuns: 200 },
    )
  })
})

describe('a model', () => {
  it('stores the header of the compact form once, and is lossless to envelopes both ways', async () => {
    const full = usersOf(connect())
    const row = await full.encrypt(ada)
    const packed = full.pack(row)
    const { ciphertext, iv, ...header } = row.email
    expect(packed.email).toEqual({ c: ciphertext, i: iv })
    expect(packed.envelope).toEqual(header)
    expect(JSON.stringify(packed).length).toBeLessThan(JSON.stringify(row).length / 2)
    expect(full.unpack(packed)).toEqual(row)
    expect(full.pack(packed as never)).toEqual(packed)
    expect(full.unpack(row)).toEqual(row)
    const compact = usersOf(connect(), 'compact')
    expect(await compact.decrypt(packed)).toEqual(ada)
    const unpacked = full.unpack(await usersOf(connect(), 'compact').encrypt(ada))
    expect(await connect().decryptText(unpacked.email)).toBe(ada.email)
  })

  it('refuses to pack fields of different DEKs', async () => {
    const eaas = connect({ deks: { maxMessages: 1 } })
    const row = { a: await eaas.encrypt('a', { keyId }), b: await eaas.encrypt('b', { keyId }) }
    const notes = connect().model({ keyId, fields: { a: text(), b: text() } })
    expect(() => notes.pack(row)).toThrow(
      expect.objectContaining({ code: 'E_INVALID_INPUT', place: { index: 0, field: 'b' } }),
    )
  })

  it('names the column when the compact header is missing', async () => {
    const users = usersOf(connect(), 'compact')
    const { envelope: _, ...row } = await users.encrypt(ada)
    await expect(users.decrypt(row as never)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      hint: expect.stringContaining('"envelope"'),
    })
  })

  it('packs a row of both forms only when all its fields share a DEK', async () => {
    const notes = connect().model({ keyId, fields: { a: text(), b: text() } })
    const packed = notes.pack(await notes.encrypt({ a: 'a', b: 'b' }))
    const mixed = { ...packed, b: await connect().encrypt('c', { keyId }) }
    expect(await notes.decrypt(mixed)).toEqual({ a: 'a', b: 'c' })
    expect(() => notes.pack(mixed)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
    const half = { ...packed, a: notes.unpack(packed).a }
    expect(notes.pack(half)).toEqual(packed)
  })

  it('refuses to pack or unpack what it cannot give back', async () => {
    const notes = connect().model({ keyId, fields: { a: text() } })
    const row = await notes.encrypt({ a: 'a' })
    const { envelope: _, ...headless } = notes.pack(row)
    const place = { index: 0, field: 'a' }
    for (const call of [
      () => notes.pack({ a: JSON.stringify(row.a) } as never),
      () => notes.pack({ a: { ...row.a, iv: 'AAAA' } }),
      () => notes.pack(headless as never),
      () => notes.unpack(headless as never),
    ]) {
      expect(call).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT', place }))
    }
  })

  it.each(['full', 'compact'] as const)(
    'leaves a column of the application alone that has its names, format %s',
    async (format) => {
      const eaas = connect()
      const envelope = await eaas.encrypt('its own', { keyId })
      const notes = eaas.model({ keyId, format, header: 'shared', fields: { a: text().nullable() } })
      for (const row of [
        { a: 'a', envelope },
        { a: 'a', envelope: null },
        { a: null, envelope },
      ]) {
        expect(await notes.decrypt(await notes.encrypt(row))).toEqual(row)
      }
      const full = eaas.model({ keyId, fields: { a: text() } })
      for (const own of [envelope, null, 'C5, white']) {
        const sealed = await full.encrypt({ a: 'a', envelope: own })
        expect(await full.decrypt(sealed)).toEqual({ a: 'a', envelope: own })
        for await (const { items } of full.reseal([sealed])) expect(items[0]).toMatchObject({ row: { envelope: own } })
      }
    },
  )

  it('refuses a row of which a column would be lost under an index or the compact form', async () => {
    const compact = connect().model({ keyId, format: 'compact', fields: { a: text() } })
    for (const envelope of ['C5, white', vectors.valid]) {
      await expect(compact.encrypt({ a: 'a', envelope })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    }
    const indexed = connect().model({ keyId, fields: { a: text({ index: 'id' }) } })
    await expect(indexed.encrypt({ a: 'a', id: 7 })).rejects.toMatchObject({ place: { index: 0, field: 'a' } })
    const many = { keyId, fields: ['a'], index: { a: 'id' } } as const
    await expect(connect().encryptMany([{ a: 'a', id: 7 }], many)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
    const full = connect().model({ keyId, fields: { a: text() } })
    const named = { ...(await full.encrypt({ a: 'a' })), envelope: 'C5, white' }
    expect(() => full.pack(named)).toThrow(/would overwrite the column "envelope"/)
    const stored = await compact.encrypt({ a: 'a' })
    const changed = await compact.encrypt({ ...stored, a: 'b' }) // what was added to a row may be there when it is sealed anew
    expect(await compact.decrypt(changed)).toEqual({ a: 'b' })
    const { id } = await indexed.encrypt({ a: 'a' })
    expect((await indexed.encrypt({ a: 'b', id } as { a: string })).id).not.toBe(id)
  })

  it('loses no column of the application to an index that is new over rows that were stored', async () => {
    const fields = { a: text({ index: 'note' }) }
    const before = connect().model({ keyId, fields: { a: text() } })
    const model = connect().model({ keyId, fields })
    const row = await before.encrypt({ a: 'a', note: 'its own' })
    expect(await model.decrypt(row as never)).toEqual({ a: 'a', note: 'its own' })
    for await (const { items } of model.reseal([row as never])) {
      expect(items).toMatchObject([{ status: 'failed', error: { code: 'E_INVALID_INPUT', place: { field: 'a' } } }])
    }
    const { note } = await model.encrypt({ a: 'a' })
    expect(await model.decrypt({ ...row, note })).toEqual({ a: 'a' })
    expect(await model.decrypt({ ...row, note: null } as never)).toEqual({ a: 'a' })
  })

  it('reads null where a value was left out, as databases store it', async () => {
    const notes = connect().model({ keyId, fields: { a: text(), b: text().optional(), 'c.d': text().optional() } })
    const row = { ...(await notes.encrypt({ a: 'a' })), b: null, c: { d: null, e: 1 } }
    const back = await notes.decrypt(row)
    expect(Object.keys(back)).toEqual(['a', 'c'])
    expect(back).toEqual({ a: 'a', c: { e: 1 } })
    await expect(notes.decrypt({ ...row, a: null } as never)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      hint: expect.stringContaining('column'),
    })
  })

  it('seals what an accessor of a class gives, and nothing that all objects have', async () => {
    class User {
      #email = 'ada@example.org'
      get email() {
        return this.#email
      }
    }
    const users = connect().model({
      keyId,
      fields: { email: text().optional(), constructor: text().optional() } as never,
    })
    const row = await users.encrypt(new User() as never)
    expect(await users.decrypt(row as never)).toEqual({ email: 'ada@example.org' })
    const options = { keyId, fields: ['constructor' as never], optional: ['constructor' as never] }
    expect(await connect().encryptMany([{}], options)).toEqual([{}])
  })

  it('ends at once when the signal is aborted while a DEK of its own is made', async () => {
    service.intercept = () => true
    for (const dek of ['shared', 'call', 'record'] as const) {
      const eaas = connect()
      const notes = eaas.model({ keyId, dek, fields: { a: text() } })
      for (const call of [
        (signal: AbortSignal) => eaas.encrypt('x', { keyId, dek, signal }),
        (signal: AbortSignal) => eaas.encryptMany([{ a: 'x' }], { keyId, dek, fields: ['a'], signal }),
        (signal: AbortSignal) => notes.encryptMany([{ a: 'x' }], { signal }),
      ]) {
        await expect(call(AbortSignal.timeout(20))).rejects.toMatchObject({ code: 'E_ABORTED' })
      }
    }
  })

  it('shares the DEK of a record between all its fields, however few messages a DEK may seal', async () => {
    const notes = connect({ deks: { maxMessages: 5 } }).model({ keyId, fields: { a: text(), b: text() } })
    const rows = await notes.encryptMany(Array.from({ length: 20 }, () => ({ a: 'a', b: 'b' })))
    const uses = new Map<string, number>()
    for (const { a, b } of rows) {
      expect(b.wrapped_key).toBe(a.wrapped_key)
      uses.set(a.wrapped_key, (uses.get(a.wrapped_key) ?? 0) + 2)
    }
    expect(Math.max(...uses.values())).toBe(4)
    const tight = connect({ deks: { maxMessages: 1 } })
    expect(() => tight.model({ keyId, fields: { a: text(), b: text() } })).toThrow('maxMessages')
  })

  it.each([
    ['text', { email: 5 }],
    ['text that is not declared nullable', { email: null }],
    ['text that is not declared optional', { email: undefined }],
    ['a lone surrogate', { email: 'SECRET\ud800' }],
    ['not a number', { age: Number.NaN }],
    ['endless', { age: Number.POSITIVE_INFINITY }],
    ['a number as text', { age: 'SECRET' }],
    ['an invalid Date', { born: new Date(Number.NaN) }],
    ['a truthy text', { ok: 'yes' }],
    ['bytes as text', { avatar: 'SECRET' }],
    ['what JSON cannot hold', { prefs: { theme: 1n } }],
    ['a parent that is no object', { address: 'SECRET' }],
    ['a parent that is an array', { address: ['SECRET'] }],
    ['a parent that is missing', { address: undefined }],
  ])(
    'refuses %s in the last of its rows before any network, with its place and without its value',
    async (_, wrong) => {
      const call = usersOf(connect()).encryptMany([ada, { ...ada, ...wrong } as never])
      await expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 1 } })
      expect(inspect(await call.catch((error: unknown) => error))).not.toContain('SECRET')
      expect(service.requests).toEqual([])
    },
  )

  it('opens the good rows when others are bad, and says which and why', async () => {
    const users = usersOf(connect())
    const [a, b, c, d, e] = await users.encryptMany([ada, ada, ada, ada, ada])
    const foreign = { ...c?.email, key_id: '00000000-0000-4000-8000-000000000000' } as Envelope
    const list = [
      { ...a, email: { ...a?.email, iv: encodeBase64(new Uint8Array(12)) } }, // the first of its DEK
      b,
      { ...c, email: foreign },
      { ...d, age: await connect().encrypt('not a number', { keyId }) },
      { ...e, email: null },
      e,
    ]
    const { ok, failed } = await usersOf(connect()).decryptMany(list as never)
    expect(ok).toEqual([ada, ada])
    expect(failed.map(({ index, error }) => [index, error.code])).toEqual([
      [0, 'E_DECRYPTION'],
      [2, 'E_DECRYPTION'],
      [3, 'E_CONTENT'],
      [4, 'E_INVALID_INPUT'],
    ])
    expect(failed[0]?.error).toMatchObject({ place: { index: 0, field: 'email' } })
  })

  it('says of a row that is none what it is, and opens the others', async () => {
    const notes = connect().model({ keyId, fields: { a: text() } })
    const row = await notes.encrypt({ a: 'a' })
    const list = [row, null, [], { a: JSON.stringify(row.a) }, row] as never[]
    const { ok, failed } = await notes.decryptMany(list)
    expect(ok).toEqual([{ a: 'a' }, { a: 'a' }])
    expect(failed.map(({ index, error }) => [index, error.code])).toEqual([
      [1, 'E_INVALID_INPUT'],
      [2, 'E_INVALID_INPUT'],
      [3, 'E_INVALID_INPUT'],
    ])
    expect(failed[2]?.error.hint).toContain('JSON')
    const items = []
    for await (const batch of notes.rewrap(list)) items.push(...batch.items)
    expect(items.map(({ status }) => status)).toEqual(['current', 'failed', 'failed', 'failed', 'current'])
  })

  it('says of every row that the service could not be asked, and of none when the signal was aborted', async () => {
    const rows = await usersOf(connect()).encryptMany([ada, ada])
    service.intercept = (_, response) => !!response.destroy()
    const { ok, failed } = await usersOf(connect({ retries: 0 })).decryptMany(rows)
    expect([ok.length, failed.map(({ error }) => error.code)]).toEqual([0, ['E_NETWORK', 'E_NETWORK']])
    service.intercept = () => true
    const controller = new AbortController()
    const call = usersOf(connect()).decryptMany(rows, { signal: controller.signal })
    setTimeout(() => controller.abort(), 30)
    await expect(call).rejects.toMatchObject({ code: 'E_ABORTED' })
  })

  it('leaves no DEK of its own behind', async () => {
    const drawn: Uint8Array[] = []
    const draw = crypto.getRandomValues.bind(crypto)
    vi.spyOn(crypto, 'getRandomValues').mockImplementation((array) => {
      if (array instanceof Uint8Array && array.length === 32) drawn.push(array)
      return draw(array)
    })
    const notes = connect().model({ keyId, dek: 'record', fields: { a: text() } })
    await notes.encryptMany([{ a: 'x' }, { a: 'y' }])
    service.intercept = (_, response) => !!response.destroy()
    await notes.encryptMany([{ a: 'x' }, { a: 'y' }]).catch(() => undefined)
    expect(drawn).toEqual(Array.from({ length: 4 }, () => new Uint8Array(32)))
  })
})

describe('the indexes of a model', () => {
  it('find a value again in any of its spellings, and are the hash of the normalised text', async () => {
    const eaas = connect()
    const users = usersOf(eaas)
    const { email_index } = await users.encrypt(ada)
    expect(await users.index({ email: '  ada@EXAMPLE.org ' })).toEqual({ email_index })
    expect(await eaas.hash('ada@example.org', { keyId })).toBe(email_index)
    expect(await users.index({ email: 'adá@example.org' })).toEqual(
      await users.index({ email: 'ada\u0301@example.org' }),
    )
  })

  it.each<[string, Normalizer, string, string]>([
    ['trim', 'trim', '\u00a0 Ada ', 'Ada'],
    ['lowercase', 'lowercase', 'ADA É', 'ada é'],
    ['NFC', 'NFC', 'e\u0301ﬁ', 'éﬁ'],
    ['NFKC', 'NFKC', 'e\u0301ﬁ１', 'éfi1'],
    ['digits', 'digits', '+33 (0)6-12 ٣x', '330612'],
    ['a function', (value) => value.replace(/\+.*@/, '@'), 'ada+news@example.org', 'ada@example.org'],
  ])('are of what the normaliser makes of the text: %s', async (_, normalizer, value, normalized) => {
    const eaas = connect()
    const notes = eaas.model({ keyId, fields: { a: text({ index: 'a_index', normalize: [normalizer] }) } })
    expect(await notes.index({ a: value })).toEqual({ a_index: await eaas.hash(normalized, { keyId }) })
  })

  it('are of what the normalisers make of it one after the other', async () => {
    const eaas = connect()
    const normalize = [(value: string) => `${value}b`, (value: string) => `${value}c`]
    const notes = eaas.model({ keyId, fields: { a: text({ index: 'a_index', normalize }) } })
    expect(await notes.index({ a: 'a' })).toEqual({ a_index: await eaas.hash('abc', { keyId }) })
  })

  it('are null where a value is missing, and where one of several is', async () => {
    const users = connect().model({
      keyId,
      fields: { a: text({ index: 'a_index' }).nullable().optional(), b: text() },
      indexes: { ab_index: { fields: ['a', 'b'] } },
    })
    expect(await users.encrypt({ a: null, b: 'b' })).toMatchObject({ a_index: null, ab_index: null })
    expect(await users.encrypt({ b: 'b' })).toMatchObject({ a_index: null, ab_index: null })
  })

  it('of several fields are found by all of them together, and no two records share one by shifting text', async () => {
    const pairs = connect().model({
      keyId,
      fields: { a: text(), b: text() },
      indexes: { ab_index: { fields: ['a', 'b'] } },
    })
    const rows = await pairs.encryptMany([
      { a: 'ab', b: 'c' },
      { a: 'a', b: 'bc' },
      { a: '2:ab', b: '' },
      { a: '', b: 'abc' },
    ])
    expect(new Set(rows.map(({ ab_index }) => ab_index)).size).toBe(4)
    expect(await pairs.index({ a: 'a', b: 'bc' })).toEqual({ ab_index: rows[1]?.ab_index })
    expect(rows[0]?.ab_index).toBe(await connect().hash('eaas/compound/v1:2:ab:1:c', { keyId }))
    await expect(pairs.index({ a: 'a' })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('can be cut, and what is found too much is filtered once it is opened', async () => {
    const eaas = connect()
    const people = eaas.model({
      keyId,
      fields: { name: text({ index: 'name_index', bits: 4, normalize: ['lowercase'] }) },
    })
    const list = Array.from({ length: 200 }, (_, at) => ({ name: `Name ${at}` }))
    const rows = await people.encryptMany(list)
    const { name_index } = await people.index({ name: 'name 7' })
    const found = rows.filter((row) => row.name_index === name_index)
    expect(found.length).toBeGreaterThan(1)
    const { ok } = await people.decryptMany(found)
    expect(ok.filter((row) => people.matches(row, { name: 'NAME 7' }))).toEqual([{ name: 'Name 7' }])
  })

  it.each([4, 5, 7, 8, 63, 64, 255, 256])(
    'keep %d bits of the hash, and the rest of the last digit is zero',
    async (bits) => {
      const eaas = connect()
      const notes = eaas.model({ keyId, fields: { a: text({ index: 'a_index', bits }) } })
      const whole = BigInt(`0x${await eaas.hash('x', { keyId })}`)
        .toString(2)
        .padStart(256, '0')
      const { a_index } = await notes.index({ a: 'x' })
      const kept = BigInt(`0x${a_index}`)
        .toString(2)
        .padStart(a_index.length * 4, '0')
      expect(kept).toBe(whole.slice(0, bits).padEnd(a_index.length * 4, '0'))
      expect(a_index.length).toBe(Math.ceil(bits / 4))
    },
  )

  it('of numbers and dates are of the text that is sealed, and -0 is 0', async () => {
    const eaas = connect()
    const notes = eaas.model({ keyId, fields: { n: number({ index: 'n_index' }), d: date({ index: 'd_index' }) } })
    const row = await notes.encrypt({ n: -0, d: new Date(0) })
    expect(await notes.index({ n: 0, d: new Date(0) })).toEqual({ n_index: row.n_index, d_index: row.d_index })
    expect(row.d_index).toBe(await eaas.hash('1970-01-01T00:00:00.000Z', { keyId }))
  })

  it('of a Date of a subclass are of the instant, and it opens, however the subclass prints itself', async () => {
    class ZonedDate extends Date {
      override toISOString() {
        return '1970-01-01T01:00:00.000+01:00'
      }
    }
    const eaas = connect()
    const notes = eaas.model({ keyId, fields: { d: date({ index: 'd_index' }) } })
    const row = await notes.encrypt({ d: new ZonedDate(0) })
    expect(row.d_index).toBe((await notes.index({ d: new Date(0) })).d_index)
    expect(await notes.decrypt(row)).toEqual({ d: new Date(0) })
    expect((await eaas.audit.list({ date_from: new ZonedDate(0) })).logs).toEqual(expect.any(Array))
    expect(service.requests.at(-1)?.url).toContain('date_from=1970-01-01T00%3A00%3A00.000Z')
  })

  it('refuse a query without a value, and text that no call takes', async () => {
    const notes = connect().model({ keyId, fields: { a: text({ index: 'a_index' }).nullable() } })
    await expect(notes.index({ a: null as never })).rejects.toMatchObject({ hint: expect.stringContaining('null') })
    const long = 'x'.repeat(1_000_000)
    const place = { index: 1, field: 'a' }
    await expect(notes.encryptMany([{ a: 'a' }, { a: long }])).rejects.toMatchObject({ code: 'E_INVALID_INPUT', place })
    await expect(connect().hash('\n'.repeat(500_000), { keyId })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
    const broken = connect().model({
      keyId,
      fields: { a: text({ index: 'a_index', normalize: [() => undefined as never, 'trim'] }) },
    })
    await expect(broken.encrypt({ a: 'a' })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('warn once of what has few possible values, unless they are told not to', () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const eaas = connect()
    const define = (options: { warn?: boolean }) =>
      eaas.model({ keyId, fields: { birthDate: text({ index: 'birth_index' }) }, ...options })
    define({ warn: false })
    expect(warn).not.toHaveBeenCalled()
    define({})
    define({})
    expect(warn).toHaveBeenCalledTimes(1)
    expect(warn.mock.calls[0]?.[0]).toContain('birthDate')
    eaas.model({
      keyId,
      fields: { 'home.postal_code': text(), name: text(), image: text({ index: 'image_index' }) },
      indexes: { both_index: { fields: ['home.postal_code', 'name'] } },
    })
    expect(warn).toHaveBeenCalledTimes(1)
  })

  it('warn again of a column of the same name over other fields', () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const define = (field: string) => connect().model({ keyId, fields: { [field]: text({ index: 'same_index' }) } })
    for (const field of ['zip', 'gender', 'zip']) define(field)
    expect(warn.mock.calls.map(([message]) => String(message).match(/over (\w+)/)?.[1])).toEqual(['zip', 'gender'])
  })

  it.each([
    ...['birth', 'birthday', 'birthdate', 'dateofbirth', 'date_of_birth', 'dob', 'born', 'age', 'gender', 'sex'],
    ...['zip', 'zipcode', 'zip_code', 'postal', 'postalcode', 'postalCode', 'postcode', 'post_code', 'postCode', 'plz'],
    ...['country', 'nationality', 'religion', 'race', 'ethnicity', 'marital_status', 'blood', 'diagnosis', 'salary'],
    ...['pin', 'user.dob', 'user.postCode', 'customerAge', 'AGE'],
  ])('warn of a field that is called %s', (field) => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    connect().model({ keyId, fields: { [field]: text({ index: `index of ${field}` }) } })
    expect(warn).toHaveBeenCalledTimes(1)
  })

  it.each(['email', 'message', 'image', 'page', 'postman', 'code', 'post', 'engender', 'shipping', 'sexton', 'zipper'])(
    'do not warn of a field that is called %s',
    (field) => {
      const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
      connect().model({ keyId, fields: { [field]: text({ index: `index of ${field}` }) } })
      expect(warn).not.toHaveBeenCalled()
    },
  )
})

describe('a definition', () => {
  const OWN_FIELD = { a: { value: text(), enumerable: true } }
  const wrong: [string, (eaas: Client) => unknown][] = [
    ['a name for a key id', (eaas) => eaas.model({ keyId: 'users', fields: { a: text() } })],
    ['no fields', (eaas) => eaas.model({ keyId, fields: {} })],
    ['the field __proto__', (eaas) => eaas.model({ keyId, fields: { 'a.__proto__.b': text() } })],
    ['an empty part of a path', (eaas) => eaas.model({ keyId, fields: { 'a..b': text() } })],
    ['a field inside another', (eaas) => eaas.model({ keyId, fields: { 'a.b': text(), a: json() } })],
    ['an element of a list', (eaas) => eaas.model({ keyId, fields: { 'lines[0].street': text() } })],
    ['all elements of a list', (eaas) => eaas.model({ keyId, fields: { a: text(), 'phones[]': text() } })],
    ['an inherited field', (eaas) => eaas.model({ keyId, fields: Object.create({ b: text() }, OWN_FIELD) })],
    [
      "a field of a class's prototype",
      (eaas) => eaas.model({ keyId, fields: Object.create(Object.create(null, { b: { value: text() } }), OWN_FIELD) }),
    ],
    [
      'a hidden field',
      (eaas) => eaas.model({ keyId, fields: Object.create(null, { ...OWN_FIELD, b: { value: text() } }) }),
    ],
    ['a field under a symbol', (eaas) => eaas.model({ keyId, fields: { a: text(), [Symbol('b')]: text() } as never })],
    ['what is no field', (eaas) => eaas.model({ keyId, fields: { a: 'text' as never } })],
    ['a column that is a field', (eaas) => eaas.model({ keyId, fields: { a: text({ index: 'a' }) } })],
    ['a column twice', (eaas) => eaas.model({ keyId, fields: { a: text({ index: 'c' }), b: text({ index: 'c' }) } })],
    [
      'a column that is the header',
      (eaas) => eaas.model({ keyId, format: 'compact', fields: { a: text({ index: 'envelope' }) } }),
    ],
    [
      'a header that is a field',
      (eaas) => eaas.model({ keyId, format: 'compact', header: 'a', fields: { a: text() } }),
    ],
    ['3 bits', (eaas) => eaas.model({ keyId, fields: { a: text({ index: 'c', bits: 3 }) } })],
    ['257 bits', (eaas) => eaas.model({ keyId, fields: { a: text({ index: 'c', bits: 257 }) } })],
    ['bits of no index', (eaas) => eaas.model({ keyId, fields: { a: text({ bits: 8 }) } })],
    ['an unknown normaliser', (eaas) => eaas.model({ keyId, fields: { a: text({ normalize: ['upper' as 'trim'] }) } })],
    [
      'an index of one field',
      (eaas) => eaas.model({ keyId, fields: { a: text() }, indexes: { i: { fields: ['a'] } } }),
    ],
    [
      'an index of bytes',
      (eaas) => eaas.model({ keyId, fields: { a: text(), b: bytes() }, indexes: { i: { fields: ['a', 'b' as 'a'] } } }),
    ],
    ['an unknown scope', (eaas) => eaas.model({ keyId, dek: 'row' as 'record', fields: { a: text() } })],
    ['an unknown format', (eaas) => eaas.model({ keyId, format: 'v2' as 'full', fields: { a: text() } })],
  ]
  it.each(wrong)('is refused with %s', (_, define) => {
    const eaas = connect()
    expect(() => define(eaas)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it('may come from a class or a module, whatever else is in it', () => {
    class Fields {
      a = text()
      label() {
        return 'users'
      }
    }
    for (const fields of [
      new Fields(),
      Object.assign(Object.create(null), { a: text(), [Symbol.toStringTag]: 'Module' }),
    ]) {
      expect(() => connect().model({ keyId, fields: fields as never })).not.toThrow()
    }
  })
})

describe('rewrap', () => {
  async function* stream<T>(list: readonly T[]): AsyncGenerator<T> {
    for (const row of list) yield row
  }

  it.each(['full', 'compact'] as const)(
    'gives old rows new wrapped keys and the same ciphertext, format %s',
    async (format) => {
      const users = usersOf(connect(), format)
      const old = await users.encryptMany(Array.from({ length: 30 }, () => ada))
      await connect().keys.rotate(keyId)
      const fresh = await usersOf(connect(), format).encrypt(ada)
      service.requests.length = 0
      const batches = []
      for await (const batch of users.rewrap(stream([...old, fresh]), { batchSize: 10 })) batches.push(batch)
      expect(batches.map(({ progress }) => progress.done)).toEqual([10, 20, 30, 31])
      expect(batches.at(-1)?.progress).toEqual({ done: 31, changed: 30, current: 1, failed: 0 })
      expect(operations()).toEqual(['get', 'rewrap'])
      const items = batches.flatMap(({ items }) => items)
      expect(items.map(({ index }) => index)).toEqual(Array.from({ length: 31 }, (_, at) => at))
      const rows = items.flatMap((item) => (item.status === 'failed' ? [] : [item.row]))
      expect(rows[30]).toBe(fresh)
      const strip = (row: unknown) =>
        JSON.parse(JSON.stringify(row), (name, value) => (/^(wrapped_key|key_version)$/.test(name) ? undefined : value))
      expect(strip(rows[0])).toEqual(strip(old[0]))
      expect(JSON.stringify(rows[0])).toContain('"key_version":2')
      expect(JSON.stringify(rows[0])).not.toContain('"key_version":1')
      expect((await usersOf(connect(), format).decryptMany(rows)).ok).toEqual(Array.from({ length: 31 }, () => ada))
    },
  )

  it('says of each row what failed, and goes on with the others', async () => {
    const notes = connect().model({ keyId, dek: 'record', fields: { a: text() } })
    const [one, two, three] = await notes.encryptMany([{ a: '1' }, { a: '2' }, { a: '3' }])
    await connect().keys.rotate(keyId)
    const list = [one, { a: { ...two?.a, wrapped_key: 'AAAA' } }, { a: { ciphertext: 'x' } }, three]
    const batches = []
    for await (const batch of notes.rewrap(list as never[])) batches.push(batch)
    expect(batches.flatMap(({ items }) => items.map(({ status }) => status))).toEqual([
      'changed',
      'failed',
      'failed',
      'changed',
    ])
    expect(batches[0]?.items[1]).toMatchObject({ error: { code: 'E_DECRYPTION', place: { index: 1, field: 'a' } } })
    expect(batches[0]?.items[2]).toMatchObject({ error: { code: 'E_INVALID_INPUT', place: { index: 2, field: 'a' } } })
  })

  it('asks again for the version of the key in the next batch when it could not be had', async () => {
    const notes = connect().model({ keyId, fields: { a: text() } })
    const rows = await notes.encryptMany([{ a: '1' }, { a: '2' }])
    await connect().keys.rotate(keyId)
    service.intercept = ({ operation }, response) => {
      if (operation !== 'get') return false
      service.intercept = undefined
      send(response, problem(403, 'Forbidden', 'E_MISSING_PERMISSION'))
      return true
    }
    const statuses = []
    for await (const { items } of notes.rewrap(rows, { batchSize: 1 })) statuses.push(items[0]?.status)
    expect(statuses).toEqual(['failed', 'changed'])
  })

  it('stops when the signal is aborted, and refuses a size of batch that cannot be', async () => {
    const notes = connect().model({ keyId, fields: { a: text() } })
    const rows = await notes.encryptMany([{ a: '1' }, { a: '2' }])
    const controller = new AbortController()
    const batches = notes.rewrap(rows, { batchSize: 1, signal: controller.signal })
    await batches.next()
    controller.abort()
    await expect(batches.next()).rejects.toMatchObject({ code: 'E_ABORTED' })
    await expect(notes.rewrap(rows, { batchSize: 0 }).next()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('of one envelope keeps the ciphertext', async () => {
    const eaas = connect()
    const envelope = await eaas.encrypt('x', { keyId })
    await eaas.keys.rotate(keyId)
    const fresh = await eaas.rewrap(envelope)
    expect(fresh).toEqual({ ...envelope, wrapped_key: fresh.wrapped_key, key_version: 2 })
    expect(await connect().decryptText(fresh)).toBe('x')
  })
})

describe('reseal', () => {
  it('gives rows new DEKs, ciphertexts and indexes, and loses none of what does not open', async () => {
    const users = usersOf(connect())
    const [one, two] = await users.encryptMany([ada, ada])
    if (!one || !two) return expect.unreachable()
    const bad = { ...two, email: { ...two.email, iv: encodeBase64(new Uint8Array(12)) } }
    const batches = []
    for await (const batch of users.reseal([one, bad, two])) batches.push(batch)
    const items = batches.flatMap(({ items }) => items)
    expect(items.map(({ status }) => status)).toEqual(['changed', 'failed', 'changed'])
    const [first] = items
    if (first?.status !== 'changed') return expect.unreachable()
    const { row } = first
    expect(row.email.wrapped_key).not.toBe(one.email.wrapped_key)
    expect(row.email.ciphertext).not.toBe(one.email.ciphertext)
    expect(row.email_index).toBe(one.email_index)
    expect(await users.decrypt(row)).toEqual(ada)
  })
})

describe('reseal of rows that cannot be sealed', () => {
  /** Longer than what an index is made of. */
  const LONG = 'x'.repeat(1_000_001)

  it('says which, by their places among all rows, and goes on with the others', async () => {
    const plain = connect().model({ keyId, fields: { a: text() } })
    const rows = await plain.encryptMany(['1', '2', LONG, '4', '5'].map((a) => ({ a })))
    const indexed = connect().model({ keyId, fields: { a: text({ index: 'a_index' }) } })
    const list = rows.map((row, at) => (at === 4 ? { a: { ...row.a, iv: encodeBase64(new Uint8Array(12)) } } : row))
    const items = []
    for await (const batch of indexed.reseal(list, { batchSize: 2 })) items.push(...batch.items)
    expect(items.map((item) => [item.index, item.status])).toEqual([
      [0, 'changed'],
      [1, 'changed'],
      [2, 'failed'],
      [3, 'changed'],
      [4, 'failed'],
    ])
    expect(items[2]).toMatchObject({ error: { code: 'E_INVALID_INPUT', place: { index: 2, field: 'a' } } })
    expect(items[4]).toMatchObject({ error: { code: 'E_DECRYPTION', place: { index: 4, field: 'a' } } })
  })

  it('says of each row that the service could not be asked', async () => {
    const notes = connect({ retries: 0 }).model({ keyId, fields: { a: text() } })
    const rows = await notes.encryptMany([{ a: '1' }, { a: '2' }])
    service.intercept = ({ operation }, response) => operation === 'wrap' && !!response.destroy()
    const items = []
    for await (const batch of notes.reseal(rows)) items.push(...batch.items)
    expect(items.map((item) => item.status === 'failed' && item.error.code)).toEqual(['E_NETWORK', 'E_NETWORK'])
  })
})

describe('the types of a model', () => {
  it('say what it takes, stores and gives back', async () => {
    const typed = () =>
      connect().model({
        keyId,
        fields: {
          email: text({ index: 'email_index' }),
          phone: text().nullable(),
          prefs: json<Prefs>().optional(),
          'address.street': text(),
        },
        indexes: { both_index: { fields: ['email', 'phone'] } },
      })
    const model = typed()
    const compact = connect().model({ keyId, format: 'compact', header: 'sealed', fields: { a: text(), b: number() } })
    interface User {
      id: number
      email: string
      phone: string | null
      prefs?: Prefs
      address: { street: string; city: string }
    }
    const seal = (user: User) => model.encrypt(user)
    type Row = Awaited<ReturnType<typeof seal>>
    expectTypeOf<Row['id']>().toEqualTypeOf<number>()
    expectTypeOf<Row['email']>().toEqualTypeOf<Envelope>()
    expectTypeOf<Row['phone']>().toEqualTypeOf<Envelope | null>()
    expectTypeOf<Row['prefs']>().toEqualTypeOf<Envelope | undefined>()
    expectTypeOf<Row['address']>().toEqualTypeOf<{ street: Envelope; city: string }>()
    expectTypeOf<Row['email_index']>().toEqualTypeOf<string>()
    expectTypeOf<Row['both_index']>().toEqualTypeOf<string | null>()
    const open = (row: Row) => model.decrypt(row)
    type Back = Awaited<ReturnType<typeof open>>
    expectTypeOf<Back['phone']>().toEqualTypeOf<string | null>()
    expectTypeOf<Back['prefs']>().toEqualTypeOf<Prefs | undefined>()
    expectTypeOf<Back['address']>().toEqualTypeOf<{ street: string; city: string }>()
    expectTypeOf<Extract<keyof Back, 'email_index' | 'both_index'>>().toEqualTypeOf<never>()
    const sealCompact = (row: { a: string; b: number; id: string }) => compact.encrypt(row)
    type Compact = Awaited<ReturnType<typeof sealCompact>>
    expectTypeOf<Compact['a']>().toEqualTypeOf<CompactField>()
    expectTypeOf<Compact['sealed']>().toEqualTypeOf<EnvelopeHeader | null>()
    const where = () => model.index({ email: 'x' })
    expectTypeOf<keyof Awaited<ReturnType<typeof where>>>().toEqualTypeOf<'email_index'>()
    const single = () => connect().model({ keyId, fields: { a: text({ index: 'a_index' }), b: text() } })
    const opened = async (row: { a: Envelope; b: Envelope | null; envelope: Envelope }) =>
      connect()
        .model({ keyId, fields: { a: text(), b: text().optional() } })
        .decrypt(row)
    expectTypeOf<Awaited<ReturnType<typeof opened>>>().toEqualTypeOf<{
      a: string
      b: string | undefined
      envelope: Envelope
    }>()
    const photo = async () => {
      const photos = connect().model({ keyId, fields: { photo: bytes() } })
      const { photo } = await photos.decrypt(await photos.encrypt({ photo: new Uint8Array(new SharedArrayBuffer(1)) }))
      return new Blob([photo])
    }
    expect(typeof photo).toBe('function')
    const both = () => model.index({ email: 'x', phone: 'y' })
    expectTypeOf<keyof Awaited<ReturnType<typeof both>>>().toEqualTypeOf<'email_index' | 'both_index'>()
    expectTypeOf<PlainRow<typeof model>['email']>().toEqualTypeOf<string>()
    expectTypeOf<StoredRow<typeof model>['email']>().toEqualTypeOf<Envelope>()

    const user = { email: 'a', phone: null, address: { street: 's' } }
    const never = () => [
      model.encrypt(user),
      // @ts-expect-error email is missing
      model.encrypt({ phone: null, address: { street: 's' } }),
      // @ts-expect-error email is not nullable
      model.encrypt({ ...user, email: null }),
      // @ts-expect-error email is text
      model.encrypt({ ...user, email: 5 }),
      // @ts-expect-error the street is text
      model.encrypt({ ...user, address: { street: 5 } }),
      // @ts-expect-error prefs are Prefs
      model.encrypt({ ...user, prefs: { theme: 'red' } }),
      // @ts-expect-error a plain row is not sealed
      model.decrypt(user),
      // @ts-expect-error prefs has no index
      model.index({ prefs: { theme: 'dark' } }),
      // @ts-expect-error b has no index
      single().index({ b: 'x' }),
      // @ts-expect-error b has no index
      single().matches({}, { a: 'x', b: 'x' }),
      // @ts-expect-error email is text
      model.index({ email: 5 }),
      // @ts-expect-error no such field
      model.index({ mail: 'x' }),
      // @ts-expect-error bytes cannot be indexed
      connect().model({ keyId, fields: { a: text(), b: bytes() }, indexes: { i: { fields: ['a', 'b'] } } }),
      // @ts-expect-error no such field
      connect().model({ keyId, fields: { a: text() }, indexes: { i: { fields: ['a', 'c'] } } }),
      // @ts-expect-error no such normaliser
      text({ normalize: ['upper'] }),
      // @ts-expect-error booleans have no index
      boolean({ index: 'ok_index' }),
    ]
    expect(typeof never).toBe('function')
  })
})
