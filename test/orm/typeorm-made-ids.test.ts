// Where the adapter makes ids before a write, the objects of the application have the ids of their rows afterwards, as with TypeORM alone.
import { type DataSource, EntitySchema, type EntitySchemaColumnOptions, type Repository } from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { encrypted } from '../../packages/typeorm/src/index.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { sourcesOn } from './typeorm-source.js'

interface User {
  id: string | number
  team: string
  code: string
  email: string
  email_index: string | null
  note: string | null
  /** Tells the rows apart. */
  city: string
  version: number
  created: Date
  /** What the database alone fills. */
  lower: string
  shade: string
}
type Given = Partial<User>

const postgres = await openCreatedCluster(inject('runDir'))
const { open } = sourcesOn(postgres)
const eaas = createClient(createTestService())
afterAll(async () => {
  eaas.close()
  await postgres.close()
})

const IDS: Record<string, EntitySchemaColumnOptions> = {
  serial: { type: 'int', generated: 'increment' },
  'big serial': { type: 'bigint', generated: 'increment' },
  identity: { type: 'int', generated: 'increment' },
  uuid: { type: 'uuid', generated: 'uuid' },
  'part of a key of two columns': { type: 'uuid', generated: 'uuid' },
  'number beside what values are bound to': { type: 'int', generated: 'increment' },
  'default of the database': { type: 'uuid', default: () => 'gen_random_uuid()' },
}

/** The columns that values are bound to. */
function bindOf(kind: string): string[] {
  if (kind.includes('two columns')) return ['team', 'id']
  return [kind.includes('bound to') ? 'code' : 'id']
}

function entityOf(kind: string, isPlain: boolean) {
  const type = 'text'
  const unique = isPlain ? 'email' : 'email_index'
  return new EntitySchema<User>({
    name: 'User',
    tableName: isPlain ? 'plain_users' : 'users',
    columns: {
      id: { ...IDS[kind], primary: true } as EntitySchemaColumnOptions,
      team: { type, default: 'a', primary: kind.includes('two columns') },
      code: { type: 'uuid', generated: 'uuid' },
      email: { type },
      email_index: { type, nullable: true },
      note: { type, nullable: true },
      city: { type },
      version: { type: 'int', version: true },
      created: { type: 'timestamptz', createDate: true },
      lower: { type, generatedType: 'STORED', asExpression: 'lower(city)', nullable: true },
      shade: { type, default: 'grey' },
    },
    uniques: [{ columns: [unique] }, { columns: ['team', unique] }],
  })
}

async function connect(kind: string, isPlain: boolean): Promise<DataSource> {
  const entity = entityOf(kind, isPlain)
  const source = open([entity], { synchronize: true })
  if (isPlain) return source.initialize()
  const fields = { email: text({ index: 'email_index' }), note: text().nullable() }
  const model = eaas.model({ name: 'users', key: 'users', bind: bindOf(kind), format: 'text', warn: false, fields })
  return encrypted(source, [[entity, model]] as never).initialize()
}

const ADA = 'ada@example.org'
const ada = (more: Given = {}): Given => ({ email: ADA, note: 'x', city: 'new', ...more })
const ben = (more: Given = {}): Given => ({ email: 'ben@example.org', note: 'y', city: 'ben', ...more })

/** What a write leaves: for each object the city and the version of the row that has its id. */
type Left = ([city: string | undefined, version: number | undefined] | 'no id' | 'of no row')[]

