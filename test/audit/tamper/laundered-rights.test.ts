// Rows that grant rights, put back to an older state that is genuine with its MAC, by somebody who has the whole database and no key. A
// server refuses to use them; and if one has built upon them, anybody with an export can tell, whatever followed (chain.md 11).
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { currentKey, type EntryDraft, extendChain } from '../../../packages/server/src/core/audit/formats/chain.js'
import { apiKeyMac, keyMac, tenantMac, withMac } from '../../../packages/server/src/core/audit/formats/row-mac.js'
import { draftEntry } from '../../../packages/server/src/core/runner/entry-drafts.js'
import { performAsSystem, systemCaller } from '../../../packages/server/src/core/runner/perform.js'
import * as apiKeys from '../../../packages/server/src/core/store/api-keys.js'
import { appendEntries } from '../../../packages/server/src/core/store/append.js'
import { lockHead } from '../../../packages/server/src/core/store/audit.js'
import type { Transaction } from '../../../packages/server/src/core/store/db.js'
import * as keys from '../../../packages/server/src/core/store/keys.js'
import { findOutdatedRow, newestEntryOfApiKey } from '../../../packages/server/src/core/store/newest-entry.js'
import * as tenants from '../../../packages/server/src/core/store/tenants.js'
import { suspendTenant as suspend, updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { verifyIndependently } from '../../independent/verifier.js'
import { copyTables, dek, restoreTables, type Scene, type Server, serverOf } from '../../support/audit/audit-scene.js'
import { insertFrom } from '../../support/database/migrations.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { verifyByBoth } from '../verify/other-verifier.js'

const SYSTEM = systemCaller({ actor: 'system' })

let service: Service
let owner: Caller
let key: { id: string; name: string }
let doomed: { id: string; name: string }
let closed: { id: string; name: string }
let limited: { id: string; secret: string }
let revoked: { id: string; secret: string }
/** limited to keys, and what it makes */
let narrowed: { id: string; secret: string }
/** the newest entry of each row that is put back */
let newest: Record<'key' | 'doomed' | 'closed' | 'limited' | 'narrowed' | 'revoked' | 'tenant', number>

const sql = () => service.services.sql as unknown as Scene['sql']
const state = async () => {
  const found = await service.services.states.find(owner.tenant.tenant_id)
  if (!found) throw new Error('no tenant')
  return found
}
/** A server that has cached nothing. */
const fresh = (): Server => serverOf(service)
const post = async (path: string, body?: unknown) => {
  const answer = await owner.call('POST', path, body)
  if (answer.status >= 300) throw new Error(`${path} was answered ${answer.status}: ${JSON.stringify(answer.body)}`)
  return answer.body
}

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  key = await post('/v1/keys', { name: 'key' })
  doomed = await post('/v1/keys', { name: 'doomed' })
  closed = await post('/v1/keys', { name: 'closed' })
  await post(`/v1/keys/${closed.id}/rotate`)
  limited = await post('/v1/api-keys', { name: 'limited', permissions: ['encrypt', 'keys:export', 'keys:read'] })
  revoked = await post('/v1/api-keys', { name: 'revoked', permissions: ['api_keys:manage', 'audit:read', 'keys:read'] })
  narrowed = await post('/v1/api-keys', { name: 'narrowed', permissions: ['api_keys:manage', 'encrypt'] })
  await performAsSystem(service.services, owner.tenant.tenant_id, updateTenant({ envelope_only: false }))
  await copyTables(sql(), 'early')

  await post(`/v1/keys/${key.id}/rotate`)
  await post(`/v1/keys/${key.id}/wrap`, { dek: dek() })
  await owner.call('PATCH', `/v1/api-keys/${limited.id}`, { permissions: ['keys:read'] })
  await owner.call('PATCH', `/v1/api-keys/${narrowed.id}`, { keys: ['customers/*'] })
  await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)
  await owner.call('DELETE', `/v1/keys/${doomed.id}`)
  service.services.destroyWindowDays = 0
  await post(`/v1/keys/${doomed.id}/destroy`, { confirm: doomed.name })
  await owner.call('PATCH', `/v1/keys/${closed.id}`, { min_unwrap_version: 2 })
  await post(`/v1/keys/${closed.id}/versions/1/destroy`, { confirm: closed.name })
  await performAsSystem(service.services, owner.tenant.tenant_id, updateTenant({ envelope_only: true }))
  await copyTables(sql(), 'late')
  const [row] = await sql()<(typeof newest)[]>`
    select (select entry_id from keys where key_id = ${key.id})::int as key,
           (select entry_id from keys where key_id = ${doomed.id})::int as doomed,
           (select entry_id from keys where key_id = ${closed.id})::int as closed,
           (select entry_id from api_keys where api_key_id = ${limited.id})::int as limited,
           (select entry_id from api_keys where api_key_id = ${narrowed.id})::int as narrowed,
           (select entry_id from api_keys where api_key_id = ${revoked.id})::int as revoked,
           (select entry_id from tenants)::int as tenant`
  if (!row) throw new Error('no rows')
  newest = row
})
beforeEach(() => restoreTables(sql(), 'late'))
afterAll(() => service?.close())

