// Some fields of a row: what is sealed, opened, left alone and refused, and its types.
import type { Envelope } from '@eaas/protocol'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { date, json, number, text } from '../index.js'
import { keyId, useClients } from '../test-support/clients.js'

const { service, connect } = useClients()

const born = new Date('1815-12-10')

function peopleOf<T extends 'full' | 'compact' | 'text' = 'full'>(format: T = 'full' as T) {
  return connect().model({
    name: 'people',
    keyId,
    format,
    bind: ['id'],
    fields: {
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
      nick: text({ index: 'nick_index' }).nullable(),
      note: text().optional(),
      first: text(),
      born: date().nullable(),
      'address.street': text().optional(),
      age: number().optional(),
    },
    indexes: { first_born_index: { fields: ['first', 'born'] } },
  })
}

const ada = { id: 7, city: 'London', email: 'Ada@x.org', nick: 'ada', note: '', first: 'Ada', born, age: 36 }

describe('some fields of a row', () => {
  it('are sealed with the columns of parts of a text, in their type too', async () => {
    const eaas = connect()
    const people = eaas.model({
      name: 'people',
      keyId,
      bind: false,
      fields: { first: text(), nick: text().nullable() },
      indexes: {
        first_start: { prefix: 'first', length: 2 },
        nick_parts: { ngram: 'nick', length: 3, bits: 8, acceptLeakage: true },
      },
    })
    const one = await people.encryptPartial({ id: 7, first: 'Ada' })
    expectTypeOf<keyof typeof one>().toEqualTypeOf<'id' | 'first' | 'first_start'>()
    expect(one.first_start).toMatch(/^\S+$/)
    const both = await people.encryptPartial({ first: 'Ada', nick: 'countess' })
    expectTypeOf(both.first_start).toEqualTypeOf<string>()
    expectTypeOf(both.nick_parts).toEqualTypeOf<string[]>()
    expect(both.nick_parts.length).toBeGreaterThan(0)
    const picked = await people.pick('nick').encrypt({ nick: 'countess' })
    expectTypeOf<keyof typeof picked>().toEqualTypeOf<'nick' | 'nick_parts'>()
    expect(Object.keys(picked).sort()).toEqual(['nick', 'nick_parts'])
  })

  it('are sealed with the columns of their indexes, and nothing else is added', async () => {
    const people = peopleOf()
    const changes = await people.encryptPartial({ id: 7, email: ' ADA@x.org', city: 'Paris' })
    expect(Object.keys(changes).sort()).toEqual(['city', 'email', 'email_index', 'id'])
    const { email_index } = await people.index({ email: 'ada@x.org' })
    expect(changes).toMatchObject({ id: 7, city: 'Paris', email_index })
  })

  it('open with the others once they are stored, as if the whole row had been sealed', async () => {
    const people = peopleOf()
    const stored = await people.encrypt(ada)
    const changes = await people.encryptPartial({ id: 7, nick: 'lovelace', note: 'new' })
    expect(await people.decrypt({ ...stored, ...changes })).toEqual({ ...ada, nick: 'lovelace', note: 'new' })
  })

  it.each(['full', 'text', 'compact'] as const)(
    'of a row with format %s are opened where only they were read',
    async (format) => {
      const people = peopleOf(format)
      const stored: Record<string, unknown> = await people.encrypt(ada)
      const { id, nick, envelope } = stored
      const read = { id, nick, ...(format === 'compact' ? { envelope } : {}) } as never
      expect(await people.decryptPartial(read)).toEqual({ id: 7, nick: 'ada' })
      expect(await people.pick('nick').decrypt(read)).toEqual({ id: 7, nick: 'ada' })
      expect((await people.pick('nick').decryptMany([read])).ok).toEqual([{ id: 7, nick: 'ada' }])
    },
  )

  it('need no request where their DEK is there and they have no index', async () => {
    const people = peopleOf()
    await people.encrypt(ada)
    service.requests.length = 0
    await people.encryptPartial({ id: 7, note: 'x' })
    expect(service.requests).toEqual([])
  })

  it('tell null, absent and empty apart', async () => {
    const people = peopleOf()
    const changes = await people.encryptPartial({ id: 7, email: '', nick: null, note: null, age: undefined })
    expect(Object.keys(changes).sort()).toEqual(['age', 'email', 'email_index', 'id', 'nick', 'nick_index', 'note'])
    expect(changes).toMatchObject({ nick: null, nick_index: null, note: null, age: undefined })
    expect(changes.email_index).toMatch(/^[0-9a-f]{64}$/)
    const { age: _, ...stored } = changes
    expect(await people.decryptPartial(stored)).toEqual({ id: 7, email: '', nick: null, note: null })
  })

  it('are sealed where the only one is null as JSON', async () => {
    for (const dek of ['shared', 'call', 'record'] as const) {
      const notes = connect().model({ name: 'notes', keyId, dek, bind: ['id'], fields: { meta: json<unknown>() } })
      for (const sealed of [
        await notes.encryptPartial({ id: 7, meta: null }),
        await notes.pick('meta').encrypt({ id: 7, meta: null }),
      ]) {
        expect(sealed.meta).toMatchObject({ envelope_version: 2 })
        expect(await notes.decrypt(sealed)).toEqual({ id: 7, meta: null })
      }
    }
  })

  it('may be none: the row is returned as it is, also with format compact', async () => {
    for (const format of ['full', 'compact'] as const) {
      expect(await peopleOf(format).encryptPartial({ city: 'Paris' })).toEqual({ city: 'Paris' })
      expect(await peopleOf(format).decryptPartial({ city: 'Paris' })).toEqual({ city: 'Paris' })
    }
  })

  it('lead into objects', async () => {
    const people = peopleOf()
    const changes = await people.encryptPartial({ id: 7, address: { street: 'Main St', city: 'London' } })
    expect(changes.address).toMatchObject({ city: 'London', street: { envelope_version: 2 } })
    expect((await people.decryptPartial(changes)).address).toEqual({ street: 'Main St', city: 'London' })
  })

  describe('are refused', () => {
    const refused = async (row: object, message: RegExp) => {
      await expect(peopleOf().encryptPartial(row)).rejects.toThrow(message)
      expect(service.requests).toEqual([])
    }

    it('inside of what is no object, which would be stored in plain', async () => {
      for (const address of [JSON.stringify({ street: 'x' }), [{ street: 'x' }]]) {
        await refused({ id: 7, address }, /field "address.street": address must be an object, got (string|an array)/)
      }
    })
    it('with a number that is no whole one in a column of bind, by its kind', async () => {
      await refused(
        { id: 1.5, email: 'x' },
        /a column of bind must hold text or a whole number, got a number with a fraction/,
      )
      await refused({ id: 2 ** 60, email: 'x' }, /got a whole number beyond 2\^53/)
      await refused({ id: Number.NaN, email: 'x' }, /got NaN/)
    })

    it('without a column of bind, by its name, when they are sealed and when they are opened', async () => {
      await refused({ email: 'x' }, /field "id": a column of bind must hold/)
      const { nick } = await peopleOf().encrypt(ada)
      await expect(peopleOf().decryptPartial({ nick })).rejects.toThrow(/field "id": a column of bind must hold/)
    })

    it('not without it where nothing is sealed or opened', async () => {
      expect(await peopleOf().encryptPartial({ nick: null })).toEqual({ nick: null, nick_index: null })
      expect(await peopleOf().decryptPartial({ nick: null })).toEqual({ nick: null })
    })

    it('without the other fields of their index, which would be outdated', () =>
      refused({ id: 7, born }, /field "first": the index "first_born_index" needs it too/))

    it('null in a field that may not be missing', () =>
      refused({ id: 7, email: null }, /field "email": expected text, got null/))

    it('beside a value under another spelling, which would be stored in plain', () =>
      refused(
        { id: 7, nick: 'x', e_mail: 'a@x.org' },
        /field "email": the record has no value in the field, but has "e_mail"/,
      ))

    it.each([{ nick: 'x' }, { city: 'Paris' }, {}])('with the index of a field that is not there, beside %j', (row) =>
      refused(
        { id: 7, ...row, email_index: 'f'.repeat(64) },
        /field "email_index": the index of a field that was not picked/,
      ),
    )

    it('with format compact, since all fields of a row share a DEK', async () => {
      await expect(peopleOf('compact').encryptPartial({ id: 7, nick: 'x' })).rejects.toThrow(
        /compact row is sealed as a whole/,
      )
    })

    it('where the member is inherited, also one that returns nothing', async () => {
      class Person {
        id = 7
        _email = 'a@x.org'
        get email(): string | undefined {
          return undefined
        }
      }
      await refused(new Person(), /email is inherited/)
    })

    it('when another row holds them', async () => {
      const { nick } = await peopleOf().encrypt(ada)
      await expect(peopleOf().decryptPartial({ id: 8, nick })).rejects.toThrow(/could not decrypt/)
    })
  })
})

