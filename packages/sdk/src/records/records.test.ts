import type { ServerResponse } from 'node:http'
import { type Envelope, encodeBase64 } from '@eaas/protocol'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { type Client, type Progress, text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { problem, send } from '../test-support/service.js'

interface Person {
  id: number
  full_name: string
  email: string | null
  phone?: string
  photo: Uint8Array
}

const { service, connect } = useClients()

const people: Person[] = [
  { id: 1, full_name: 'Ada Lovelace', email: 'ada@example.org', phone: '1', photo: new Uint8Array([1, 255]) },
  { id: 2, full_name: 'Grace Hopper', email: null, photo: new Uint8Array(0) },
  { id: 3, full_name: 'Ada Lovelace', email: '', phone: '3', photo: new Uint8Array([3]) },
]

describe('encryptMany and decryptMany', () => {
  it('give back what they were given, and leave the other fields and the given records alone', async () => {
    const before = structuredClone(people)
    const eaas = connect()
    const options = { fields: ['full_name', 'email', 'phone'], optional: ['phone'] } as const
    const rows = await eaas.encryptMany(people, { keyId, ...options })
    expect(people).toEqual(before)
    expect(rows.map(({ id }) => id)).toEqual([1, 2, 3])
    expect(rows[0]?.full_name).toMatchObject({ envelope_version: 2, key_id: keyId })
    expect(rows[0]?.photo).toBe(people[0]?.photo)
    expect(await connect().decryptMany(rows, options)).toEqual(people)
  })

  it('leave null and undefined as they are, and do not add what was not there', async () => {
    const [, row] = await connect().encryptMany(people, { keyId, fields: ['email', 'phone'], optional: ['phone'] })
    expect(row?.email).toBeNull()
    expect(row && 'phone' in row).toBe(false)
    const options = { keyId, fields: ['a', 'b'], optional: ['a'] } as const
    const holes = await connect().encryptMany([{ a: undefined, b: null }], options)
    expect(holes).toEqual([{ a: undefined, b: null }])
    expect(service.count('wrap')).toBe(1)
  })

  it('seal bytes, and open to bytes when asked', async () => {
    const eaas = connect()
    const rows = await eaas.encryptMany(people, { keyId, fields: ['photo'] })
    expect(await eaas.decryptMany(rows, { fields: ['photo'], as: 'bytes' })).toEqual(people)
  })

  it('have types that say which fields are envelopes and which are text', async () => {
    const eaas = connect()
    const rows = await eaas.encryptMany(people, {
      keyId,
      fields: ['full_name', 'email', 'phone'],
      optional: ['phone'],
      index: { email: 'email_index' },
    })
    type Row = (typeof rows)[number]
    expectTypeOf<Row['full_name']>().toEqualTypeOf<Envelope>()
    expectTypeOf<Row['email']>().toEqualTypeOf<Envelope | null>()
    expectTypeOf<Row['phone']>().toEqualTypeOf<Envelope | undefined>()
    expectTypeOf<Row['photo']>().toEqualTypeOf<Uint8Array>()
    expectTypeOf<Row['email_index']>().toEqualTypeOf<string | null>()
    const back = await eaas.decryptMany(rows, { fields: ['full_name', 'email'] })
    expectTypeOf<(typeof back)[number]['full_name']>().toEqualTypeOf<string>()
    expectTypeOf<(typeof back)[number]['email']>().toEqualTypeOf<string | null>()
    expectTypeOf<(typeof back)[number]['phone']>().toEqualTypeOf<Envelope | undefined>()
    const csv: Record<string, string>[] = [{ a: '1', b: '2' }]
    const sealed = await eaas.encryptMany(csv, { keyId, fields: ['a'] })
    expectTypeOf<(typeof sealed)[number]['a']>().toEqualTypeOf<Envelope>()
    // @ts-expect-error id is a number, which cannot be sealed
    await expect(eaas.encryptMany(people, { keyId, fields: ['id'] })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    // A text may be the text of an envelope: only the call tells.
    await expect(eaas.decryptMany(people, { fields: ['full_name'] })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('make one wrap for 1,000 rows of 6 fields, and one unwrap to read them', async () => {
    const fields = ['a', 'b', 'c', 'd', 'e', 'f'] as const
    const list = Array.from({ length: 1_000 }, (_, at) => ({
      a: `a${at}`,
      b: 'b',
      c: 'c',
      d: 'd',
      e: 'e',
      f: `f${at}`,
    }))
    const rows = await connect().encryptMany(list, { keyId, fields })
    expect(service.requests.map(({ operation }) => operation)).toEqual(['wrap'])
    expect(new Set(rows.flatMap((row) => fields.map((field) => row[field].iv))).size).toBe(6_000)
    expect(await connect().decryptMany(rows, { fields })).toEqual(list)
    expect(service.requests.map(({ operation }) => operation)).toEqual(['wrap', 'unwrap'])
  })

  it('make one promise for a DEK, not one for each field', async () => {
    const list = Array.from({ length: 5_000 }, (_, at) => ({ a: String(at), b: 'b' }))
    const eaas = connect()
    await eaas.encrypt('warm', { keyId })
    const counted = await countPromises(() => eaas.encryptMany(list, { keyId, fields: ['a', 'b'] }))
    expect(counted.promises).toBeLessThan(2_000)
    expect((await countPromises(() => eaas.decryptMany(counted.result, { fields: ['a', 'b'] }))).promises).toBeLessThan(
      2_000,
    )
  })

  it('unwrap each distinct wrapped key once, however small the cache, all in one request', async () => {
    const writer = connect({ deks: { maxMessages: 1 } })
    const rows = []
    for (let at = 0; at < 40; at++) rows.push({ a: await writer.encrypt(`value ${at}`, { keyId }) })
    const twice = [...rows, ...rows]
    for (const deks of [{ cacheSize: 1 }, { cache: false }, {}]) {
      service.requests.length = 0
      const opened = await connect({ deks }).decryptMany(twice, { fields: ['a'] })
      expect(opened.map(({ a }) => a)).toEqual([...rows, ...rows].map((_, at) => `value ${at % 40}`))
      expect(service.count('unwrap')).toBe(40)
      expect(service.requests.length).toBe(1)
    }
  })

  it('take a new DEK in the middle when the limit says so', async () => {
    const list = Array.from({ length: 50 }, (_, at) => ({ a: `${at}` }))
    const eaas = connect({ deks: { maxMessages: 7 } })
    const rows = await eaas.encryptMany(list, { keyId, fields: ['a'] })
    const uses = new Map<string, number>()
    for (const { a } of rows) uses.set(a.wrapped_key, (uses.get(a.wrapped_key) ?? 0) + 1)
    expect(Math.max(...uses.values())).toBe(7)
    expect(await eaas.decryptMany(rows, { fields: ['a'] })).toEqual(list)
  })

  it('let the event loop run during long work, and say how far they are', async () => {
    const list = Array.from({ length: 30_000 }, () => ({ a: 'some text that is sealed' }))
    const eaas = connect()
    const seen: Progress[] = []
    const rows = await underWatch(() =>
      eaas.encryptMany(list, { keyId, fields: ['a'], onProgress: (progress) => seen.push(progress) }),
    )
    expect(seen.length).toBeGreaterThan(2)
    expect(seen.at(-1)).toEqual({ done: 30_000, total: 30_000 })
    expect(seen.map(({ done }) => done)).toEqual(seen.map(({ done }) => done).sort((a, b) => a - b))
    seen.length = 0
    await underWatch(() => eaas.decryptMany(rows, { fields: ['a'], onProgress: (progress) => seen.push(progress) }))
    expect(seen.length).toBeGreaterThan(2)
    expect(seen.at(-1)).toEqual({ done: 30_000, total: 30_000 })
  })

  it('stop when the signal is aborted half-way', async () => {
    const list = Array.from({ length: 30_000 }, () => ({ a: 'text' }))
    const eaas = connect()
    const controller = new AbortController()
    const { signal } = controller
    const stop = () => controller.abort()
    const call = eaas.encryptMany(list, { keyId, fields: ['a'], signal, onProgress: stop })
    await expect(call).rejects.toMatchObject({ code: 'E_ABORTED' })
  })

  it('end when the client is closed, in the middle of any of them', async () => {
    const list = Array.from({ length: 30_000 }, () => ({ a: 'text' }))
    const rows = await connect().encryptMany(list, { keyId, envelope: 1, fields: ['a'] })
    for (const call of [
      (eaas: Client, onProgress: () => void) =>
        eaas.encryptMany(list, { keyId, dek: 'call', fields: ['a'], onProgress }),
      (eaas: Client, onProgress: () => void) => eaas.decryptMany(rows, { fields: ['a'], onProgress }),
      (eaas: Client, onProgress: () => void) =>
        eaas.model({ keyId, envelope: 1, fields: { a: text() } }).decryptMany(rows, { onProgress }),
    ]) {
      const eaas = connect()
      await expect(call(eaas, () => eaas.close())).rejects.toMatchObject({ code: 'E_ABORTED' })
    }
  })

  it.each(['node', 'web', 'noble'] as const)(
    'open again and again what one client sealed and read, by engine %s',
    async (engine) => {
      const eaas = connect({ engine })
      const list = [{ a: 'x' }, { a: 'y' }]
      const notes = eaas.model({ keyId, envelope: 1, fields: { a: text() } })
      const rows = await eaas.encryptMany(list, { keyId, envelope: 1, fields: ['a'] })
      for (let time = 0; time < 3; time++) {
        expect(await eaas.decryptMany(rows, { fields: ['a'] })).toEqual(list)
        expect((await notes.decryptMany(rows)).ok).toEqual(list)
        expect(await eaas.decryptText(rows[1]?.a as Envelope)).toBe('y')
        const later = await notes.encryptMany(list)
        expect(await connect({ engine: 'noble' }).decryptMany(later, { fields: ['a'] })).toEqual(list)
      }
    },
  )

  it('work on no records at all', async () => {
    expect(await connect().encryptMany([] as Person[], { keyId, fields: ['email'] })).toEqual([])
    expect(await connect().decryptMany([] as { a: Envelope }[], { fields: ['a'] })).toEqual([])
    expect(service.requests).toEqual([])
  })
})

describe('blind indexes of records', () => {
  it('are added as columns, each distinct value asked for once, all in one request', async () => {
    const eaas = connect()
    const index = { full_name: 'full_name_index', email: 'email_index' } as const
    const rows = await eaas.encryptMany(people, { keyId, fields: ['full_name', 'email'], index })
    expect(service.requests.map(({ operation }) => operation)).toEqual(['batch', 'wrap'])
    expect(service.count('hash')).toBe(4) // two names, one address, and the empty text
    expect(rows[0]?.full_name_index).toBe(await eaas.hash('Ada Lovelace', { keyId }))
    expect(rows[0]?.full_name_index).toBe(rows[2]?.full_name_index)
    expect(rows[1]?.full_name_index).not.toBe(rows[0]?.full_name_index)
    expect(rows.map(({ email_index }) => email_index?.length)).toEqual([64, undefined, 64])
    expect(rows[1]?.email_index).toBeNull()
  })

  it('stop asking after the first failure', async () => {
    const list = Array.from({ length: 9_000 }, (_, at) => ({ a: `value ${at}` }))
    // Refused once all that are sent at once have arrived, so that none arrives during the next test.
    const waiting: ServerResponse[] = []
    service.intercept = (_, response) => {
      if (waiting.push(response) === 4)
        for (const one of waiting) send(one, problem(403, 'Forbidden', 'E_MISSING_PERMISSION'))
      return true
    }
    const call = connect().encryptMany(list, { keyId, fields: ['a'], index: { a: 'a_index' } })
    await expect(call).rejects.toMatchObject({ code: 'E_API', httpStatus: 403 })
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(service.requests.length).toBe(4)
    expect(service.count('wrap')).toBe(0)
  })
})

describe('a field of records', () => {
  const rows = [
    { id: '1', birthdate: '1815-12-10', address: { street: 'Main St', city: 'London' } },
    { id: '2', birthdate: '1906-12-09', address: { street: '5th Ave', city: 'New York' } },
  ]
  const fields = (...names: string[]) => ({ keyId, fields: names as never[] })

  it.each([
    ['birthDate', /no record has: did you mean "birthdate"\?/],
    ['birthdat', /did you mean "birthdate"\?/],
    ['phone', /"phone", which no record has$/],
    ['address.sreet', /did you mean "address.street"\?/],
    ['adress.street', /did you mean "address.street"\?/],
    ['birthdate.day', /birthdate must be an object/],
    ['address.', /not a valid name of a field/],
    ['birthdate[0]', /not a valid name of a field/],
  ])('that no record has is refused before anything is sent: %s', async (name, message) => {
    const eaas = connect()
    for (const call of [
      () => eaas.encryptMany(rows, fields('id', name)),
      () => eaas.encryptMany(rows, { ...fields(name), index: { [name]: 'an_index' } as never }),
      () => eaas.decryptMany(rows, { fields: [name as never] }),
    ]) {
      const error = await failure(call())
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringMatching(message) })
    }
    expect(service.requests).toEqual([])
  })

  it('that is undefined in every record, or lies in an object that is null, is named as that', async () => {
    const empty: { email?: string | undefined; address: null | { street: string } }[] = [
      { email: undefined, address: null },
    ]
    const eaas = connect()
    const undefinedEverywhere = await failure(eaas.encryptMany(empty, { keyId, fields: ['email'] }))
    expect(undefinedEverywhere.message).toBe('fields names "email", which is undefined in every record')
    const inNull = await failure(eaas.encryptMany(empty, { keyId, fields: ['address.street'] }))
    expect(inNull).toMatchObject({ place: { index: 0, field: 'address.street' } })
    expect(inNull.message).toContain('"address" is null')
    const people = eaas.model({ name: 'users', keyId, bind: false, fields: { 'address.street': text().nullable() } })
    const row = empty[0] as never
    for (const call of [() => people.encrypt(row), () => people.decrypt(row)]) {
      expect((await failure(call())).message).toContain('"address" is null')
    }
    expect(service.requests).toEqual([])
  })

  it('inside an object is sealed and opened by its path, and the given records stay as they are', async () => {
    const before = structuredClone(rows)
    const eaas = connect()
    const index = { 'address.street': 'street_index' } as const
    const sealed = await eaas.encryptMany(rows, { keyId, fields: ['birthdate', 'address.street'], index })
    expectTypeOf<(typeof sealed)[number]['address']['street']>().toEqualTypeOf<Envelope>()
    expectTypeOf<(typeof sealed)[number]['address']['city']>().toEqualTypeOf<string>()
    expectTypeOf<(typeof sealed)[number]['street_index']>().toEqualTypeOf<string>()
    expect(rows).toEqual(before)
    expect(JSON.stringify(sealed)).not.toMatch(/Main St|1815-12-10/)
    expect(sealed[1]).toMatchObject({
      address: { city: 'New York' },
      street_index: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    const opened = await connect().decryptMany(sealed, { fields: ['birthdate', 'address.street'] })
    expect(opened.map(({ address }) => address)).toEqual(rows.map(({ address }) => address))
  })

  it('may be a column whose name has a dot, unless it could be either', async () => {
    const sheet: Record<string, string>[] = [{ 'address.street': 'Main St' }]
    const sealed = await connect().encryptMany(sheet, { keyId, fields: ['address.street'] })
    expect(sealed[0]?.['address.street']).toMatchObject({ key_id: keyId })
    const both = [{ 'address.street': 'Main St', address: { street: 'Main St' } }]
    const error = await failure(connect().encryptMany(both, { keyId, fields: ['address.street'] }))
    expect(error.message).toMatch(/a column and a field inside an object/)
  })

  it('that some records lack must be named in `optional`, and is refused with its place otherwise', async () => {
    const list: { a: string; b?: string }[] = [{ a: 'x', b: 'y' }, { a: 'z' }]
    const eaas = connect()
    const error = await failure(eaas.encryptMany(list, { keyId, fields: ['a', 'b'] }))
    expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 1, field: 'b' } })
    expect(error.hint).toMatch(/`optional`/)
    expect(service.requests).toEqual([])
    const sealed = await eaas.encryptMany(list, { keyId, fields: ['a', 'b'], optional: ['b'] })
    expect(await failure(eaas.decryptMany(sealed, { fields: ['a', 'b'] }))).toMatchObject({
      place: { index: 1, field: 'b' },
    })
    expect(await eaas.decryptMany(sealed, { fields: ['a', 'b'], optional: ['b'] })).toEqual(list)
    expect(await eaas.encryptMany([{ a: 'x' }] as typeof list, { keyId, fields: ['b'], optional: ['b'] })).toEqual([
      { a: 'x' },
    ])
  })

  it.each(['birthDate', 'birth_date'])(
    'that is optional is not taken to be missing where the record has it as %s',
    async (name) => {
      const list = [{ birthdate: 'x' }, { [name]: 'SECRET' }]
      const error = await failure(
        connect().encryptMany(list, { ...fields('birthdate'), optional: ['birthdate' as never] }),
      )
      expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 1, field: 'birthdate' } })
      expect(error.message).toContain(`has "${name}"`)
      expect(service.requests).toEqual([])
    },
  )
})

