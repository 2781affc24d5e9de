// A column in which other libraries stored values, each in its own form and beside plaintext, ends in our envelopes, on a real database. The
// libraries themselves make the values; of transit the engine in memory, which test/slow/transit.test.ts compares with OpenBao.
import { randomUUID } from 'node:crypto'
import { encryptStringSync, generateKey, parseKeySync } from '@47ng/cloak'
import {
  buildClient,
  CommitmentPolicy,
  RawAesKeyringNode,
  RawAesWrappingSuiteIdentifier,
} from '@aws-crypto/client-node'
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { fieldEncryptionExtension } from 'prisma-field-encryption'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  awsMessageReader,
  backfill,
  cloakReader,
  inspectTable,
  postgresTable,
  type Reader,
  transitReader,
} from '../../../packages/cli/src/backfill.js'
import { encrypted } from '../../../packages/prisma/src/index.js'
import { text } from '../../../packages/sdk/src/index.js'
import { PrismaClient } from '../../orm/prisma/client.js'
import { createTransit } from '../../support/openbao/transit.js'
import { database, eaas, keyId, query, useBackfill } from './scene.js'

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

useBackfill('other_libraries')

let prisma: PrismaClient
beforeAll(async () => {
  const adapter =
    database.backend === 'postgres'
      ? new PrismaPg({ connectionString: database.url, max: 2 })
      : new PrismaPGlite(database.pglite)
  prisma = new PrismaClient({ adapter })
  await query(
    `create table users (id uuid primary key, email text not null, email_index text unique, nick text, nick_index text,
      born jsonb, prefs jsonb, city text not null)`,
    [],
  )
})
afterAll(() => prisma?.$disconnect())

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

