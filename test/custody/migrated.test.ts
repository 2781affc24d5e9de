// A database that this version wrote, and a server with a later migration: it migrates, and everything in it still opens.
import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Sql } from '../../packages/server/src/core/store/db.js'
import { findSchemaVersion } from '../../packages/server/src/core/store/migrations.js'
import { openStore } from '../../packages/server/src/core/store/open-store.js'
import { readAllRows, writeAllRows } from '../../packages/server/src/operate/store/all-rows.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { withMigration } from '../support/database/migrations.js'
import { runCommand } from '../support/service/command-host.js'
import { ROOT_KEY } from '../support/service/eaas-process.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

/** A column of a table whose rows have MACs, one of a table that is written meanwhile, and an index. */
const LATER = `alter table keys add column later text not null default 'x';
  alter table audit_log add column later integer;
create index if not exists audit_log_later on audit_log (actor);`
const VERSION = 900

let migrations: URL
beforeAll(() => {
  migrations = withMigration(LATER)
})
afterAll(() => rm(migrations, { recursive: true }))

interface Written {
  database: TestDatabase
  api_key: string
  /** limited to `key_id`, with a budget */
  limited: string
  revoked: string
  key_id: string
  dek: string
  /** under each version of the key */
  wrapped: { wrapped_key: string }[]
  hash: string
  disabled: string
  destroyed: string
  /** a key whose first version is closed and destroyed */
  closed: string
}

/** A database of this version with rows of every kind, and what opens them; `tamper` edits it afterwards. */
async function writtenDatabase(tamper = ''): Promise<Written> {
  const database = await freshDatabase('written', { migrated: true })
  const service = await startService({ database, environment: { EAAS_DESTROY_WINDOW_DAYS: '0' } })
  const owner = await service.createTenant()
  const post = async (path: string, body: unknown = {}) => {
    const answer = await owner.call('POST', path, body)
    expect([path, answer.status]).toEqual([path, expect.toBeOneOf([200, 201])])
    return answer.body
  }
  const makeKey = async (name: string): Promise<string> => (await post('/v1/keys', { name })).key_id
  const [key_id, disabled, destroyed, closed] = [
    await makeKey('users'),
    await makeKey('disabled'),
    await makeKey('destroyed'),
    await makeKey('closed'),
  ]
  const dek = randomBytes(32).toString('base64')
  const wrapped = [await post(`/v1/keys/${key_id}/wrap`, { dek })]
  await post(`/v1/keys/${key_id}/rotate`)
  wrapped.push(await post(`/v1/keys/${key_id}/wrap`, { dek }))
  for (const id of [disabled, destroyed]) expect((await owner.call('DELETE', `/v1/keys/${id}`)).status).toBe(204)
  await post(`/v1/keys/${destroyed}/destroy`, { confirm: 'destroyed' })
  await post(`/v1/keys/${closed}/rotate`)
  expect((await owner.call('PATCH', `/v1/keys/${closed}`, { min_unwrap_version: 2 })).status).toBe(200)
  await post(`/v1/keys/${closed}/versions/1/destroy`, { confirm: 'closed' })
  const permissions = ['decrypt', 'keys:read']
  const budgets = { unwrap: { per_minute: 100 } }
  const limited = await post('/v1/api-keys', { name: 'limited', permissions, keys: [key_id], budgets })
  const revoked = await post('/v1/api-keys', { name: 'revoked', permissions })
  await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)
  const { hash } = await post('/v1/hash', { key_id, value: 'jane@example.com' })
  if (tamper !== '') await service.services.sql.unsafe(tamper)
  await service.close()
  const api_key = owner.secret
  return {
    database,
    api_key,
    limited: limited.secret,
    revoked: revoked.secret,
    key_id,
    dek,
    wrapped,
    hash,
    disabled,
    destroyed,
    closed,
  }
}

const startLater = (database: TestDatabase, environment: Record<string, string> = {}) =>
  startService({ database, migrations, environment })

async function expectAllThere(service: Service, written: Written): Promise<void> {
  const { key_id, dek, wrapped } = written
  const { call } = service.caller(written.api_key)
  const unwrap = async (as: Caller['call'], body: unknown) =>
    (await as('POST', `/v1/keys/${key_id}/unwrap`, body)).body.dek
  for (const { wrapped_key } of wrapped) expect(await unwrap(call, { wrapped_key })).toBe(dek)
  const { body: hash } = await call('POST', '/v1/hash', { key_id, value: 'jane@example.com' })
  expect(hash.hash).toBe(written.hash)
  expect((await call('GET', `/v1/keys/${written.disabled}`)).body.status).toBe('disabled')
  expect((await call('GET', `/v1/keys/${written.destroyed}`)).body.status).toBe('destroyed')
  expect((await call('GET', `/v1/keys/${written.closed}`)).body).toMatchObject({ min_unwrap_version: 2 })
  expect((await service.caller(written.revoked).call('GET', '/v1/keys')).status).toBe(401)
  const limited = service.caller(written.limited).call
  expect(await unwrap(limited, wrapped[0])).toBe(dek)
  expect([403, 404]).toContain((await limited('POST', `/v1/keys/${written.closed}/unwrap`, wrapped[0])).status)
  expect((await call('POST', `/v1/keys/${key_id}/rotate`)).status).toBe(200)
  expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
}

