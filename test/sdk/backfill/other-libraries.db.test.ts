// A column in which other libraries stored values, each in its own form and beside plaintext, ends in our envelopes, on a real database. The
// libraries themselves make the values; of transit the engine in memory, which test/slow/transit.test.ts compares with OpenBao.
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { encryptStringSync, generateKey, parseKeySync } from '@47ng/cloak'
import {
  buildClient,
  CommitmentPolicy,
  RawAesKeyringNode,
  RawAesWrappingSuiteIdentifier,
} from '@aws-crypto/client-node'
import { PGlite } from '@electric-sql/pglite'
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import postgres from 'postgres'
import { fieldEncryptionExtension } from 'prisma-field-encryption'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  awsMessageReader,
  backfill,
  cloakReader,
  inspectTable,
  type PostgresQuery,
  postgresTable,
  type Reader,
  transitReader,
} from '../../../packages/sdk/src/backfill.js'
import { type Client, createClient, text } from '../../../packages/sdk/src/index.js'
import { encrypted } from '../../../packages/sdk/src/prisma.js'
import { PrismaClient } from '../../orm/prisma/client.js'
import { freshDatabase, type TestDatabase } from '../../support/database.js'
import { type Service, startService } from '../../support/service.js'
import { createTransit } from '../../support/transit.js'

const EACH = 20

/** The annotations of the schema, `/// @encrypted`, as `prisma generate` hands them on. */
const dmmf = {
  datamodel: {
    models: [
      {
        name: 'User',
        fields: ['id', 'email', 'nick'].map((name) => ({
          name,
          isList: false,
          isUnique: name === 'id',
          isId: name === 'id',
          type: 'String',
          ...(name === 'id' ? {} : { documentation: '@encrypted' }),
        })),
      },
    ],
  },
}
const keys = [generateKey(), generateKey()] as const
const transit = createTransit()
const { encrypt, decrypt } = buildClient(CommitmentPolicy.REQUIRE_ENCRYPT_REQUIRE_DECRYPT)
const keyring = new RawAesKeyringNode({
  keyName: 'users.email',
  keyNamespace: 'tests',
  unencryptedMasterKey: new Uint8Array(32).fill(5),
  wrappingSuite: RawAesWrappingSuiteIdentifier.AES256_GCM_IV12_TAG16_NO_PADDING,
})

let database: TestDatabase
let query: PostgresQuery
let prisma: PrismaClient
let close: () => Promise<unknown>
let service: Service
let eaas: Client
let keyId: string

beforeAll(async () => {
  ;[database, service] = await Promise.all([freshDatabase('other_libraries'), startService()])
  if (database.backend === 'postgres') {
    const sql = postgres(database.directUrl, { max: 2, onnotice: () => undefined })
    query = (statement, parameters) => sql.unsafe(statement, parameters)
    close = () => sql.end()
    prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: database.directUrl, max: 2 }) })
  } else {
    const pglite = new PGlite(join(database.dataDir, 'postgres'))
    query = async (statement, parameters) => (await pglite.query<object>(statement, parameters)).rows
    close = () => pglite.close()
    prisma = new PrismaClient({ adapter: new PrismaPGlite(pglite) })
  }
  await query(
    `create table users (id uuid primary key, email text not null, email_index text unique, nick text, nick_index text,
      born jsonb, prefs jsonb, city text not null)`,
    [],
  )
  const { secret } = await service.createTenant()
  eaas = createClient({ baseUrl: service.url, apiKey: secret })
  keyId = (await eaas.keys.create({ name: 'users' })).id
})
afterAll(async () => {
  eaas?.close()
  await prisma?.$disconnect()
  await close?.()
  await service?.close()
  await database?.drop()
})

const modelOf = (acceptPlaintext: boolean) =>
  eaas.model({
    name: 'users',
    keyId,
    bind: ['id'],
    format: 'text',
    warn: false,
    acceptPlaintext,
    fields: {
      email: text({ index: 'email_index', normalize: ['lowercase'] }),
      nick: text({ index: 'nick_index' }).nullable(),
    },
  })

/** How each library stores a text. That of Prisma is written by Prisma. */
const FORMS: Record<string, (plaintext: string) => Promise<string>> = {
  cloak: async (plaintext) => encryptStringSync(plaintext, parseKeySync(keys[1])),
  transit: async (plaintext) => {
    const plain = Buffer.from(plaintext).toString('base64')
    const { body } = await transit.post('/v1/transit/encrypt/users', JSON.stringify({ plaintext: plain }))
    return (body as { data: { ciphertext: string } }).data.ciphertext
  },
  aws: async (plaintext) => {
    const { result } = await encrypt(keyring, plaintext, { encryptionContext: { column: 'users.email' } })
    return result.toString('base64')
  },
  plaintext: async (plaintext) => plaintext,
}

/** Each reader for the values of its own form; the last one also takes plaintext. */
function readerOf(): Reader {
  const cloak = cloakReader({ keys })
  const ofTransit = transitReader({ post: transit.post, key: 'users' })
  const rest = awsMessageReader({
    decrypt: (message) => decrypt(keyring, message),
    encryptionContext: { column: 'users.email' },
    acceptPlaintext: true,
  })
  return (stored) => {
    if (String(stored).startsWith('v1.aesgcm256.')) return cloak(stored)
    return String(stored).startsWith('vault:') ? ofTransit(stored) : rest(stored)
  }
}