/** Puts the older rows of one thing back. */
async function putBack(name: keyof typeof newest): Promise<void> {
  const rows = {
    key: { tables: ['keys', 'key_versions'], condition: `key_id = '${key.id}'` },
    doomed: { tables: ['keys', 'key_versions'], condition: `key_id = '${doomed.id}'` },
    closed: { tables: ['keys', 'key_versions'], condition: `key_id = '${closed.id}'` },
    limited: { tables: ['api_keys'], condition: `api_key_id = '${limited.id}'` },
    narrowed: { tables: ['api_keys'], condition: `api_key_id = '${narrowed.id}'` },
    revoked: { tables: ['api_keys'], condition: `api_key_id = '${revoked.id}'` },
    tenant: { tables: ['tenants'], condition: 'true' },
  }
  const { tables, condition } = rows[name]
  for (const table of tables) {
    await sql().unsafe(
      `delete from ${table} where ${condition}; ${insertFrom(table, `early.${table}`)} where ${condition}`,
    )
  }
}

/** What a server without any check appends: entries and rows by the real code of the chain, all with their MACs. */
async function append(
  draft: EntryDraft,
  write: (sql: Transaction, entry_id: number) => Promise<unknown>,
): Promise<number> {
  const { auditKey } = await state()
  return service.services.sql.begin(async (transaction) => {
    const head = await lockHead(transaction, owner.tenant.tenant_id)
    if (!head) throw new Error('no head')
    const now = Date.now()
    const policy_version = head.policy_version + 1
    const { entries, head: next } = extendChain(head, [draft], { auditKey, now, policy_version })
    const clock = { time: now, toleranceMs: Number.POSITIVE_INFINITY }
    const { isMoved } = await appendEntries(transaction, { previous: head, next, entries, clock })
    if (!isMoved) throw new Error('the head was moved')
    await write(transaction, next.last_id)
    return next.last_id
  }) as Promise<number>
}

const actorOf = (api_key_id: string) => ({ ...SYSTEM, actor: api_key_id })

/** Renames an API key as it stands in its row. `replaces` is the entry of the row, or as it is given. */
async function rename(api_key_id: string, actor: string, replaces?: number): Promise<number> {
  const { rowKey } = await state()
  const row = await apiKeys.findApiKey(service.services.sql, owner.tenant.tenant_id, api_key_id)
  if (!row) throw new Error('no such API key')
  const metadata = { api_key_id, changed: 'name', replaces: replaces ?? row.entry_id }
  return append(draftEntry({ action: 'api_key.update', metadata }, actorOf(actor)), (transaction, entry_id) =>
    apiKeys.updateApiKey(transaction, withMac({ ...row, name: 'renamed', entry_id }, apiKeyMac, rowKey)),
  )
}

