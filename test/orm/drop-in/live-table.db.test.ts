// An application with a table in use is encrypted by the steps that `backfill --plan` prints: at every moment its customers can log in,
// which finds a row by its e-mail address. The same for each ORM.
import { fileURLToPath } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import { eq } from 'drizzle-orm'
import { pgTable, serial, text } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/postgres-js'
import { type Generated, Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import postgres from 'postgres'
import { DataSource, EntitySchema, type EntitySchemaColumnOptions } from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { PlanStep } from '../../../packages/cli/src/backfill/plan.js'
import { backfill, postgresTable } from '../../../packages/cli/src/backfill.js'
import { runCommand } from '../../../packages/cli/src/test-support/command.js'
import * as ofDrizzle from '../../../packages/drizzle/src/index.js'
import * as ofKysely from '../../../packages/kysely/src/index.js'
import * as ofPrisma from '../../../packages/prisma/src/index.js'
import { type Client, createClient } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import * as ofTypeorm from '../../../packages/typeorm/src/index.js'
import { backend, freshDatabase, type TestDatabase } from '../../support/database/database.js'
import { PrismaClient } from '../prisma/client.js'
import define from './customers.js'

type Model = ReturnType<typeof define>

interface App {
  /** Returns the address of the customer that has it, as it is stored. */
  login(email: string): Promise<string | undefined>
  signUp(email: string): Promise<unknown>
  rename(email: string, to: string): Promise<unknown>
  close(): Promise<unknown>
}

/** Opens the application as it was before, or with a model. */
type Open = (url: string, model?: Model) => Promise<App>

const city = 'London'

const openKysely: Open = async (url, Customer) => {
  interface Database {
    Customer: { id: Generated<number>; email: string; city: string }
  }
  const dialect = new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 2 }) })
  const db = new Kysely<Database>({ dialect: Customer ? ofKysely.encrypted<Database>(dialect, { Customer }) : dialect })
  const find = (email: string) => db.selectFrom('Customer').select(['id', 'email']).where('email', '=', email)
  return {
    login: async (email) => (await find(email).executeTakeFirst())?.email,
    signUp: (email) => db.insertInto('Customer').values({ email, city }).execute(),
    rename: (email, to) => db.updateTable('Customer').set({ email: to }).where('email', '=', email).execute(),
    close: () => db.destroy(),
  }
}

const openDrizzle: Open = async (url, model) => {
  const before = { id: serial().primaryKey(), email: text().notNull().unique(), city: text().notNull() }
  const customers = pgTable('Customer', before)
  const withIndex = pgTable('Customer', { ...before, email_index: text().unique() })
  const sql = postgres(url, { max: 2 })
  const db = model ? ofDrizzle.encrypted(drizzle(sql), [[withIndex, model]]) : drizzle(sql)
  const table = model ? (withIndex as never as typeof customers) : customers
  const find = (email: string) =>
    db.select({ id: table.id, email: table.email }).from(table).where(eq(table.email, email))
  return {
    login: async (email) => (await find(email))[0]?.email,
    signUp: (email) => db.insert(table).values({ email, city }),
    rename: (email, to) => db.update(table).set({ email: to }).where(eq(table.email, email)),
    close: () => sql.end(),
  }
}

const openPrisma: Open = async (url, Customer) => {
  const plain = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 2 }) })
  const db = Customer ? (plain.$extends(ofPrisma.encrypted({ Customer })) as never as typeof plain) : plain
  const select = { id: true, email: true }
  return {
    login: async (email) => (await db.customer.findUnique({ where: { email }, select }))?.email,
    signUp: (email) => db.customer.create({ data: { email, city }, select }),
    rename: (email, to) => db.customer.update({ where: { email }, data: { email: to }, select }),
    close: () => db.$disconnect(),
  }
}

const openTypeorm: Open = async (url, model) => {
  const index: EntitySchemaColumnOptions = { type: 'text', nullable: true, unique: true }
  const customers = new EntitySchema<{ id: number; email: string; city: string }>({
    name: 'Customer',
    tableName: 'Customer',
    columns: {
      id: { type: 'int', primary: true, generated: true },
      email: { type: 'text', unique: true },
      city: { type: 'text' },
      ...(model ? { email_index: index } : {}),
    },
  })
  const source = new DataSource({ type: 'postgres', url, entities: [customers], poolSize: 2 })
  const db = model ? ofTypeorm.encrypted(source, [[customers, model]]) : source
  await db.initialize()
  const { manager } = db
  return {
    login: async (email) => (await manager.findOneBy(customers, { email }))?.email,
    signUp: (email) => manager.insert(customers, { email, city }),
    rename: (email, to) => manager.update(customers, { email }, { email: to }),
    close: () => db.destroy(),
  }
}