async function onStore<T>(database: TestDatabase, work: (sql: Sql) => Promise<T>): Promise<T> {
  const location =
    database.backend === 'postgres'
      ? { databaseUrl: database.url, dataDir: '' }
      : { databaseUrl: undefined, dataDir: database.dataDir }
  const { sql, close } = await openStore({ ...location, databasePooler: 'auto' }, { beside: false, mayCreate: true })
  return work(sql).finally(close)
}

const versionOf = (database: TestDatabase) => onStore(database, findSchemaVersion)

describe('a database of an earlier schema', () => {
  it('opens whole once it was migrated', async () => {
    const written = await writtenDatabase()
    for (const _ of ['the start that migrates', 'the next one']) {
      const service = await startLater(written.database)
      await expectAllThere(service, written)
      await service.close()
    }
    expect(await versionOf(written.database)).toBe(VERSION)
  })

  it.skipIf(backend() === 'postgres')('may be a new one, which the build of an earlier version made', async () => {
    const database = await freshDatabase('new', { created: false })
    expect(await versionOf(database)).toBeGreaterThan(0)
    const service = await startLater(database)
    expect((await (await service.createTenant()).call('POST', '/v1/keys', { name: 'k' })).status).toBe(201)
    await service.close()
    expect(await versionOf(database)).toBe(VERSION)
  })

  it('opens whole from its backup, which a later version restores', async () => {
    const written = await writtenDatabase()
    const lines: Uint8Array[] = []
    await onStore(written.database, async (sql) => {
      for await (const line of readAllRows(sql, { version: '1' })) lines.push(Buffer.from(line))
    })
    const earlier = await versionOf(written.database)
    const database = await freshDatabase('restored')
    const options = { directory: migrations, check: async () => undefined }
    const { header } = await onStore(database, (sql) => writeAllRows(sql, asChunks(lines), options))
    expect([header.schema, await versionOf(database)]).toEqual([earlier, earlier])
    const service = await startLater(database)
    await expectAllThere(service, written)
    await service.close()
    expect(await versionOf(database)).toBe(VERSION)
  })

  it('is left as it is by a server with another root key', async () => {
    const written = await writtenDatabase()
    const { database } = written
    const earlier = await versionOf(database)
    const other = Buffer.alloc(32, 'b').toString('base64')
    await expect(startLater(database, { EAAS_ROOT_KEY: other })).rejects.toThrow('does not belong to this database')
    expect(await versionOf(database)).toBe(earlier)
    const service = await startLater(database)
    await expectAllThere(service, written)
    await service.close()
  })

  it.skipIf(backend() === 'embedded')('is migrated once by two servers that start together', async () => {
    const written = await writtenDatabase()
    const services = await Promise.all([startLater(written.database), startLater(written.database)])
    for (const service of services) await expectAllThere(service, written)
    const [row] = await (services[0] as Service).services.sql`
      select count(*)::integer as count from audit_log where action = 'installation.migrate'`
    expect(row).toEqual({ count: 1 })
    for (const service of services) await service.close()
  })

  it.each([
    ['a key that was enabled', `update keys set status = 'active' where name = 'disabled'`],
    [
      'a secret that was exchanged',
      `update key_versions set wrapped_kek = (select wrapped_hash_key from keys where name = 'users') where status = 'active'`,
    ],
    ['a quota that was lifted', 'update tenants set monthly_encrypt_quota = 7'],
  ])('does not come out authentic where it was tampered with: %s', async (_, tamper) => {
    const written = await writtenDatabase(tamper)
    const service = await startLater(written.database)
    const { body } = await service.caller(written.api_key).call('GET', '/v1/audit/verify')
    expect(body).toMatchObject({ valid: false, reason: 'row_forged' })
    await service.close()
  })
})

/** Tables with fewer columns than the first release has, as schema 1 had them. */
const UNRELEASED = `
  create table schema_version (id integer primary key check (id = 1), version integer not null);
  create table instance (id integer primary key, wrapped_pepper bytea not null, wrapped_signing_key bytea not null, created_at timestamptz(3) not null);
  create table tenants (tenant_id uuid primary key, name text not null, created_at timestamptz(3) not null);
  insert into schema_version values (1, 1);
  insert into instance values (1, '\\x01', '\\x01', now())`

describe('a database from before the first release', { timeout: 60_000 }, () => {
  let database: TestDatabase
  beforeAll(async () => {
    database = await freshDatabase('unreleased')
    await onStore(database, (sql) => sql.unsafe(UNRELEASED))
  })

  it.each([
    'start',
    'migrate',
    'migrate --existing',
    'doctor',
    'backup kept --plain',
    'tenant list',
    'tenant create --name acme',
    'audit verify --all',
    'store-key rotate',
    'accept schema --reason x',
  ])('is refused with what to do by eaas %s, and left as it is', async (command) => {
    const { code, stdout, stderr } = await runCommand(command.split(' '), { database, rootKey: ROOT_KEY })
    expect([code, stdout + stderr]).toEqual([
      command.startsWith('audit') ? 3 : 1,
      expect.stringMatching(
        /The database has schema 1, .* before the first release .* start anew in an empty database/s,
      ),
    ])
    expect(await versionOf(database)).toBe(1)
  })
})

async function* asChunks(lines: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* lines
}