/** Changes a key as it stands in its row. */
async function changeKey(
  key_id: string,
  action: 'key.rotate' | 'key.rotation_policy',
  replaces?: number,
): Promise<number> {
  const { rowKey } = await state()
  const row = await keys.findKey(service.services.sql, owner.tenant.tenant_id, key_id)
  if (!row) throw new Error('no such key')
  const current_version = row.current_version + (action === 'key.rotate' ? 1 : 0)
  const metadata = { replaces: replaces ?? row.entry_id }
  const note = { action, key_id, key_version: current_version, metadata }
  return append(draftEntry(note, SYSTEM), (transaction, entry_id) =>
    keys.updateKey(transaction, withMac({ ...row, current_version, entry_id }, keyMac, rowKey)),
  )
}

async function suspendTenant(): Promise<number> {
  const { rowKey } = await state()
  const row = await tenants.findTenant(service.services.sql, owner.tenant.tenant_id)
  if (!row) throw new Error('no tenant')
  const metadata = { monthly_encrypt_quota: 7, replaces: row.entry_id }
  return append(draftEntry({ action: 'tenant.update', metadata }, SYSTEM), (transaction, entry_id) =>
    tenants.updateTenant(transaction, withMac({ ...row, monthly_encrypt_quota: 7, entry_id }, tenantMac, rowKey)),
  )
}

/** An API key without a limit, made by one whose limit was lifted by an older row. */
const mintFrom = (api_key_id: string, minted: string = crypto.randomUUID()) => {
  const metadata = { api_key_id: minted, permissions: 'encrypt', expires_at: null, allowed_ips: null }
  return append(draftEntry({ action: 'api_key.create', metadata }, actorOf(api_key_id)), async () => undefined)
}

/** Two steps: the older row makes an API key, and that one wraps. */
async function mintAndWrap(api_key_id: string): Promise<number> {
  const minted = crypto.randomUUID()
  const at = await mintFrom(api_key_id, minted)
  await wrapBy(minted)
  return at
}

/** Two steps: the limit is lifted by a change that replaces the newest entry, and the API key then wraps. */
async function liftAndWrap(actor: string): Promise<number> {
  const told = { permissions: 'api_keys:manage encrypt', expires_at: null, allowed_ips: null }
  const metadata = { api_key_id: narrowed.id, changed: 'keys', replaces: newest.narrowed, ...told }
  const at = await append(draftEntry({ action: 'api_key.update', metadata }, actorOf(actor)), async () => undefined)
  await wrapBy(narrowed.id)
  return at
}

const wrapBy = (api_key_id: string) =>
  append(draftEntry({ action: 'key.wrap', key_id: key.id, key_version: 2 }, actorOf(api_key_id)), async () => undefined)

const wrapUnder = (key_version: number) =>
  append(draftEntry({ action: 'key.wrap', key_id: key.id, key_version }, SYSTEM), async () => undefined)

const unwrapByDestroyed = () =>
  append(draftEntry({ action: 'key.unwrap', key_id: closed.id, key_version: 1 }, SYSTEM), async () => undefined)