describe('a model of some fields', () => {
  it('seals them, and refuses a value in any other field, which would be stored in plain', async () => {
    const nicks = peopleOf().pick('nick')
    expect(await nicks.decrypt(await nicks.encrypt({ id: 7, nick: 'ada' }))).toEqual({ id: 7, nick: 'ada' })
    await expect(nicks.encrypt({ id: 7, nick: 'ada', email: 'a@x.org' })).rejects.toThrow(
      /"email": it was not picked, but has a value/,
    )
    await expect(nicks.encrypt({ id: 7 } as never)).rejects.toThrow(/field "nick"/)
  })

  it('leaves other columns of a row that it opens unchanged', async () => {
    const stored = await peopleOf().encrypt(ada)
    const opened = await peopleOf().pick('nick').decrypt(stored)
    expect(opened).toEqual({ ...withoutNickIndex(stored), nick: 'ada' })
  })

  it('searches by the indexes of these fields, and opens rows of the whole model', async () => {
    const people = peopleOf()
    expect(await people.pick('email').index({ email: 'ada@x.org' })).toEqual(await people.index({ email: 'ada@x.org' }))
    expect(() => people.pick('nick').matches({ email: 'a' }, { email: 'a' } as never)).toThrow(/"email" has no index/)
    expect((await people.pick('first', 'born').encrypt({ id: 7, first: 'Ada', born })).first_born_index).toMatch(
      /^[0-9a-f]{64}$/,
    )
  })

  it('can be picked from again, and counts what it accepts with the whole model', async () => {
    expect(() =>
      peopleOf()
        .pick('nick', 'email')
        .pick('first' as never),
    ).toThrow(/has no field "first"/)
    const people = connect().model({
      name: 'p',
      keyId,
      bind: false,
      acceptPlaintext: true,
      warn: false,
      fields: { a: text(), b: text() },
    })
    await people.pick('a').decrypt({ a: 'plain' })
    expect(people.accepted.plaintext).toBe(1)
  })

  it('must name fields of the model', () => {
    expect(() => peopleOf().pick('nicks' as never)).toThrow(/the model has no field "nicks"/)
  })
})

