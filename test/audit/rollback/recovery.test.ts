// Faults that an attacker with SQL alone can make, and the remedies of docs/repair-a-log.md and of the pages on rollbacks, whose statements these tests run.
import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { INSTALLATION_ID } from '@eaas/protocol'
import type postgres from 'postgres'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { RECOVERY_PAGE } from '../../../packages/server/src/core/audit/append-errors.js'
import { anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { createCheckpointEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { insertFrom } from '../../support/database/migrations.js'
import { runCommand, runDoctor } from '../../support/service/command-host.js'
import { connectTo, EAAS, environmentOf } from '../../support/service/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'
import { readGuide, shellOf } from '../../support/sources/server-docs.js'

const PAGE = readGuide('repair-a-log.md')

/** The statement under a heading of the page, for a tenant and an entry. */
function statementOf(heading: string, tenant_id: string, entry = 0): string {
  const [, statement] = new RegExp(`^### ${heading}$[^#]*?^\`\`\`sql$(.*?)^\`\`\`$`, 'ms').exec(PAGE) ?? []
  if (statement === undefined) throw new Error(`the page has no statement under ${heading}`)
  return statement.replaceAll('TENANT', tenant_id).replaceAll('ENTRY', String(entry))
}

const DELETE = 'Delete a row that no server wrote'

it('has a page, which messages name by its title', () => {
  expect(RECOVERY_PAGE).toContain(`"${PAGE.split('\n')[0]?.slice(2)}"`)
})

describe('a log that does not verify', () => {
  let service: Service
  let owner: Caller
  let tenant_id: string
  let sql: postgres.Sql

  beforeEach(async () => {
    service = await startService()
    owner = await service.createTenant()
    tenant_id = owner.tenant.tenant_id
    for (const name of ['a', 'b', 'c']) await owner.call('POST', '/v1/keys', { name })
    sql = connectTo(service.database)
  })
  afterEach(async () => {
    await sql?.end()
    await service?.close()
  })

  const eaas = (...args: string[]) => runCommand(args, { database: service.database, rootKey: ROOT_KEY })
  const verify = async (...log: string[]) => JSON.parse((await eaas('audit', 'verify', ...log, '--json')).stdout)
  const ofTenant = () => verify('--tenant', tenant_id)
  const doctor = async (check: string) =>
    (await runDoctor({ database: service.database, rootKey: ROOT_KEY })).found(check)
  /** Inserts a copy of an entry, so many ids beyond the head. */
  const insertBeyond = (by: number) => sql`
    insert into audit_log (tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac)
    select tenant_id, (select last_id from heads as h where h.tenant_id = e.tenant_id) + ${by}, action, key_id, key_version,
           actor, ip_address, metadata, created_at, hash, mac
    from audit_log as e where tenant_id = ${tenant_id} and id = 2`

  it('because of an entry beyond the head: the others are anchored, the doctor and the failed call say what to do', async () => {
    const other = await service.createTenant()
    await anchorNow(service.services)
    await insertBeyond(2)
    await other.call('POST', '/v1/keys', { name: 'covered' })
    const behind: string[] = []
    await expect(anchorNow(service.services)).rejects.toThrow('no anchor is written')
    expect(await anchorNow(service.services, { onLeft: (id) => void behind.push(id) })).toBe(true)
    expect(behind).toEqual([tenant_id])
    const [covered] = await sql`
      select (select last_id from anchored_heads where tenant_id = ${tenant_id})::integer as own,
             (select a.mac = h.mac from anchored_heads as a join heads as h using (tenant_id) where tenant_id = ${other.tenant.tenant_id}) as other`
    expect(covered).toEqual({ own: 4, other: true })
    expect(await doctor('audit chains')).toMatchObject({
      ok: false,
      detail: expect.stringMatching(`entry 6 is beyond the head.*${RECOVERY_PAGE}`),
    })

    expect((await owner.call('POST', '/v1/keys', { name: 'd' })).status).toBe(201)
    const { id } = (await owner.call('GET', '/v1/api-keys')).body.api_keys[0]
    const { code, stderr } = await eaas('api-key', 'revoke', id, '--tenant', tenant_id)
    expect([code, stderr]).toEqual([1, expect.stringMatching(`audit_log has a row with its id.*${RECOVERY_PAGE}`)])
    expect(await ofTenant()).toMatchObject({ valid: false, reason: 'entry_beyond_head', broken_at: 6 })
    await sql.unsafe(statementOf(DELETE, tenant_id, 6))
    expect(await ofTenant()).toMatchObject({ valid: true })
    expect((await owner.call('POST', '/v1/keys', { name: 'e' })).status).toBe(201)
  })

  /** Revokes an API key, which the newest entry tells of then; says whether it is revoked. */
  async function revokeOne(): Promise<() => Promise<boolean>> {
    const { id } = (await owner.call('POST', '/v1/api-keys', { name: 'stolen', permissions: ['decrypt'] })).body
    await owner.call('DELETE', `/v1/api-keys/${id}`)
    return async () => {
      const { stdout } = await eaas('audit', 'list', '--tenant', tenant_id, '--action', 'api_key.revoke', '--json')
      const [row] = await sql`select revoked_at from api_keys where api_key_id = ${id}`
      return JSON.parse(stdout).logs.length === 1 && row?.revoked_at !== null
    }
  }
  const keepHead = async () => (await sql`select * from heads where tenant_id = ${tenant_id}`) as unknown as object[]
  const putHead = async (heads: object[]) => {
    await sql`delete from heads where tenant_id = ${tenant_id}`
    if (heads.length > 0) await sql`insert into heads ${sql(heads)}`
  }
  const accept = (...log: string[]) => eaas('accept', 'rollback', ...log, '--reason', 'a drill', '--json')
  const acceptTenant = () => accept('--tenant', tenant_id)

  it.each([
    ['gone', 'head_missing', () => sql`delete from heads where tenant_id = ${tenant_id}`],
    ['forged', 'head_forged', () => sql`update heads set last_id = 99 where tenant_id = ${tenant_id}`],
  ])('because its head is %s: it is made again of the last entry, and nothing is lost', async (_, fault, attack) => {
    await anchorNow(service.services)
    const isRevoked = await revokeOne() // since the newest anchor
    await attack()
    expect(await ofTenant()).toMatchObject({ valid: false, reason: fault, broken_at: 7 })
    const { code, stdout } = await acceptTenant()
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      { entry_id: 7, head_fault: fault, witnessed_id: 6, agrees_through: 6 },
    ])
    expect([await ofTenant(), await isRevoked()]).toMatchObject([{ valid: true, verified_entries: 7 }, true])
    expect((await owner.call('POST', '/v1/keys', { name: 'e' })).status).toBe(201)
    expect((await acceptTenant()).stderr).toContain('there is nothing to accept')
  })

  it('because an older head was put back: it is made again, and the entries after it are not deleted', async () => {
    const older = await keepHead()
    const isRevoked = await revokeOne()
    await putHead(older)
    expect(await ofTenant()).toMatchObject({ valid: false, reason: 'head_behind', broken_at: 5 })
    expect(await doctor('audit chains')).toMatchObject({
      ok: false,
      detail: expect.stringContaining('the head is of entry 4, and a server wrote entries after it'),
    })
    expect((await acceptTenant()).code).toBe(0)
    expect([await ofTenant(), await isRevoked()]).toMatchObject([{ valid: true, verified_entries: 7 }, true])
  })

  it('because an older head was put back, and an entry was inserted: what no server wrote is named, and it alone deleted', async () => {
    const older = await keepHead()
    const isRevoked = await revokeOne()
    await insertBeyond(1)
    await putHead(older)
    expect(await ofTenant()).toMatchObject({ valid: false, reason: 'head_behind' })
    expect((await acceptTenant()).stderr).toMatch(/does not verify \(entry_altered, entry 7\)/)
    await sql.unsafe(statementOf(DELETE, tenant_id, 7))
    expect((await acceptTenant()).code).toBe(0)
    expect([await ofTenant(), await isRevoked()]).toMatchObject([{ valid: true, verified_entries: 7 }, true])
  })

  it('because its head is gone, and the copy of the anchor is an older one: no copy is put back', async () => {
    const [older] = await keepHead()
    const isRevoked = await revokeOne()
    await anchorNow(service.services)
    await putHead([])
    await sql`update anchored_heads set ${sql(older as Record<string, never>)} where tenant_id = ${tenant_id}`
    expect((await acceptTenant()).stderr).toContain('the anchored heads are not those of the newest anchor')
    expect((await accept('--installation')).code).toBe(0)
    expect((await acceptTenant()).code).toBe(0)
    expect([await ofTenant(), await isRevoked()]).toMatchObject([{ valid: true, verified_entries: 7 }, true])
  })

  it('because its head is gone and its end was cut off: what the anchor knew is on record', async () => {
    await anchorNow(service.services)
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id = 4`
    await sql`delete from key_versions where tenant_id = ${tenant_id} and entry_id = 4`
    await sql`delete from keys where tenant_id = ${tenant_id} and entry_id = 4`
    await putHead([])
    expect(await ofTenant()).toMatchObject({ valid: false, reason: 'head_missing', broken_at: 4 })
    const { code, stdout } = await acceptTenant()
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { entry_id: 4, witnessed_id: 4, agrees_through: 0 }])
    expect(await ofTenant()).toMatchObject({ valid: true })
  })

  it("because the head of the installation's log is gone: it is made again too", async () => {
    await sql`delete from heads where tenant_id = ${INSTALLATION_ID}`
    expect(await verify('--installation')).toMatchObject({ valid: false, reason: 'head_missing' })
    expect((await accept('--installation')).code).toBe(0)
    expect(await verify('--installation')).toMatchObject({ valid: true })
    expect((await eaas('tenant', 'create', '--name', 'next')).code).toBe(0)
  })

  it('because an entry was altered: it is copied back', async () => {
    await sql`create table backup as select * from audit_log where tenant_id = ${tenant_id} and id = 2`
    await sql`update audit_log set actor = 'nobody' where tenant_id = ${tenant_id} and id = 2`
    expect(await ofTenant()).toMatchObject({ valid: false, reason: 'entry_altered', broken_at: 2 })
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id = 2`
    await sql`insert into audit_log select * from backup`
    expect(await ofTenant()).toMatchObject({ valid: true })
  })

  it("because the newest entry of the installation's log was altered: it is copied back, and then the alarm is accepted", async () => {
    const [{ id } = {}] = await sql`select max(id) as id from audit_log where tenant_id = ${INSTALLATION_ID}`
    await sql`create table backup as select * from audit_log where tenant_id = ${INSTALLATION_ID} and id = ${id}`
    await sql`update audit_log set actor = 'nobody' where tenant_id = ${INSTALLATION_ID} and id = ${id}`
    const create = () => eaas('tenant', 'create', '--name', 'next')
    const refused = await create()
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining(RECOVERY_PAGE)])
    const accept = () => eaas('accept', 'rollback', '--installation', '--reason', 'a drill')
    expect((await accept()).stderr).toMatch(/entry_altered.*nothing can be accepted until it verifies/)
    await sql`delete from audit_log where tenant_id = ${INSTALLATION_ID} and id = ${id}`
    await sql`insert into audit_log select * from backup`
    expect(await verify('--installation')).toMatchObject({ valid: true })
    const [alarmed] = await sql`select from chain_alarms where tenant_id = ${INSTALLATION_ID}`
    if (alarmed) expect((await accept()).code).toBe(0)
    expect((await create()).code).toBe(0)
  })

  it('is not the matter where a count was changed: the call says which table, and it is counted again', async () => {
    const counts = () => sql`select * from audit_counts where tenant_id = ${tenant_id} order by day, action, key_id`
    const before = await counts()
    await sql`update audit_counts set entries = 9223372036854775807 where tenant_id = ${tenant_id}`
    const { code, stderr } = await eaas(
      'api-key',
      'create',
      '--tenant',
      tenant_id,
      '--name',
      'second',
      '--permissions',
      'encrypt',
    )
    expect([code, stderr]).toEqual([1, expect.stringMatching(`a count in audit_counts.*${RECOVERY_PAGE}`)])
    await sql.unsafe(statementOf('Count again', tenant_id))
    expect(await counts()).toEqual(before)
    expect((await owner.call('POST', '/v1/api-keys', { name: 'second', permissions: ['encrypt'] })).status).toBe(201)
  })
})