describe('what encryptMany and decryptMany refuse before any network', () => {
  const wrong: [string, (eaas: Client) => Promise<unknown>][] = [
    ['records that are no array', (eaas) => eaas.encryptMany({} as never, { keyId, fields: ['a' as never] })],
    ['a record that is null', (eaas) => eaas.encryptMany([null as never], { keyId, fields: ['a' as never] })],
    ['a record that is an array', (eaas) => eaas.decryptMany([[]], { fields: ['a' as never] })],
    ['no fields', (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: [] })],
    ['a field twice', (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a', 'a'] })],
    ['the field __proto__', (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['__proto__' as 'a'] })],
    [
      'the column __proto__',
      (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], index: { a: '__proto__' } }),
    ],
    [
      'an index of another field',
      (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], index: { b: 'c' } as never }),
    ],
    [
      'an index over a sealed field',
      (eaas) => eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], index: { a: 'a' } }),
    ],
    [
      'two indexes in one column',
      (eaas) => eaas.encryptMany([{ a: 'x', b: 'y' }], { keyId, fields: ['a', 'b'], index: { a: 'c', b: 'c' } }),
    ],
    [
      'an index of bytes',
      (eaas) => eaas.encryptMany([{ a: new Uint8Array(1) }], { keyId, fields: ['a'], index: { a: 'b' } }),
    ],
    [
      'an optional field that is not in fields',
      (eaas) => eaas.encryptMany([{ a: 'x', b: 'y' }], { keyId, fields: ['a'], optional: ['b' as 'a'] }),
    ],
    [
      'a field inside another one',
      (eaas) => eaas.encryptMany([{ a: { b: 'x' } }], { keyId, fields: ['a' as 'a.b', 'a.b'] }),
    ],
    [
      'an index in the object of a sealed field',
      (eaas) => eaas.encryptMany([{ a: { b: 'x' } }], { keyId, fields: ['a.b'], index: { 'a.b': 'a' } }),
    ],
    ['an unknown `as`', (eaas) => eaas.decryptMany([{ a: null }], { fields: ['a'], as: 'json' as 'text' })],
  ]

  it.each(wrong)('%s', async (_, run) => {
    await expect(run(connect())).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
  })

  it.each([
    ['a number', 7],
    ['a lone surrogate', 'SECRET\ud800'],
    ['an object', { secret: 'SECRET' }],
  ])('%s in the last record, with its place and not its value', async (_, value) => {
    const list = [{ a: 'x' }, { a: value as string }]
    const call = connect().encryptMany(list, { keyId, fields: ['a'] })
    await expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 1, field: 'a' } })
    await expect(call).rejects.not.toThrow('SECRET')
    expect(service.requests).toEqual([])
  })

  it('what is no envelope, with its place', async () => {
    const list = [{ a: { ciphertext: 'SECRET' } as unknown as Envelope }]
    const call = connect().decryptMany(list, { fields: ['a'] })
    await expect(call).rejects.toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 0, field: 'a' } })
    expect(service.requests).toEqual([])
  })
})

