// The blind indexes of a model: what they are made of, how they find, and what is warned of.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Client, type ClientOptions, date, type Normalizer, number, text } from '../index.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { ada, usersOf } from '../test-support/users.js'

const { service, connect } = useClients()
const of = () => ({ name: 'users', keyId, bind: false }) as const
const secret = new Uint8Array(32).fill(9)

afterEach(() => {
  vi.restoreAllMocks()
})

describe('an index that somebody exchanged in the store', () => {
  it('finds another row, whose values open, and `matches` tells', async () => {
    const users = connect().model({
      name: 'users',
      keyId,
      bind: ['id'],
      fields: { email: text({ index: 'email_index', normalize: ['lowercase'] }) },
    })
    const [victim, mallory] = await users.encryptMany([
      { id: 1, email: 'Victim@x' },
      { id: 2, email: 'mallory@x' },
    ])
    const swapped = { ...victim, email_index: mallory?.email_index }
    expect(swapped).toMatchObject(await users.index({ email: 'mallory@x' }))
    const found = await users.decrypt(swapped as never)
    expect(found).toEqual({ id: 1, email: 'Victim@x' })
    expect(users.matches(found, { email: 'mallory@x' })).toBe(false)
    expect(users.matches(found, { email: 'VICTIM@x' })).toBe(true)
  })
})

describe('an index of the service', () => {
  const notes = (name: string, index: string, shared = false) =>
    connect().model({ name, keyId, bind: false, index: { by: 'service' }, fields: { a: text({ index, shared }) } })
  const pairs = (name: string, index: string, shared = false) =>
    connect().model({
      name,
      keyId,
      bind: false,
      index: { by: 'service' },
      fields: { a: text(), b: text() },
      indexes: { [index]: { fields: ['a', 'b'], shared } },
    })
  const value = async (found: Promise<object>) => Object.values(await found)[0] as string

  it('of a value in another column or another model is another one, so that a nickname is not found as a diagnosis', async () => {
    const a = 'HIV positive'
    const models = [
      notes('users', 'nick_index'),
      notes('users', 'a_index'),
      notes('patients', 'a_index'),
      notes('usersa', '_index'),
    ]
    const found = await Promise.all(models.map((model) => value(model.index({ a }))))
    const rows = await Promise.all(models.map((model) => model.encrypt({ a })))
    expect(rows.map((row, at) => Object.values<unknown>(row).includes(found[at]))).toEqual(models.map(() => true))
    expect(new Set([...found, await connect().hash(a, { keyId })]).size).toBe(models.length + 1)
  })

  it('of one field is never that of several, whatever the text and whoever chose it', async () => {
    const both = { a: 'Ada', b: 'Paris' }
    const found = await value(pairs('users', 'x').index(both))
    const texts = [
      'eaas/compound/v1:3:Ada:5:Paris',
      'eaas/index/v1:5:users:1:x:3:Ada:5:Paris',
      '3:Ada:5:Paris',
      'Ada:5:Paris',
    ]
    for (const a of texts) expect(await value(notes('users', 'x').index({ a }))).not.toBe(found)
  })

  it('that is shared is the plain hash, equal in all columns and models under a key', async () => {
    const eaas = connect()
    const shared = await Promise.all([
      value(notes('users', 'nick_index', true).index({ a: 'ada' })),
      value(notes('patients', 'a_index', true).index({ a: 'ada' })),
      value(eaas.model({ keyId, envelope: 1, fields: { a: text({ index: 'x', shared: true }) } }).index({ a: 'ada' })),
    ])
    expect(new Set(shared)).toEqual(new Set([await eaas.hash('ada', { keyId })]))
    const both = { a: 'Ada', b: 'Paris' }
    const joined = await eaas.hash('eaas/compound/v1:3:Ada:5:Paris', { keyId })
    expect(await value(pairs('users', 'x', true).index(both))).toBe(joined)
  })

  it('that is shared takes no text that has the form of what another index hashes, nor does `encryptMany`', async () => {
    const eaas = connect()
    const texts = [
      'eaas/index/v1:5:users:10:diag_index:3:HIV',
      'eaas/compound/v1:3:Ada:5:Paris',
      'eaas/index/',
      'eaas/compound/',
    ]
    const users = notes('users', 'a_index', true)
    const refusal = (at: number) => ({ code: 'E_INVALID_INPUT', place: { index: at, field: 'a' } })
    for (const a of texts) {
      await expect(users.encryptMany([{ a: 'x' }, { a }])).rejects.toMatchObject(refusal(1))
      await expect(users.index({ a })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      const options = { keyId, fields: ['a'], index: { a: 'a_index' } } as const
      await expect(eaas.encryptMany([{ a: 'x' }, { a }], options)).rejects.toMatchObject(refusal(1))
      expect(await value(notes('users', 'a_index').index({ a }))).toMatch(/^[0-9a-f]{64}$/)
    }
    for (const a of ['eaas/indexes', 'Eaas/index/', ' eaas/compound/v1:']) {
      expect(await value(users.index({ a }))).toBe(await eaas.hash(a, { keyId }))
    }
  })

  it('needs a text that fits into a call with the names, and with the texts beside it', async () => {
    const a = 'x'.repeat(999_998) // with its quotes, what a call takes
    expect(await value(notes('users', 'a_index', true).index({ a }))).toMatch(/^[0-9a-f]{64}$/)
    service.requests.length = 0
    await expect(notes('users', 'a_index').encrypt({ a })).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      place: { index: 0, field: 'a' },
    })
    const half = 'x'.repeat(500_000)
    for (const shared of [true, false]) {
      const model = pairs('users', 'x', shared)
      await expect(model.index({ a: half, b: half })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      await expect(model.encrypt({ a: half, b: half })).rejects.toMatchObject({ place: { index: 0, field: 'a' } })
    }
    expect(service.requests).toEqual([])
  })

  it('needs the name of the model, or to be shared', async () => {
    const refusal = expect.objectContaining({ code: 'E_INVALID_INPUT', message: expect.stringContaining('"a_index"') })
    const eaas = connect()
    const fields = { a: text({ index: 'a_index' }) }
    expect(() => eaas.model({ keyId, envelope: 1, fields })).toThrow(refusal)
    const indexes = { a_index: { fields: ['a', 'b'] } } as const
    expect(() => eaas.model({ keyId, envelope: 1, fields: { a: text(), b: text() }, indexes })).toThrow(refusal)
    expect(eaas.model({ name: 'users', keyId, envelope: 1, fields })).toBeDefined()
    for (const wrong of ['yes', null, 1]) {
      expect(() => notes('users', 'a_index', wrong as never)).toThrow(refusal)
      expect(() => pairs('users', 'a_index', wrong as never)).toThrow(refusal)
    }
    expect(() => notes(undefined as never, 'a_index')).toThrow()
    const bare = { a: text({ shared: true }) }
    expect(() => eaas.model({ name: 'users', keyId, bind: false, fields: bare })).toThrow(/needs an index/)
  })
})

