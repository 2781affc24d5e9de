// The public interface for adapters suffices: toy-adapter.ts has nothing else, and does what an adapter must.
import { type Client, createClient, text } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { sourcesBelow } from '../support/sources/source-files.js'
import { type Condition, encrypted, type Store } from './toy-adapter.js'

type Row = Record<string, unknown>

/** The ORM, with its rows in memory. */
function createStore(tables: Map<string, Row[]>): Store {
  const rowsOf = (table: string) => tables.get(table) ?? []
  const holds = (row: Row) => (one: Condition) => {
    const stored = row[one.column]
    if (one.operator === '>') return Number(stored) > Number(one.value)
    return one.operator === '=' ? stored === one.value : (one.value as unknown[]).includes(stored)
  }
  const store: Store = {
    async insert(table, rows) {
      tables.set(table, [...rowsOf(table), ...rows])
    },
    async upsert(table, { row, target, set }) {
      const there = rowsOf(table).find((one) => target.every((column) => one[column] === row[column]))
      if (!there) return store.insert(table, [row])
      for (const column of set) there[column] = row[column]
    },
    async update(table, changes, where) {
      for (const row of rowsOf(table)) if (where.every(holds(row))) Object.assign(row, changes)
    },
    async select(table, columns, where) {
      const found = rowsOf(table).filter((row) => where.every(holds(row)))
      return found.map((row) => Object.fromEntries(columns.map((column) => [column, row[column]])))
    },
    async query() {
      return []
    },
  }
  return store
}

describe('an adapter on the public interface', () => {
  let eaas: Client
  let stored: Map<string, Row[]>
  let db: Store
  const ada = { id: 7, email: 'ada@example.org', phone: null, city: 'London' }
  const byId = (id: number): Condition[] => [{ column: 'id', operator: '=', value: id }]
  const byEmail = (value: string): Condition[] => [{ column: 'email', operator: '=', value }]

  beforeEach(async () => {
    eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const fields = { email: text({ index: 'email_index' }), phone: text().nullable() }
    stored = new Map()
    db = encrypted(createStore(stored), {
      users: eaas.model({ name: 'users', keyId, bind: ['id'], fields }),
    })
    await db.insert('users', [ada, { ...ada, id: 8, email: 'ben@example.org' }])
  })

  it('imports the public entry alone', () => {
    const [file] = sourcesBelow('test/orm').filter(({ path }) => path.endsWith('/toy-adapter.ts'))
    const imported = file?.imports.map(({ specifier }) => specifier) ?? []
    expect(imported).toContain('@eaas/sdk/adapter')
    expect(imported.filter((one) => !['@eaas/sdk', '@eaas/sdk/adapter'].includes(one))).toEqual([])
  })

  it('stores no plaintext, and reads it again', async () => {
    const [row] = stored.get('users') ?? []
    expect(JSON.stringify(row)).not.toContain('ada@example.org')
    expect(row).toMatchObject({
      id: 7,
      phone: null,
      city: 'London',
      email_index: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(await db.select('users', ['id', 'email', 'phone', 'city'], byId(7))).toEqual([ada])
  })

  it('searches by the index', async () => {
    expect(await db.select('users', ['id'], byEmail('ada@example.org'))).toEqual([{ id: 7 }])
    const both: Condition = { column: 'email', operator: 'in', value: ['ada@example.org', 'ben@example.org'] }
    expect(await db.select('users', ['id'], [both])).toEqual([{ id: 7 }, { id: 8 }])
  })

  it('seals a change for its row, and the index with it', async () => {
    await db.update('users', { email: 'countess@example.org' }, byId(7))
    expect(await db.select('users', ['id', 'email'], byEmail('countess@example.org'))).toEqual([
      { id: 7, email: 'countess@example.org' },
    ])
    const london: Condition = { column: 'city', operator: '=', value: 'London' }
    await expect(db.update('users', { email: 'x@example.org' }, [london])).rejects.toThrow('bound to id')
  })

  it('takes the index with what an upsert changes', async () => {
    const row = { ...ada, email: 'countess@example.org' }
    await db.upsert('users', { row, target: ['id'], set: ['email'] })
    expect(await db.select('users', ['id', 'email'], byEmail('countess@example.org'))).toEqual([
      { id: 7, email: 'countess@example.org' },
    ])
    await expect(db.upsert('users', { row, target: ['city'], set: ['email'] })).rejects.toThrow('an upsert by city')
  })

  it.each<[string, RegExp, () => Promise<unknown>]>([
    [
      'another comparison',
      /cannot compare it by ">"/,
      () => db.select('users', ['id'], [{ column: 'email', operator: '>', value: 'a' }]),
    ],
    [
      'a search without an index',
      /no index/,
      () => db.select('users', ['id'], [{ column: 'phone', operator: '=', value: '1' }]),
    ],
    ['to sort', /cannot sort/, () => db.select('users', ['id'], [], 'email')],
    ['a selection without the row’s id', /cannot be selected without id/, () => db.select('users', ['email'], [])],
    ['an index by itself', /email_index cannot be set/, () => db.update('users', { email_index: 'a' }, byId(7))],
    ['SQL as text', /SQL that names users/, () => db.query('select email from users')],
  ])('refuses %s', async (_, message, run) => {
    await expect(run()).rejects.toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringMatching(message) })
  })

  it('leaves a table without a model as it is', async () => {
    await db.insert('cities', [{ name: 'London' }])
    expect(await db.query('select name from cities')).toEqual([])
    expect(await db.select('cities', ['name'], [])).toEqual([{ name: 'London' }])
  })

  it('names its caller in the stack of an error', async () => {
    async function loadUsers() {
      await db.select('users', ['email'], [])
    }
    await expect(loadUsers()).rejects.toMatchObject({ stack: expect.stringContaining('loadUsers') })
  })

  it('refuses what is not a model', () => {
    expect(() => encrypted(createStore(stored), { users: {} as never })).toThrow('expected a model')
  })
})