describe('a table or marks of before a purge', () => {
  it('do not fit the log any more, and those of after it do', async () => {
    let now = Date.parse('2026-01-05T09:00:00.000Z')
    const service = await startService({ now: () => now })
    const owner = await service.createTenant()
    const { tenant_id } = owner.tenant
    const sql = service.services.sql as unknown as postgres.Sql
    const verify = async () => (await owner.call('GET', '/v1/audit/verify')).body
    const tables = ['api_keys', 'purge_marks']
    const copy = (name: string) =>
      sql.unsafe(tables.map((table) => `create table ${name}_${table} as table ${table}`).join('; '))
    const restore = (table: string, name: string) =>
      sql.unsafe(`delete from ${table}; ${insertFrom(table, `${name}_${table}`)}`)
    try {
      for (const month of [1, 2, 3]) {
        now += 31 * 86_400_000
        await owner.call('POST', '/v1/keys', { name: `k${month}` })
      }
      await copy('before')
      await purgeTenant(service.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
      await copy('after')
      expect(await verify()).toMatchObject({ valid: true })
      for (const [table, reason] of [
        ['api_keys', 'row_replaced'],
        ['purge_marks', 'entry_missing'],
      ] as const) {
        await restore(table, 'before')
        const { code, stdout } = await runCommand(['audit', 'verify', '--tenant', tenant_id, '--json'], {
          database: service.database,
          rootKey: ROOT_KEY,
          environment: { EAAS_MAX_CLOCK_SKEW_SECONDS: '0' },
        })
        expect([code, JSON.parse(stdout)]).toEqual([1, expect.objectContaining({ valid: false, reason })])
        await restore(table, 'after')
        expect(await verify()).toMatchObject({ valid: true })
      }
    } finally {
      await service.close()
    }
  })
})

describe('entries that no anchor covers', () => {
  it('are warned of by eaas doctor once they are older than two rounds of checkpoints', async () => {
    const service = await startService({ now: () => Date.now() - 3 * 3_600_000 })
    const examine = async (EAAS_CHECKPOINT_MINUTES: string) => {
      const environment = { EAAS_CHECKPOINT_MINUTES }
      const { found } = await runDoctor({ database: service.database, rootKey: ROOT_KEY, environment })
      const { ok, warning, detail } = found('anchor') ?? expect.unreachable()
      return { ok, isWarned: warning === true, detail }
    }
    try {
      const owner = await service.createTenant({ name: 'left-out' })
      await anchorNow(service.services)
      expect(await examine('60')).toMatchObject({ ok: true, isWarned: false })
      await owner.call('POST', '/v1/keys', { name: 'k' })
      expect(await examine('60')).toMatchObject({
        ok: true,
        isWarned: true,
        detail: expect.stringContaining('left-out'),
      })
      expect(await examine('120')).toMatchObject({ ok: true, isWarned: false })
      await anchorNow(service.services)
      expect(await examine('60')).toMatchObject({ ok: true, isWarned: false })
    } finally {
      await service.close()
    }
  })
})

const HAS_JQ = spawnSync('jq', ['--version']).status === 0
if (!HAS_JQ) console.error('!!! NO jq FOUND: the recipe of the page for a kept checkpoint was not tested. Install it.')

/** Puts the log, the heads and the rows back that were copied before, as a restored backup does. */
async function createBackup(sql: postgres.Sql): Promise<() => Promise<void>> {
  const tables = ['audit_log', 'heads', 'anchored_heads', 'api_keys']
  await sql.unsafe(tables.map((table) => `create table backup_${table} as table ${table}`).join(';'))
  const restore = tables.map((table) => `delete from ${table}; ${insertFrom(table, `backup_${table}`)}`)
  return async () => void (await sql.unsafe(restore.join(';')))
}

describe('an alarm about a lost revocation', () => {
  it('is accepted while no server runs, and the API keys are listed and revoked before one starts', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'eaas-recovery-'))
    const environment = { EAAS_CHECKPOINT_FILE: join(folder, 'checkpoints') }
    let service = await startService()
    const { database } = service
    const eaas = (...args: string[]) => runCommand(args, { database, rootKey: ROOT_KEY, environment })
    try {
      const owner = await service.createTenant({ name: 'acme' })
      const leaked = await owner.call('POST', '/v1/api-keys', { name: 'leaked', permissions: ['keys:read'] })
      const sql = connectTo(database)
      const restore = await createBackup(sql)
      await owner.call('DELETE', `/v1/api-keys/${leaked.body.id}`)
      await createCheckpointEmitter(service.services, environment.EAAS_CHECKPOINT_FILE, (error) => {
        throw error
      })()
      await restore()
      await sql.end()
      await service.close()
      const refused = await eaas('api-key', 'list', '--tenant', 'acme')
      expect([refused.code, refused.stdout]).toEqual([1, ''])

      for (const line of shellOf('rollback.md', 'eaas api-key list').filter((line) => line.startsWith('eaas '))) {
        const [, ...args] = line.replace(/ +#.*/, '').match(/"[^"]*"|\S+/g) ?? []
        const given = args.map((arg) => (arg.endsWith('…') ? leaked.body.id : arg.replaceAll('"', '')))
        const { code, stderr } = await eaas(...given)
        expect([line, code, code === 0 ? '' : stderr]).toEqual([line, 0, ''])
      }
      service = await startService({ database, environment })
      expect((await service.caller(leaked.body.secret).call('GET', '/v1/keys')).status).toBe(401)
      expect((await service.caller(owner.secret).call('POST', '/v1/keys', { name: 'k' })).status).toBe(201)
    } finally {
      await service.close()
      await rm(folder, { recursive: true, force: true })
    }
  })
})

