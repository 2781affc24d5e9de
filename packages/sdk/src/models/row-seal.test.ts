// Rows that are sealed as a whole (bindings.md 4): what is noticed, and what a row needs.
import { describe, expect, expectTypeOf, it } from 'vitest'
import { createSealedTable } from '../adapter.js'
import { type Client, type RowFormat, type StoredRow, text } from '../index.js'
import { maintain } from '../maintenance.js'
import { failure, keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'

const { connect } = useClients()

type Stored = Record<string, unknown>

const define = (format: RowFormat = 'full', more: object = {}, eaas: Client = connect()) =>
  eaas.model({
    ...{ name: 'users', keyId, bind: ['id'], format, sealed: 'row' },
    fields: {
      email: text({ index: 'email_index' }),
      nick: text({ index: 'nick_index' }).nullable(),
      note: text().optional(),
    },
    indexes: { email_parts: { ngram: 'email', length: 3, bits: 16, acceptLeakage: true } },
    ...more,
  })
const ada = { id: 'a', email: 'ada@x.org', nick: 'ada', note: 'called' }
const REFUSED = { code: 'E_DECRYPTION', place: { index: 0, field: 'row_seal' } }

describe.each(['full', 'text', 'compact', 'compact-text'] as const)(
  'a row that is sealed as a whole, in the form %s',
  (format) => {
    const sealed = async (row: object = ada) => (await define(format).encrypt(row as typeof ada)) as Stored
    const open = (row: Stored) => define(format).decrypt(row as never)

    it('opens to what was sealed, with and without values', async () => {
      for (const row of [ada, { ...ada, nick: null }, { id: 'b', email: '', nick: null }]) {
        const stored = await sealed(row)
        expect(stored).toHaveProperty('row_seal')
        expect(await open(stored)).toEqual(row)
        expect(await open({ ...stored, note: stored.note ?? null })).toEqual(row) // as a database returns it
      }
    })

    it.each(['shared', 'call', 'record'] as const)(
      'is made by an engine that answers later too, dek %s',
      async (dek) => {
        const eaas = connect({ engine: 'web', deks: { maxMessages: 8 } })
        const model = define(format, { dek }, eaas)
        const rows = Array.from({ length: 20 }, (_, number) => ({ ...ada, id: `${number}` }))
        const stored = (await model.encryptMany(rows)) as Stored[]
        stored.push(...((await Promise.all(rows.map((row) => model.encrypt(row)))) as Stored[]))
        expect(await Promise.all(stored.map(open))).toEqual([...rows, ...rows])
        const resealed = await itemsOf(model.reseal(stored as never[]))
        expect(resealed.map(({ status }) => status)).toEqual(stored.map(() => 'changed'))
        const { ok } = await model.decryptMany(resealed.map((item) => (item as unknown as { row: never }).row))
        expect(ok).toEqual([...rows, ...rows])
      },
    )

    it('leaves nothing of its own in what is opened, also of a row without values', async () => {
      const model = define(format, { fields: { email: text().nullable() }, indexes: {} })
      const stored = (await model.encrypt({ id: 'a', email: null } as never)) as Stored
      expect(await model.decrypt(stored as never)).toEqual({ id: 'a', email: null })
    })

    it.each<[string, (row: Stored, older: Stored) => Stored]>([
      ['a cell that was set to null', (row) => ({ ...row, nick: null })],
      ['a cell and its index that were', (row) => ({ ...row, nick: null, nick_index: null })],
      ['an optional cell that was', (row) => ({ ...row, note: null })],
      ['an exchanged index', (row) => ({ ...row, email_index: row.nick_index })],
      ['an index that was set to null', (row) => ({ ...row, nick_index: null })],
      ['a part that was taken out', (row) => ({ ...row, email_parts: (row.email_parts as string[]).slice(1) })],
    ])('is refused with %s', async (_, tamper) => {
      const row = await sealed()
      expect(await failure(open(tamper(row, row)))).toMatchObject(REFUSED)
    })

    it('is refused with an older cell, and with the seal of an older row', async () => {
      const eaas = connect()
      const model = define(format, {}, eaas)
      const [older, newer] = (await model.encryptMany([ada, { ...ada, nick: 'grace' }])) as Stored[]
      for (const name of ['nick', 'row_seal', 'email_index'])
        expect(
          await failure(open({ ...newer, [name]: name === 'email_index' ? 'f'.repeat(64) : older?.[name] })),
        ).toMatchObject(REFUSED)
      expect(await open({ ...older })).toEqual(ada)
    })

    it.each<[string, unknown]>([
      ['an object', {}],
      ['an object that makes no text of itself', JSON.parse('{"toString":1,"valueOf":1}')],
      ['an object without a prototype', Object.create(null)],
      ['a number', JSON.parse('1e400')],
      ['true', true],
      ['an empty list', []],
      ['a list of such objects', [JSON.parse('{"toString":1}')]],
      ['a list in a list', [['0']]],
      ['half of a surrogate pair', '\ud800'],
      ['a list with half of a surrogate pair', ['\ud800']],
      ['a list of very many texts', Array.from({ length: 300_000 }, () => '0')],
    ])('fails alone among others with an index that is %s', async (_, altered) => {
      const model = define(format)
      const rows = (await model.encryptMany([ada, { ...ada, id: 'b' }, { ...ada, id: 'c' }])) as Stored[]
      for (const column of ['email_index', 'email_parts']) {
        const given = rows.map((row, at) => (at === 1 ? { ...row, [column]: altered } : row)) as never[]
        const { ok, failed } = await model.decryptMany(given)
        expect(ok.map(({ id }) => id)).toEqual(['a', 'c'])
        expect(failed).toMatchObject([{ index: 1, error: { ...REFUSED, place: { index: 1, field: 'row_seal' } } }])
        const bad = given[1] as never
        expect(await failure(model.decrypt(bad))).toMatchObject(REFUSED)
        expect(await failure(model.decryptPartial(bad))).toMatchObject(REFUSED)
        const resealed = await itemsOf(model.reseal(given))
        expect(resealed.map(({ status }) => status)).toEqual(['changed', 'failed', 'changed'])
        // Only the wrapped keys are read and replaced: nothing is opened.
        const rewrapped = await itemsOf(model.rewrap(given))
        expect(rewrapped.map(({ status }) => status)).toEqual(['current', 'current', 'current'])
      }
    })

    it('is refused without its seal, and with a cell that was null and has a value now', async () => {
      const row = await sealed()
      expect(await failure(open({ ...row, row_seal: null }))).toMatchObject(REFUSED)
      const empty = await sealed({ ...ada, nick: null })
      const { nick } = (await define(format, { sealed: undefined }).encrypt(ada)) as Stored
      if (!format.startsWith('compact')) expect(await failure(open({ ...empty, nick }))).toMatchObject(REFUSED)
    })

    it('survives rewrap, and is made anew by reseal', async () => {
      const eaas = connect()
      const model = define(format, {}, eaas)
      const row = (await model.encrypt(ada)) as Stored
      await eaas.keys.rotate(keyId)
      const [rewrapped] = (await itemsOf(model.rewrap([row] as never[]))) as { status: string; row: Stored }[]
      expect(rewrapped?.status).toBe('changed')
      expect(await open(rewrapped?.row ?? {})).toEqual(ada)
      const [again] = (await itemsOf(model.rewrap([rewrapped?.row] as never[]))) as { status: string }[]
      expect(again?.status).toBe('current')
      const [resealed] = (await itemsOf(model.reseal([row] as never[]))) as { row: Stored }[]
      expect(await open(resealed?.row ?? {})).toEqual(ada)
      expect(resealed?.row.row_seal).not.toEqual(row.row_seal)
    })

    it('turns into the compact form and back', async () => {
      if (format === 'text') return
      const model = define(format)
      const row = await sealed()
      const other = (format === 'full' ? model.pack(row as never) : model.unpack(row as never)) as Stored
      expect(await open(other)).toEqual(ada)
    })
  },
)

describe('a model that seals rows as a whole', () => {
  it('writes and reads no part of a row', async () => {
    const model = define()
    const row = (await model.encrypt(ada)) as Stored
    expect((await failure(model.encryptPartial({ id: 'a', nick: 'x' }))).message).toContain('is written as a whole')
    expect((await failure(model.pick('nick').encrypt({ id: 'a', nick: 'x' }))).message).toContain(
      'is written as a whole',
    )
    const { id, nick, row_seal } = row
    expect(await failure(model.decryptPartial({ id, nick } as never))).toMatchObject({ code: 'E_INVALID_INPUT' })
    expect((await failure(model.decrypt({ ...row, email_parts: undefined } as never))).message).toContain(
      '"email_parts" is missing',
    )
    expect((await failure(model.pick('nick').decrypt({ id, nick, row_seal } as never))).message).toContain('is missing')
    expect(await model.pick('nick').decrypt(row as never)).toMatchObject({ id: 'a', nick: 'ada' })
  })

  it('refuses null in a field where the seal, the columns of bind or the indexes were not read', async () => {
    const fields = { note: text().nullable(), nick: text().nullable() }
    const model = define('full', { fields, indexes: {} })
    const row = (await model.encrypt({ id: 'a', note: 'x', nick: 'y' } as never)) as Stored
    const { id, row_seal } = row
    for (const part of [
      { note: null },
      { id, note: null },
      { id, note: null, nick: null },
      { note: null, nick: null, row_seal: null },
    ]) {
      const codes = ['E_INVALID_INPUT', 'E_DECRYPTION']
      for (const call of [
        () => model.decryptPartial(part as never),
        () => model.pick('note' as never).decrypt(part as never),
        () => model.decrypt({ nick: null, ...part } as never),
      ])
        expect(codes).toContain((await failure(call())).code)
    }
    const emptied = { id, note: null, nick: null, row_seal }
    for (const call of [
      () => model.decryptPartial(emptied as never),
      () => model.pick('note' as never).decrypt(emptied as never),
    ])
      expect(await failure(call())).toMatchObject(REFUSED)
    const none = { id: null, note: null, nick: null, row_seal: null } // a row that an outer join did not find
    expect(await model.decrypt(none as never)).toEqual({ id: null, note: null, nick: null })
    expect(await model.pick('note' as never).decrypt(none as never)).toMatchObject({ note: null })
  })

  it('keeps the seal that is stored where only other columns are changed', async () => {
    const row = (await define().encrypt(ada)) as Stored
    const changes = await define().encryptPartial({ id: 'a', city: 'Paris' } as never)
    expect(changes).toEqual({ id: 'a', city: 'Paris' })
    expect(await define().decrypt({ ...row, ...(changes as object) } as never)).toEqual({ ...ada, city: 'Paris' })
  })

  it('is declared with columns that it binds to, in format v2', () => {
    expect(() => define('full', { bind: false })).toThrow('sealed needs bind')
    expect(() => define('full', { sealed: 'table' })).toThrow('sealed must be one of row')
    expect(() => define('full', { indexes: {}, bind: false, envelope: 1 })).toThrow('sealed needs bind')
    expect(() => define('full', { fields: { row_seal: text() }, indexes: {} })).toThrow('already taken')
  })

  it('refuses a row whose own column the seal would overwrite', async () => {
    expect((await failure(define().encrypt({ ...ada, row_seal: 'mine' } as never))).message).toContain(
      'would overwrite',
    )
  })

  it('opens rows without a seal only for a migration, and counts them', async () => {
    const before = (await define('full', { sealed: undefined }).encrypt(ada)) as Stored
    expect(await failure(define().decrypt({ ...before, row_seal: null } as never))).toMatchObject(REFUSED)
    const migrating = define('full', { acceptUnbound: true })
    expect(await migrating.decrypt({ ...before, row_seal: null } as never)).toEqual(ada)
    expect(migrating.accepted.unbound).toBe(1)
    const run = await maintain(migrating, { work: 'seal' })
    const [outcome] = await run.workOn([{ ...before, row_seal: null }])
    expect(outcome?.status).toBe('changed')
    if (outcome?.status === 'changed')
      expect(await define().decrypt({ ...before, ...outcome.to } as never)).toEqual(ada)
  })

  it('seals a row again when its indexes are made anew', async () => {
    const model = define('full', {}, connect())
    const row = (await model.encrypt(ada)) as Stored
    const renewed = define('full', { index: { generation: 2 } })
    const wrong = { ...row }
    const { workOn } = await maintain(renewed, { work: 'index' })
    const [outcome] = await workOn([wrong])
    expect(outcome?.status).toBe('changed')
    if (outcome?.status === 'changed') expect(await renewed.decrypt({ ...row, ...outcome.to } as never)).toEqual(ada)
  })

  it('gives a row in plaintext its indexes, and does not seal it, before an application can read sealed ones', async () => {
    const migrating = define('full', { acceptUnbound: true, acceptPlaintext: true })
    const { workOn } = await maintain(migrating, { work: 'index' })
    const [outcome] = await workOn([{ ...ada, row_seal: null } as never])
    const { email_index, email_parts, nick_index } = (await define().encrypt(ada)) as Stored
    expect(outcome).toEqual({ status: 'changed', to: { email_index, email_parts, nick_index } })
  })

  it('tells adapters that its rows are read and written as a whole', async () => {
    const table = createSealedTable(define())
    const [row = {}] = await table.sealRows([ada])
    expect(table.columns).toContain('row_seal')
    expect(await table.openRows([row])).toEqual([{ ...row, ...ada }])
    expect(() => table.assertReadable(['id', 'email'])).toThrow('cannot be selected without')
    expect(() => table.assertReadable(Object.keys(row))).not.toThrow()
    expect(() => table.withMade(['email'])).toThrow('is written as a whole')
    await expect(table.sealChanges({ nick: 'x' }, { id: 'a' })).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
    const outer = { id: null, ...Object.fromEntries(table.columns.map((column) => [column, null])) }
    expect(await table.openRows([outer])).toEqual([outer])
  })
})

describe('the types of a model that seals rows', () => {
  const typed = () =>
    connect().model({
      ...{ name: 'users', keyId, bind: ['id'] },
      sealed: 'row',
      format: 'text',
      fields: { email: text({ index: 'email_index' }), nick: text().nullable() },
    })

  it('have the seal in what is stored, and not in what is opened', async () => {
    const stored = await typed().encrypt({ id: 'a', email: 'x', nick: null })
    expectTypeOf(stored.row_seal).toEqualTypeOf<string>()
    expectTypeOf<StoredRow<ReturnType<typeof typed>>>().toHaveProperty('row_seal')
    const opened = await typed().decrypt(stored)
    expectTypeOf(opened).not.toHaveProperty('row_seal')
    expect(opened).toEqual({ id: 'a', email: 'x', nick: null })
    expectTypeOf(typed().pick('nick')).toHaveProperty('index')
  })

  it('demand the seal and each index of a row that is opened, by their names', async () => {
    const stored = await typed().encrypt({ id: 'a', email: 'x', nick: null })
    const { row_seal, ...unsealed } = stored
    const { email_index, ...unindexed } = stored
    // @ts-expect-error -- row_seal is missing
    expect((await failure(typed().decrypt(unsealed))).message).toContain('"row_seal" is missing')
    // @ts-expect-error -- email_index is missing
    expect((await failure(typed().decrypt(unindexed))).message).toContain('"email_index" is missing')
    expect([row_seal.slice(0, 7), email_index]).toEqual(['eaas.2.', expect.stringMatching(/^[0-9a-f]{64}$/)])
  })
})