const BUILT_UPON: [what: string, name: keyof typeof newest, build: () => Promise<number>, reason: string][] = [
  ['a revoked API key that renames itself', 'revoked', () => rename(revoked.id, revoked.id), 'state_violated'],
  ['a revoked API key that another one renames', 'revoked', () => rename(revoked.id, 'system'), 'replaces_mismatch'],
  [
    'a revoked API key, renamed by a server that says that it replaces the revocation',
    'revoked',
    () => rename(revoked.id, 'system', newest.revoked),
    'state_violated',
  ],
  [
    'dropped permissions of an API key that is then renamed',
    'limited',
    () => rename(limited.id, 'system'),
    'replaces_mismatch',
  ],
  [
    'a lifted limit to keys of an API key that is then renamed',
    'narrowed',
    () => rename(narrowed.id, 'system'),
    'replaces_mismatch',
  ],
  ['a lifted limit to keys of an API key that wraps', 'narrowed', () => wrapBy(narrowed.id), 'state_violated'],
  [
    'a lifted limit to keys of an API key that makes another one',
    'narrowed',
    () => mintFrom(narrowed.id),
    'state_violated',
  ],
  [
    'a lifted limit to keys of an API key whose new API key wraps',
    'narrowed',
    () => mintAndWrap(narrowed.id),
    'state_violated',
  ],
  [
    'a limit to keys that the API key lifts itself before it wraps',
    'narrowed',
    () => liftAndWrap(narrowed.id),
    'state_violated',
  ],
  ['a destroyed key that is then rotated', 'doomed', () => changeKey(doomed.id, 'key.rotate'), 'replaces_mismatch'],
  [
    'a destroyed key, rotated by a server that says that it replaces the destruction',
    'doomed',
    () => changeKey(doomed.id, 'key.rotate', newest.doomed),
    'state_violated',
  ],
  ['an undone destruction of a version, which then unwraps', 'closed', unwrapByDestroyed, 'state_violated'],
  [
    'an undone destruction of a version, of a key that is then rotated',
    'closed',
    () => changeKey(closed.id, 'key.rotate'),
    'replaces_mismatch',
  ],
  [
    'an undone destruction of a version, which unwraps once a server rotated the key and said that it replaces the destruction',
    'closed',
    async () => {
      await changeKey(closed.id, 'key.rotate', newest.closed)
      return unwrapByDestroyed()
    },
    'state_violated',
  ],
  ['an undone rotation, rotated again', 'key', () => changeKey(key.id, 'key.rotate'), 'replaces_mismatch'],
  [
    'an undone rotation, rotated again by a server that says that it replaces the rotation',
    'key',
    () => changeKey(key.id, 'key.rotate', newest.key),
    'state_violated',
  ],
  [
    'an undone rotation of a key that gets a policy',
    'key',
    () => changeKey(key.id, 'key.rotation_policy'),
    'replaces_mismatch',
  ],
  ['an undone rotation of a key that wraps', 'key', () => wrapUnder(1), 'state_violated'],
  ['settings of a tenant that is then changed', 'tenant', suspendTenant, 'replaces_mismatch'],
]

describe('a row that somebody put back is found by every verification once a server has built upon it:', () => {
  it.each(BUILT_UPON)('%s', async (_, name, build, reason) => {
    const before = (await fresh().call(owner.secret, 'GET', '/v1/audit/verify')).body
    expect(before).toMatchObject({ valid: true })
    const { checkpoint, public_key: publicKey } = (await fresh().call(owner.secret, 'GET', '/v1/audit/checkpoint')).body
    await putBack(name)
    const broken_at = await build()
    const server = fresh()
    for (let at = 0; at < 3; at++) await server.call(owner.secret, 'POST', '/v1/keys', { name: `later ${at}` })
    const fault = { valid: false, reason, broken_at }
    for (const query of ['', `?checkpoint=${encodeURIComponent(checkpoint)}`])
      expect((await server.call(owner.secret, 'GET', `/v1/audit/verify${query}`)).body).toMatchObject(fault)
    const { auditKey } = await state()
    const { tenant_id } = owner.tenant
    expect(await service.services.verifyLog({ tenant_id, auditKey })).toMatchObject(fault)
    expect(await verifyIndependently(sql(), { tenant_id, auditKey: currentKey(auditKey).export() })).toMatchObject(
      fault,
    )

    const file = Buffer.from((await server.call(owner.secret, 'GET', '/v1/audit/export')).body as string)
    const refused = { valid: false, verified_entries: broken_at - 1, line: broken_at + 1, broken_at }
    expect(await verifyByBoth({ file, publicKey })).toMatchObject(refused)
    expect(await verifyByBoth({ file, publicKey, checkpoint })).toMatchObject(refused)
  })

  it('and an honest history is not', async () => {
    const server = fresh()
    const { auditKey } = await state()
    const { tenant_id } = owner.tenant
    expect(await service.services.verifyLog({ tenant_id, auditKey })).toMatchObject({ valid: true })
    expect(await verifyIndependently(sql(), { tenant_id, auditKey: currentKey(auditKey).export() })).toMatchObject({
      valid: true,
    })
    const file = Buffer.from((await server.call(owner.secret, 'GET', '/v1/audit/export')).body as string)
    const { checkpoint, public_key: publicKey } = (await server.call(owner.secret, 'GET', '/v1/audit/checkpoint')).body
    expect(await verifyByBoth({ file, publicKey, checkpoint })).toMatchObject({
      valid: true,
      checkpoint_compared: true,
    })
  })
})