const none: Left[number] = 'no id'
const insert = (on: Repository<User>, given: Given[]) => on.createQueryBuilder().insert().values(given)
const WRITES: [
  title: string,
  given: () => Given[],
  run: (on: Repository<User>, given: Given[]) => Promise<unknown>,
  left: Left,
][] = [
  ['an insert', () => [ben()], (on, given) => on.insert(given), [['ben', 1]]],
  [
    'a save',
    () => [ben(), ben({ email: 'x@x.org', city: 'x' })],
    (on, given) => on.save(given),
    [
      ['ben', 1],
      ['x', 1],
    ],
  ],
  ['an upsert of a row that is there', () => [ada()], (on, [given = {}]) => on.upsert(given, ['email']), [['new', 1]]],
  ['an upsert of a new row', () => [ben()], (on, [given = {}]) => on.upsert(given, ['email']), [['ben', 1]]],
  [
    'an upsert of both',
    () => [ben(), ada(), ben({ email: 'x@x.org', city: 'x' })],
    (on, given) => on.upsert(given, ['email']),
    [
      ['ben', 1],
      ['new', 1],
      ['x', 1],
    ],
  ],
  [
    'an upsert by two columns',
    () => [ada({ team: 'a' })],
    (on, given) => on.upsert(given, ['team', 'email']),
    [['new', 1]],
  ],
  ['an upsert with a version', () => [ada({ version: 7 })], (on, given) => on.upsert(given, ['email']), [['new', 7]]],
  [
    'orUpdate',
    () => [ada(), ben()],
    (on, given) => insert(on, given).orUpdate(['note', 'city'], ['email']).execute(),
    [
      ['new', 1],
      ['ben', 1],
    ],
  ],
  [
    'orUpdate of what is not encrypted',
    () => [ada(), ben()],
    (on, given) => insert(on, given).orUpdate(['city'], ['email']).execute(),
    [
      ['new', 1],
      ['ben', 1],
    ],
  ],
  [
    'an upsert by a column that has a default',
    () => [ada(), ben()],
    (on, given) => on.upsert(given, ['team', 'email']),
    [
      ['new', 1],
      ['ben', 1],
    ],
  ],
  ['orUpdate of nothing', () => [ada()], (on, given) => insert(on, given).orUpdate([], ['email']).execute(), [none]],
  [
    'orUpdate that fills in nothing',
    () => [ada(), ben()],
    (on, given) => insert(on, given).orUpdate(['city'], ['email']).updateEntity(false).execute(),
    [none, none],
  ],
  [
    'orUpdate with what it returns',
    () => [ada(), ben()],
    (on, given) => insert(on, given).orUpdate(['city'], ['email']).returning(['city']).execute(),
    [
      ['new', 1],
      ['ben', 1],
    ],
  ],
  ['orIgnore of a row that is there', () => [ada()], (on, given) => insert(on, given).orIgnore().execute(), [none]],
  ['an insert that fails', () => [ada()], (on, given) => on.insert(given), [none]],
  ['an insert of rows that fails', () => [ben(), ada()], (on, given) => on.insert(given), [none, none]],
  ['a save that fails', () => [ben(), ada()], (on, given) => on.save(given), [none, none]],
  [
    'an upsert that fails',
    () => [ben({ note: null }), ada({ city: null as never })],
    (on, given) => on.upsert(given, ['email']),
    [none, none],
  ],
  [
    'an insert that fills in nothing',
    () => [ben()],
    (on, given) => insert(on, given).updateEntity(false).execute(),
    [none],
  ],
]