describe.runIf(backend() === 'postgres')('an application with a table in use', () => {
  let database: TestDatabase
  let sql: postgres.Sql
  let eaas: Client
  let url: string
  let command: (line: string) => ReturnType<typeof runCommand>
  const opened: App[] = []

  beforeAll(async () => {
    database = await freshDatabase('live_table')
    if (database.backend !== 'postgres') throw new Error('a PostgreSQL')
    url = database.directUrl
    sql = postgres(url, { max: 1, onnotice: () => undefined })
    const { baseUrl, apiKey, fetch } = createTestService()
    eaas = createClient({ baseUrl, apiKey, fetch })
    const env = { EAAS_URL: baseUrl, EAAS_API_KEY: apiKey, DATABASE_URL: url }
    const folder = fileURLToPath(new URL('.', import.meta.url))
    command = (line) => runCommand(line.split(' '), { env, folder, fetch })
  })
  afterAll(async () => {
    eaas.close()
    for (const app of opened) await app.close()
    await sql.end()
    await database.drop()
  })
  beforeEach(async () => {
    await sql.unsafe('drop table if exists "Customer"')
    await sql.unsafe('create table "Customer" (id serial primary key, email text not null unique, city text not null)')
  })

  const plan = async () => {
    const { code, out, err } = await command('backfill customers.ts --table Customer --plan --json')
    expect({ code, err }).toEqual({ code: 0, err: '' })
    return JSON.parse(String(out)).steps as PlanStep[]
  }
  const doneOf = async () => (await plan()).map(({ done }) => done)
  /** Runs the SQL and the commands of a step. */
  const runStep = async (step: PlanStep | undefined, more = '') => {
    expect(step?.run).not.toEqual([])
    for (const line of step?.run ?? []) {
      if (line.endsWith(';')) await sql.unsafe(line)
      else expect(await command(line.replace(/^.*npx @eaas\/cli /, '') + more)).toMatchObject({ code: 0, err: '' })
    }
  }

  it.each(Object.entries({ openDrizzle, openKysely, openPrisma, openTypeorm }))('%s', async (_, openApp) => {
    const open = async (model?: Model) => {
      const app = await openApp(url, model)
      opened.push(app)
      return app
    }
    const expectLogins = async (app: App, emails: string[]) =>
      expect(await Promise.all(emails.map((email) => app.login(email)))).toEqual(emails)

    const before = await open()
    for (const email of ['ada@x.org', 'ben@x.org', 'cy@x.org']) await before.signUp(email)
    const [columns, fill, deploy, fillAgain, seal, , drop] = await plan()
    expect(await doneOf()).toEqual([false, false, null, null, false, null, false])

    await runStep(columns)
    await expectLogins(before, ['ada@x.org', 'ben@x.org', 'cy@x.org'])
    await runStep(fill)
    await expectLogins(before, ['ada@x.org', 'ben@x.org', 'cy@x.org'])
    expect(await doneOf()).toEqual([true, true, null, null, false, null, false])
    await before.signUp('late@x.org')
    await before.rename('ben@x.org', 'bert@x.org')

    expect(deploy?.run).toEqual([])
    const app = await open(define(eaas))
    await expectLogins(app, ['ada@x.org', 'cy@x.org'])
    expect(await app.login(' CY@x.org ')).toBe('cy@x.org')
    await app.signUp('dora@x.org')
    await app.rename('cy@x.org', 'cyd@x.org')
    await expectLogins(app, ['ada@x.org', 'dora@x.org', 'cyd@x.org'])
    // What the version before wrote meanwhile: why the indexes are filled again at once.
    expect(await app.login('late@x.org')).toBeUndefined()
    expect(await app.login('ben@x.org')).toBe('bert@x.org')
    // The rows without an index come first, though they are the newest.
    const stopped = backfill(
      define(eaas),
      postgresTable((text, parameters) => sql.unsafe(text, parameters), 'Customer'),
      {
        ...{ work: 'index', batchSize: 1 },
        onProgress: () => Promise.reject(new Error('stopped')),
      },
    )
    await expect(stopped).rejects.toThrow('stopped')
    await expectLogins(app, ['late@x.org'])
    expect(await app.login('ben@x.org')).toBe('bert@x.org')
    await runStep(fillAgain)
    const all = ['ada@x.org', 'bert@x.org', 'cyd@x.org', 'dora@x.org', 'late@x.org']
    await expectLogins(app, all)
    expect(await app.login('ben@x.org')).toBeUndefined()

    let isSealing = true
    const sealing = runStep(seal, ' --batch-size 1').finally(() => {
      isSealing = false
    })
    do await expectLogins(app, all)
    while (isSealing)
    await sealing
    const [row] = await sql`select count(*)::int as n from "Customer" where email not like 'eaas.2.%'`
    expect(row?.n).toBe(0)
    expect(await doneOf()).toEqual([true, true, null, true, true, null, false])

    const strictApp = await open(define(eaas, false))
    await expectLogins(strictApp, all)
    await runStep(drop)
    await expectLogins(strictApp, all)
    await strictApp.signUp('eve@x.org')
    await expectLogins(strictApp, ['eve@x.org'])
    await expect(strictApp.signUp(' EVE@x.org')).rejects.toThrow()
    expect((await plan()).map(({ done }) => done)).toEqual([true, true, null, true, true, null])
  })
})