/** What the attacker puts a row back for. */
const USES: [
  what: string,
  putBack: () => Promise<void>,
  use: (server: Server) => Promise<{ status: number; body: unknown }>,
][] = [
  ['a call of a revoked API key', () => putBack('revoked'), (server) => server.call(revoked.secret, 'GET', '/v1/keys')],
  [
    'a revoked API key that renames itself',
    () => putBack('revoked'),
    (server) => server.call(revoked.secret, 'PATCH', `/v1/api-keys/${revoked.id}`, { name: 'renamed' }),
  ],
  [
    'a revoked API key that another one renames',
    () => putBack('revoked'),
    (server) => server.call(owner.secret, 'PATCH', `/v1/api-keys/${revoked.id}`, { name: 'renamed' }),
  ],
  [
    'a permission that was dropped',
    () => putBack('limited'),
    (server) => server.call(limited.secret, 'POST', `/v1/keys/${key.id}/export`),
  ],
  [
    'an API key whose dropped permissions are back, renamed by another one',
    () => putBack('limited'),
    (server) => server.call(owner.secret, 'PATCH', `/v1/api-keys/${limited.id}`, { name: 'renamed' }),
  ],
  [
    'a lifted limit to keys',
    () => putBack('narrowed'),
    (server) => server.call(narrowed.secret, 'POST', `/v1/keys/${key.id}/wrap`, { dek: dek() }),
  ],
  [
    'an API key whose limit to keys is lifted, renamed by another one',
    () => putBack('narrowed'),
    (server) => server.call(owner.secret, 'PATCH', `/v1/api-keys/${narrowed.id}`, { name: 'renamed' }),
  ],
  [
    'a destroyed key that wraps',
    () => putBack('doomed'),
    (server) => server.call(owner.secret, 'POST', `/v1/keys/${doomed.id}/wrap`, { dek: dek() }),
  ],
  [
    'a destroyed key that is rotated',
    () => putBack('doomed'),
    (server) => server.call(owner.secret, 'POST', `/v1/keys/${doomed.id}/rotate`),
  ],
  [
    'the versions of a destroyed key, without the key',
    () => putBackVersions(doomed.id),
    (server) => server.call(owner.secret, 'GET', `/v1/keys/${doomed.id}`),
  ],
  [
    'a wrap under the version before the rotation',
    () => putBack('key'),
    (server) => server.call(owner.secret, 'POST', `/v1/keys/${key.id}/wrap`, { dek: dek() }),
  ],
  [
    'an undone rotation, rotated again',
    () => putBack('key'),
    (server) => server.call(owner.secret, 'POST', `/v1/keys/${key.id}/rotate`),
  ],
  [
    'a retired version that is active again, without the key',
    () => putBackVersions(key.id),
    (server) => server.call(owner.secret, 'POST', `/v1/keys/${key.id}/wrap`, { dek: dek() }),
  ],
  [
    'server mode, which was closed',
    () => putBack('tenant'),
    (server) => server.call(owner.secret, 'POST', '/v1/encrypt', { key_id: key.id, plaintext: 'x' }),
  ],
]

async function putBackVersions(key_id: string): Promise<void> {
  await sql().unsafe(`
    delete from key_versions where key_id = '${key_id}' and version = 1;
    ${insertFrom('key_versions', 'early.key_versions')} where key_id = '${key_id}' and version = 1`)
}

