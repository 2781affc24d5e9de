// A tenant is moved to another installation. Its log continues there under that installation's keys, and both agree up to the move.
import { randomBytes, randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { encodePublicKey } from '../../packages/audit/src/formats/checkpoint.js'
import { readTreeKey, signTree } from '../../packages/audit/src/formats/tree.js'
import { keepTree } from '../../packages/audit/src/formats/witnessed.js'
import { joinExports } from '../../packages/audit/src/verify/join-exports.js'
import { readKept } from '../../packages/audit/src/verify/kept-checkpoint.js'
import { splitLines } from '../../packages/audit/src/verify/split-lines.js'
import { verifyCompared } from '../../packages/audit/src/verify/verify-compared.js'
import { verifyExport } from '../../packages/audit/src/verify/verify-export.js'
import { readAuditCheckpoint, verifyAudit } from '../../packages/server/src/core/api/audit.js'
import { exportAudit } from '../../packages/server/src/core/api/audit-export.js'
import { rotateKey } from '../../packages/server/src/core/api/key-rotation.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { findHead } from '../../packages/server/src/core/store/audit.js'
import { createWitnessEmitter } from '../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { createTreeReader } from '../../packages/server/src/guard/operations/proven-tree.js'
import { examinePurge } from '../../packages/server/src/operate/cli/examine-logs.js'
import { purgeTenant } from '../../packages/server/src/operate/jobs/purge-tenants.js'
import { deleteTenant } from '../../packages/server/src/operate/operations/delete-tenant.js'
import { moveTenant, undoMove } from '../../packages/server/src/operate/operations/move/move-tenant.js'
import { closeForMove } from '../../packages/server/src/operators/tenants.js'
import { anchor, compare, coveredHead, invalid } from '../audit/installation/installation-scene.js'
import { WITNESS, witnessed } from '../support/audit/anchored-export.js'
import { providerOf, rotateAged } from '../support/custody/rotation.js'
import { backend } from '../support/database/database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const OTHER_ROOT_KEY = Buffer.alloc(32, 9).toString('base64')
const INSTALLATION = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
const ADDRESS = 'https://other.example.org'

let here: Service
let there: Service
let owner: Caller
let third: Service
let tenant_id: string
let key_id: string
/** a data key, and how it was wrapped before the move */
let dek: string
let wrapped_key: string

beforeEach(async () => {
  here = await startService()
  there = await startService({ environment: { EAAS_ROOT_KEY: OTHER_ROOT_KEY } })
  owner = await here.createTenant({ name: 'acme' })
  tenant_id = owner.tenant.tenant_id
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  dek = randomBytes(32).toString('base64')
  wrapped_key = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek })).body.wrapped_key
  await performAsSystem(here.services, tenant_id, rotateKey({ key_id }))
}, 60_000)
afterEach(async () => {
  await here.close()
  await there.close()
})

const pair = (from = here, to = there) => ({ from: from.services, to: to.services, tenant_id })
async function move(from = here, to = there): Promise<void> {
  await moveTenant(pair(from, to), { address: ADDRESS, learnSeconds: 0 })
  await to.refreshStoreKeys()
}
const onwards = () => move(there, third)
/** The key that signs there is replaced before the tenant arrives, and again after. */
async function replaced(): Promise<void> {
  for (const moving of [move, async () => undefined]) {
    await rotateAged(there, { provider: providerOf(OTHER_ROOT_KEY) })
    await there.refreshStoreKeys()
    await moving()
  }
}
/** What a witness that cosigned the log of an installation as it is makes of its line in the checkpoint file. */
async function cosigned({ services }: Service): Promise<string> {
  const { sql, signingKey, installationKey } = services
  const head = await findHead(sql, INSTALLATION)
  if (!head) throw new Error('there is no head')
  const { publicKeys } = signingKey
  const tree = await createTreeReader()(sql, head, { auditKey: installationKey, publicKeys })
  const { checkpoint } = await performAsSystem(services, INSTALLATION, readAuditCheckpoint())
  const note = witnessed(signTree(signingKey, tree, publicKeys[0]))
  return `${JSON.stringify({ checkpoint, tree: keepTree(note, tree) })}\n`
}
const by = (service: Service) => service.caller(owner.secret)
const unwrap = (service: Service) => by(service).call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
const verify = (service: Service, tenant = tenant_id) => performAsSystem(service.services, tenant, verifyAudit({}))
async function exported(service: Service, range = {}): Promise<string> {
  let text = ''
  for await (const chunk of await performAsSystem(service.services, tenant_id, exportAudit(range))) text += chunk
  return text
}
const joined = (files: string[], publicKey: string) =>
  verifyExport(joinExports(files.map((file) => splitLines([Buffer.from(file)]))), { publicKey })
