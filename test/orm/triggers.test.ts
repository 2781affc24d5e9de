// A trigger that changes an encrypted column would destroy its values: nothing is written before it is gone.

import { eq } from 'drizzle-orm'
import { text as column, pgTable } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pglite'
import { Kysely, PostgresDialect } from 'kysely'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { EntitySchema, type QueryRunner } from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { encrypted as encryptedDrizzle } from '../../packages/drizzle/src/index.js'
import { encrypted as encryptedKysely } from '../../packages/kysely/src/index.js'
import { encrypted as encryptedPrisma } from '../../packages/prisma/src/index.js'
import { createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { encrypted as encryptedTypeorm } from '../../packages/typeorm/src/index.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { PrismaClient } from './prisma/client.js'
import { sourcesOn } from './typeorm-source.js'

let postgres: Awaited<ReturnType<typeof openCreatedCluster>>
beforeAll(async () => {
  postgres = await openCreatedCluster(inject('runDir'))
})
beforeEach(async () => {
  await postgres.exec(`drop schema public cascade; create schema public;
    create table guests (id text primary key, mail text not null, city text);
    create function lowered() returns trigger language plpgsql as 'begin new.mail := lower(new.mail); return new; end';
    create function compared() returns trigger language plpgsql as
      'begin if new.mail = old.mail then new.city := lower(new.city); end if; return new; end';
    create function updated() returns trigger language plpgsql as
      'begin if pg_trigger_depth() = 1 then update guests set mail = lower(mail) where id = new.id; end if; return null; end'`)
})
afterAll(() => postgres.close())
const BEFORE = 'trigger changes before insert or update on guests for each row execute function'

const eaas = createClient(createTestService())
const model = (bind: false | string[], column = 'email') =>
  eaas.model({
    name: 'guests',
    key: 'guests',
    bind: bind as ['id'],
    format: 'text',
    fields: { [column]: text() },
  }) as never
const row = { id: '7', email: 'Ada@x.org' }

interface Writes {
  insert(): Promise<unknown>
  /** Changes the encrypted column of rows that another column finds. */
  update(): Promise<unknown>
}

const guests = new EntitySchema<typeof row & { city: string | null }>({
  name: 'Guest',
  tableName: 'guests',
  columns: {
    id: { type: 'text', primary: true },
    email: { type: 'text', name: 'mail' },
    city: { type: 'text', nullable: true },
  },
})
const openTypeorm = (bind: false | string[], options = {}) =>
  encryptedTypeorm(sourcesOn(postgres).open([guests], options), [[guests, model(bind)]])

/** Each connects. */
const ORMS: [orm: string, open: (bind: false | string[]) => Promise<Writes>][] = [
  [
    'Drizzle',
    async (bind) => {
      const guests = pgTable('guests', { id: column().primaryKey(), email: column('mail').notNull(), city: column() })
      const db = encryptedDrizzle(drizzle(postgres), [[guests, model(bind)]])
      return {
        insert: async () => db.insert(guests).values(row),
        update: async () => db.update(guests).set({ email: 'x' }).where(eq(guests.city, 'Rome')),
      }
    },
  ],
  [
    'Kysely',
    async (bind) => {
      const { connection } = sourcesOn(postgres)
      const pool = { connect: async () => ({ ...connection, release: () => undefined }), end: async () => undefined }
      const dialect = encryptedKysely(new PostgresDialect({ pool: pool as never }), { guests: model(bind, 'mail') })
      const db = new Kysely<{ guests: { id: string; mail: string; city: string | null } }>({ dialect })
      return {
        insert: () => db.insertInto('guests').values({ id: row.id, mail: row.email, city: null }).execute(),
        update: () => db.updateTable('guests').set({ mail: 'x' }).where('city', '=', 'Rome').execute(),
      }
    },
  ],
  [
    'TypeORM, when it is initialized,',
    async (bind) => {
      const { manager } = await openTypeorm(bind).initialize()
      return {
        insert: () => manager.insert(guests, row),
        update: () => manager.update(guests, { city: 'Rome' }, { email: 'x' }),
      }
    },
  ],
]

describe.each(ORMS)('%s', (_, open) => {
  it.each<[write: keyof Writes, bind: false | string[]]>([
    ['insert', ['id']],
    ['insert', false],
    ['update', ['id']],
    ['update', false],
  ])('refuses an %s where a trigger changes an encrypted column, with values bound to %j', async (write, bind) => {
    await postgres.exec(`insert into guests values ('1', 'X', 'Rome'); create ${BEFORE} lowered()`)
    await expect((async () => (await open(bind))[write]())()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message:
        'the trigger changes of the table of guests changes the column mail, whose values would never open again',
    })
    expect((await postgres.query('select id, mail from guests')).rows).toEqual([{ id: '1', mail: 'X' }])
  })
  it.each([
    [
      'of a partition',
      `drop table guests; create table guests (id text primary key, mail text not null, city text) partition by hash (id);
      create table part partition of guests for values with (modulus 1, remainder 0);
      create ${BEFORE.replace('on guests', 'on part')} lowered()`,
    ],
    [
      'of a child',
      `create table child () inherits (guests); create ${BEFORE.replace('on guests', 'on child')} lowered()`,
    ],
    [
      'of the table below a view',
      `alter table guests rename to people; create view inner_guests as select * from people;
      create view guests as select id, mail, city from inner_guests; create ${BEFORE.replace('on guests', 'on people')} lowered()`,
    ],
    [
      'in place of writes of a view',
      `alter table guests rename to people; create view guests as select * from people;
      create ${BEFORE.replace('before', 'instead of')} lowered()`,
    ],
    ['after the write', `create ${BEFORE.replace('before', 'after')} updated()`],
  ])('refuses to write where a trigger %s changes an encrypted column', async (_, sql) => {
    await postgres.exec(sql)
    await expect((async () => (await open(['id'])).insert())()).rejects.toThrow('the trigger changes of the table')
    expect((await postgres.query('select id from guests')).rows).toEqual([])
  })
  it.each([
    ['that changes another column', `create ${BEFORE} compared()`],
    ['that is disabled', `create ${BEFORE} lowered(); alter table guests disable trigger changes`],
    ['for replicated rows alone', `create ${BEFORE} lowered(); alter table guests enable replica trigger changes`],
    ['that runs after writes', `create ${BEFORE.replace('before', 'after')} lowered()`],
    ['that runs before deletes alone', `create ${BEFORE.replace('insert or update', 'delete')} lowered()`],
  ])('writes beside a trigger %s', async (_, sql) => {
    await postgres.exec(sql)
    await (await open(['id'])).insert()
    expect((await postgres.query('select id from guests')).rows).toEqual([{ id: '7' }])
  })
})