describe('a row that somebody put back is refused at use:', () => {
  it.each(USES)('%s', async (_, putItBack, use) => {
    const before = await fresh().call(owner.secret, 'GET', '/v1/audit/verify')
    await putItBack()
    const server = fresh()
    const { status, body } = await use(server)
    expect([status, (body as { code: string }).code]).toEqual([500, 'E_TAMPERED'])
    const after = await server.call(owner.secret, 'GET', '/v1/audit/verify')
    expect(after.body).toMatchObject({ valid: false, reason: expect.stringMatching(/^row_/), head: before.body.head })
  })

  it('also where its newest entry is hidden behind a mark that no server wrote', async () => {
    await putBack('limited')
    await sql()`delete from audit_log where metadata like ${`%${limited.id}%`}`
    const through = newest.tenant + 100
    await sql()`
      insert into purge_marks (tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac, mac)
      values (${owner.tenant.tenant_id}, ${through}, ${Buffer.alloc(32)}, 1, now(), now(), ${Buffer.alloc(32)}, ${Buffer.alloc(32)})`
    const { status } = await fresh().call(limited.secret, 'POST', `/v1/keys/${key.id}/export`)
    expect(status).toBe(500)
  })

  it.each(['key', 'doomed', 'limited', 'narrowed', 'revoked', 'tenant'] as const)(
    'and is found by eaas doctor: %s',
    async (name) => {
      const find = () => findOutdatedRow(service.services.sql, owner.tenant.tenant_id)
      expect(await find()).toBeUndefined()
      await putBack(name)
      const what = { key: `key ${key.id}`, doomed: `key ${doomed.id}`, tenant: 'the settings' }
      const apiKeys = {
        limited: `API key ${limited.id}`,
        narrowed: `API key ${narrowed.id}`,
        revoked: `API key ${revoked.id}`,
      }
      expect(await find()).toMatchObject({ what: { ...what, ...apiKeys }[name], newest_entry: newest[name] })
    },
  )

  it('at the cost of one look-up in an index, however many entries there are about other API keys', async () => {
    const plan = sql().begin(async (transaction) => {
      await transaction`
        insert into audit_log (tenant_id, id, action, actor, metadata, created_at, hash, mac)
        select ${owner.tenant.tenant_id}, 10000 + n, 'api_key.update', 'test', '{"api_key_id":"' || gen_random_uuid() || '"}', now(), '', ''
        from generate_series(1, 5000) as n`
      await transaction`analyze audit_log`
      throw await transaction`
        explain select ${newestEntryOfApiKey(transaction as Transaction, owner.tenant.tenant_id)} from api_keys
        where tenant_id = ${owner.tenant.tenant_id} and api_key_id = ${limited.id}`
    })
    const lines = await plan.catch((explained) => explained) // a rollback, since the log must not keep the entries
    expect(JSON.stringify(lines)).toContain('Index Scan Backward using audit_log_api_key')
  })

  it('and no honest row is, though changes of one row wait together', async () => {
    const server = fresh()
    const { id, name } = (await server.call(owner.secret, 'POST', '/v1/keys', { name: 'busy' })).body
    const busy = (await server.call(owner.secret, 'POST', '/v1/api-keys', { name: 'busy', permissions: [] })).body
    const other = fresh()
    const calls = Array.from({ length: 12 }, (_, at) => [
      server.call(owner.secret, 'PATCH', `/v1/api-keys/${busy.id}`, { name: `busy ${at}` }),
      other.call(owner.secret, 'PATCH', `/v1/api-keys/${busy.id}`, { name: `busy too ${at}` }),
      server.call(owner.secret, 'POST', `/v1/keys/${id}/rotate`),
      other.call(owner.secret, 'POST', `/v1/keys/${id}/rotate`),
      other.call(owner.secret, 'POST', `/v1/keys/${id}/wrap`, { dek: dek() }),
    ]).flat()
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(calls.map(() => 200))
    await server.call(owner.secret, 'DELETE', `/v1/keys/${id}`)
    expect((await other.call(owner.secret, 'POST', `/v1/keys/${id}/destroy`, { confirm: name })).status).toBe(200)
    expect((await fresh().call(owner.secret, 'GET', `/v1/keys/${id}`)).body.status).toBe('destroyed')
    expect((await server.call(owner.secret, 'GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })
})

it('a suspended tenant is served by no server that finds its status as its encoding', async () => {
  const suspended = await service.createTenant()
  const { tenant_id } = suspended.tenant
  await performAsSystem(service.services, tenant_id, suspend({ reason: 'court order' }))
  await sql()`
    update tenants set plaintext_encoding = status, status = 'active' where tenant_id = ${tenant_id} and status = 'suspended'`
  expect((await fresh().call(suspended.secret, 'GET', '/v1/keys')).status).toBe(500)
})
