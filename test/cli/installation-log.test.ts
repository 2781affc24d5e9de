// The installation's own log at the command line: what a server's run and an operator's commands leave in it, its checkpoints, and the
// anchor in an export, which both verifiers check.
import { createSecretKey } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodePublicKey, parseCheckpoint, signCheckpoint } from '../../packages/audit/src/formats/checkpoint.js'
import { signingKeyOf } from '../../packages/audit/src/node/signing-key.js'
import { findObstacleToVerifier, runOtherVerifier } from '../audit/verify/other-verifier.js'
import { freshDatabase, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runAuditCommand, runCommand } from '../support/service/command-host.js'
import {
  connectTo,
  createTenantInProcess,
  ROOT_KEY as PROCESS_ROOT_KEY,
  startEaas,
} from '../support/service/eaas-process.js'
import { startServer } from '../support/service/server.js'
import { ROOT_KEY, startService } from '../support/service/service.js'

const OPERATOR = /^operator:.+@.+/
const stranger = signingKeyOf(createSecretKey(Buffer.alloc(32, 8)))

let folder: string
let database: TestDatabase
let publicKey: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-installation-'))
  database = await freshDatabase('installation', { migrated: true })
  await createTenantInProcess({ database }, 'acme')
  await createTenantInProcess({ database }, 'other')
  publicKey = (await eaas('audit', 'public-key')).stdout.trim()
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const eaas = (...args: string[]) => runCommand(args, { database, environment: { EAAS_CHECKPOINT_FILE: 'none' } })

async function entries() {
  const { stdout } = await eaas('audit', 'list', '--installation', '--json')
  return JSON.parse(stdout).logs.reverse() as {
    id: number
    action: string
    actor: string
    metadata: Record<string, unknown>
  }[]
}

async function written(name: string, ...args: string[]): Promise<string> {
  const path = join(folder, name)
  const { code, stdout } = await eaas(...args)
  expect([args, code]).toEqual([args, 0])
  await writeFile(path, stdout)
  return path
}

/** The exit code and verdict of both verifiers, which must agree. */
async function verified(...args: string[]) {
  const { code, stdout } = await runAuditCommand(['verify', ...args, '--public-key', publicKey, '--json'])
  const verdict = JSON.parse(stdout)
  if (findObstacleToVerifier() === undefined) {
    const other = await runOtherVerifier([...args, '--public-key', publicKey])
    expect([other.status, JSON.parse(other.stdout).anchor]).toEqual([code, verdict.anchor])
  }
  return { code, verdict }
}

