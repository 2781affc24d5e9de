// A rotation of the store key gives each log a new audit key. What is of before is proven by the first MAC under it, also against who has the old one.
import { randomBytes, randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type ChainedEntry, entryHash, genesisHash } from '../../packages/audit/src/index.js'
import { INSTALLATION_ID, OPERATOR_PERMISSIONS } from '../../packages/protocol/src/index.js'
import { createApiKey, listApiKeysInPages } from '../../packages/server/src/core/api/api-keys.js'
import { listAudit } from '../../packages/server/src/core/api/audit.js'
import { listKeysInPages } from '../../packages/server/src/core/api/keys.js'
import { UnfollowedLogError } from '../../packages/server/src/core/audit/append-errors.js'
import { openAuditKey, renewAuditKey } from '../../packages/server/src/core/audit/audit-key.js'
import { currentKey, entryMac, headMac } from '../../packages/server/src/core/audit/formats/chain.js'
import { apiKeyMac, keyMac, keyVersionMac, withMac } from '../../packages/server/src/core/audit/formats/row-mac.js'
import { readAuthenticEntry } from '../../packages/server/src/core/audit/read-entry.js'
import { generateApiKey } from '../../packages/server/src/core/crypto/api-key.js'
import { deriveRowKey } from '../../packages/server/src/core/crypto/key-hierarchy.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { listApiKeys } from '../../packages/server/src/core/store/api-keys.js'
import { findHead, lockHead, readChain } from '../../packages/server/src/core/store/audit.js'
import { withDeadlines } from '../../packages/server/src/core/store/deadline.js'
import { findKey, listKeys, listTenantKeyVersions } from '../../packages/server/src/core/store/keys.js'
import { findWrappedAuditKey } from '../../packages/server/src/core/store/tenants.js'
import { anchorNow } from '../../packages/server/src/guard/anchor-heads.js'
import { acceptClock } from '../../packages/server/src/guard/operations/accept.js'
import { acceptRollback } from '../../packages/server/src/guard/operations/accept-rollback.js'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { renewTenant } from '../../packages/server/src/operate/operations/renew-tenant.js'
import { rotateStoreKey } from '../../packages/server/src/operate/operations/rotate-store-key.js'
import { createTenant } from '../../packages/server/src/operators/tenants.js'
import { checkTenant } from '../independent/checker.js'
import { openLogKeys, openStoreKeys } from '../independent/stored.js'
import { providerOf, rotateAged } from '../support/custody/rotation.js'
import { backend } from '../support/database/database.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

let service: Service
let acme: Caller
let tenant_id: string
let key_id: string
/** what a thief took before the rotation */
let stolen: { auditKey: ReturnType<typeof openAuditKey>; installationKey: ReturnType<typeof openAuditKey> }

beforeEach(async () => {
  service = await startService()
  acme = await service.createTenant()
  tenant_id = acme.tenant.tenant_id
  key_id = (await acme.call('POST', '/v1/keys', { name: 'users' })).body.id
  await wrap()
  stolen = { auditKey: await keysOf(tenant_id), installationKey: await keysOf(INSTALLATION_ID) }
})
afterEach(() => service.close())