describe.each(Object.keys(IDS))('an object whose id is a %s', (kind) => {
  const sources: Record<string, DataSource> = {}
  beforeAll(async () => {
    await postgres.exec('drop table if exists users, plain_users')
    for (const name of ['plain', 'encrypted']) sources[name] = await connect(kind, name === 'plain')
    if (kind !== 'identity') return
    for (const table of ['users', 'plain_users']) {
      await postgres.exec(`alter table ${table} alter id drop default, alter id add generated by default as identity`)
    }
  })
  afterAll(() => Promise.all(Object.values(sources).map((one) => one.destroy())))

  async function leftBy(name: string, given: Given[], run: (on: Repository<User>) => Promise<unknown>) {
    const on = (sources[name] as DataSource).getRepository<User>('User')
    const result = await run(on).catch((error: unknown) => String((error as { code?: unknown }).code))
    const { rows } = await postgres.query<User>(`select * from ${on.metadata.tableName}`)
    const left = given.map((one): Left[number] => {
      if (one.id === undefined) return 'no id'
      const row = rows.find((other) => String(other.id) === String(one.id))
      return row ? [row.city, one.version] : 'of no row'
    })
    const filled = given.map(({ created, lower, shade }) => [created instanceof Date, lower, shade])
    return { left, result, typeOfId: given.map((one) => typeof one.id), filled, rows }
  }
  beforeEach(async () => {
    await postgres.exec('truncate users, plain_users')
    for (const name of ['plain', 'encrypted']) {
      await sources[name]?.getRepository('User').insert({ email: ADA, note: 'first', city: 'first' })
    }
  })

  it.each(WRITES)('has that of its row after %s', async (_title, make, run, left) => {
    const [plain, given] = [make(), make()]
    const alone = await leftBy('plain', plain, (on) => run(on, plain))
    const found = await leftBy('encrypted', given, (on) => run(on, given))
    expect(alone.left).toEqual(left)
    expect(found.left).toEqual(left)
    expect(found.typeOfId).toEqual(alone.typeOfId)
    expect(found.filled).toEqual(alone.filled)
    const versions = (rows: User[]) => rows.map(({ city, version }) => [city, version]).sort()
    expect(versions(found.rows)).toEqual(versions(alone.rows))
    const shape = (result: unknown) =>
      JSON.parse(
        JSON.stringify(result, (key, value) =>
          ['id', 'code'].includes(key) ? 'id' : key === 'created' ? 'date' : value,
        ) ?? 'null',
      )
    if (typeof alone.result === 'object' && 'identifiers' in (alone.result as object)) {
      const { identifiers, generatedMaps } = found.result as { identifiers: Given[]; generatedMaps: Given[] }
      expect(shape({ identifiers, generatedMaps })).toEqual(
        shape((({ identifiers, generatedMaps }) => ({ identifiers, generatedMaps }))(alone.result as never)),
      )
      expect(identifiers.map((one) => one?.id)).toEqual(
        left.length === 0 ? [] : identifiers.map((__, at) => given[at]?.id),
      )
    } else expect(typeof found.result).toBe(typeof alone.result)
  })

  const encryptedUsers = () => (sources.encrypted as DataSource).getRepository<User>('User')
  it('has that of its row after orIgnore of some rows, where TypeORM alone gives it to another object', async () => {
    const given = [ada(), ben(), ada(), ben({ email: 'x@x.org', city: 'x' })]
    const { left, result } = await leftBy('encrypted', given, (on) => insert(on, given).orIgnore().execute())
    expect(left).toEqual([none, ['ben', 1], none, ['x', 1]])
    const { identifiers, raw } = result as { identifiers: unknown[]; raw: unknown[] }
    expect([identifiers[0], identifiers[2], raw.length]).toEqual([undefined, undefined, 2])
    expect(identifiers[3]).toMatchObject({ id: given[3]?.id })
  })
  it.runIf(kind === 'serial')(
    'has that of its row among more than one statement takes, and none if one fails',
    async () => {
      const COUNT = 15_000
      const many = () => Array.from({ length: COUNT }, (__, at): Given => ({ email: `${at}@x.org`, city: `${at}` }))
      const cities = (given: Given[]) => given.map(({ city }): Left[number] => [city, 1])
      const failing = [...many(), ada()]
      const failed = await leftBy('encrypted', failing, (on) => on.insert(failing))
      expect([failed.result, failed.rows.length, new Set(failed.left)]).toEqual(['23505', 1, new Set([none])])
      const given = many()
      const inserted = await leftBy('encrypted', given, (on) => on.insert(given))
      expect(inserted.left).toEqual(cities(given))
      expect((inserted.result as { identifiers: Given[] }).identifiers.map(({ id }) => id)).toEqual(
        given.map(({ id }) => id),
      )
      const ignored = [...many(), ben()]
      const { left } = await leftBy('encrypted', ignored, (on) => insert(on, ignored).orIgnore().execute())
      expect([left.at(-1), new Set(left.slice(0, -1))]).toEqual([['ben', 1], new Set([none])])
      const again = given.map(({ id, email }): Given => ({ id: id as number, email: email as string, city: 'again' }))
      const upserted = await leftBy('encrypted', again, (on) => on.upsert(again, ['id']))
      expect(upserted.left).toEqual(cities(again))
    },
  )
  it('has that of its row where it had another one', async () => {
    const other: Given = { email: 'x', city: 'x' }
    await sources.plain?.getRepository('User').insert(other)
    const given = [ada({ id: other.id as string })]
    const { left } = await leftBy('encrypted', given, (on) => on.upsert(given[0] ?? {}, ['email']))
    expect(left).toEqual([['new', 1]])
  })
  it('is read again, and changed, by that id', async () => {
    const both = [ada(), ben()]
    await encryptedUsers().upsert(both, ['email'])
    for (const one of both) {
      await encryptedUsers().update({ id: one.id as string }, { note: 'saved' })
      const found = await encryptedUsers().findOneBy({ id: one.id as string })
      expect(found).toMatchObject({ email: one.email, note: 'saved' })
    }
    expect(await encryptedUsers().count()).toBe(2)
  })
})
