// What a model may be defined as, and the types that follow from it.
import type { Envelope } from '@eaas/protocol'
import { describe, expect, expectTypeOf, it } from 'vitest'
import {
  boolean,
  bytes,
  type Client,
  type CompactField,
  type EnvelopeHeader,
  json,
  number,
  type PlainRow,
  type StoredRow,
  text,
} from '../index.js'
import { keyId, useClients } from '../test-support/clients.js'
import type { Prefs } from '../test-support/users.js'

const { connect } = useClients()

describe('a definition', () => {
  const OWN_FIELD = { a: { value: text(), enumerable: true } }
  const wrong: [string, (eaas: Client) => unknown][] = [
    [
      'a name for a key id',
      (eaas) => eaas.model({ name: 'users', keyId: 'users', bind: false, fields: { a: text() } }),
    ],
    ['no fields', (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: {} })],
    [
      'the field __proto__',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { 'a.__proto__.b': text() } }),
    ],
    [
      'an empty part of a path',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { 'a..b': text() } }),
    ],
    [
      'a field inside another',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { 'a.b': text(), a: json() } }),
    ],
    [
      'an element of a list',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { 'lines[0].street': text() } }),
    ],
    [
      'all elements of a list',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { a: text(), 'phones[]': text() } }),
    ],
    [
      'an inherited field',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: Object.create({ b: text() }, OWN_FIELD) }),
    ],
    [
      "a field of a class's prototype",
      (eaas) =>
        eaas.model({
          name: 'users',
          keyId,
          bind: false,
          fields: Object.create(Object.create(null, { b: { value: text() } }), OWN_FIELD),
        }),
    ],
    [
      'a hidden field',
      (eaas) =>
        eaas.model({
          name: 'users',
          keyId,
          bind: false,
          fields: Object.create(null, { ...OWN_FIELD, b: { value: text() } }),
        }),
    ],
    [
      'a field under a symbol',
      (eaas) =>
        eaas.model({ name: 'users', keyId, bind: false, fields: { a: text(), [Symbol('b')]: text() } as never }),
    ],
    ['what is no field', (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { a: 'text' as never } })],
    [
      'a column that is a field',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'a' }) } }),
    ],
    [
      'a column twice',
      (eaas) =>
        eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'c' }), b: text({ index: 'c' }) } }),
    ],
    [
      'a column that is the header',
      (eaas) =>
        eaas.model({
          name: 'users',
          keyId,
          bind: false,
          format: 'compact',
          fields: { a: text({ index: 'envelope' }) },
        }),
    ],
    [
      'a header that is a field',
      (eaas) =>
        eaas.model({ name: 'users', keyId, bind: false, format: 'compact', header: 'a', fields: { a: text() } }),
    ],
    [
      '3 bits',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'c', bits: 3 }) } }),
    ],
    [
      '257 bits',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'c', bits: 257 }) } }),
    ],
    ['bits of no index', (eaas) => eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ bits: 8 }) } })],
    [
      'an unknown normaliser',
      (eaas) =>
        eaas.model({ name: 'users', keyId, bind: false, fields: { a: text({ normalize: ['upper' as 'trim'] }) } }),
    ],
    [
      'an index of one field',
      (eaas) =>
        eaas.model({ name: 'users', keyId, bind: false, fields: { a: text() }, indexes: { i: { fields: ['a'] } } }),
    ],
    [
      'an index of bytes',
      (eaas) =>
        eaas.model({
          name: 'users',
          keyId,
          bind: false,
          fields: { a: text(), b: bytes() },
          indexes: { i: { fields: ['a', 'b' as 'a'] } },
        }),
    ],
    [
      'an unknown scope',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, dek: 'row' as 'record', fields: { a: text() } }),
    ],
    [
      'an unknown format',
      (eaas) => eaas.model({ name: 'users', keyId, bind: false, format: 'v2' as 'full', fields: { a: text() } }),
    ],
  ]
  it.each(wrong)('is refused with %s', (_, define) => {
    const eaas = connect()
    expect(() => define(eaas)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })

  it('is read without the accessor `__proto__`, which throws under `node --disable-proto=throw`', () => {
    const accessor = Object.getOwnPropertyDescriptor(Object.prototype, '__proto__') as PropertyDescriptor
    const eaas = connect()
    const refuse = () => {
      throw new Error('ERR_PROTO_ACCESS')
    }
    Object.defineProperty(Object.prototype, '__proto__', { ...accessor, get: refuse, set: refuse })
    try {
      eaas.model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    } finally {
      Object.defineProperty(Object.prototype, '__proto__', accessor)
    }
    const fields = Object.create(null, { ...OWN_FIELD, ['__proto__']: { value: text() } })
    expect(() => eaas.model({ name: 'users', keyId, bind: false, fields })).toThrow('__proto__ must be enumerable')
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
      expect(() => connect().model({ name: 'users', keyId, bind: false, fields: fields as never })).not.toThrow()
    }
  })
})