const sqlOf = () => service.services.sql
const wrap = (by: Caller = acme) =>
  by.call('POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })
async function keysOf(id: string) {
  const wrapped_audit_key = (await findWrappedAuditKey(sqlOf(), id)) as Uint8Array
  return openAuditKey(service.services.storeKeys, { tenant_id: id, wrapped_audit_key })
}
const verdictOf = async (by = acme, query = '') => (await by.call('GET', `/v1/audit/verify${query}`)).body
const entriesOf = (id = tenant_id) =>
  readChain(sqlOf(), { tenant_id: id, after_id: 0, through_id: 1_000, limit: 1_000 })
/** What the program that shares no code with the server says of the log. */
async function independently() {
  const sql = sqlOf() as never
  const root = Buffer.from(ROOT_KEY, 'base64')
  const keys = await openLogKeys(sql, root, tenant_id)
  return checkTenant(sql, { tenant_id, ...keys, storeKeys: await openStoreKeys(sql, root) })
}
async function expectWhole(): Promise<void> {
  expect(await verdictOf()).toMatchObject({ valid: true })
  expect(await independently()).toMatchObject({ verdict: { valid: true }, faults: [] })
  expect(service.alarms).toEqual([])
}

const rowKeyOf = async () => deriveRowKey(currentKey(await keysOf(tenant_id)))
/** As many rows like the first key or API key, with right MACs. */
async function copies(table: 'keys' | 'api_keys', count: number): Promise<Record<string, unknown>[]> {
  const rowKey = await rowKeyOf()
  const [[key], [apiKey]] = [await listKeys(sqlOf(), tenant_id, {}), await listApiKeys(sqlOf(), tenant_id)]
  if (!key || !apiKey) throw new Error('nothing to copy')
  return Array.from({ length: count }, () =>
    table === 'keys'
      ? { ...withMac({ ...key, key_id: randomUUID(), name: randomUUID(), wrapped_hash_key: null }, keyMac, rowKey) }
      : { ...withMac({ ...apiKey, api_key_id: randomUUID(), digest: randomUUID() }, apiKeyMac, rowKey) },
  )
}

/** The log written anew from an entry on with other keys, as its thief does, up to `through`. */
async function rewrite(id: number, changes: Partial<ChainedEntry>, through: number): Promise<void> {
  let previous = genesisHash(tenant_id)
  for (const entry of await entriesOf()) {
    const changed = entry.id === id ? { ...entry, ...changes } : entry
    const hash = entryHash(previous, changed)
    if (entry.id >= id && entry.id <= through) {
      const mac = entryMac(currentKey(stolen.auditKey), entry.id, hash)
      await sqlOf()`update audit_log set actor = ${changed.actor}, hash = ${hash}, mac = ${mac} where tenant_id = ${tenant_id} and id = ${entry.id}`
    }
    previous = hash
  }
}

describe('a new audit key', () => {
  it('holds from the entry of its renewal on; everything goes on', async () => {
    const before = (await findHead(sqlOf(), tenant_id))?.last_id ?? 0
    await rotateAged(service)
    await expectWhole()
    const keys = await keysOf(tenant_id)
    expect(keys.former).toMatchObject([{ through: before }])
    const [entry] = (await entriesOf()).slice(before)
    expect(entry).toMatchObject({ id: before + 1, action: 'audit.key_renew', actor: 'system' })
    expect((await wrap()).status).toBe(200)
    expect((await acme.call('POST', `/v1/keys/${key_id}/rotate`)).status).toBe(200)
    await anchorNow(service.services)
    await expectWhole()
    await rotateAged(service)
    await rotateAged(service)
    expect((await keysOf(tenant_id)).former.length).toBe(3)
    await expectWhole()
    expect((await acme.call('GET', '/v1/audit')).status).toBe(200)
    const { database } = service
    await service.close()
    service = await startService({ database })
    acme = { ...service.caller(acme.secret), tenant: acme.tenant }
    expect((await wrap()).status).toBe(200)
    await expectWhole()
  })

  it('is found by who verifies with the key before', async () => {
    const { auditKey } = stolen
    await rotateAged(service)
    expect(await service.services.verifyLog({ tenant_id, auditKey })).toMatchObject({ valid: true })
    expect(auditKey.former.length).toBe(1)
  })

  it('of the installation holds likewise: anchors, verification and exports go on', async () => {
    await anchorNow(service.services)
    await rotateAged(service)
    expect((await keysOf(INSTALLATION_ID)).former.length).toBe(1)
    await anchorNow(service.services, { evenIfSame: true })
    const { installationKey } = service.services
    const answer = await service.services.verifyLog({ tenant_id: INSTALLATION_ID, auditKey: installationKey })
    expect(answer).toMatchObject({ valid: true })
    await expectWhole()
  })

  it.skipIf(backend() === 'embedded')('is taken by another server at its next call, without an alarm', async () => {
    const { database } = service
    const other = await startService({ database })
    const by = { ...other.caller(acme.secret), tenant: acme.tenant }
    expect((await wrap(by)).status).toBe(200)
    await rotateAged(service)
    // It has not read the store key yet: that is no alarm.
    expect(await wrap(by)).toMatchObject({ status: 503, body: { code: 'E_UNAVAILABLE' } })
    await other.refreshStoreKeys()
    expect((await wrap(by)).status).toBe(200)
    expect((await by.call('POST', `/v1/keys/${key_id}/rotate`)).status).toBe(200)
    expect(await verdictOf(by)).toMatchObject({ valid: true })
    expect((await by.call('GET', '/v1/audit')).status).toBe(200)
    await anchorNow(other.services)
    await anchorNow(service.services, { evenIfSame: true })
    expect((await wrap()).status).toBe(200)
    expect([other.alarms, service.alarms]).toEqual([[], []])
    await other.close()
  })

  it.skipIf(backend() === 'embedded')(
    'is taken by another server that has not loaded the API key of a call',
    async () => {
      const other = await startService({ database: service.database })
      const { body: second } = await acme.call('POST', '/v1/api-keys', { name: 'second', permissions: ['wrap'] })
      const by = (secret: string) => ({ ...other.caller(secret), tenant: acme.tenant })
      expect((await wrap(by(acme.secret))).status).toBe(200)
      await rotateAged(service)
      await other.refreshStoreKeys()
      expect((await wrap(by(second.secret))).status).toBe(200)
      expect(other.alarms).toEqual([])
      await other.close()
    },
  )

  it('is not made where a former one is for entries that the log does not have yet', async () => {
    const { storeKeys } = service.services
    const known = openAuditKey(storeKeys, {
      tenant_id,
      wrapped_audit_key: (await findWrappedAuditKey(sqlOf(), tenant_id)) as Uint8Array,
    })
    const ahead = renewAuditKey(known, { after_id: 1_000_000, purged_through: 0 })
    const planted = openAuditKey(storeKeys, { tenant_id, wrapped_audit_key: ahead })
    expect(() => renewAuditKey(planted, { after_id: 9, purged_through: 0 })).toThrow(
      'entries that its log does not have',
    )
  })

  it.each([
    ['a tenant', () => tenant_id, /has had too many audit keys: purge its oldest entries$/],
    ['the installation, which is never purged', () => INSTALLATION_ID, /too many audit keys: .* --keep-secrets/],
  ])('is not made where there are too many for the log of %s, which says what helps', async (_, idOf, said) => {
    const { storeKeys } = service.services
    let { sealed } = await keysOf(idOf())
    const renewOften = () => {
      for (let after_id = 1; after_id < 1_000; after_id++) {
        sealed = renewAuditKey({ tenant_id: idOf(), storeKeys, sealed }, { after_id, purged_through: 0 })
      }
    }
    expect(renewOften).toThrow(said)
  })

  it.skipIf(backend() === 'embedded').each([
    ['is taken by a list that was decided on before', false],
    ['is taken by a list that was decided on before, while another caller reads it into the same object', true],
  ])('%s', async (_, isShared) => {
    const { services, ...other } = await startService({ database: service.database })
    const found = await services.states.find(tenant_id)
    if (!found) throw new Error('no state')
    let auditKey = await keysOf(tenant_id)
    let newest: object = {}
    const sql = new Proxy(services.sql, {
      apply(target, self, [text, ...values]) {
        if (isShared && String(text).includes('wrapped_audit_key')) Object.assign(auditKey, newest)
        return Reflect.apply(target, self, [text, ...values])
      },
    })
    const list = listAudit({}, { limit: 100, offset: 0, order: 'desc' })
    const { release } = await list({ state: { ...found, auditKey }, services: { ...services, sql } } as never)
    await rotateAged(service)
    await other.refreshStoreKeys()
    await wrap()
    newest = await keysOf(tenant_id)
    const { length: id } = await entriesOf()
    expect(await release({} as never)).toMatchObject({ total: id })
    auditKey = stolen.auditKey
    expect((await readAuthenticEntry(sql, { tenant_id, id, auditKey }))?.action).toBe('key.wrap')
    await other.close()
  })

  it.skipIf(backend() === 'embedded')('is taken by a server in the midst of calls and verifications', async () => {
    const { database } = service
    const other = await startService({ database })
    const by = { ...other.caller(acme.secret), tenant: acme.tenant }
    await wrap(by)
    let isOver = false
    // It knows the store key before anything is sealed under it, as every server has the time to.
    const signal = AbortSignal.timeout(300)
    await expect(rotateStoreKey(service.services, { provider: providerOf(), signal })).rejects.toThrow()
    await other.refreshStoreKeys()
    const failures: unknown[] = []
    const calls = [
      async () => (await wrap(by)).status,
      async () => ((await verdictOf(by)).valid ? 200 : await verdictOf(by)),
      async () => (await by.call('GET', '/v1/audit')).status,
      async () => (await by.call('GET', `/v1/keys/${key_id}`)).status,
      async () => (await by.call('POST', '/v1/keys', { name: randomUUID() })).status,
      async () => {
        await anchorNow(other.services, { evenIfSame: true })
        return 200
      },
    ].map(async (call) => {
      while (!isOver) {
        const answer = await call().catch((error: unknown) => error)
        if (answer !== 200 && answer !== 201) failures.push(answer)
      }
    })
    const refreshing = setInterval(() => void other.refreshStoreKeys(), 50) // a server does each second
    await rotateAged(service)
    await new Promise((resolve) => setTimeout(resolve, 500))
    isOver = true
    await Promise.all(calls)
    clearInterval(refreshing)
    expect(failures).toEqual([])
    expect([other.alarms, service.alarms]).toEqual([[], []])
    await other.close()
  })

  it.each([
    ['is made', () => rotateAged(service)],
    ['keeps no wrong clock from being accepted', () => acceptClock(service.services, tenant_id, 'none')],
  ])('%s where others wrote more than can be followed at once', async (_, work) => {
    const reading = vi.spyOn(watchesOf(service.services.committer).get(tenant_id), 'read')
    reading.mockRejectedValueOnce(new UnfollowedLogError())
    await work()
    expect(reading.mock.calls.length).toBeGreaterThan(1)
  })

  it('is not made for a tenant whose rows change each time, and is for the others', async () => {
    const other = await service.createTenant()
    await sqlOf()`create function skip() returns trigger language plpgsql as 'begin return null; end'`
    await sqlOf().unsafe(`
      create trigger skip before update on api_keys for each row when (old.tenant_id = '${tenant_id}') execute function skip()`)
    await expect(rotateAged(service)).rejects.toThrow(new RegExp(`Tenant ${tenant_id}: .*repeat the command`))
    expect((await keysOf(tenant_id)).former).toEqual([])
    expect((await keysOf(other.tenant.tenant_id)).former.length).toBe(1)
    await sqlOf()`drop trigger skip on api_keys`
    await rotateAged(service)
    await expectWhole()
  })

  it('of the installation is made though a row of an API key changes meanwhile', async () => {
    const operatorKey = createApiKey({ name: 'automation', permissions: [...OPERATOR_PERMISSIONS] })
    await performAsSystem(service.services, INSTALLATION_ID, operatorKey)
    await sqlOf()`create sequence updates`
    await sqlOf()`
      create function skip_first() returns trigger language plpgsql
      as 'begin if nextval(''updates'') = 1 then return null; end if; return new; end'`
    await sqlOf().unsafe(`
      create trigger skip before update on api_keys for each row when (old.tenant_id = '${INSTALLATION_ID}') execute function skip_first()`)
    await rotateAged(service)
    expect((await keysOf(INSTALLATION_ID)).former.length).toBe(1)
    await expectWhole()
  })

  it('is made for however many versions of keys, by statements that each write a few of them', async () => {
    const [first] = await listTenantKeyVersions(sqlOf(), tenant_id)
    if (!first) throw new Error('no version')
    const rowKey = await rowKeyOf()
    const destroyed = { ...first, status: 'destroyed' as const, wrapped_kek: null }
    const rows = Array.from({ length: 2_100 }, (_, at) =>
      withMac({ ...destroyed, version: at + 2 }, keyVersionMac, rowKey),
    )
    await sqlOf()`insert into key_versions ${sqlOf()(rows as never[])}`
    await rotateAged(service)
    // PostgreSQL numbers the statements of a transaction, and each row has the number of the one that wrote it.
    const written = await sqlOf()<{ rows: number }[]>`
      select pg_catalog.count(*)::integer as rows from key_versions where wrapped_kek is null group by cmin::text`
    expect(written.map(({ rows }) => rows).reduce((sum, rows) => sum + rows)).toBe(rows.length)
    expect(Math.max(...written.map(({ rows }) => rows))).toBeLessThanOrEqual(1_000)
    const renewed = await rowKeyOf()
    for (const row of await listTenantKeyVersions(sqlOf(), tenant_id))
      expect(row.mac).toEqual(Buffer.from(keyVersionMac(renewed, row)))
  })

  it('is made however long that takes', async () => {
    const { services } = service
    const sql = withDeadlines(services.sql, { transactionMs: 0 })
    expect(await renewTenant({ ...services, sql }, tenant_id, 2)).toBe(true)
    await expectWhole()
  })

  it.each([
    { table: 'keys', id: 'key_id', list: listKeysInPages({}), page: 200 },
    { table: 'api_keys', id: 'api_key_id', list: listApiKeysInPages({}), page: 50 },
  ] as const)('is taken by a list of $table that is being read, which refuses a forged row still', async (listed) => {
    const { table, id, list, page } = listed
    const rows = await copies(table, 3 * page)
    await sqlOf()`insert into ${sqlOf()(table)} ${sqlOf()(rows as never[])}`
    const { pages } = await performAsSystem<{ pages: AsyncGenerator<readonly unknown[]> }>(
      service.services,
      tenant_id,
      list,
    )
    expect((await pages.next()).value).toHaveLength(page)
    await rotateAged(service)
    expect((await pages.next()).value).toHaveLength(page)
    await sqlOf()`
      update ${sqlOf()(table)} set entry_id = 0 where ${sqlOf()(id)} = any(${rows.map((row) => String(row[id]))}::uuid[])`
    await expect(pages.next()).rejects.toThrow('changed outside the server')
  })

  it.skipIf(backend() === 'embedded')('of the installation is made while a tenant is being created', async () => {
    const { services } = service
    let creating: Promise<unknown> | undefined
    // What both lock, in the order of the renewal.
    await sqlOf().begin(async (transaction) => {
      await lockHead(transaction, INSTALLATION_ID)
      creating = createTenant(services, { name: 'new', envelope_only: true })
      await expect.poll(() => sqlOf()`select from pg_locks where not granted`).toHaveLength(1)
      await transaction`update instance set pepper = pepper`
    })
    await expect(creating).resolves.toMatchObject({ name: 'new' })
  })

  it('is not made for a tenant with a row that is not as the server wrote it, and nothing of it changes', async () => {
    const other = await service.createTenant()
    await sqlOf()`update keys set name = 'forged' where key_id = ${key_id}`
    const before = await findHead(sqlOf(), tenant_id)
    await expect(rotateAged(service)).rejects.toThrow(new RegExp(`Tenant ${tenant_id}: .*changed outside the server`))
    expect(await findHead(sqlOf(), tenant_id)).toEqual(before)
    expect((await keysOf(tenant_id)).former).toEqual([])
    expect((await keysOf(other.tenant.tenant_id)).former.length).toBe(1)
    await sqlOf()`update keys set name = 'users' where key_id = ${key_id}`
    expect(await rotateAged(service)).toMatchObject({ number: 3 })
    await expectWhole()
  })
})

describe('a thief of the audit keys, of the root key and of a copy from before, who may write to the database', () => {
  it('edits no entry of before unnoticed, though its MAC and all that follow are right', async () => {
    const through = (await findHead(sqlOf(), tenant_id))?.last_id ?? 0
    await rotateAged(service)
    await wrap()
    await rewrite(2, { actor: 'operator:mallory' }, through)
    const broken_at = through + 1
    expect(await verdictOf()).toMatchObject({ valid: false, broken_at })
    // Also where only a stretch of before is verified.
    expect(await verdictOf(acme, `?through_id=${through}`)).toMatchObject({ valid: false, broken_at })
    expect(await independently()).toMatchObject({ verdict: { broken_at } })
  })

  it('adds no entry, and moves no head back to the old key', async () => {
    await rotateAged(service)
    await wrap()
    const head = await findHead(sqlOf(), tenant_id)
    const last = (await entriesOf()).at(-1)
    if (!head || !last) throw new Error('no head')
    const entry = { ...last, id: last.id + 1, actor: 'operator:mallory' }
    const hash = entryHash(last.hash, entry)
    const old = currentKey(stolen.auditKey)
    const next = { ...head, last_id: entry.id, hash }
    await sqlOf()`
      insert into audit_log (tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac)
      values (${tenant_id}, ${entry.id}, ${entry.action}, ${entry.key_id}, ${entry.key_version}, ${entry.actor}, ${entry.ip_address},
              ${entry.metadata}, ${entry.created_at}, ${hash}, ${entryMac(old, entry.id, hash)})`
    await sqlOf()`update heads set last_id = ${entry.id}, hash = ${hash}, mac = ${headMac(old, next)} where tenant_id = ${tenant_id}`
    expect(await verdictOf()).toMatchObject({ valid: false })
    expect((await wrap()).status).toBe(500)
    expect(service.alarms.length).toBe(1)
  })

  it('cuts no log back to where the old key held, with whatever history and head', async () => {
    const before = await findHead(sqlOf(), tenant_id)
    if (!before) throw new Error('no head')
    await rotateAged(service)
    const { last_id, mac } = before
    await rewrite(2, { actor: 'operator:mallory' }, last_id)
    const last = (await entriesOf())[last_id - 1]
    if (!last) throw new Error('no entry')
    const forged = { ...before, hash: last.hash, policy_version: 1_000 }
    const old = currentKey(stolen.auditKey)
    expect(headMac(old, before)).toEqual(mac)
    await sqlOf()`delete from audit_log where tenant_id = ${tenant_id} and id > ${last_id}`
    await sqlOf()`
      update heads set last_id = ${last_id}, hash = ${forged.hash}, policy_version = ${forged.policy_version},
        created_at = ${forged.created_at}, mac = ${headMac(old, forged)} where tenant_id = ${tenant_id}`
    expect(await verdictOf()).toMatchObject({ valid: false, reason: 'head_forged' })
    expect(await independently()).toMatchObject({ verdict: { reason: 'head_forged' } })
    const { database } = service
    await service.close()
    service = await startService({ database })
    expect((await wrap({ ...service.caller(acme.secret), tenant: acme.tenant })).status).toBe(500)
    await expect(acceptRollback(service.services, tenant_id, { reason: 'who knows' })).rejects.toThrow(
      'a thief of the key before',
    )
  })

  it('inserts no API key, re-activates no key', async () => {
    await rotateAged(service)
    await acme.call('DELETE', `/v1/keys/${key_id}`)
    const rowKey = deriveRowKey(currentKey(stolen.auditKey))
    const secret = generateApiKey(tenant_id)
    const [known] = await listApiKeys(sqlOf(), tenant_id)
    if (!known) throw new Error('no API key')
    const forged = { ...known, api_key_id: randomUUID(), ...service.services.peppers.digest(secret) }
    await sqlOf()`
      insert into api_keys (tenant_id, api_key_id, digest, pepper, name, prefix, permissions, allowed_ips, created_at, entry_id, mac)
      values (${tenant_id}, ${forged.api_key_id}, ${forged.digest}, ${forged.pepper}, ${forged.name}, ${forged.prefix}, ${forged.permissions},
              ${forged.allowed_ips}, ${forged.created_at}, ${forged.entry_id}, ${apiKeyMac(rowKey, forged)})`
    expect((await service.caller(secret).call('GET', '/v1/keys')).status).toBe(500)
    const key = await findKey(sqlOf(), tenant_id, key_id)
    if (!key) throw new Error('no key')
    const { newest_entry: _, ...row } = { ...key, status: 'active' as const }
    await sqlOf()`update keys set status = 'active', mac = ${keyMac(rowKey, row)} where key_id = ${key_id}`
    service.services.states.forget(tenant_id)
    expect((await wrap()).status).toBe(500)
    expect(await verdictOf()).toMatchObject({ valid: false, reason: 'row_forged' })
  })

  it('has no old key taken for the current one, nor for later entries than it had', async () => {
    const before = (await findWrappedAuditKey(sqlOf(), tenant_id)) as Uint8Array
    await rotateAged(service)
    const after = (await findWrappedAuditKey(sqlOf(), tenant_id)) as Uint8Array
    const former = after.subarray(73)
    const later = Buffer.from(after)
    later.writeBigUInt64BE(1_000n, 65)
    for (const wrapped of [later, former, before, Buffer.concat([former, after.subarray(65)]), after.subarray(0, 70)]) {
      await sqlOf()`update tenants set wrapped_audit_key = ${wrapped} where tenant_id = ${tenant_id}`.catch(
        (error: Error) => expect(error.message).toContain('foreign key'), // its store key is gone
      )
      service.services.states.forget(tenant_id)
      const isAsBefore = Buffer.from((await findWrappedAuditKey(sqlOf(), tenant_id)) ?? []).equals(after)
      expect((await wrap()).status).toBe(isAsBefore ? 200 : 500)
      await sqlOf()`update tenants set wrapped_audit_key = ${after} where tenant_id = ${tenant_id}`
    }
  })
})
