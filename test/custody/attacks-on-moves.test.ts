// A database administrator of either installation tampers with a move of a tenant between them. No root key is known to them.
import { createSecretKey, randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { SigningKey } from '../../packages/audit/src/crypto.js'
import { encodePublicKey } from '../../packages/audit/src/formats/checkpoint.js'
import { listKeys, readKeyChange, signKeyChange } from '../../packages/audit/src/formats/key-change.js'
import { signingKeyOf } from '../../packages/audit/src/node/signing-key.js'
import { splitLines } from '../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../packages/audit/src/verify/verify-export.js'
import { verifyAudit } from '../../packages/server/src/core/api/audit.js'
import { exportAudit } from '../../packages/server/src/core/api/audit-export.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import type { Queryable } from '../../packages/server/src/core/store/db.js'
import type { TenantRow } from '../../packages/server/src/core/store/tenants.js'
import {
  moveTenant,
  undoMove,
  undoWithoutTarget,
} from '../../packages/server/src/operate/operations/move/move-tenant.js'
import { listKeysUnderEarlier } from '../../packages/server/src/operate/store/sealed-rows.js'
import { closeForMove, updateTenant } from '../../packages/server/src/operators/tenants.js'
import { rotateAged } from '../support/custody/rotation.js'
import { backend } from '../support/database/database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const OTHER_ROOT_KEY = Buffer.alloc(32, 9).toString('base64')

let here: Service
let there: Service
let owner: Caller
let tenant_id: string
let key_id: string

beforeEach(async () => {
  here = await startService()
  there = await startService({ environment: { EAAS_ROOT_KEY: OTHER_ROOT_KEY } })
  owner = await here.createTenant({ name: 'acme' })
  tenant_id = owner.tenant.tenant_id
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
}, 60_000)
afterEach(async () => {
  await here.close()
  await there.close()
})

const pair = () => ({ from: here.services, to: there.services, tenant_id })
const move = () => moveTenant(pair(), { learnSeconds: 0 })
const close = () => performAsSystem(here.services, tenant_id, closeForMove(encodePublicKey(there.services.signingKey)))
const openServerMode = (isOpen: boolean) =>
  performAsSystem(here.services, tenant_id, updateTenant({ envelope_only: !isOpen }))
const wrap = ({ secret } = owner, service = here) =>
  service.caller(secret).call('POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })
const entries = (action: string) =>
  here.services.sql`select from audit_log where tenant_id = ${tenant_id} and action = ${action}`

/** Keeps the tenant's row; returns what puts it back. */
async function keepRow(): Promise<(on?: Queryable) => Promise<void>> {
  const { sql } = here.services
  const [row] = await sql<TenantRow[]>`
    select envelope_only, status, entry_id, mac from tenants where tenant_id = ${tenant_id}`
  const { envelope_only, status, entry_id, mac } = row as TenantRow
  return async (on = sql) => {
    await on`update tenants set envelope_only = ${envelope_only}, status = ${status}, entry_id = ${entry_id}, mac = ${mac}
      where tenant_id = ${tenant_id}`
  }
}

/** The row of an undone move that the attacker kept, from when server mode was open. */
async function undoneRow(): ReturnType<typeof keepRow> {
  await openServerMode(true)
  await close()
  const putBack = await keepRow()
  await undoMove(pair())
  await openServerMode(false)
  return putBack
}

describe('the row of an undone move that is put back', { timeout: 60_000 }, () => {
  it.skipIf(backend() === 'embedded').each([
    ['the next move', move, false],
    ['the next move, with its newest entries hidden', move, true],
    ['its undoing', () => undoMove(pair()), false],
    ['its undoing, with its newest entries hidden', () => undoMove(pair()), true],
  ])('while %s waits for the lock opens no server mode', async (_, act, hides) => {
    const putBack = await undoneRow()
    await close()
    const { sql } = here.services
    const { ended } = await sql.begin(async (lock) => {
      await lock`select from heads where tenant_id = ${tenant_id} for update`
      const ended = expect(act()).rejects.toThrow(/older row .* was put back outside the server/)
      const waiting = () => sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      await expect.poll(async () => (await waiting()).length > 0, { timeout: 10_000 }).toBe(true)
      await putBack(lock)
      if (hides)
        await lock`
          delete from audit_log where tenant_id = ${tenant_id} and action = 'tenant.update'
            and id > (select entry_id from tenants where tenant_id = ${tenant_id})`
      return { ended }
    })
    await ended
    expect(await there.services.sql`select from tenants where tenant_id = ${tenant_id}`).toHaveLength(0)
    expect(await sql`select status from tenants where tenant_id = ${tenant_id}`).toEqual([{ status: 'moving' }])
  })

  it('keeps nobody from the tenant once it is repaired', async () => {
    const putBack = await undoneRow()
    const putForward = await keepRow()
    await putBack()
    here.services.states.forget(tenant_id)
    expect((await wrap()).status).not.toBe(200)
    await putForward()
    expect((await wrap()).status).toBe(200)
  })

  it('does not spare the tenant a new audit key', async () => {
    const putBack = await undoneRow()
    const putForward = await keepRow()
    await putBack()
    await expect(rotateAged(here)).rejects.toThrow(/older row .* was put back outside the server/)
    await putForward()
    await rotateAged(here)
    expect(await entries('audit.key_renew')).toHaveLength(1)
    expect((await wrap()).status).toBe(200)
  })
})

describe('a rotation of the store key', { timeout: 60_000 }, () => {
  it('does not end while a tenant is moving, which would keep its audit key', async () => {
    await close()
    await expect(rotateAged(here)).rejects.toThrow(`Tenant ${tenant_id}: its move has not ended`)
    await undoMove(pair())
    await rotateAged(here)
    expect(await entries('audit.key_renew')).toHaveLength(1)
    expect((await wrap()).status).toBe(200)
  })

  it.each(['tenant', 'key'])('finds a key to rotate whose %s is made to look as if it had none', async (what) => {
    const { sql } = here.services
    if (what === 'tenant') await sql`update tenants set status = 'moved' where tenant_id = ${tenant_id}`
    else await sql`update keys set status = 'disabled' where tenant_id = ${tenant_id}`
    const found = await listKeysUnderEarlier(sql, { number: 2, after: undefined, limit: 10 })
    expect(found).toEqual([{ tenant_id, key_id }])
  })

  it('leaves the keys of a tenant that has moved', async () => {
    await move()
    expect(await rotateAged(here, { rotatesKeys: true })).toMatchObject({ rotated_keys: 0, unrotated_keys: [] })
    expect(await entries('key.rotate')).toHaveLength(0)
    expect(await entries('audit.key_renew')).toHaveLength(0)
  })
})

describe('a hostile source', { timeout: 60_000 }, () => {
  it('writes no row of another tenant into the target', async () => {
    const victim = await there.createTenant({ name: 'victim' })
    const evil = `'${tenant_id}'`
    await wrap()
    await here.services.sql.unsafe(`
      create function pg_catalog.row_to_json(audit_counts) returns json language plpgsql as $$
      declare row jsonb := to_jsonb($1);
      begin
        if $1.tenant_id = ${evil} and $1.action = 'key.wrap' then
          row := row || '{"tenant_id": "${victim.tenant.tenant_id}", "action": "encrypt", "entries": 1000000}';
        end if;
        return row;
      end $$`)
    await move()
    const forged = await there.services.sql`select tenant_id from audit_counts where action = 'encrypt'`
    expect(forged).toEqual([{ tenant_id }])
    for (const id of [tenant_id, victim.tenant.tenant_id])
      expect(await performAsSystem(there.services, id, verifyAudit({}))).toMatchObject({ valid: true })
  })
})

describe('a move', { timeout: 60_000 }, () => {
  it('is refused before the tenant is closed if no entry could be written in the target', async () => {
    const { committer, ...services } = there.services
    const wrong = (clock: Partial<typeof committer.clock>) => {
      const to = { ...services, committer: { ...committer, clock: { ...committer.clock, ...clock } } }
      return moveTenant({ ...pair(), to: to as unknown as Service['services'] }, { learnSeconds: 0 })
    }
    await expect(wrong({ findFault: async () => 'its clock is wrong' })).rejects.toThrow(
      /installation, its clock is wrong/,
    )
    await expect(wrong({ isAhead: () => true })).rejects.toThrow(/this tenant is ahead of the clock/)
    expect((await wrap()).status).toBe(200)
  })

  it('takes along as many statements about signing keys as there are', async () => {
    const { signingKey } = here.services
    const former = Array.from({ length: 60 }, (): SigningKey => signingKeyOf(createSecretKey(randomBytes(32))))
    const keys = [...former, signingKey.current()]
    const time = new Date().toISOString()
    const changes = former.map((key, at) => signKeyChange(key, keys[at + 1] ?? key, time))
    const rotated = new Proxy(signingKey, {
      get: (key, name) =>
        name === 'changes' ? changes : name === 'current' ? () => key.current() : Reflect.get(key, name, key),
    })
    await moveTenant({ ...pair(), from: { ...here.services, signingKey: rotated } }, { learnSeconds: 0 })
    let file = ''
    for await (const chunk of await performAsSystem(there.services, tenant_id, exportAudit({}))) file += chunk
    const { key_changes } = JSON.parse(file.split('\n', 1)[0] ?? '')
    expect(listKeys(key_changes.map(readKeyChange))).toEqual([...keys, there.services.signingKey].map(encodePublicKey))
    const publicKey = encodePublicKey(keys[0] ?? signingKey)
    expect(await verifyExport(splitLines([Buffer.from(file)]), { publicKey })).toMatchObject({ valid: true })
  })
})

describe('a tenant whose target is lost', { timeout: 60_000 }, () => {
  it('is served here again if the operator says so, which both logs record', async () => {
    await close()
    const { from } = pair()
    await undoWithoutTarget({ from, tenant_id })
    expect((await wrap()).status).toBe(200)
    const told = await from.sql<{ metadata: string }[]>`
      select metadata from audit_log where action in ('tenant.update', 'installation.tenant_move') order by created_at desc limit 2`
    for (const { metadata } of told)
      expect(JSON.parse(metadata)).toMatchObject({ status: 'active', without_target: true })
    await expect(undoWithoutTarget({ from, tenant_id })).rejects.toThrow(/is active, not moving/)
    expect(await performAsSystem(from, tenant_id, verifyAudit({}))).toMatchObject({ valid: true })
    await move()
    await expect(undoWithoutTarget({ from, tenant_id })).rejects.toThrow(/is moved, not moving/)
  })
})

describe.skipIf(backend() === 'embedded')('eaas tenant move', { timeout: 60_000 }, () => {
  it('writes checkpoints of the other installation into no file of this one', async () => {
    const folder = guardedDir('eaas-move')
    onTestFinished(folder.remove)
    const file = (name: string, text = '') => {
      writeFileSync(join(folder.path, name), text)
      return join(folder.path, name)
    }
    const kept = file('checkpoints')
    const { database } = there
    const url = file('url', database.backend === 'postgres' ? database.url : '')
    const run = (name: string, more: object) => {
      const other = file(name, JSON.stringify({ root_key_file: file('key', OTHER_ROOT_KEY), ...more }))
      const args = ['tenant', 'move', 'acme', '--to', url, '--to-config', other]
      const environment = { EAAS_CHECKPOINT_FILE: kept }
      return runCommand(args, { database: here.database, rootKey: ROOT_KEY, environment })
    }
    expect(await run('named.json', { checkpoint_file: kept })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is the file of this installation'),
    })
    const following = setInterval(() => void there.refreshStoreKeys().catch(() => undefined), 500)
    onTestFinished(() => clearInterval(following))
    expect(await run('default.json', { data_dir: folder.path })).toMatchObject({ code: 0 })
    expect(readFileSync(kept, 'utf8')).not.toContain(encodePublicKey(there.services.signingKey))
  })
})
