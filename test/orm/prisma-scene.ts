// Users and posts on a PostgreSQL in memory, and a client of Prisma that encrypts them.
import { randomUUID } from 'node:crypto'
import type { PGlite } from '@electric-sql/pglite'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { afterAll, beforeEach, expect, inject } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { createClient } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { PrismaClient } from './prisma/client.js'
import { modelsOf, tables } from './scene.js'

/** A plaintext of an encrypted field. */
export const SECRET = 'ada@secret.example'
/** The id of the user and of the post that each test finds. */
export const ID = randomUUID()

export const user = (id: string = randomUUID()) => ({ id, email: `${id}@x.org`, city: 'London' })
export const post = () => ({ id: randomUUID(), title: SECRET, likes: 3 })

/** Opens it for the tests of a suite. `sent` has what reached the database, as JSON. */
export async function openScene() {
  const postgres = await openCreatedCluster(inject('runDir'))
  const sent: string[] = []
  /** Notes the queries of a connection. */
  const note = (on: Pick<PGlite, 'query'>) => {
    const query = on.query.bind(on)
    on.query = (sql, values, ...rest) => {
      sent.push(JSON.stringify([sql, values]))
      return query(sql, values, ...rest)
    }
  }
  await postgres.exec(tables('text'))
  note(postgres)
  const transaction = postgres.transaction.bind(postgres)
  postgres.transaction = (run) =>
    transaction((inner) => {
      note(inner)
      return run(inner)
    })
  const eaas = createClient(createTestService())
  const keyId = (await eaas.keys.create({ name: 'users' })).id
  const models = modelsOf(eaas, keyId, 'text')
  const createPrisma = (options: { omit?: { post: { id: true } } } = {}) =>
    new PrismaClient({ adapter: new PrismaPGlite(postgres), ...options })
  const encrypting = (on: PrismaClient) => on.$extends(encrypted({ User: models.users, Post: models.posts }))
  const client = createPrisma()
  const db = encrypting(client)
  beforeEach(async () => {
    await postgres.exec('truncate users, posts, tickets')
    await db.user.create({ data: { ...user(ID), nick: 'ada', posts: { create: { ...post(), id: ID } } } })
    sent.length = 0
  })
  afterAll(async () => {
    await client.$disconnect()
    await postgres.close()
  })
  /** Asserts that nothing has reached the database but the commands of a transaction. */
  const assertNothingSent = () => {
    expect(sent.filter((query) => !/begin|commit|rollback/i.test(query))).toEqual([])
  }
  return { postgres, sent, assertNothingSent, eaas, keyId, models, createPrisma, encrypting, client, db }
}
