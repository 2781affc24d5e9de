// API keys that have expired, by the clock of the server: what somebody who has the whole database and no key tries to use them again.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { copyTables, dek, restoreTables, type Scene, serverOf } from '../../support/audit/audit-scene.js'
import { backend } from '../../support/database/database.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { verifyInPlace } from './verify-in-place.js'

const PRESENT = Date.now()
const PERMISSIONS = ['encrypt', 'keys:read']

let service: Service
let clock = PRESENT
let owner: Caller
let key_id: string
/** expired as it was created to; got its expiry later; and one that does not expire */
let short: { id: string; secret: string }
let late: { id: string; secret: string }
let lasting: { id: string; secret: string }

const sql = () => service.services.sql as unknown as Scene['sql']

beforeAll(async () => {
  service = await startService({ now: () => clock })
  owner = await service.createTenant()
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  const expires_at = new Date(PRESENT + 60_000).toISOString()
  const create = async (name: string, more = {}) =>
    (await owner.call('POST', '/v1/api-keys', { name, permissions: PERMISSIONS, ...more })).body
  short = await create('short', { expires_at })
  late = await create('late')
  lasting = await create('lasting')
  await copyTables(sql(), 'older')
  await owner.call('PATCH', `/v1/api-keys/${late.id}`, { expires_at })
  for (const { secret } of [short, late]) expect(await wrap(secret)).toBe(200)
  await copyTables(sql(), 'final')
  clock = PRESENT + 3_600_000
})
afterAll(() => service?.close())
beforeEach(() => restoreTables(sql(), 'final'))

/** The status of a wrap by a server that has cached nothing. */
const wrap = async (secret: string) =>
  (await serverOf(service).call(secret, 'POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })).status
const verdicts = () => verifyInPlace(service, owner.tenant.tenant_id)

const ATTACKS: [what: string, statements: () => string, secret: () => string, reason: string][] = [
  [
    'its row has no expiry any more',
    () => `update api_keys set expires_at = null where api_key_id = '${short.id}'`,
    () => short.secret,
    'row_forged',
  ],
  [
    'its row of before it got the expiry is put back',
    () => `delete from api_keys where api_key_id = '${late.id}';
      insert into api_keys select * from older.api_keys where api_key_id = '${late.id}'`,
    () => late.secret,
    'row_replaced',
  ],
  [
    'an API key that does not expire gets its digest',
    () => `update api_keys set digest = digest || '~' where api_key_id = '${short.id}';
      update api_keys set digest = (select digest from older.api_keys where api_key_id = '${short.id}')
      where api_key_id = '${lasting.id}'`,
    () => short.secret,
    'row_forged',
  ],
]

describe('an API key that has expired', () => {
  it('is refused by a server that has cached nothing, in a log that is valid', async () => {
    expect([await wrap(short.secret), await wrap(late.secret), await wrap(lasting.secret)]).toEqual([401, 401, 200])
    expect(await verdicts()).toMatchObject([{ valid: true }, { valid: true }])
  })

  it.each(ATTACKS)('is refused when %s, and verification names the row', async (_, statements, secret, reason) => {
    await sql().unsafe(statements())
    expect(await wrap(secret())).toBe(500)
    expect(await verdicts()).toMatchObject([{ reason }, { reason }])
  })

  it('is refused when a view says that it expires later', async () => {
    await sql().unsafe(`alter table api_keys rename to all_api_keys;
      create view api_keys as select api_key_id, tenant_id, name, prefix, digest, pepper, permissions, allowed_ips, keys, budgets, created_at, last_used_at,
        revoked_at, expires_at + interval '1 year' as expires_at, entry_id, mac from all_api_keys`)
    try {
      expect([await wrap(short.secret), await wrap(lasting.secret)]).toEqual([500, 200])
    } finally {
      await sql().unsafe('drop view api_keys; alter table all_api_keys rename to api_keys')
    }
  })

  it.skipIf(backend() === 'embedded')('is refused when the database has another time', async () => {
    // The embedded database has one session, whose path another server would keep.
    await sql().unsafe(`create function public.now() returns timestamptz language sql as $$ select timestamptz '2026-01-01' $$;
      create function public.clock_timestamp() returns timestamptz language sql as $$ select timestamptz '2026-01-01' $$`)
    const [{ name } = { name: '' }] = await sql()`select current_database() as name`
    await sql().unsafe(`alter database ${name} set search_path = public, pg_catalog`)
    const { database } = service
    const other = await startService({ database, now: () => clock }).catch((error: unknown) => error as Error)
    try {
      if (other instanceof Error) throw other
      expect((await other.caller(short.secret).call('GET', '/v1/keys')).status).toBe(401)
      expect((await other.caller(lasting.secret).call('GET', '/v1/keys')).status).toBe(200)
    } finally {
      if (!(other instanceof Error)) await other.close()
      await sql().unsafe(
        `alter database ${name} reset search_path; drop function public.now(), public.clock_timestamp()`,
      )
    }
  })
})