const publicKeyOf = (service: Service) => encodePublicKey(service.services.signingKey)
const statusOf = async ({ services }: Service) =>
  (await services.sql`select status from tenants where tenant_id = ${tenant_id}`)[0]?.status
/** Has the database refuse to write this status, as if the process were killed there. */
async function breakAt({ services: { sql } }: Service, status: string): Promise<() => Promise<void>> {
  await sql.unsafe(`create function cut() returns trigger language plpgsql as $$ begin
    if new.status = '${status}' then raise exception 'cut'; end if; return new; end $$`)
  await sql`create trigger cut before insert or update on tenants for each row execute function cut()`
  return async () => void (await sql.unsafe('drop trigger cut on tenants; drop function cut'))
}
/** Writes more entries than are left for when the tenant is closed. */
async function writeMany(): Promise<void> {
  const operations = Array.from({ length: 600 }, () => ({ op: 'wrap', key_id, dek }))
  for (let at = 0; at < 2; at++) expect((await owner.call('POST', '/v1/batch', { operations })).status).toBe(200)
}
/** Resolves once a statement waits for a lock. */
const untilBlocked = ({ services: { sql } }: Service) => {
  const waiting = () => sql`
    select from pg_locks join pg_database as d on d.oid = database where datname = current_database() and not granted`
  return expect.poll(async () => (await waiting()).length > 0, { timeout: 10_000 }).toBe(true)
}
/** One process alone opens the embedded database. */
const itWithTwoProcesses = it.skipIf(backend() === 'embedded')

