// The ORMs' own words for leaving an index out of what an API returns, as existing-application.md has them: searches work all the same.

import { eq, getTableColumns } from 'drizzle-orm'
import { text as column, pgTable, serial } from 'drizzle-orm/pg-core'
import { drizzle } from 'drizzle-orm/pglite'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { EntitySchema } from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import * as forDrizzle from '../../packages/drizzle/src/index.js'
import * as forPrisma from '../../packages/prisma/src/index.js'
import { type Client, createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import * as forTypeorm from '../../packages/typeorm/src/index.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { PrismaClient } from './prisma/client.js'
import { sourcesOn } from './typeorm-source.js'

const EMAIL = 'ada@example.org'
const ADA = { id: 1, email: EMAIL, phone: null, city: 'London' }
const OTHERS = { name: 'customers', key: 'shop', bind: ['id'], format: 'text' } as const

let postgres: Awaited<ReturnType<typeof openCreatedCluster>>
let eaas: Client
beforeAll(async () => {
  postgres = await openCreatedCluster(inject('runDir'))
  await postgres.exec(`create table "Customer" (
    id serial primary key, email text not null unique, email_index text unique, phone text, city text not null)`)
  eaas = createClient(createTestService())
})
beforeEach(() => postgres.exec('truncate "Customer" restart identity'))
afterAll(async () => {
  eaas.close()
  await postgres.close()
})

describe('an index is left out of what is read, and searched', () => {
  it('in Drizzle, by the columns of a selection', async () => {
    const customers = pgTable('Customer', {
      id: serial().primaryKey(),
      email: column().notNull(),
      emailIndex: column('email_index'),
      phone: column(),
      city: column().notNull(),
    })
    const model = eaas.model({ ...OTHERS, fields: { email: text({ index: 'emailIndex' }) } })
    const db = forDrizzle.encrypted(drizzle(postgres, { schema: { customers } }), [[customers, model]])
    const { emailIndex: _, ...shown } = getTableColumns(customers)
    const isAda = eq(customers.email, EMAIL)
    const { id: __, ...ada } = ADA
    expect(await db.insert(customers).values(ada).returning(shown)).toEqual([ADA])
    expect(await db.select(shown).from(customers).where(isAda)).toEqual([ADA])
    expect(await db.query.customers.findFirst({ columns: { emailIndex: false }, where: isAda })).toEqual(ADA)
    expect(await db.query.customers.findFirst({ where: isAda })).toHaveProperty('emailIndex')
  })

  it('in Prisma, by `omit` of the client', async () => {
    const model = eaas.model({ ...OTHERS, fields: { email: text({ index: 'email_index' }) } })
    const open = (omit: object) =>
      new PrismaClient({ adapter: new PrismaPGlite(postgres), ...omit }).$extends(
        forPrisma.encrypted({ Customer: model }),
      )
    const db = open({ omit: { customer: { email_index: true } } })
    const { id: _, ...ada } = ADA
    expect(await db.customer.create({ data: ada })).toEqual(ADA)
    expect(await db.customer.findUnique({ where: { email: EMAIL } })).toEqual(ADA)
    expect(await db.customer.findMany()).toEqual([ADA])
    const { phone, ...changed } = await db.customer.update({ where: { email: EMAIL }, data: { phone: '+33 1' } })
    expect([phone, Object.keys(changed)]).toEqual(['+33 1', ['id', 'email', 'city']])
    expect(await open({}).customer.findFirst()).toHaveProperty('email_index')
  })

  it.each([false, true])('in TypeORM, by `select` of the column: %s', async (select) => {
    interface Customer {
      id: number
      email: string
      email_index?: string | null
      phone: string | null
      city: string
    }
    const customers = new EntitySchema<Customer>({
      name: 'Customer',
      tableName: 'Customer',
      columns: {
        id: { type: 'int', primary: true, generated: 'increment' },
        email: { type: 'text' },
        email_index: { type: 'text', nullable: true, select },
        phone: { type: 'text', nullable: true },
        city: { type: 'text' },
      },
    })
    const source = sourcesOn(postgres).open([customers])
    const model = eaas.model({ ...OTHERS, fields: { email: text({ index: 'email_index' }) } })
    const repository = (await forTypeorm.encrypted(source, [[customers, model]]).initialize()).getRepository(customers)
    const { id: _, ...ada } = ADA
    // The adapter does not put the index into what the application passed.
    expect(await repository.save({ ...ada })).toEqual({ ...ADA, email_index: null })
    const found = await repository.findOneByOrFail({ email: EMAIL })
    expect(Object.keys(found).includes('email_index')).toBe(select)
    // What was loaded is saved again, and found by its new value.
    await repository.save({ ...found, email: 'countess@example.org' })
    expect((await repository.findOneByOrFail({ email: 'countess@example.org' })).id).toBe(1)
    expect(await repository.findOneBy({ email: EMAIL })).toBeNull()
    await source.destroy()
  })
})