describe("the installation's log", () => {
  it('records the runs of servers, with a digest of the configuration, and the commands of operators by name', async () => {
    const environment = { EAAS_CHECKPOINT_FILE: 'none' }
    const server = await startServer({ database, environment })
    const sql = connectTo(database)
    // Its first one, and not that of its stop.
    await expect.poll(() => sql`select 1 from audit_log where action = 'installation.anchor'`).toHaveLength(1)
    await sql.end()
    await server.stop()
    expect(server.log).toMatch(/"level":40.*no checkpoints are kept/)
    await eaas('doctor')
    await eaas('audit', 'verify', '--tenant', 'acme')
    await eaas('audit', 'export', '--tenant', 'acme', '--out', join(folder, 'recorded.ndjson'))
    await eaas('tenant', 'suspend', 'other', '--reason', 'a drill')
    await eaas('tenant', 'resume', 'other')
    const all = await entries()
    const named = all.map(({ action, actor }) => [action.replace('installation.', ''), OPERATOR.test(actor)])
    expect(named).toEqual([
      ['create', true],
      ['tenant_create', true],
      ['tenant_create', true],
      ['start', false],
      ['anchor', false],
      ['stop', false],
      ['doctor', true],
      ['verify', true],
      ['export', true],
      ['tenant_suspend', true],
      ['tenant_resume', true],
    ])
    const [start, stop] = all.filter(({ action }) => /start|stop/.test(action))
    expect(start?.metadata).toMatchObject({
      version: expect.any(String),
      configuration: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    expect(stop?.metadata).toEqual(start?.metadata)
    expect(all.at(-2)?.metadata).toMatchObject({ reason: 'a drill', status: 'suspended' })
    const { stdout } = await eaas('audit', 'list', '--tenant', 'other', '--json')
    expect(JSON.parse(stdout).logs[0].actor).toMatch(OPERATOR)
  })

  it('records the same digest at each start, though systemd names another stream of its journal', async () => {
    for (const JOURNAL_STREAM of ['8:1', '8:2'])
      await (await startServer({ database, environment: { EAAS_CHECKPOINT_FILE: 'none', JOURNAL_STREAM } })).stop()
    const starts = (await entries()).filter(({ action }) => action === 'installation.start')
    expect(new Set(starts.map(({ metadata }) => metadata?.configuration)).size).toBe(1)
  })

  it('is not reached as a tenant', async () => {
    for (const command of ['show', 'suspend', 'delete', 'resume']) {
      expect([command, (await eaas('tenant', command, INSTALLATION_ID)).code]).toEqual([command, 1])
    }
    expect((await eaas('audit', 'list', '--tenant', INSTALLATION_ID)).code).toBe(1)
    expect((await eaas('audit', 'list')).code).toBe(2)
    expect((await eaas('audit', 'list', '--tenant', 'acme', '--installation')).code).toBe(2)
    expect((await eaas('tenant', 'list')).stdout).not.toContain(INSTALLATION_ID)
  })

  it('is verified with every other log, and exported and verified alone', async () => {
    const checkpoint = await written('installation.checkpoint', 'audit', 'checkpoint', '--installation')
    expect((await entries()).at(-1)?.action).toBe('installation.anchor')
    const all = await eaas('audit', 'verify', '--all', '--checkpoint', checkpoint)
    expect([all.code, all.stdout]).toEqual([
      0,
      expect.stringMatching(/^All logs are valid\.\nlogs +3 of 3 valid, counting the installation's own log$/m),
    ])
    const [, , id, hash, signed_at] = (await readFile(checkpoint, 'utf8')).split('\n')
    expect(all.stdout).toContain(
      `checkpoint  agrees: entry ${id} of the installation's log, hash ${hash}, signed at ${signed_at}\nby key      ${publicKey}\ntenants     0 of 2 compared with a checkpoint of their own in the file\n`,
    )
    const exported = await written('installation.ndjson', 'audit', 'export', '--installation')
    expect(await verified(exported, '--checkpoint', checkpoint)).toMatchObject({ code: 0, verdict: { whole: true } })
    const rights = await runAuditCommand([
      'rights',
      exported,
      '--at',
      '2100-01-01T00:00:00Z',
      '--public-key',
      publicKey,
    ])
    expect([rights.code, rights.stdout]).toEqual([3, ''])
    expect(rights.stderr).toContain("is the installation's log, which records no rights")
    const json = JSON.parse((await eaas('audit', 'verify', '--all', '--json')).stdout)
    expect(json).toMatchObject({ valid: true, logs: [{ name: 'installation' }, { valid: true }, { valid: true }] })
  })
})

describe('an export of a tenant', () => {
  it('has the newest anchor, by which a checkpoint of the installation covers the tenant', async () => {
    const checkpoint = await written('covering.checkpoint', 'audit', 'checkpoint', '--installation')
    const exported = await written('acme.ndjson', 'audit', 'export', '--tenant', 'acme')
    const { code, verdict } = await verified(exported, '--checkpoint', checkpoint)
    expect([code, verdict]).toMatchObject([
      0,
      { whole: true, checkpoint_compared: true, anchor: { tenants: 2, compared: true } },
    ])
    const shown = await runAuditCommand(['verify', exported, '--public-key', publicKey])
    expect(shown.stdout).toMatch(/^anchor +entry \d+ of the installation's log, of .*, covers entry \d+$/m)

    const later = await written('later.checkpoint', 'audit', 'checkpoint', '--installation')
    expect((await verified(exported, '--checkpoint', later)).code).toBe(1) // the export knows of no such anchor
    const again = await written('again.ndjson', 'audit', 'export', '--tenant', 'acme')
    expect((await verified(again, '--checkpoint', checkpoint)).code).toBe(5)

    const [header, , ...rest] = (await readFile(exported, 'utf8')).split(/(?<=\n)/)
    const [, foreign] = (
      await readFile(await written('other.ndjson', 'audit', 'export', '--tenant', 'other'), 'utf8')
    ).split(/(?<=\n)/)
    const mixed = join(folder, 'mixed.ndjson')
    await writeFile(mixed, [header, foreign, ...rest].join(''))
    expect((await verified(mixed)).verdict).toMatchObject({ valid: false, line: 2 })
  })
})

describe('an export of a tenant that is linked to a kept checkpoint', () => {
  const linked = (name: string, since: string) => written(name, 'audit', 'export', '--tenant', 'acme', '--since', since)
  const shownAs = async (...args: string[]) =>
    (await runAuditCommand(['verify', ...args, '--public-key', publicKey])).stdout

  it('agrees with it, however much was anchored since; an export that is not linked says what to do', async () => {
    const checkpoint = await written('linked.checkpoint', 'audit', 'checkpoint', '--installation')
    const [, , id, hash, time] = (await readFile(checkpoint, 'utf8')).split('\n')
    await eaas('tenant', 'suspend', 'acme', '--reason', 'a drill')
    await eaas('tenant', 'resume', 'acme')
    await written('between.checkpoint', 'audit', 'checkpoint', '--installation')
    const unlinked = await written('unlinked.ndjson', 'audit', 'export', '--tenant', 'acme')
    expect((await verified(unlinked, '--checkpoint', checkpoint)).code).toBe(5)
    expect(await shownAs(unlinked, '--checkpoint', checkpoint)).toContain(
      `UNUSED      the checkpoint is of entry ${id} of the installation's log, hash ${hash}, signed at ${time}: this export is not linked to it. Have it made again: eaas audit export --since, with this checkpoint. If that is refused because a rollback of that log was accepted since, no export can be linked to it: keep a new one\n`,
    )
    const exported = await linked('linked.ndjson', checkpoint)
    const { code, verdict } = await verified(exported, '--checkpoint', checkpoint)
    const stated = { tenant_id: INSTALLATION_ID, id: Number(id), hash, signed_at: time }
    expect([code, verdict]).toMatchObject([0, { whole: true, checkpoint_compared: true, checkpoint: stated }])
    const shown = await shownAs(exported, '--checkpoint', checkpoint)
    expect(shown).toContain(`by key      ${publicKey}\n`)
    expect(shown).toContain(
      `checkpoint  agrees: entry ${id} of the installation's log, hash ${hash}, signed at ${time}; that log goes on from it to the anchor, by the word of the server alone`,
    )
    // One of a later entry than the anchor: the log that it is of has the anchor.
    const later = await written('behind.checkpoint', 'audit', 'checkpoint', '--installation')
    const behind = await linked('behind.ndjson', later)
    expect((await verified(behind, '--checkpoint', later)).code).toBe(0)
  })

  it('reads all checkpoints of a file, and says which one it was compared with', async () => {
    const [first, second] = [
      await written('first.checkpoint', 'audit', 'checkpoint', '--installation'),
      await written('second.checkpoint', 'audit', 'checkpoint', '--installation'),
    ]
    const texts = [await readFile(second, 'utf8'), await readFile(first, 'utf8')]
    const idOf = (text = '') => Number(text.split('\n')[2])
    const joined = join(folder, 'joined.checkpoints')
    await writeFile(joined, texts.join(''))
    const both = await linked('both.ndjson', joined)
    for (const [file, used] of [
      [joined, texts[0]],
      [first, texts[1]],
      [second, texts[0]],
    ] as const) {
      const { code, verdict } = await verified(both, '--checkpoint', file)
      expect([code, verdict.checkpoint.id]).toEqual([0, idOf(used)])
    }
    // Only the older one is linked: that the log continues the newer one too is not shown.
    await written('third.checkpoint', 'audit', 'checkpoint', '--installation')
    const older = await linked('older.ndjson', first)
    expect(await verified(older, '--checkpoint', first)).toMatchObject({ code: 0 })
    expect(await verified(older, '--checkpoint', joined)).toMatchObject({
      code: 5,
      verdict: { checkpoint: { id: idOf(texts[0]) } },
    })
    // The tenant's own one comes first.
    const own = await readFile(await written('own.checkpoint', 'audit', 'checkpoint', '--tenant', 'acme'), 'utf8')
    await writeFile(joined, [own, ...texts].join('\n'))
    expect(await verified(await linked('own.ndjson', joined), '--checkpoint', joined)).toMatchObject({
      code: 0,
      verdict: { checkpoint: { id: idOf(own), tenant_id: own.split('\n')[1] } },
    })
    await writeFile(joined, `${texts[0]}x\n${texts[1]}`)
    const { code, stderr } = await runAuditCommand(['verify', both, '--public-key', publicKey, '--checkpoint', joined])
    expect([code, stderr]).toEqual([3, expect.stringContaining('this is not a checkpoint')])
  })

  it('is refused without a checkpoint that the installation signed, and of its own log', async () => {
    const own = await written('no-anchor.checkpoint', 'audit', 'checkpoint', '--tenant', 'acme')
    const refused = await eaas('audit', 'export', '--tenant', 'acme', '--since', own)
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining("must have a checkpoint of the installation's log, but has checkpoints of tenant"),
    ])
    expect((await eaas('audit', 'export', '--installation', '--since', own)).code).toBe(2)
    const foreign = await written('foreign.checkpoint', 'audit', 'checkpoint', '--installation')
    await writeFile(foreign, signCheckpoint(stranger, parseCheckpoint(await readFile(foreign, 'utf8'))))
    expect(await eaas('audit', 'export', '--tenant', 'acme', '--since', foreign)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(`names the key eaas-audit+${encodePublicKey(stranger).split('+')[1]}:`),
    })
  })
})

describe('a server that verifies every log by schedule', () => {
  it('says at level fatal and in its metrics which logs are not as a server wrote them', async () => {
    const { database, tenant_id } = await databaseWithTenant()
    const environment = { EAAS_CHECKPOINT_FILE: 'none', EAAS_AUDIT_VERIFY_HOURS: '24' }
    const server = await startServer({ database, environment })
    const failedLogs = async () =>
      (await (await fetch(`${server.url}/metrics`)).text()).match(/^eaas_audit_verification_failed_logs .*$/m)?.[0]
    try {
      await server.stop() // which leaves an anchor: what is before it is not read at start
      await server.start()
      expect(await failedLogs()).toBeUndefined() // the installation is new
      await server.stop()
      // While no server runs: one that has just started would perhaps verify after this, and the next one would have nothing to do.
      const service = await startService({ database, environment: { EAAS_ROOT_KEY: PROCESS_ROOT_KEY } })
      const { sql } = service.services
      await sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = 1`
      await sql`update audit_log set created_at = '2999-01-01T00:00:00Z' where tenant_id = ${INSTALLATION_ID} and id = 1`
      await service.close()
      await server.start()
      await expect.poll(failedLogs).toBe('eaas_audit_verification_failed_logs 2')
      for (const edited of [tenant_id, INSTALLATION_ID]) {
        expect(server.log).toMatch(
          new RegExp(`"level":60.*"tenant_id":"${edited}","reason":"entry_altered","broken_at":1`),
        )
      }
    } finally {
      await server.stop()
      await database.drop()
    }
  })
})

describe('a server that anchors the logs', () => {
  it('says at level error, and counts, which tenants it left out, and covers the others', async () => {
    const service = await startService()
    const { database } = service
    const [victim, other] = [await service.createTenant(), await service.createTenant()]
    const { tenant_id } = victim.tenant
    await service.services.sql`
      insert into audit_log (tenant_id, id, action, actor, ip_address, metadata, created_at, hash, mac)
      select tenant_id, id + 7, action, actor, ip_address, metadata, created_at, hash, mac from audit_log
      where tenant_id = ${tenant_id} and id = 1`
    await service.close()
    const server = await startServer({ database, rootKey: ROOT_KEY, environment: { EAAS_CHECKPOINT_FILE: 'none' } })
    const leftOut = async () =>
      (await (await fetch(`${server.url}/metrics`)).text()).match(/^eaas_audit_unanchored_tenants .*$/m)?.[0]
    try {
      await expect.poll(leftOut).toBe('eaas_audit_unanchored_tenants 1')
      expect(server.log).toMatch(
        new RegExp(`"level":50.*"tenant_id":"${tenant_id}".*the new anchor does not cover the end of a log`),
      )
      // The row keeps neither the server nor the other tenants from being served.
      const health = await fetch(`${server.url}/health`)
      expect([health.status, await health.json()]).toMatchObject([200, { status: 'healthy' }])
      const sql = connectTo(database)
      const covered = await sql`select tenant_id from anchored_heads`
      await sql.end()
      expect(covered.map((head) => head.tenant_id)).toEqual([other.tenant.tenant_id])
    } finally {
      await server.stop()
      await database.drop()
    }
  })
})

describe('a checkpoint of the installation', () => {
  it('covers no tenant once the anchors began afresh after it', async () => {
    const verifyAll = async (checkpoint: string) => {
      const { code, stdout, stderr } = await eaas('audit', 'verify', '--all', '--checkpoint', checkpoint, '--json')
      const { valid, checkpoint: coverage } = JSON.parse(stdout)
      return { code, valid, coverage, stderr }
    }
    const before = await written('before.checkpoint', 'audit', 'checkpoint', '--installation')
    expect(await verifyAll(before)).toMatchObject({ code: 0, valid: true, coverage: { covers_tenants: true } })

    const server = await startEaas({ database, environment: { EAAS_CHECKPOINT_FILE: 'none' } })
    const sql = connectTo(database) // the embedded database has a socket while a server runs
    await sql`delete from anchored_heads`
    await sql.end()
    await server.kill9()
    await server.start()
    await expect
      .poll(async () => (await eaas('accept', 'rollback', '--installation', '--reason', 'a drill')).code)
      .toBe(0)
    await server.stop()

    const { id } = (await entries()).findLast(({ action }) => action === 'audit.rollback_accepted') ?? {}
    expect(await verifyAll(before)).toMatchObject({
      code: 3,
      valid: true,
      coverage: { covers_tenants: false, anchored_afresh_by: id },
      stderr: expect.stringMatching(/covers no tenant: entry \d+ accepted a rollback/),
    })
    const after = await written('after.checkpoint', 'audit', 'checkpoint', '--installation')
    const exportSince = (...files: string[]) =>
      eaas('audit', 'export', '--tenant', 'acme', ...files.flatMap((file) => ['--since', file]))
    expect(await exportSince(before)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(`entry ${id} of the installation's log accepted a rollback of that log`),
    })
    const both = join(folder, 'before-and-after.checkpoints')
    await writeFile(both, `${await readFile(before, 'utf8')}${await readFile(after, 'utf8')}`)
    const exported = join(folder, 'afresh.ndjson')
    await writeFile(exported, (await exportSince(both)).stdout)
    expect((await verified(exported, '--checkpoint', after)).code).toBe(0)
    expect((await verified(exported, '--checkpoint', before)).code).toBe(5)
    expect(await verifyAll(after)).toMatchObject({ code: 0, valid: true, coverage: { covers_tenants: true } })
  })
})