describe('the indexes of a model', () => {
  it('find a value again in any of its spellings, and are the hash of the normalised text with the names of model and column', async () => {
    const eaas = connect()
    const users = usersOf(keyId, eaas)
    const { email_index } = await users.encrypt(ada)
    expect(await users.index({ email: '  ada@EXAMPLE.org ' })).toEqual({ email_index })
    const byService = usersOf(keyId, eaas, 'full', { by: 'service' })
    const hash = await eaas.hash('eaas/index/v1:5:users:11:email_index:15:ada@example.org', { keyId })
    expect(await byService.index({ email: 'ada@example.org' })).toEqual({ email_index: hash })
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
    const notes = eaas.model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text({ index: 'a_index', normalize: [normalizer], shared: true }) },
    })
    expect(await notes.index({ a: value })).toEqual({ a_index: await eaas.hash(normalized, { keyId }) })
  })

  it.each(['NFC', 'NFKC'] as const)(
    'refuse what %s takes long for: more than 100 combining marks in a row',
    async (form) => {
      const define = (normalize: Normalizer[]) =>
        connect().model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'a_index', normalize }) } })
      const users = define([form, 'trim'])
      const most = `a${'\u0316\u0301'.repeat(50)}b`.repeat(3)
      const more = `a${'\u{1d165}'.repeat(101)}`
      expect(await users.index({ a: most })).toEqual(await define(['trim']).index({ a: most.normalize(form) }))
      const refused = {
        code: 'E_INVALID_INPUT',
        message: expect.stringContaining('more than 100 combining marks in a row'),
      }
      for (const a of [more, '\u0301'.repeat(101)]) {
        expect(await failure(users.index({ a }))).toMatchObject(refused)
        expect(await failure(users.encrypt({ a }))).toMatchObject(refused)
        expect(() => users.matches({ a: 'a' }, { a })).toThrow(expect.objectContaining(refused))
      }
      await define(['trim']).index({ a: more })
    },
  )

  it('are of what the normalisers make of it one after the other', async () => {
    const eaas = connect()
    const normalize = [(value: string) => `${value}b`, (value: string) => `${value}c`]
    const notes = eaas.model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text({ index: 'a_index', normalize, shared: true }) },
    })
    expect(await notes.index({ a: 'a' })).toEqual({ a_index: await eaas.hash('abc', { keyId }) })
  })

  it('are null where a value is missing, and where one of several is', async () => {
    const users = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text({ index: 'a_index' }).nullable().optional(), b: text() },
      indexes: { ab_index: { fields: ['a', 'b'] } },
    })
    expect(await users.encrypt({ a: null, b: 'b' })).toMatchObject({ a_index: null, ab_index: null })
    expect(await users.encrypt({ b: 'b' })).toMatchObject({ a_index: null, ab_index: null })
  })

  it('of several fields are found by all of them together, and no two records share one by shifting text', async () => {
    const pairs = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text(), b: text() },
      index: { by: 'service' },
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
    const hashed = 'eaas/index/v1:5:users:8:ab_index:2:ab:1:c'
    expect(rows[0]?.ab_index).toBe(await connect().hash(hashed, { keyId }))
    await expect(pairs.index({ a: 'a' })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('are not made of a query of which a part would be left out', async () => {
    const people = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { email: text({ index: 'email_index' }), born: text(), name: text() },
      indexes: { both_index: { fields: ['born', 'name'] } },
    })
    const query = { email: 'ada', born: '1815' } as never
    await expect(people.index(query)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('"born"'),
    })
  })

  it('can be cut, and what is found too much is filtered once it is opened', async () => {
    const eaas = connect()
    const people = eaas.model({
      name: 'users',
      keyId,
      bind: false,
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

  it('are neither made nor compared for a query without fields, which every row would match', async () => {
    const people = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { name: text({ index: 'name_index' }) },
    })
    const refusal = expect.objectContaining({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('at least one'),
    })
    for (const query of [{}, null]) expect(() => people.matches({ name: 'a' }, query as object)).toThrow(refusal)
    await expect(people.index({})).rejects.toEqual(refusal)
  })

  it.each([4, 5, 7, 8, 63, 64, 255, 256])(
    'keep %d bits of the hash, and the rest of the last digit is zero',
    async (bits) => {
      const eaas = connect()
      const notes = eaas.model({
        name: 'users',
        keyId,
        bind: false,
        fields: { a: text({ index: 'a_index', bits, shared: true }) },
      })
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
    const notes = eaas.model({
      name: 'users',
      keyId,
      bind: false,
      fields: { n: number({ index: 'n_index' }), d: date({ index: 'd_index', shared: true }) },
    })
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
    const notes = eaas.model({ name: 'users', keyId, bind: false, fields: { d: date({ index: 'd_index' }) } })
    const row = await notes.encrypt({ d: new ZonedDate(0) })
    expect(row.d_index).toBe((await notes.index({ d: new Date(0) })).d_index)
    expect(await notes.decrypt(row)).toEqual({ d: new Date(0) })
    expect((await eaas.audit.list({ date_from: new ZonedDate(0) })).logs).toEqual(expect.any(Array))
    expect(service.requests.at(-1)?.url).toContain('date_from=1970-01-01T00%3A00%3A00.000Z')
  })

  it('refuse a query without a value, and text that no call takes', async () => {
    const notes = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text({ index: 'a_index' }).nullable() },
    })
    await expect(notes.index({ a: null as never })).rejects.toMatchObject({ hint: expect.stringContaining('null') })
    const long = 'x'.repeat(1_000_000)
    const place = { index: 1, field: 'a' }
    await expect(notes.encryptMany([{ a: 'a' }, { a: long }])).rejects.toMatchObject({ code: 'E_INVALID_INPUT', place })
    await expect(connect().hash('\n'.repeat(500_000), { keyId })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(service.requests).toEqual([])
    const broken = connect().model({
      name: 'users',
      keyId,
      bind: false,
      fields: { a: text({ index: 'a_index', normalize: [() => undefined as never, 'trim'] }) },
    })
    await expect(broken.encrypt({ a: 'a' })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })

  it('warn once of what has few possible values, unless they are told not to', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const eaas = connect()
    const define = (options: { warn?: boolean }) =>
      eaas.model({
        name: 'users',
        keyId,
        bind: false,
        fields: { birthDate: text({ index: 'birth_index' }) },
        ...options,
      })
    await call(define({ warn: false }))
    expect(warn).not.toHaveBeenCalled()
    await call(define({}))
    await call(define({}))
    expect(warn).toHaveBeenCalledTimes(1)
    expect(warn.mock.calls[0]?.[0]).toContain('birthDate')
    const others = eaas.model({
      name: 'users',
      keyId,
      bind: false,
      fields: { 'home.postal_code': text(), name: text(), image: text({ index: 'image_index' }) },
      indexes: { both_index: { fields: ['home.postal_code', 'name'] } },
    })
    await call(others)
    expect(warn).toHaveBeenCalledTimes(1)
  })

  it('warn again of a column of the same name over other fields', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const define = (field: string) =>
      connect().model({ name: 'users', keyId, bind: false, fields: { [field]: text({ index: 'same_index' }) } })
    for (const field of ['zip', 'gender', 'zip']) await call(define(field))
    expect(warn.mock.calls.map(([message]) => String(message).match(/over (\w+)/)?.[1])).toEqual(['zip', 'gender'])
  })

  it.each<[string, ClientOptions, (eaas: Client) => { encryptMany(rows: never[]): Promise<unknown> }, string]>([
    [
      'of this process',
      {},
      (eaas) => eaas.model({ ...of(), fields: { born: text({ index: 'w1' }) } }),
      'has unwrap can find them all. Omit the index, add a field, or pass',
    ],
    [
      "of this process, with the application's secret",
      { secret },
      (eaas) => eaas.model({ ...of(), fields: { born: text({ index: 'w2' }) } }),
      'has the secret and unwrap can find them all.',
    ],
    [
      'of before the secret',
      { secret, acceptWithoutSecret: true },
      (eaas) =>
        eaas.model({ ...of(), fields: { born: text({ index: 'w3' }) }, formerIndex: { columns: { w3: 'w3a' } } }),
      'has unwrap can find them all.',
    ],
    [
      'of the service',
      {},
      (eaas) => eaas.model({ ...of(), index: { by: 'service' }, fields: { born: text({ index: 'w4' }) } }),
      'has hash can find them all.',
    ],
    [
      'that is shared',
      {},
      (eaas) => eaas.model({ ...of(), fields: { born: text({ index: 'w5', shared: true }) } }),
      'has hash can find them all.',
    ],
    [
      'of format v1',
      {},
      (eaas) => eaas.model({ name: 'users', keyId, envelope: 1, fields: { born: text({ index: 'w6' }) } }),
      'has hash can find them all.',
    ],
    [
      'of a range',
      {},
      (eaas) => eaas.model({ ...of(), fields: { born: date({ index: 'w7', range: 'month' }) } }),
      'has unwrap can find the bucket of each. Omit the index, declare larger buckets, or pass',
    ],
    [
      'of a range whose buckets are the largest',
      {},
      (eaas) => eaas.model({ ...of(), fields: { born: date({ index: 'w9', range: 'year' }) } }),
      'has unwrap can find the bucket of each. Omit the index, or pass',
    ],
    [
      'of the beginning',
      {},
      (eaas) => eaas.model({ ...of(), fields: { country: text() }, indexes: { w8: { prefix: 'country', length: 2 } } }),
      'has unwrap can find how each begins. Omit the index, or pass',
    ],
  ])('warn of who can find what, by an index %s', async (_, options, define, sentence) => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    await call(define(connect(options)))
    expect(warn.mock.calls[0]?.[0]).toContain(`who can read the column and ${sentence}`)
  })

  it.each([
    ...['birth', 'birthday', 'birthdate', 'dateofbirth', 'date_of_birth', 'dob', 'born', 'age', 'gender', 'sex'],
    ...['zip', 'zipcode', 'zip_code', 'postal', 'postalcode', 'postalCode', 'postcode', 'post_code', 'postCode', 'plz'],
    ...['country', 'nationality', 'religion', 'race', 'ethnicity', 'marital_status', 'blood', 'diagnosis', 'salary'],
    ...['pin', 'user.dob', 'user.postCode', 'customerAge', 'AGE'],
  ])('warn of a field that is called %s', async (field) => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    await call(
      connect().model({ name: 'users', keyId, bind: false, fields: { [field]: text({ index: `index of ${field}` }) } }),
    )
    expect(warn).toHaveBeenCalledTimes(1)
  })

  it.each(['email', 'message', 'image', 'page', 'postman', 'code', 'post', 'engender', 'shipping', 'sexton', 'zipper'])(
    'do not warn of a field that is called %s',
    async (field) => {
      const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
      await call(
        connect().model({
          name: 'users',
          keyId,
          bind: false,
          fields: { [field]: text({ index: `index of ${field}` }) },
        }),
      )
      expect(warn).not.toHaveBeenCalled()
    },
  )
})

/** Its first call loads what warns. */
const call = (model: { encryptMany(rows: never[]): Promise<unknown> }) => model.encryptMany([])