/** How each library stores a text of a row. That of Prisma is written by Prisma. */
const FORMS: Record<string, (plaintext: string, id: string) => Promise<string>> = {
  cloak: async (plaintext) => encryptStringSync(plaintext, parseKeySync(keys[1])),
  transit: async (plaintext) => {
    const plain = Buffer.from(plaintext).toString('base64')
    const { body } = await transit.post('/v1/transit/encrypt/users', JSON.stringify({ plaintext: plain }))
    return (body as { data: { ciphertext: string } }).data.ciphertext
  },
  aws: async (plaintext, id) => {
    const { result } = await encrypt(keyring, plaintext, { encryptionContext: { table: 'users', id } })
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
    encryptionContext: (row) => ({ table: 'users', id: String(row.id) }),
    acceptPlaintext: true,
  })
  return (stored, row) => {
    if (String(stored).startsWith('v1.aesgcm256.')) return cloak(stored, row)
    return String(stored).startsWith('vault:') ? ofTransit(stored, row) : rest(stored, row)
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

describe('a column of bytes', () => {
  it('is refused with the statement that gives it the type text, after which its messages are read', async () => {
    await query('create table notes (id int primary key, "Body" bytea)', [])
    const { result } = await encrypt(keyring, 'secret '.repeat(20))
    await query("insert into notes values (1, decode($1, 'hex'))", [result.toString('hex')])
    const fields = { Body: text().nullable() }
    const model = eaas.model({
      name: 'notes',
      keyId,
      bind: ['id'],
      format: 'text',
      warn: false,
      fields,
      acceptPlaintext: true,
    })
    const read = { Body: awsMessageReader({ decrypt: (message) => decrypt(keyring, message), acceptPlaintext: true }) }
    const run = (options = {}) => backfill(model, postgresTable(query, 'notes'), options)

    const refused = await run({ read }).catch(({ hint }) => String(hint))
    const statement = /alter column .* type text using encode\("Body", 'base64'\)/.exec(String(refused))?.[0]
    await query(`alter table notes ${statement}`, [])
    expect(await run()).toMatchObject({ changed: 0, failed: 1, failures: [{ code: 'E_CONTENT' }] })
    expect(await run({ read })).toMatchObject({ changed: 1, failed: 0 })
    const [row] = await query('select * from notes', [])
    expect(await model.decrypt(row as never)).toMatchObject({ Body: 'secret '.repeat(20) })
  })

  it.each(['v::text', "encode(v, 'hex')", 'to_json(v)::text'])('may be moved by %s', async (moved) => {
    await query('drop table if exists moved', [])
    await query('create table moved (id int primary key, v bytea, w text)', [])
    const { result } = await encrypt(keyring, 'secret')
    await query("insert into moved values (1, decode($1, 'hex'))", [result.toString('hex')])
    await query(`update moved set w = ${moved}`, [])
    const fields = { w: text() }
    const model = eaas.model({
      name: 'moved',
      keyId,
      bind: ['id'],
      format: 'text',
      warn: false,
      fields,
      acceptPlaintext: true,
    })
    const table = postgresTable(query, 'moved')
    expect(await backfill(model, table)).toMatchObject({ changed: 0, failed: 1 })
    const w = awsMessageReader({ decrypt: (message) => decrypt(keyring, message), acceptPlaintext: true })
    expect(await backfill(model, table, { read: { w } })).toMatchObject({ changed: 1, failed: 0 })
    const [row] = await query('select id, w from moved', [])
    expect(await model.decrypt(row as never)).toMatchObject({ w: 'secret' })
  })
})

describe('an encryption context with a column that is not of the model', () => {
  it('is checked by `readColumns`, and the column is left as it is', async () => {
    await query('create table trips (id int primary key, "City" text, made timestamptz default now(), note text)', [])
    for (const [id, city] of [
      ['1', 'Paris'],
      ['2', 'Rome'],
      ['3', 'Rome'],
    ] as const) {
      const encryptionContext = { id, city: id === '3' ? 'Oslo' : city }
      const { result } = await encrypt(keyring, `to ${id}`, { encryptionContext })
      await query('insert into trips values ($1::text::int, $2, default, $3)', [id, city, result.toString('base64')])
    }
    const model = eaas.model({ name: 'trips', keyId, bind: ['id'], format: 'text', fields: { note: text() } })
    const note = awsMessageReader({
      decrypt: (message) => decrypt(keyring, message),
      encryptionContext: (row) => ({ id: String(row.id), city: String(row.city) }),
    })
    const columns = { city: 'City' }
    const without = await backfill(model, postgresTable(query, 'trips'), { read: { note } })
    expect(without).toMatchObject({ changed: 0, failed: 3 })
    expect(without.failures[0]?.message).toMatch(/reads the column "city", which the row lacks\. .*`readColumns`/)
    const table = postgresTable(query, 'trips', { columns, readColumns: ['city', 'id'] })
    const report = await backfill(model, table, { read: { note } })
    expect(report).toMatchObject({ changed: 2, failed: 1, failures: [{ key: '["3"]' }] })
    const rows = await query('select id, "City" as city, note from trips where id < 3 order by id', [])
    expect((await model.decryptMany(rows as never[])).ok).toEqual([
      { id: 1, city: 'Paris', note: 'to 1' },
      { id: 2, city: 'Rome', note: 'to 2' },
    ])
    for (const [readColumns, message] of [
      [['made'], /^`readColumns` names the column "made" of type timestamp with time zone/],
      [['town'], /^the table has no column "town"/],
      ['city', /^readColumns must be a list of names/],
    ]) {
      const wrong = async () => backfill(model, postgresTable(query, 'trips', { readColumns: readColumns as never }))
      await expect(wrong()).rejects.toThrow(message as RegExp)
    }
  })
})

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
        const stored = [row.id, await store(row.email, row.id), row.nick === null ? '' : await store(row.nick, row.id)]
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

  it('keeps the rows whose key or context is not the one, such as that of another row, and says which and why', async () => {
    const stray = [
      encryptStringSync('secret', parseKeySync(generateKey())),
      'vault:v7:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA',
      (await FORMS.aws?.('secret', randomUUID())) ?? '', // moved here from that row
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