it('TypeORM finds one that a migration makes, and is then not initialized', async () => {
  class Lowers1700000000000 {
    up = (runner: QueryRunner) => runner.query(`create ${BEFORE} lowered()`)
    down = async () => undefined
  }
  const source = openTypeorm(['id'], { migrations: [Lowers1700000000000], migrationsRun: true })
  await expect(source.initialize()).rejects.toThrow('the trigger changes of the table of guests')
  expect(source.isInitialized).toBe(false)
})

it('Prisma refuses it too', async () => {
  await postgres.exec(`create table "Customer" (id serial primary key, email text not null, email_index text, phone text, city text not null);
    create function lowered_email() returns trigger language plpgsql as 'begin new.email = lower(new.email); return new; end';
    create trigger changes before update on "Customer" for each row execute function lowered_email()`)
  const fields = { email: text({ index: 'email_index' }) }
  const customers = eaas.model({ name: 'customers', key: 'guests', bind: ['id'], format: 'text', warn: false, fields })
  const client = new PrismaClient({ adapter: new PrismaPGlite(postgres) })
  const db = client.$extends(encryptedPrisma({ Customer: customers }))
  const insert = async () => db.customer.create({ data: { email: 'Ada@x.org', city: 'London' } })
  const update = async () => db.customer.updateMany({ where: { city: 'London' }, data: { email: 'x' } })
  for (const write of [insert, update]) {
    await expect(write()).rejects.toThrow('the trigger changes of the table of customers changes the column email')
  }
  await postgres.exec('drop trigger changes on "Customer"')
  expect(await insert()).toMatchObject({ email: 'Ada@x.org' })
})