interface Stored {
  id: string
  email: string
  email_index: string | null
  nick: string | null
  nick_index: string | null
}
const rowsOf = (where = 'true') =>
  query(`select id, email, email_index, nick, nick_index from users where ${where} order by id`, []) as Promise<
    Stored[]
  >

describe('a column with values of four libraries, plaintext, and our own', () => {
  const expected = new Map<string, { email: string; nick: string | null }>()

  beforeAll(async () => {
    const byPrisma = prisma.$extends(
      fieldEncryptionExtension({ encryptionKey: keys[0], dmmf }) as never,
    ) as PrismaClient
    for (let at = 0; at < EACH; at++) {
      const row = { id: randomUUID(), email: `Prisma${at}@example.org`, nick: at % 2 ? null : `prisma ${at}` }
      await byPrisma.user.create({ data: { ...row, city: 'Paris' } })
      expected.set(row.id, row)
    }
    for (const [name, store] of Object.entries(FORMS)) {
      for (let at = 0; at < EACH; at++) {
        const row = {
          id: randomUUID(),
          email: `${name}${at}@example.org`,
          nick: at % 2 ? null : `${name} \u00e9 ${at}`,
        }
        const stored = [row.id, await store(row.email), row.nick === null ? '' : await store(row.nick)]
        await query(
          "insert into users (id, email, nick, city) values ($1::text::uuid, $2, nullif($3, ''), 'Rome')",
          stored,
        )
        expected.set(row.id, row)
      }
    }
    for (let at = 0; at < EACH; at++) {
      const row = { id: randomUUID(), email: `ours${at}@example.org`, nick: null }
      const sealed = await modelOf(false).encrypt(row)
      const values = [row.id, sealed.email as string, sealed.email_index as string]
      await query("insert into users (id, email, email_index, city) values ($1::text::uuid, $2, $3, 'Oslo')", values)
      expected.set(row.id, row)
    }
  })

  it('ends in our envelopes alone, every value readable and found by its index, ours byte for byte', async () => {
    const written = await query("select email from users where city = 'Paris'", [])
    expect(new Set(written.map((row) => String(Object(row).email).slice(0, 13)))).toEqual(new Set(['v1.aesgcm256.']))
    const ours = await rowsOf("city = 'Oslo'")
    const total = EACH * 6
    const source = postgresTable(query, 'users')
    expect((await inspectTable(modelOf(true), source)).found.fields.email).toMatchObject({
      plaintext: total - EACH,
      v2: EACH,
    })

    const read = readerOf()
    const trial = await backfill(modelOf(false), source, { read: { email: read, nick: read }, dryRun: true })
    expect(trial).toMatchObject({ changed: total - EACH, current: EACH, failed: 0 })
    const report = await backfill(modelOf(false), source, { read: { email: read, nick: read }, batchSize: 17 })
    expect(report).toMatchObject({ rows: total, changed: total - EACH, current: EACH, failed: 0, contended: 0 })

    expect(await rowsOf("city = 'Oslo'")).toEqual(ours)
    const rows = await rowsOf()
    for (const { email, nick } of rows) expect(`${email} ${nick}`).toMatch(/^eaas\.\S+ (eaas\.\S+|null)$/)
    const { ok, failed } = await modelOf(false).decryptMany(rows as never[])
    expect(failed).toEqual([])
    const plain = ok as unknown as Stored[]
    expect(new Map(plain.map(({ id, email, nick }) => [id, { id, email, nick }]))).toEqual(expected)
    expect(await inspectTable(modelOf(false), source, { open: true })).toMatchObject({
      failed: 0,
      found: {
        left: 0,
        fields: { email: { v2: total }, nick: { v2: total / 2 - EACH / 2, empty: total / 2 + EACH / 2 } },
      },
    })
  })

  it('is read by an application that exchanged the extension of prisma-field-encryption for ours', async () => {
    const db = prisma.$extends(encrypted({ User: modelOf(false) }))
    expect(await db.user.findMany({ where: { email: 'PRISMA4@example.org' } })).toMatchObject([
      { email: 'Prisma4@example.org', nick: 'prisma 4', city: 'Paris' },
    ])
    expect(await db.user.findMany({ where: { nick: 'aws \u00e9 6' } })).toMatchObject([{ email: 'aws6@example.org' }])
  })

  it('keeps the rows whose key or context is not the one, and says which and why', async () => {
    const stray = [
      encryptStringSync('secret', parseKeySync(generateKey())),
      'vault:v7:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
      (await encrypt(keyring, 'secret', { encryptionContext: { column: 'users.phone' } })).result.toString('base64'),
    ]
    const ids = stray.map(() => randomUUID())
    for (const [at, value] of stray.entries()) {
      await query("insert into users (id, email, city) values ($1::text::uuid, $2, 'Bonn')", [ids[at] ?? '', value])
    }
    const read = readerOf()
    const report = await backfill(modelOf(false), postgresTable(query, 'users'), { read: { email: read, nick: read } })
    expect(report).toMatchObject({ changed: 0, failed: 3 })
    const why = new Map(report.failures.map(({ key, message }) => [JSON.parse(key)[0], message]))
    expect(ids.map((id) => why.get(id))).toEqual([
      expect.stringContaining('not a value of cloak under these keys'),
      expect.stringContaining('not a value that transit decrypts'),
      expect.stringContaining('the message has another encryption context'),
    ])
    expect(JSON.stringify(report)).not.toContain('secret')
    const left = new Map((await rowsOf("city = 'Bonn'")).map(({ id, email }) => [id, email]))
    expect(ids.map((id) => left.get(id))).toEqual(stray)
  })
})