function withoutNickIndex({ nick_index: _, ...row }: object & { nick_index?: unknown }) {
  return row
}

it('have the types of what is there', () => {
  const people = peopleOf()
  const seal = () =>
    people.encryptPartial({
      id: 7,
      email: 'x',
      nick: null as string | null,
      note: 'a' as string | undefined,
      city: 'x',
    })
  type Sealed = Awaited<ReturnType<typeof seal>>
  expectTypeOf<Sealed['id']>().toEqualTypeOf<number>()
  expectTypeOf<Sealed['email']>().toEqualTypeOf<Envelope>()
  expectTypeOf<Sealed['email_index']>().toEqualTypeOf<string>()
  expectTypeOf<Sealed['nick']>().toEqualTypeOf<Envelope | null>()
  expectTypeOf<Sealed['nick_index']>().toEqualTypeOf<string | null>()
  expectTypeOf<Sealed['note']>().toEqualTypeOf<Envelope | undefined>()
  expectTypeOf<keyof Sealed>().toEqualTypeOf<'id' | 'email' | 'email_index' | 'nick' | 'nick_index' | 'note' | 'city'>()
  const both = () => people.encryptPartial({ id: 7, first: 'x', born: null })
  expectTypeOf<Awaited<ReturnType<typeof both>>['first_born_index']>().toEqualTypeOf<string | null>()
  const maybe = (email: string | undefined) => people.encryptPartial({ id: 7, email })
  expectTypeOf<Awaited<ReturnType<typeof maybe>>['email_index']>().toEqualTypeOf<string | undefined>()
  const open = (row: { id: number; email: Envelope; nick: Envelope | null; at: Date }) => people.decryptPartial(row)
  expectTypeOf<Awaited<ReturnType<typeof open>>>().toEqualTypeOf<{
    id: number
    email: string
    nick: string | null
    at: Date
  }>()
  const picked = people.pick('nick', 'born')
  const read = (row: { id: number; nick: Envelope | null; born: Envelope | null }) => picked.decrypt(row)
  expectTypeOf<Awaited<ReturnType<typeof read>>>().toEqualTypeOf<{
    id: number
    nick: string | null
    born: Date | null
  }>()
  const wrong = () => [
    // @ts-expect-error a number is no text
    people.encryptPartial({ id: 7, email: 1 }),
    // @ts-expect-error email is not nullable
    people.encryptPartial({ id: 7, email: null }),
    // @ts-expect-error not a field
    people.pick('city'),
    // @ts-expect-error born is missing
    picked.encrypt({ id: 7, nick: 'x' }),
    // @ts-expect-error email was not picked
    picked.index({ email: 'x' }),
  ]
  expect(wrong).toBeTypeOf('function')
})
