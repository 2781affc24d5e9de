// What every adapter relies on. The adapters themselves are tested by one contract on a real PostgreSQL, in
// test/orm.
import { describe, expect, it } from 'vitest'
import { createClient, json, text } from '../index.js'
import type { Row } from '../input.js'
import { createTestService } from '../testing.js'
import { readConflict } from './found-rows.js'
import { createSealedTable } from './sealed-table.js'

describe('a search for an equal value', () => {
  it('goes to the index of the whole value, and never to one of parts, which finds other rows too', async () => {
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'people' })
    const parts = {
      name_start: { prefix: 'name', length: 3 },
      name_parts: { ngram: 'name', length: 3, bits: 256, acceptLeakage: true },
    } as const
    const options = { name: 'people', keyId, bind: false as const, indexes: parts }
    const whole = eaas.model({ ...options, fields: { name: text({ index: 'name_index' }) } })
    const { name_index } = await whole.encrypt({ name: 'Ada Lovelace' })
    expect(await createSealedTable(whole).findEqual('name', '=', ['Ada Lovelace'])).toEqual({
      column: 'name_index',
      values: [name_index],
    })
    for (const part of [{ startsWith: 'Ada' }, { contains: 'love' }]) {
      await expect(createSealedTable(whole).findEqual('name', 'in', ['Ada Lovelace', part])).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message: expect.stringContaining('people.name is encrypted: it can only be equal to a value of its own type'),
      })
    }
    const onlyParts = eaas.model({ ...options, fields: { name: text() } })
    await expect(createSealedTable(onlyParts).findEqual('name', '=', ['Ada Lovelace'])).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('no index by which it could be searched alone'),
    })
  })
})

it('names the row of a change by its id if a value is invalid', async () => {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'people' })
  const table = createSealedTable(eaas.model({ name: 'people', keyId, bind: ['id'], fields: { name: text() } }))
  await expect(table.sealChanges({ name: 7 }, { id: 9 })).rejects.toThrow('people, id "9", field "name": ')
  await expect(table.sealRows([{ id: 9, name: 7 }])).rejects.toThrow('people, record 0, field "name": ')
})

describe('what an upsert takes from the row that was to be inserted', () => {
  async function tableOf(options: object) {
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'people' })
    const fields = { name: text(), mail: text().nullable() }
    return { keyId, table: createSealedTable(eaas.model({ name: 'people', keyId, bind: ['id'], fields, ...options })) }
  }

  it('is all of a compact row with its own column, also where the key is a column', async () => {
    const { keyId, table } = await tableOf({
      format: 'compact',
      header: 'head',
      keyId: (row: { key_id?: unknown }) => row.key_id,
    })
    const conflict = readConflict(table, ['id', 'key_id'], [{ id: 1, key_id: keyId, name: 'Ada', mail: null }])
    expect(conflict.excluded(['name', 'mail'])).toEqual(['name', 'mail', 'head'])
    expect(() => conflict.excluded(['name'])).toThrow('people.mail: a compact row is sealed as a whole')
    expect(() => table.assertNoneMade({ head: null })).toThrow('people.head cannot be set')
    const byId = readConflict(table, ['id'], [{ id: 1, key_id: keyId }])
    expect(() => byId.excluded(['name', 'mail'])).toThrow('does not tell the key of the row')
  })
  it('is all that an index is made of', async () => {
    const { table } = await tableOf({ indexes: { both: { fields: ['name', 'mail'] } } })
    const conflict = readConflict(table, ['id'], [{ id: 1, name: 'Ada', mail: null }])
    expect(conflict.excluded(['name', 'mail'])).toEqual(['name', 'mail', 'both'])
    expect(() => conflict.excluded(['mail'])).toThrow('people.name: the index "both" needs it too')
  })
  it('is any field of a row whose values are sealed one by one', async () => {
    const { table } = await tableOf({})
    expect(readConflict(table, ['id'], [{ id: 1 }]).excluded(['mail'])).toEqual(['mail'])
  })
})

async function placesOf(fields: object, options: object = {}) {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'places' })
  const model = eaas.model({ name: 'places', keyId, bind: ['id'], warn: false, fields: { ...fields }, ...options })
  return createSealedTable(model)
}

describe('a column of JSON with an encrypted field inside', () => {
  const street = { 'address.street': text({ index: 'street_index' }).optional() }
  const OTHERS = [{ town: 'Paris' }, null]

  it.each(OTHERS)('is replaced with the index of the field: %j', async (address) => {
    const table = await placesOf(street)
    expect(await table.sealChanges({ address }, { id: 1 })).toEqual({ address, street_index: null })
  })
  it.each(OTHERS)('is sealed with the row, where it is all that is encrypted: %j', async (address) => {
    const table = await placesOf(street, { sealed: 'row' })
    const [row] = await table.sealRows([{ id: 1, address: { street: 'Lane' } }])
    expect([table.isBound({ address }), table.needsRow({ address }, {})]).toEqual([true, true])
    const changes = await table.sealChanges({ address }, { id: 1 })
    expect(changes).toMatchObject({ address, street_index: null })
    expect(await table.openRows([{ ...row, ...changes }])).toMatchObject([{ id: 1, address }])
  })
  it.each(OTHERS)('is refused by itself, where other fields belong to the row: %j', async (address) => {
    const table = await placesOf({ ...street, mail: text() }, { sealed: 'row' })
    await expect(table.sealChanges({ address }, { id: 1 })).rejects.toThrow('a row with a seal is written as a whole')
  })
})

