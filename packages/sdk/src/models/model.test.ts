// What a model seals, opens and refuses, in both forms.
import { inspect } from 'node:util'
import { type Envelope, encodeBase64 } from '@eaas/protocol'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ANY_CHARACTER } from '../../../../test/support/vectors/any-text.js'
import vectors from '../../../protocol/src/envelope.vectors.json' with { type: 'json' }
import { boolean, bytes, type Client, createClient, date, json, number, text } from '../index.js'
import { keyId, noteDeks, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'
import { ada, usersOf } from '../test-support/users.js'
import { createTestService } from '../testing.js'

const { service, connect } = useClients()

const operations = () => service.requests.map(({ operation }) => operation)

afterEach(() => {
  vi.restoreAllMocks()
})

describe.each(['full', 'compact'] as const)('a model with format %s', (format) => {
  it('names itself and the row in the error of a value, and the record where the row has no id', async () => {
    const users = usersOf(keyId, connect(), format)
    const [row, other] = await users.encryptMany([ada, ada])
    const damaged = { ...row, phone: row?.email } as never
    const { failed } = await users.decryptMany([other, damaged, { ...(damaged as object), id: null }] as never)
    expect(failed.map(({ error }) => error.message.replace(/: .*/, ''))).toEqual([
      'users, id "7", field "phone"',
      'users, record 2, field "phone"',
    ])
    const [error] = failed.map((one) => one.error)
    expect(error).toMatchObject({ place: { index: 1, field: 'phone', model: 'users', row: { id: '7' } } })
    expect(error?.hint).toMatch(/use the old name of a model/)
    expect(error?.stack).toContain(`DecryptionError: ${error?.message}`)
    const wrong = users.encryptMany([ada, { ...ada, phone: 7 as never }])
    await expect(wrong).rejects.toThrow(/^users, record 1, field "phone": expected text, got number/)
    const [long] = (await users.decryptMany([{ ...(damaged as object), id: 'x'.repeat(999) }] as never)).failed
    expect(long?.error.message.length).toBeLessThan(200)
  })

  it.each(['node', 'web', 'noble'] as const)(
    'opens what it sealed, every kind of field, by engine %s',
    async (engine) => {
      const before = structuredClone(ada)
      const row = await usersOf(keyId, connect({ engine }), format).encrypt(ada)
      expect(ada).toEqual(before)
      expect(row).toMatchObject({ id: 7, phone: null, address: { city: 'London' } })
      expect(row.email_index).toMatch(/^[0-9a-f]{64}$/)
      expect(row.place_index).toMatch(/^[0-9a-f]{8}$/)
      expect(JSON.stringify(row)).not.toMatch(/Ada@|Main St|"dark"|1815-12-10/)
      expect(await usersOf(keyId, connect({ engine }), format).decrypt(row)).toEqual(ada)
    },
  )

  it('opens rows of either form', async () => {
    const other = format === 'full' ? 'compact' : 'full'
    const row = await usersOf(keyId, connect(), other).encrypt(ada)
    expect(await usersOf(keyId, connect(), format).decrypt(row as never)).toEqual(ada)
  })

  it('seals and indexes a first row with one request, and a second one with none', async () => {
    const users = usersOf(keyId, connect(), format)
    await users.encrypt(ada)
    expect(operations()).toEqual(['batch'])
    expect(service.requests[0]?.operations.map(({ op }) => op).sort()).toEqual(['indexSecret', 'wrap'])
    service.requests.length = 0
    await users.encrypt({ ...ada, id: 8 })
    expect(operations()).toEqual([])
  })

  it('sends one request for rows that are sealed, and one for rows that are opened, one by one in one turn', async () => {
    const users = usersOf(keyId, connect(), format)
    const list = Array.from({ length: 50 }, (_, at) => ({ ...ada, email: `user${at}@example.org` }))
    const rows = await Promise.all(list.map((user) => users.encrypt(user)))
    expect(operations()).toEqual(['batch'])
    expect(service.count('wrap')).toBe(1)
    const own = await Promise.all(
      Array.from({ length: 20 }, () => usersOf(keyId, connect({ deks: { maxMessages: 9 } }), format).encrypt(ada)),
    )
    service.requests.length = 0
    const reader = usersOf(keyId, connect(), format)
    const back = await Promise.all([...rows, ...own].map((row) => reader.decrypt(row as never)))
    expect(back).toEqual([...list, ...own.map(() => ada)])
    expect(operations()).toEqual(['batch'])
    expect(service.count('unwrap')).toBe(21)
  })

  it('makes one wrap for all rows and one unwrap to read them', async () => {
    const rows = await usersOf(keyId, connect(), format).encryptMany(Array.from({ length: 1_100 }, () => ada))
    expect(service.count('wrap')).toBe(1)
    expect(service.count('indexSecret')).toBe(1)
    service.requests.length = 0
    const { ok, failed } = await usersOf(keyId, connect(), format).decryptMany(rows)
    expect(ok).toEqual(Array.from({ length: 1_100 }, () => ada))
    expect(failed).toEqual([])
    expect(operations()).toEqual(['unwrap'])
  })

  it('with a DEK for each record makes a wrap for each, in one request, and no two records share one', async () => {
    const eaas = connect()
    const notes = eaas.model({
      name: 'users',
      keyId,
      bind: false,
      format,
      dek: 'record',
      fields: { a: text(), b: text() },
    })
    const list = Array.from({ length: 50 }, (_, at) => ({ a: `a${at}`, b: 'b' }))
    const rows = await notes.encryptMany(list)
    expect(operations()).toEqual(['batch'])
    expect(service.count('wrap')).toBe(50)
    expect(new Set(service.wrappedDeks().map((dek) => dek.toString('hex'))).size).toBe(50)
    service.requests.length = 0
    expect(
      (
        await connect()
          .model({ name: 'users', keyId, bind: false, fields: { a: text(), b: text() } })
          .decryptMany(rows as never)
      ).ok,
    ).toEqual(list)
    expect(operations()).toEqual(['batch'])
  })

  it('gives back any text, JSON, bytes, number and date, exactly', async () => {
    const all = connect().model({
      name: 'users',
      keyId,
      bind: false,
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
          t: fc.string({ unit: ANY_CHARACTER }),
          j: fc.jsonValue({ stringUnit: ANY_CHARACTER }),
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
    const full = usersOf(keyId, connect())
    const row = await full.encrypt(ada)
    const packed = full.pack(row)
    const { ciphertext, iv, ...header } = row.email
    expect(packed.email).toEqual({ c: ciphertext, i: iv })
    expect(packed.envelope).toEqual(header)
    expect(JSON.stringify(packed).length).toBeLessThan(JSON.stringify(row).length / 2)
    expect(full.unpack(packed)).toEqual(row)
    expect(full.pack(packed as never)).toEqual(packed)
    expect(full.unpack(row)).toEqual(row)
    const compact = usersOf(keyId, connect(), 'compact')
    expect(await compact.decrypt(packed)).toEqual(ada)
    const unpacked = full.unpack(await usersOf(keyId, connect(), 'compact').encrypt(ada))
    expect(await connect().decryptText(unpacked.email, { context: { model: 'users', field: 'email' } })).toBe(ada.email)
  })

  it('refuses to pack fields of different DEKs', async () => {
    const eaas = connect({ deks: { maxMessages: 1 } })
    const row = { a: await eaas.encrypt('a', { keyId }), b: await eaas.encrypt('b', { keyId }) }
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text(), b: text() } })
    expect(() => notes.pack(row)).toThrow(
      expect.objectContaining({ code: 'E_INVALID_INPUT', place: { index: 0, field: 'b' } }),
    )
  })

  it('names the column when the compact header is missing', async () => {
    const users = usersOf(keyId, connect(), 'compact')
    const { envelope: _, ...row } = await users.encrypt(ada)
    await expect(users.decrypt(row as never)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      hint: expect.stringContaining('"envelope"'),
    })
  })

  it('packs a row of both forms only when all its fields share a DEK', async () => {
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text(), b: text() } })
    const packed = notes.pack(await notes.encrypt({ a: 'a', b: 'b' }))
    const { b } = await connect()
      .model({ name: 'users', keyId, bind: false, fields: { b: text() } })
      .encrypt({ b: 'c' })
    const mixed = { ...packed, b }
    expect(await notes.decrypt(mixed)).toEqual({ a: 'a', b: 'c' })
    expect(() => notes.pack(mixed)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
    const half = { ...packed, a: notes.unpack(packed).a }
    expect(notes.pack(half)).toEqual(packed)
  })

  it('refuses to pack or unpack what it cannot give back', async () => {
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const row = await notes.encrypt({ a: 'a' })
    const { envelope: _, ...headless } = notes.pack(row)
    const place = { index: 0, field: 'a' }
    for (const call of [
      () => notes.pack({ a: JSON.stringify(row.a).slice(0, -1) } as never),
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
      const notes = eaas.model({
        name: 'users',
        keyId,
        bind: false,
        format,
        header: 'shared',
        fields: { a: text().nullable() },
      })
      for (const row of [
        { a: 'a', envelope },
        { a: 'a', envelope: null },
        { a: null, envelope },
      ]) {
        expect(await notes.decrypt(await notes.encrypt(row))).toEqual(row)
      }
      const full = eaas.model({ name: 'users', keyId, bind: false, fields: { a: text() } })
      for (const own of [envelope, null, 'C5, white']) {
        const sealed = await full.encrypt({ a: 'a', envelope: own })
        expect(await full.decrypt(sealed)).toEqual({ a: 'a', envelope: own })
        expect(await itemsOf(full.reseal([sealed]))).toMatchObject([{ row: { envelope: own } }])
      }
    },
  )

  it('refuses a row of which a column would be lost under an index or the compact form', async () => {
    const compact = connect().model({ name: 'users', keyId, bind: false, format: 'compact', fields: { a: text() } })
    for (const envelope of ['C5, white', vectors.valid]) {
      await expect(compact.encrypt({ a: 'a', envelope })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    }
    const indexed = connect().model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'id' }) } })
    const cut = connect().model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'id', bits: 10 }) } })
    const many = { keyId, fields: ['a'], index: { a: 'id' } } as const
    for (const id of [7, '4711', 'c0ffee', 'f'.repeat(63), 'F'.repeat(64), 'f'.repeat(65)] as never[]) {
      await expect(indexed.encrypt({ a: 'a', id })).rejects.toMatchObject({ place: { index: 0, field: 'a' } })
      await expect(cut.encrypt({ a: 'a', id })).rejects.toMatchObject({ place: { index: 0, field: 'a' } })
      await expect(connect().encryptMany([{ a: 'a', id }], many)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    }
    expect(service.requests).toEqual([])
    const full = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
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
    const before = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const model = connect().model({ name: 'users', keyId, bind: false, fields })
    const row = await before.encrypt({ a: 'a', note: 'its own' })
    for (const own of ['its own', '4711']) {
      const stored = { ...row, note: own } as never
      expect(await model.decrypt(stored)).toEqual({ a: 'a', note: own })
      const failed = { status: 'failed', error: { code: 'E_INVALID_INPUT', place: { field: 'a' } } }
      expect(await itemsOf(model.reseal([stored]))).toMatchObject([failed])
    }
    const { note } = await model.encrypt({ a: 'a' })
    expect(await model.decrypt({ ...row, note })).toEqual({ a: 'a' })
    expect(await model.decrypt({ ...row, note: null } as never)).toEqual({ a: 'a' })
  })

  it('reads null where a value was left out, as databases store it', async () => {
    const notes = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text(), b: text().optional(), 'c.d': text().optional() },
    })
    const row = { ...(await notes.encrypt({ a: 'a' })), b: null, c: { d: null, e: 1 } }
    const back = await notes.decrypt(row)
    expect(Object.keys(back)).toEqual(['a', 'c'])
    expect(back).toEqual({ a: 'a', c: { e: 1 } })
    await expect(notes.decrypt({ ...row, a: null } as never)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      hint: expect.stringContaining('column'),
    })
  })

  it('seals nothing that all objects have', async () => {
    const users = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { constructor: text().optional() } as never,
    })
    expect(await users.encrypt({} as never)).toEqual({})
    const options = { keyId, fields: ['constructor' as never], optional: ['constructor' as never] }
    expect(await connect().encryptMany([{}], options)).toEqual([{}])
  })

  it('ends at once when the signal is aborted while a DEK of its own is made', async () => {
    service.intercept = () => true
    for (const dek of ['shared', 'call', 'record'] as const) {
      const notes = connect().model({ name: 'users', keyId, bind: false, dek, fields: { a: text() } })
      const call = notes.encryptMany([{ a: 'x' }], { signal: AbortSignal.timeout(20) })
      await expect(call).rejects.toMatchObject({ code: 'E_ABORTED' })
    }
  })

  it('shares the DEK of a record between all its fields, however few messages a DEK may seal', async () => {
    const notes = connect({ deks: { maxMessages: 5 } }).model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text(), b: text() },
    })
    const rows = await notes.encryptMany(Array.from({ length: 20 }, () => ({ a: 'a', b: 'b' })))
    const uses = new Map<string, number>()
    for (const { a, b } of rows) {
      expect(b.wrapped_key).toBe(a.wrapped_key)
      uses.set(a.wrapped_key, (uses.get(a.wrapped_key) ?? 0) + 2)
    }
    expect(Math.max(...uses.values())).toBe(4)
    const tight = connect({ deks: { maxMessages: 1 } })
    expect(() => tight.model({ name: 'users', keyId, bind: false, fields: { a: text(), b: text() } })).toThrow(
      'maxMessages',
    )
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
      const call = usersOf(keyId, connect()).encryptMany([ada, { ...ada, ...wrong } as never])
      await expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 1 } })
      expect(inspect(await call.catch((error: unknown) => error))).not.toContain('SECRET')
      expect(service.requests).toEqual([])
    },
  )

  it('opens the good rows when others are bad, and says which and why', async () => {
    const users = usersOf(keyId, connect())
    const [a, b, c, d, e] = await users.encryptMany([ada, ada, ada, ada, ada])
    const foreign = { ...c?.email, key_id: '00000000-0000-4000-8000-000000000000' } as Envelope
    const list = [
      { ...a, email: { ...a?.email, iv: encodeBase64(new Uint8Array(12)) } }, // the first of its DEK
      b,
      { ...c, email: foreign },
      { ...d, age: await connect().encrypt('not a number', { keyId, context: { model: 'users', field: 'age' } }) },
      { ...e, email: null },
      e,
    ]
    const { ok, failed } = await usersOf(keyId, connect()).decryptMany(list as never)
    expect(ok).toEqual([ada, ada])
    expect(failed.map(({ index, error }) => [index, error.code])).toEqual([
      [0, 'E_DECRYPTION'],
      [2, 'E_DECRYPTION'],
      [3, 'E_CONTENT'],
      [4, 'E_INVALID_INPUT'],
    ])
    expect(failed[0]?.error).toMatchObject({ place: { index: 0, field: 'email' } })
  })

  it.each<[string, (wrapped_key: string) => string]>([
    ['a use behind it', (wrapped) => `${wrapped}/["data",{"model":"users"}]`],
    ['a blank behind it', (wrapped) => `${wrapped} `],
    ['no base64 in it', () => '!'],
    ['769 bytes', () => encodeBase64(new Uint8Array(769))],
  ])('fails a row alone whose wrapped key has %s, whoever reads or saves at the same time', async (_, alter) => {
    const testing = createTestService() // refuses a batch as a whole, as a server does
    const { id } = await createClient(testing).keys.create({ name: 'users' })
    const modelOf = (eaas: Client) => eaas.model({ name: 'users', keyId: id, bind: false, fields: { a: text() } })
    const [one, ...rows] = await modelOf(createClient(testing)).encryptMany([{ a: '1' }, { a: '2' }, { a: '3' }])
    const bad = { a: { ...one?.a, wrapped_key: alter(one?.a.wrapped_key ?? '') } } as never
    const [reader, eaas] = [createClient(testing), createClient(testing)]
    const [{ ok, failed }, saved] = await Promise.all([
      modelOf(reader).decryptMany([bad, ...rows]),
      reader.encrypt('x', { keyId: id }),
    ])
    expect([ok, saved.key_id]).toEqual([[{ a: '2' }, { a: '3' }], id])
    expect(failed).toMatchObject([{ index: 0, error: { code: 'E_INVALID_INPUT', place: { index: 0, field: 'a' } } }])
    const each = await Promise.allSettled([bad, ...rows].map((row) => modelOf(eaas).decrypt(row)))
    expect(each.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
  })

  it('says of a row that is none what it is, and opens the others', async () => {
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const row = await notes.encrypt({ a: 'a' })
    const list = [row, null, [], { a: JSON.stringify(row.a).slice(0, -1) }, row] as never[]
    const { ok, failed } = await notes.decryptMany(list)
    expect(ok).toEqual([{ a: 'a' }, { a: 'a' }])
    expect(failed.map(({ index, error }) => [index, error.code])).toEqual([
      [1, 'E_INVALID_INPUT'],
      [2, 'E_INVALID_INPUT'],
      [3, 'E_INVALID_INPUT'],
    ])
    expect(failed[2]?.error.message).toContain('JSON')
    const items = await itemsOf(notes.rewrap(list))
    expect(items.map(({ status }) => status)).toEqual(['current', 'failed', 'failed', 'failed', 'current'])
  })

  it('says of every row that the service could not be asked, and of none when the signal was aborted', async () => {
    const rows = await usersOf(keyId, connect()).encryptMany([ada, ada])
    service.intercept = (_, response) => !!response.destroy()
    const { ok, failed } = await usersOf(keyId, connect({ retries: 0 })).decryptMany(rows)
    expect([ok.length, failed.map(({ error }) => error.code)]).toEqual([0, ['E_NETWORK', 'E_NETWORK']])
    service.intercept = () => true
    const controller = new AbortController()
    const call = usersOf(keyId, connect()).decryptMany(rows, { signal: controller.signal })
    setTimeout(() => controller.abort(), 30)
    await expect(call).rejects.toMatchObject({ code: 'E_ABORTED' })
  })

  it('leaves no DEK of its own behind', async () => {
    const drawn = noteDeks()
    const notes = connect().model({ name: 'users', keyId, bind: false, dek: 'record', fields: { a: text() } })
    await notes.encryptMany([{ a: 'x' }, { a: 'y' }])
    service.intercept = (_, response) => !!response.destroy()
    await notes.encryptMany([{ a: 'x' }, { a: 'y' }]).catch(() => undefined)
    expect(drawn).toEqual(Array.from({ length: 4 }, () => new Uint8Array(32)))
  })
})