describe('a whole database that went back', () => {
  it('has the loss of each log accepted, that of the installation first', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'eaas-recovery-'))
    const environment = { EAAS_CHECKPOINT_FILE: join(folder, 'checkpoints') }
    const service = await startService()
    const { database } = service
    const sql = connectTo(database)
    const eaas = (...args: string[]) => runCommand(args, { database, rootKey: ROOT_KEY, environment })
    const accept = (...log: string[]) => eaas('accept', 'rollback', ...log, '--reason', 'a drill')
    try {
      const owner = await service.createTenant({ name: 'acme' })
      const restore = await createBackup(sql)
      await owner.call('POST', '/v1/keys', { name: 'a' })
      await anchorNow(service.services)
      await createCheckpointEmitter(service.services, environment.EAAS_CHECKPOINT_FILE, (error) => {
        throw error
      })()
      await sql`delete from keys`
      await sql`delete from key_versions`
      await restore()

      expect(await accept('--installation')).toMatchObject({ code: 0 })
      const waits = `until its own loss is accepted: eaas accept rollback --tenant ${owner.tenant.tenant_id}`
      expect((await eaas('doctor')).stdout).toContain(waits)
      expect((await eaas('key', 'list', '--tenant', 'acme')).stderr).toContain(waits)
      expect(await accept('--tenant', 'acme')).toMatchObject({ code: 0 })
      expect(await eaas('key', 'list', '--tenant', 'acme')).toMatchObject({ code: 0, stderr: '' })
      const { code, stdout } = await eaas('audit', 'diff', '--all')
      expect([code, stdout]).toEqual([
        0,
        expect.stringMatching(/^No difference: 2 .*\n.* accepted .*: installation \(.*, acme \(/),
      ])
    } finally {
      await sql.end()
      await service.close()
      await rm(folder, { recursive: true, force: true })
    }
  })
})

