// Fields that a new row leaves out: a default of the database would be stored in plaintext, and no row of the table could be read.
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { leadOf, type Orm, type Place, postOf, type Scene, sampleOf, type User, userOf } from '../scene.js'
import { type Case, listCases, plain } from './cases.js'

const { cases, area } = listCases()

const COLUMNS = {
  users: ['nick', 'nick_index', 'born', 'prefs'],
  samples: ['data', 'amount', 'taken', 'good', 'tree'],
  leads: ['note', 'envelope'],
  vaults: ['note', 'row_seal'],
  places: ['address', 'street_index'],
}

/** Gives columns that are sealed, or made by the model, a default that the ORM's schema does not know. */
async function withDefaults({ sql }: Scene, run: () => Promise<void>): Promise<void> {
  const columns = Object.entries(COLUMNS).flatMap(([table, names]) =>
    names.map((name) => `alter table ${table} alter ${name}`),
  )
  const all = (change: string) => sql.unsafe(columns.map((column) => `${column} ${change};`).join(''))
  await all(`set default '{"street":"made"}'`)
  await run().finally(() => all('drop default'))
}

/** Lists the columns of a table that hold what the database made. */
async function filledIn({ sql }: Scene, table: string): Promise<string[]> {
  const found = await sql.unsafe(`select key from ${table} t, json_each_text(to_json(t)) where value like '%"made"%'`)
  return found.map(({ key }) => String(key))
}

const absent = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, undefined]))
const user = () => userOf(absent(['nick', 'born', 'prefs']) as Partial<User>)

/** An ORM that lacks a call has nothing of it to be tested. */
const WRITES: [title: string, needs: (keyof Orm)[], run: (orm: Orm) => Promise<unknown>][] = [
  ['a row', ['insert'], (orm) => orm.insert(user())],
  ['rows of which some have the field', ['insertMany'], (orm) => orm.insertMany([userOf(), user(), userOf()])],
  ['rows beside those that are there', ['insertIgnoring'], (orm) => orm.insertIgnoring([user(), userOf()])],
  [
    'a row that is returned',
    ['insertReturning'],
    async (orm) => {
      expect(plain(await orm.insertReturning?.(user()))).toMatchObject({ nick: null, born: null, prefs: null })
    },
  ],
  [
    'a row with nested ones',
    [],
    async (orm) => {
      const author = user()
      await orm.insertWithPosts?.(author, [postOf(author)])
    },
  ],
  ['an upsert', ['upsert'], (orm) => orm.upsert(user(), { city: 'Oslo' })],
  ['an upsert by another column', ['upsertByEmail'], (orm) => orm.upsertByEmail(user(), { city: 'Oslo' })],
  ['an upsert of rows', [], async (orm) => orm.upsertMany?.([user(), userOf()], 'id')],
  ['an upsert of rows by another column', [], async (orm) => orm.upsertMany?.([user(), userOf()], 'email')],
  [
    'a row of all kinds of values',
    ['insertSample'],
    (orm) => orm.insertSample(sampleOf(absent(COLUMNS.samples) as never)),
  ],
  ['a compact row', ['insertLead'], (orm) => orm.insertLead('leads', leadOf(absent(['note'])))],
  [
    'a row with a seal',
    ['insertVault', 'vaultById'],
    async (orm) => {
      const vault = leadOf(absent(['note']))
      await orm.insertVault(vault)
      expect(await orm.vaultById(vault.id)).toMatchObject({ mail: vault.mail, note: null })
    },
  ],
  ['a row with a field inside of a column', ['insertPlace'], (orm) => orm.insertPlace({ id: randomUUID() } as Place)],
]
const create = area('create')
for (const [title, needs, run] of WRITES) {
  create(`leaves no absent field to a default of the database, in ${title}`, needs, async (scene) => {
    await withDefaults(scene, async () => {
      await run(scene.orm)
      for (const table of Object.keys(COLUMNS)) expect([table, await filledIn(scene, table)]).toEqual([table, []])
    })
  })
}
create('stores no row whose absent field must not be null', ['insert'], async ({ orm, sql }) => {
  await sql`alter table users alter nick set default '"made"', alter nick set not null`
  try {
    await expect(orm.insert(user())).rejects.toThrow()
    expect(await sql`select id from users`).toEqual([])
  } finally {
    await sql`alter table users alter nick drop default, alter nick drop not null`
  }
})

export const absentFieldCases: readonly Case[] = cases