describe('null in a field of JSON, set alone', () => {
  it('is a value, which is sealed to its row', async () => {
    const table = await placesOf({ meta: json() })
    expect([table.isBound({ meta: null }), table.needsRow({ meta: null }, {})]).toEqual([true, true])
    const changes = await table.sealChanges({ meta: null }, { id: 1 })
    expect(changes).toMatchObject({ meta: { envelope_version: 2 } })
    expect(await table.openRows([{ id: 1, ...changes }])).toEqual([{ id: 1, meta: null }])
  })
  it.each([json().nullable(), json().optional()])('is none where the field may be missing', async (meta) => {
    const table = await placesOf({ meta })
    expect([table.isBound({ meta: null }), table.needsRow({ meta: null }, {})]).toEqual([false, false])
    expect(await table.sealChanges({ meta: null }, {})).toEqual({ meta: null })
  })
})

it('a field of a compact row is read with the column of that form', async () => {
  const table = await placesOf({ mail: text() }, { format: 'compact', header: 'head' })
  expect(table.readsToo(['mail'])).toEqual(['id', 'head'])
  expect(table.readsToo(['id'])).toEqual([])
  expect(() => table.assertReadable(['id', 'mail'])).toThrow('places.mail cannot be selected without head')
})

describe('a key for each row', () => {
  const [own, other] = ['a', 'b'].map((digit) => `${digit.repeat(8)}-aaaa-4aaa-8aaa-aaaaaaaaaaaa`) as [string, string]
  const byColumn = (row: Row) => row.key_id
  const byDefault = (row: Row) => (row.region === 'eu' ? own : other)
  const tableOf = (keyId: (row: Row) => unknown) => placesOf({ mail: text() }, { keyId })

  it.each<[string, (row: Row) => unknown, Row, Row]>([
    ['null', byColumn, { key_id: null }, { id: 1 }],
    ['a key in upper case', byColumn, { key_id: other.toUpperCase() }, { id: 1 }],
    ['the same key in upper case', byColumn, { key_id: own.toUpperCase() }, { id: 1, key_id: own }],
    ['another key', byColumn, { key_id: other }, { id: 1, key_id: own }],
    ['the same key, unknown', byColumn, { key_id: own }, { id: 1 }],
    ['null in place of null', byColumn, { key_id: null }, { id: 1, key_id: null }],
    ['what leads to the default', byDefault, { region: 'us' }, { id: 1 }],
    ['what leads away from it', byDefault, { region: 'eu' }, { id: 1 }],
    ['an operation of the ORM', byDefault, { region: { set: 'us' } }, { id: 1, region: 'us' }],
  ])('does not change to %s', async (_, keyId, changes, known) => {
    const table = await tableOf(keyId)
    const [column] = Object.keys(changes)
    expect(() => table.assertKeepsKey(changes, known)).toThrow(`places.${column} must not change`)
    await expect(table.sealChanges(changes, known)).rejects.toThrow(`places.${column} must not change`)
  })
  it.each<[string, (row: Row) => unknown, Row, Row]>([
    ['the same value', byColumn, { key_id: own }, { id: 1, key_id: own }],
    ['a column that does not determine it', byColumn, { city: null }, { id: 1 }],
    ['another value that leads to it', byDefault, { region: 'us' }, { id: 1, region: 'asia' }],
  ])('stays where a change has %s', async (_, keyId, changes, known) => {
    const table = await tableOf(keyId)
    expect(() => table.assertKeepsKey(changes, known)).not.toThrow()
    expect(await table.sealChanges(changes, known)).toEqual(changes)
  })
  it('is not the one that keyId returns without a column that it reads', async () => {
    const table = await tableOf(byDefault)
    expect([table.tellsKey({ id: 1 }), table.needsRow({ mail: 'x' }, { id: 1 })]).toEqual([false, true])
    expect([table.tellsKey({ region: 'us' }), table.needsRow({ mail: 'x' }, { id: 1, region: 'us' })]).toEqual([
      true,
      false,
    ])
    await expect(table.sealChanges({ mail: 'x' }, { id: 1 })).rejects.toThrow('does not tell the key of the row')
  })
})

it('a key by its name is told by any row, also before it is found', async () => {
  const table = await placesOf({ mail: text() }, { keyId: undefined, key: 'places' })
  expect(readConflict(table, ['id'], [{ id: 1 }]).excluded(['mail'])).toEqual(['mail'])
})