describe.skipIf(!HAS_JQ)('a checkpoint that was kept when a backup was restored', () => {
  it.each([
    ['that the log has not reached again', false],
    ['that the log has other entries in the place of', true],
  ])('is told to the command that accepts the loss, of an entry %s', async (_, hasGrown) => {
    const folder = await mkdtemp(join(tmpdir(), 'eaas-recovery-'))
    let service = await startService()
    const { database } = service
    try {
      const sql = connectTo(database)
      const restore = await createBackup(sql)
      const environment = { EAAS_CHECKPOINT_FILE: 'none' }
      const run = (...args: string[]) => runCommand(args, { database, rootKey: ROOT_KEY, environment })
      const kept = await run('audit', 'checkpoint', '--installation')
      await writeFile(join(folder, 'installation.checkpoint'), kept.stdout)
      await restore()
      await sql.end()
      await service.close()
      service = await startService({ database })
      for (let at = 0; hasGrown && at < 3; at++) await service.createTenant()
      expect(service.alarms).toEqual([])
      await service.close()
      expect((await run('accept', 'rollback', '--installation', '--reason', 'r')).stderr).toContain('no alarm')

      const recipe = shellOf('rollback.md', 'jq -nc').join('\n')
      const command = `eaas() { '${process.execPath}' '${EAAS}' "$@"; }\n${recipe.replace('rm told', 'cat told >&2')}`
      const env = { ...process.env, ...environmentOf({ database, rootKey: ROOT_KEY, environment }) }
      const { stdout, stderr } = await promisify(execFile)('sh', ['-ec', command], { cwd: folder, env })
      expect(stdout).toMatch(/^Accepted/m)
      expect(stderr).toContain('the audit chain is broken')
      const told = { EAAS_CHECKPOINT_FILE: join(folder, 'told') }
      const { found } = await runDoctor({ database, rootKey: ROOT_KEY, environment: told })
      expect(found('checkpoints')).toMatchObject({ ok: true })
      service = await startService({ database, environment: told })
      expect(service.alarms).toEqual([])
    } finally {
      await service.close()
      await rm(folder, { recursive: true, force: true })
    }
  })
})