/** Has the tenant arrive, and the process killed before it is noted here. */
async function arriveOnly(): Promise<void> {
  const mend = await breakAt(here, 'moved')
  await expect(move()).rejects.toThrow(/cut/)
  await mend()
}
/** Keeps the tenant's rows; returns what puts them back, as a restored backup does. */
async function keepRows({ services: { sql } }: Service): Promise<() => Promise<void>> {
  await sql`create table kept as select * from tenants where tenant_id = ${tenant_id}`
  await sql`create table kept_heads as select * from heads where tenant_id = ${tenant_id}`
  return async () => {
    await sql`update heads as h set last_id = k.last_id, hash = k.hash, policy_version = k.policy_version, created_at = k.created_at, mac = k.mac
      from kept_heads as k where h.tenant_id = k.tenant_id`
    await sql`update tenants as t set status = k.status, entry_id = k.entry_id, mac = k.mac from kept as k where t.tenant_id = k.tenant_id`
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id > (select last_id from kept_heads)`
  }
}

describe('a moved tenant', { timeout: 60_000 }, () => {
  it('is served there with its keys, API keys and usage, and refused here with its new address', async () => {
    const usage = (await owner.call('GET', '/v1/usage')).body.operations
    await move()
    expect(await unwrap(there)).toMatchObject({ status: 200, body: { dek } })
    expect((await by(there).call('GET', '/v1/usage')).body.operations).toMatchObject({ 'key.wrap': usage['key.wrap'] })
    const refused = await unwrap(here)
    expect([refused.status, refused.body.code]).toEqual([421, 'E_TENANT_MOVED'])
    expect(refused.body.detail).toContain(ADDRESS)
    expect((await here.caller(`${owner.secret.slice(0, -4)}0000`).call('GET', '/v1/keys')).status).toBe(401)
    // The API key takes a pepper of its own, and that of the former installation goes.
    await there.services.peppers.flush()
    await there.services.peppers.deleteFormer(Date.now())
    await there.refreshStoreKeys()
    expect(await there.services.sql`select from tenant_peppers`).toHaveLength(0)
    expect((await unwrap(there)).status).toBe(200)
    expect([...here.alarms, ...there.alarms]).toEqual([])
  })

  it('gets 503 while a pepper that its API key needs names a store key that does not exist', async () => {
    await move()
    const other = await there.createTenant({ name: 'other' })
    const { sql } = there.services
    const put = (number: number) =>
      sql.begin(async (transaction) => {
        await transaction`set local session_replication_role = replica` // or the foreign key refuses it
        await transaction`update tenant_peppers set wrapped_pepper = set_byte(wrapped_pepper, 3, ${number})`
      })
    const statuses = async () => [(await unwrap(there)).status, (await other.call('GET', '/v1/keys')).status]
    await put(9)
    await there.refreshStoreKeys()
    expect(await statuses()).toEqual([503, 200])
    await put(0)
    await there.refreshStoreKeys()
    expect(await statuses()).toEqual([200, 200])
  })

  it('has spent what it spent of budgets, and its disabled keys and scheduled destructions as they were', async () => {
    const ids: string[] = []
    for (const name of ['disabled', 'doomed']) {
      const { id } = (await owner.call('POST', '/v1/keys', { name })).body
      await owner.call('DELETE', `/v1/keys/${id}`)
      ids.push(id)
    }
    await owner.call('POST', `/v1/keys/${ids[1]}/destroy`, { confirm: 'doomed' })
    const budgets = { unwrap: { per_day: 1 } }
    const { secret } = (await owner.call('POST', '/v1/api-keys', { name: 'b', permissions: ['decrypt'], budgets })).body
    const spend = async (service: Service) =>
      (await service.caller(secret).call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })).body
    expect(await spend(here)).toMatchObject({ dek })
    const before = await Promise.all(ids.map(async (id) => (await owner.call('GET', `/v1/keys/${id}`)).body))
    expect(before).toMatchObject([{ status: 'disabled' }, { status: 'pending_destruction' }])
    await move()
    expect(await spend(there)).toMatchObject({ code: 'E_BUDGET' })
    for (const key of before) expect((await by(there).call('GET', `/v1/keys/${key.id}`)).body).toEqual(key)
  })

  it('has a log that verifies on both sides, and whose exports from before and after verify as one', async () => {
    const before = await exported(here)
    const { checkpoint } = await performAsSystem(here.services, tenant_id, readAuditCheckpoint())
    const another = (await there.createTenant()).tenant.tenant_id
    await move()
    await unwrap(there)
    const kept = (service: Service, tenant = tenant_id) =>
      performAsSystem(service.services, tenant, verifyAudit({ checkpoint }))
    for (const service of [here, there]) expect(await kept(service)).toMatchObject({ valid: true })
    await expect(kept(there, another)).rejects.toMatchObject({ code: 'E_VALIDATION' })
    for (const service of [here, there]) {
      expect(await verify(service)).toMatchObject({ valid: true })
      expect(await verify(service, INSTALLATION)).toMatchObject({ valid: true })
    }
    const after = await exported(there, { after_id: before.split('\n').length - 3 })
    const closed = await exported(here)
    for (const files of [[before, after], [before, closed, after], [await exported(there)]])
      expect(await joined(files, publicKeyOf(there))).toMatchObject({ valid: true })
    expect(await joined([before, after], publicKeyOf(here))).toMatchObject({
      valid: true,
      key_changes: [{ to: publicKeyOf(there) }],
    })
    const unsigned = after.replace(/"key_changes":\[.*?\],?/, '').replace(',}', '}')
    expect(await joined([before, unsigned], publicKeyOf(there))).toMatchObject({ valid: false })
  })

  it('leaves a part of its log wherever the export of it begins', async () => {
    await move()
    const { last_id = 0 } = (await findHead(here.services.sql, tenant_id)) ?? {}
    const { checkpoint } = await performAsSystem(here.services, tenant_id, readAuditCheckpoint())
    for (const after_id of [0, last_id - 1, last_id]) {
      const file = await exported(here, { after_id })
      const verdict = await verifyExport(splitLines([Buffer.from(file)]), { publicKey: publicKeyOf(here), checkpoint })
      expect(verdict).toMatchObject({ valid: true, last_id, moves: [{ entry_id: last_id, to: publicKeyOf(there) }] })
      expect(verdict.missing).toContain('end')
    }
  })

  it('is covered by the anchors of both installations, and by checkpoints of both that an auditor kept', async () => {
    await anchor(here)
    const before = await exported(here)
    const { checkpoint: kept } = await performAsSystem(here.services, INSTALLATION, readAuditCheckpoint())
    await move()
    await unwrap(there)
    for (const service of [here, there]) {
      expect(await anchor(service)).toBe(true)
      await compare(service)
      expect(await invalid(service)).toEqual([])
    }
    const left = await coveredHead(here, tenant_id)
    const moved = await coveredHead(there, tenant_id)
    expect(left?.last_id).toBeLessThan(moved?.last_id ?? 0)
    const after = await exported(there, { after_id: before.split('\n').length - 4 })
    const closed = await exported(here)
    expect(await joined([before, closed], publicKeyOf(here))).toMatchObject({ valid: true })
    expect(await joined([before, after], publicKeyOf(there))).toMatchObject({ valid: true })
    const compared = verifyAudit({ checkpoint: kept })
    expect(await performAsSystem(here.services, INSTALLATION, compared)).toMatchObject({ valid: true })
    await expect(performAsSystem(there.services, INSTALLATION, compared)).rejects.toMatchObject({
      code: 'E_VALIDATION',
    })
    expect([...here.alarms, ...there.alarms]).toEqual([])
  })

  it.each([
    ['once', async () => move(), () => there],
    ['to and then on from another one', async () => move().then(onwards), () => third],
    [
      'and back',
      async () =>
        move()
          .then(() => deleteTenant(here.services, tenant_id, { confirm: 'acme' }))
          .then(() => rotateAged(here))
          .then(() => move(there, here)),
      () => here,
    ],
    ['to one whose key was replaced before and is after', async () => replaced(), () => there],
  ])('agrees with checkpoints that the new installation and its witness signed, moved %s', async (_, moving, whose) => {
    const tenantNote = (await performAsSystem(here.services, tenant_id, readAuditCheckpoint())).checkpoint
    third = await startService()
    onTestFinished(third.close)
    await moving()
    const service = whose()
    await service.refreshStoreKeys()
    const { services } = service
    expect(await anchor(service)).toBe(true)
    const { checkpoint } = await performAsSystem(services, INSTALLATION, readAuditCheckpoint())
    const head = await findHead(services.sql, INSTALLATION)
    const seen = await cosigned(service)
    await anchor(service, { evenIfSame: true })
    const toLink = { known: [], demanded: [head?.last_id ?? 0] }
    const file = await exported(service, { withAnchor: true, toLink })
    const compared = (kept: string, witnesses?: string[]) =>
      verifyCompared(splitLines([Buffer.from(file)]), {
        publicKey: publicKeyOf(service),
        kept: readKept([{ name: 'kept', text: kept }]),
        witnesses,
        tree: readTreeKey(services.signingKey.publicKeys[0]).name,
      })
    for (const [kept, witnesses] of [[checkpoint], [seen, [WITNESS]], [tenantNote]] as const) {
      const { verdict } = await compared(kept, witnesses && [...witnesses])
      expect(verdict).toMatchObject({ valid: true, whole: true, trusted_key: true, checkpoint_compared: true })
    }
    const foreign = (whose() === here ? there : here).services
    const other = await performAsSystem(foreign, INSTALLATION, readAuditCheckpoint())
    expect((await compared(checkpoint + other.checkpoint)).verdict).toMatchObject({
      ...{ valid: true, checkpoint_compared: false, unused: 'unsigned' },
    })
  })

  it('keeps its secrets through a rotation of the store key on either side', async () => {
    await move()
    await rotateAged(here)
    await rotateAged(there, { provider: providerOf(OTHER_ROOT_KEY) })
    await there.refreshStoreKeys()
    expect(await unwrap(there)).toMatchObject({ status: 200, body: { dek } })
    expect((await unwrap(here)).status).toBe(421)
    for (const service of [here, there]) expect(await verify(service)).toMatchObject({ valid: true })
  })

  it('comes back once the signing key was replaced, with what it did meanwhile', async () => {
    await move()
    const next = (await by(there).call('POST', `/v1/keys/${key_id}/wrap`, { dek })).body.wrapped_key
    await expect(move(there, here)).rejects.toThrow(/still has what it left .*eaas tenant delete acme/)
    await deleteTenant(here.services, tenant_id, { confirm: 'acme' })
    await expect(move(there, here)).rejects.toThrow(/rotate the store key there/)
    await rotateAged(here)
    await move(there, here)
    expect((await by(here).call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: next })).body).toMatchObject({
      dek,
    })
    expect((await unwrap(there)).status).toBe(421)
    for (const service of [here, there]) expect(await verify(service)).toMatchObject({ valid: true })
    expect(await joined([await exported(here)], publicKeyOf(here))).toMatchObject({ valid: true })
    expect([...here.alarms, ...there.alarms]).toEqual([])
  })

  itWithTwoProcesses('arrives though the store key is rotated here while its log is copied', async () => {
    await writeMany()
    const command = await startService({ database: here.database })
    onTestFinished(command.close)
    const { sql } = there.services
    const moving = await sql.begin(async (lock) => {
      await lock`lock table audit_log in share mode`
      const moving = move(command)
      await untilBlocked(there)
      await rotateAged(here)
      await command.refreshStoreKeys()
      await writeMany()
      return { ended: moving }
    })
    await moving.ended
    expect([(await unwrap(here)).status, (await unwrap(there)).status]).toEqual([421, 200])
    for (const service of [here, there]) expect(await verify(service)).toMatchObject({ valid: true })
  })

  it('brings the marks of its purges, from which its log verifies', async () => {
    let time = Date.parse('2026-01-05T09:00:00.000Z')
    const [from, to] = [
      await startService({ now: () => time }),
      await startService({ now: () => time, environment: { EAAS_ROOT_KEY: OTHER_ROOT_KEY } }),
    ]
    onTestFinished(async () => {
      await from.close()
      await to.close()
    })
    const caller = await from.createTenant()
    const { tenant_id } = caller.tenant
    for (let at = 0; at < 5; at++) await caller.call('POST', '/v1/keys', { name: `k${at}` })
    time += 100 * 86_400_000
    await caller.call('POST', '/v1/keys', { name: 'new' })
    const { entries } = await purgeTenant(from.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
    expect(entries).toBeGreaterThan(5)
    await moveTenant({ from: from.services, to: to.services, tenant_id }, { learnSeconds: 0 })
    await to.refreshStoreKeys()
    const keys = await to.caller(caller.secret).call('GET', '/v1/keys')
    expect(keys.body.count).toBe(6)
    const examined = ({ services: { sql, storeKeys } }: Service) =>
      examinePurge(sql, storeKeys, { auditRetentionMonths: 1 })
    expect([await examined(from), await examined(to)]).toEqual([
      { detail: 'nothing older than 1 month is held back' }, // the other installation purges the log
      { warning: true, detail: expect.stringContaining('are kept until you act') },
    ])
    for (const { services } of [from, to])
      expect(await performAsSystem(services, tenant_id, verifyAudit({}))).toMatchObject({ valid: true })
  })

  it('raises an alarm where rows from before the move are put back, and is not served there', async () => {
    const putBack = await keepRows(here)
    await move()
    await unwrap(here)
    await putBack()
    expect((await unwrap(here)).status).toBe(500)
    expect(here.alarms).not.toEqual([])
  })
})

describe('a move that is interrupted', { timeout: 60_000 }, () => {
  it('refuses calls for a moment, and everything else that would write to the log', async () => {
    await performAsSystem(here.services, tenant_id, closeForMove(publicKeyOf(there)))
    const refused = await unwrap(here)
    expect([refused.status, refused.body.code, refused.headers.get('retry-after')]).toEqual([503, 'E_UNAVAILABLE', '1'])
    await expect(performAsSystem(here.services, tenant_id, rotateKey({ key_id }))).rejects.toThrow(/is moving/)
    await move()
    expect((await unwrap(there)).status).toBe(200)
  })

  it.each([
    ['before it arrives', () => breakAt(there, 'active')],
    ['when it is closed', () => breakAt(here, 'moving')],
  ])('%s leaves it here, where it can be undone or repeated', async (_, breakIt) => {
    const mend = await breakIt()
    await expect(move()).rejects.toThrow(/cut|could not be written/)
    expect(await there.services.sql`select from tenants where tenant_id = ${tenant_id}`).toHaveLength(0)
    await mend()
    await undoMove(pair())
    expect([await statusOf(here), (await unwrap(here)).status]).toEqual(['active', 200])
    expect(await there.services.sql`select from audit_log where tenant_id = ${tenant_id}`).toHaveLength(0)
    await move()
    expect([(await unwrap(here)).status, (await unwrap(there)).status]).toEqual([421, 200])
    for (const service of [here, there]) expect(await verify(service)).toMatchObject({ valid: true })
  })

  itWithTwoProcesses('by its undoing while the log is copied does not arrive', async () => {
    await writeMany()
    const { sql } = there.services
    await sql.unsafe(`create function wait() returns trigger language plpgsql as $$ begin
      perform pg_catalog.pg_advisory_xact_lock_shared(1); return new; end $$`)
    await sql`create trigger wait before insert on audit_log for each row when (new.id = 600) execute function wait()`
    const { ended } = await sql.begin(async (lock) => {
      await lock`select pg_catalog.pg_advisory_xact_lock(1)`
      const ended = expect(move()).rejects.toThrow(/undone meanwhile/)
      await untilBlocked(there)
      await undoMove(pair())
      return { ended }
    })
    await ended
    expect([await statusOf(here), (await unwrap(here)).status]).toEqual(['active', 200])
    await expect(move()).rejects.toThrow(/entry 1 of the log does not verify in the other installation/)
    await undoMove(pair())
    await move()
    for (const service of [here, there]) expect(await verify(service)).toMatchObject({ valid: true })
  })

  itWithTwoProcesses('and begun to another target does not arrive at the former one', async () => {
    const another = await startService()
    onTestFinished(another.close)
    await performAsSystem(here.services, tenant_id, closeForMove(publicKeyOf(there)))
    const { ended } = await there.services.sql.begin(async (lock) => {
      await lock`lock table tenant_peppers in access exclusive mode`
      const ended = expect(move()).rejects.toThrow(/is being moved to another installation/)
      await untilBlocked(there)
      // As with a copy of the target, from which nothing can be deleted that the move left in the target.
      await undoMove({ ...pair(here, another), to: { ...another.services, signingKey: there.services.signingKey } })
      await performAsSystem(here.services, tenant_id, closeForMove(publicKeyOf(another)))
      return { ended }
    })
    await ended
    expect(await statusOf(here)).toBe('moving')
    expect(await there.services.sql`select from tenants where tenant_id = ${tenant_id}`).toHaveLength(0)
    await move(here, another)
    expect((await unwrap(another)).status).toBe(200)
  })

  it('by its undoing while processes there read its peppers ends', async () => {
    let undo: Promise<void> | undefined
    const onStep = (step: string) => {
      if (step.startsWith('waiting')) undo ??= undoMove(pair())
    }
    await expect(moveTenant(pair(), { learnSeconds: 3_600, onStep })).rejects.toThrow(/undone meanwhile/)
    await undo
    expect([await statusOf(here), (await unwrap(here)).status]).toEqual(['active', 200])
  })

  it('once it has arrived is not undone but ended', async () => {
    await arriveOnly()
    await there.refreshStoreKeys()
    expect([(await unwrap(here)).status, (await unwrap(there)).status]).toEqual([503, 200])
    await expect(undoMove(pair())).rejects.toThrow(/has arrived/)
    await move()
    expect((await unwrap(here)).body.detail).toContain(ADDRESS)
    for (const service of [here, there]) expect(await verify(service)).toMatchObject({ valid: true })
  })

  it('is not undone while the target has an alarm, whose cause may hide that it arrived', async () => {
    await performAsSystem(here.services, tenant_id, closeForMove(publicKeyOf(there)))
    const { sql } = there.services
    await sql`insert into chain_alarms (tenant_id, reason, last_id, hash, policy_version, raised_at, mac)
      values (${INSTALLATION}, 'went back', 0, '', 0, now(), '')`
    await expect(undoMove(pair())).rejects.toThrow(/has an alarm about its own log/)
    expect(await statusOf(here)).toBe('moving')
    await sql`delete from chain_alarms`
    await undoMove(pair())
    expect((await unwrap(here)).status).toBe(200)
  })

  it('is not undone with another target, which cannot tell whether it has arrived', async () => {
    const another = await startService()
    onTestFinished(another.close)
    await arriveOnly()
    await expect(undoMove(pair(here, another))).rejects.toThrow(/is being moved to another installation/)
    await expect(undoMove(pair(here, here))).rejects.toThrow(/same installation/)
    expect(await statusOf(here)).toBe('moving')
    await there.refreshStoreKeys()
    expect([(await unwrap(here)).status, (await unwrap(there)).status]).toEqual([503, 200])
    await move()
    await expect(move(here, another)).rejects.toThrow(/was moved to another installation/)
  })
})

describe('a tenant that another installation has', { timeout: 60_000 }, () => {
  it.each(['is served', 'has moved on from', 'was deleted once it had moved on from'])(
    'is neither undone nor moved again if it %s there, even once its arrival is purged',
    async (state) => {
      const third = await startService()
      onTestFinished(third.close)
      await arriveOnly()
      if (state !== 'is served') await move(there, third)
      const { sql } = there.services
      if (state.startsWith('was')) await deleteTenant(there.services, tenant_id, { confirm: 'acme' })
      await sql`delete from audit_log where tenant_id = ${tenant_id} and id < (select last_id from heads where tenant_id = ${tenant_id})`
      await expect(undoMove(pair())).rejects.toThrow(/has it already/)
      await expect(move()).rejects.toThrow(/has it already/)
      expect(await statusOf(here)).toBe('moving')
      if (!state.startsWith('was'))
        expect(await sql`select from tenant_peppers where tenant_id = ${tenant_id}`).not.toHaveLength(0)
    },
  )

  itWithTwoProcesses('keeps its API keys there if a restored backup has it active here', async () => {
    const putBack = await keepRows(here)
    await move()
    await putBack()
    const restarted = await startService({ database: here.database })
    onTestFinished(restarted.close)
    await expect(undoMove(pair(restarted))).rejects.toThrow(/has it already/)
    await there.refreshStoreKeys()
    expect((await unwrap(there)).status).toBe(200)
  })
})

describe('a move is refused', { timeout: 60_000 }, () => {
  it('if another tenant has its name there', async () => {
    await there.createTenant({ name: 'acme' })
    await expect(move()).rejects.toMatchObject({ code: 'E_NAME_TAKEN' })
    expect((await unwrap(here)).status).toBe(200)
  })

  it('if what was copied is another log, or a forged row says that it has arrived', async () => {
    const mend = await breakAt(there, 'active')
    await expect(move()).rejects.toThrow(/cut/)
    await mend()
    await there.services.sql`update audit_log set actor = 'nobody' where tenant_id = ${tenant_id} and id = 2`
    await expect(move()).rejects.toThrow(/entry 2 of the log does not verify in the other installation/)
    const { sql } = here.services
    const [row] = await sql`select wrapped_audit_key, mac from tenants where tenant_id = ${tenant_id}`
    await there.services.sql`
      insert into tenants (tenant_id, name, envelope_only, wrapped_audit_key, created_at, entry_id, mac, status)
      values (${tenant_id}, 'acme', true, ${row?.wrapped_audit_key}, now(), 9, ${row?.mac}, 'active')`
    await expect(move()).rejects.toThrow(/changed outside the server/)
    expect(await statusOf(here)).toBe('moving')
  })

  it('if an entry that was copied is no longer there', async () => {
    const { sql } = there.services
    await sql.unsafe(`create function lose() returns trigger language plpgsql as $$ begin
      execute pg_catalog.format('delete from %s where tenant_id = $1 and id = 2', tg_relid::regclass) using new.tenant_id;
      return null; end $$`)
    await sql.unsafe(`create trigger lose after insert on audit_log for each row
      when (new.tenant_id = '${tenant_id}' and new.id = 3) execute function lose()`)
    await expect(move()).rejects.toThrow(/does not have every entry of the log/)
    expect(await sql`select from tenants where tenant_id = ${tenant_id}`).toHaveLength(0)
    await sql.unsafe('drop trigger lose on audit_log; drop function lose')
    await undoMove(pair())
    expect((await unwrap(here)).status).toBe(200)
    await move()
    expect(await verify(there)).toMatchObject({ valid: true })
  })

  it('before it is closed, if what was copied reaches past the end of the log', async () => {
    await there.services.sql`insert into audit_log (tenant_id, id, action, actor, created_at, hash, mac)
      values (${tenant_id}, 1000, 'key.wrap', 'nobody', now(), '', '')`
    await expect(move()).rejects.toThrow(/do not end as the log does/)
    expect((await unwrap(here)).status).toBe(200)
    await undoMove(pair())
    await move()
  })

  it('before it is closed, if its move from the target is unfinished', async () => {
    await arriveOnly()
    await expect(rotateAged(here)).rejects.toThrow(/its move has not ended/) // though it has another signing key from then on
    await there.refreshStoreKeys()
    await expect(moveTenant(pair(there, here), { learnSeconds: 0 })).rejects.toThrow(/is moving it: end or undo that/)
    expect((await unwrap(there)).status).toBe(200)
    await move()
  })

  it('to the same installation, or while it is moved to another one', async () => {
    await expect(moveTenant(pair(here, here))).rejects.toThrow(/same installation/)
    await performAsSystem(here.services, tenant_id, closeForMove('eaas-audit+00000000+somebody'))
    await expect(move()).rejects.toThrow(/moved to another installation/)
  })
})

describe.skipIf(backend() === 'embedded')('eaas tenant move', { timeout: 120_000 }, () => {
  function commandTo(config = {}) {
    const folder = guardedDir('eaas-move')
    onTestFinished(folder.remove)
    const file = (name: string, text: string) => {
      writeFileSync(join(folder.path, name), text)
      return join(folder.path, name)
    }
    const other = {
      ...config,
      root_key_file: file('key', OTHER_ROOT_KEY),
      database_url_file: file('url', urlOf(there)),
    }
    const to = ['--to', other.database_url_file, '--to-config', file('other.json', JSON.stringify(other))]
    const eaas = () =>
      runCommand(['tenant', 'move', 'acme', ...to, '--address', ADDRESS, '--json'], {
        database: here.database,
        rootKey: ROOT_KEY,
      })
    return { file, other, eaas }
  }
  const urlOf = ({ database }: Service) => (database.backend === 'postgres' ? database.url : '')

  it('leaves a tenant here if the other installation went back, though its file names many logs first', async () => {
    const folder = guardedDir('eaas-checkpoints')
    onTestFinished(folder.remove)
    const checkpoint_file = join(folder.path, 'checkpoints')
    const seen = [...Array.from({ length: 600 }, () => randomUUID()), INSTALLATION]
    const witnessed = { last_id: 99, hash: randomBytes(32), policy_version: 0 }
    await createWitnessEmitter(
      there.services,
      checkpoint_file,
    )(seen.map((tenant_id) => ({ tenant_id, witnessed, alarm: undefined })))
    const { code, stderr } = await commandTo({ checkpoint_file }).eaas()
    expect(code).not.toBe(0)
    expect(stderr).toContain('the other installation has an alarm about its own log')
    expect((await unwrap(here)).status).toBe(200)
  })

  it('moves a tenant under load: no acknowledged call is lost, and a repeated command changes nothing', async () => {
    const { file, other, eaas } = commandTo()
    // As servers do each second.
    const following = setInterval(() => void there.refreshStoreKeys().catch(() => undefined), 500)
    onTestFinished(() => clearInterval(following))
    const answers = new Map<number, number>()
    let isMoved = false
    const load = (async () => {
      while (!isMoved) {
        const { status } = await unwrap(here)
        answers.set(status, (answers.get(status) ?? 0) + 1)
      }
    })()
    const { code, stdout, stderr } = await eaas()
    isMoved = true
    await load
    expect([code, stderr]).toEqual([0, expect.stringMatching(/^eaas: copying \d+ .*\neaas: arrived there\n$/s)])
    expect(JSON.parse(stdout)).toMatchObject({ tenant_id, moved: true })
    expect((await unwrap(here)).status).toBe(421)
    expect((await unwrap(there)).status).toBe(200)
    const found = await by(there).call('GET', '/v1/audit?action=key.unwrap')
    expect(found.body.total).toBe((answers.get(200) ?? 0) + 1)
    expect([...answers.keys()].filter((status) => ![200, 503, 421].includes(status))).toEqual([])
    expect(JSON.parse((await eaas()).stdout)).toMatchObject({ closed_ms: 0 })
    expect(await verify(there)).toMatchObject({ valid: true })
    const own = { root_key_file: file('own', ROOT_KEY), database_url_file: file('own-url', urlOf(here)) }
    const paths = { eu: file('eu.json', JSON.stringify(own)), us: file('us.json', JSON.stringify(other)) }
    const list = async () => {
      const args = ['tenant', 'list', '--all', file('all.json', JSON.stringify(paths)), '--json']
      const { code, stdout } = await runCommand(args, { rootKey: null })
      return { code, ...JSON.parse(stdout) }
    }
    const listed = await list()
    const acme = [
      { installation: 'eu', tenant_id, status: 'moved' },
      { installation: 'us', tenant_id, status: 'active' },
    ]
    expect(listed).toMatchObject({ code: 0, count: 2, tenants: acme })
    const { eu, us } = paths
    paths.us = eu
    const error = expect.stringContaining('no installation that could be read here has it')
    const lost = ['eu', 'us'].map((installation) => ({ installation, tenant_id, error }))
    expect(await list()).toMatchObject({ code: 1, count: 2, failed: lost })
    Object.assign(paths, { eu: us, us })
    expect(await list()).toMatchObject({
      code: 1,
      count: 2,
      failed: [{ tenant_id, error: expect.stringContaining('eu serves it too') }],
    })
    paths.eu = `${paths.us}.none`
    expect(await list()).toMatchObject({ code: 1, count: 1, failed: [{ installation: 'eu' }] })
  })
})