describe('what decryptMany cannot open', () => {
  it('is named by its place: an altered envelope, first or later of its DEK, and bytes that are no text', async () => {
    const eaas = connect()
    const rows = await eaas.encryptMany([{ a: 'x' }, { a: 'y' }], { keyId, fields: ['a'] })
    const iv = encodeBase64(new Uint8Array(12))
    for (const at of [0, 1]) {
      const altered = rows.map((row, index) => (index === at ? { a: { ...row.a, iv } } : row))
      const call = connect().decryptMany(altered, { fields: ['a'] })
      await expect(call).rejects.toMatchObject({ code: 'E_DECRYPTION', place: { index: at, field: 'a' } })
    }
    const bytes = await eaas.encryptMany([{ a: new Uint8Array([255]) }], { keyId, fields: ['a'] })
    const text = eaas.decryptMany(bytes, { fields: ['a'] })
    await expect(text).rejects.toMatchObject({ code: 'E_CONTENT', place: { index: 0, field: 'a' } })
  })
})

/** Counts the promises that are made while the function runs. */
async function countPromises<T>(run: () => Promise<T>): Promise<{ promises: number; result: T }> {
  const { createHook } = await import('node:async_hooks')
  let promises = 0
  const hook = createHook({
    init(_, type) {
      if (type === 'PROMISE') promises++
    },
  }).enable()
  try {
    const result = await run()
    return { promises, result }
  } finally {
    hook.disable()
  }
}

/** Runs, and fails when the event loop never got a turn meanwhile. */
async function underWatch<T>(run: () => Promise<T>): Promise<T> {
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  try {
    return await run()
  } finally {
    clearInterval(timer)
    expect(turns).toBeGreaterThan(2)
  }
}