describe('the types of a model', () => {
  it('say what it takes, stores and gives back', async () => {
    const typed = () =>
      connect().model({
        name: 'users',
        keyId,
        bind: false,
        fields: {
          email: text({ index: 'email_index' }),
          phone: text().nullable(),
          prefs: json<Prefs>().optional(),
          'address.street': text(),
        },
        indexes: { both_index: { fields: ['email', 'phone'] } },
      })
    const model = typed()
    const compact = connect().model({
      name: 'users',
      keyId,
      bind: false,
      format: 'compact',
      header: 'sealed',
      fields: { a: text(), b: number() },
    })
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
    const strict = () => connect().model({ name: 'users', keyId, bind: false, fields: { a: number() } })
    const migrating = () =>
      connect().model({ name: 'u', keyId, bind: false, acceptPlaintext: true, fields: { a: number() } })
    const single = () =>
      connect().model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'a_index' }), b: text() } })
    const opened = async (row: { a: Envelope; b: Envelope | null; envelope: Envelope }) =>
      connect()
        .model({ name: 'users', keyId, bind: false, fields: { a: text(), b: text().optional() } })
        .decrypt(row)
    expectTypeOf<Awaited<ReturnType<typeof opened>>>().toEqualTypeOf<{
      a: string
      b: string | undefined
      envelope: Envelope
    }>()
    const photo = async () => {
      const photos = connect().model({ name: 'users', keyId, bind: false, fields: { photo: bytes() } })
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
      // @ts-expect-error prefs are not sealed; a text may be
      model.decrypt({ ...user, prefs: 5 }),
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
      connect().model({
        name: 'u',
        keyId,
        bind: false,
        fields: { a: text(), b: bytes() },
        // @ts-expect-error bytes cannot be indexed
        indexes: { i: { fields: ['a', 'b'] } },
      }),
      // @ts-expect-error what binds has a name
      connect().model({ keyId, bind: false, fields: { a: text() } }),
      // @ts-expect-error bind is stated
      connect().model({ name: 'u', keyId, fields: { a: text() } }),
      // @ts-expect-error format v1 binds nothing
      connect().model({ keyId, envelope: 1, bind: ['id'], fields: { a: text() } }),
      // @ts-expect-error a number is not sealed
      strict().decrypt({ a: 5 }),
      migrating().decrypt({ a: 5 }),
      connect().model({
        name: 'users',
        keyId,
        bind: false,
        fields: { a: text() },
        // @ts-expect-error no such field
        indexes: { i: { fields: ['a', 'c'] } },
      }),
      // @ts-expect-error no such normaliser
      text({ normalize: ['upper'] }),
      // @ts-expect-error booleans have no index
      boolean({ index: 'ok_index' }),
    ]
    expect(typeof never).toBe('function')
  })
})
