// eaas audit diff: finds what a log lost, by kept checkpoints and an earlier export.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RECOVERY_PAGE } from '../../../packages/server/src/core/audit/append-errors.js'
import { createCheckpointEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { findHeadFault } from '../../../packages/server/src/guard/operations/diff-audit.js'
import { copyTables, restoreTables, type Scene } from '../../support/audit/audit-scene.js'
import { runCommand } from '../../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'

const TIMEOUT_MS = 120_000
const REPEAT = 'repeat it if you still want it'

let folder: string
let service: Service
let owner: Caller
let key_id: string
let apiKeyId: string
let lostApiKeyId: string
let lostKeyId: string
/** the number of entries before the lost ones, and with them */
const total = { kept: 0, all: 0 }
const file = (name: string) => join(folder, name)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-diff-'))
  service = await startService()
  const sql = service.services.sql as unknown as Scene['sql']
  owner = await service.createTenant({ name: 'acme' })
  const emit = createCheckpointEmitter(service.services, file('checkpoints'), (error) => {
    throw error
  })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  apiKeyId = (await owner.call('POST', '/v1/api-keys', { name: 'c', permissions: ['encrypt'] })).body.id
  await emit()
  await wrap()
  total.kept = await entries()
  await copyTables(sql, 'early')
  await owner.call('PATCH', `/v1/api-keys/${apiKeyId}`, { name: 'client' })
  await owner.call('DELETE', `/v1/api-keys/${apiKeyId}`)
  lostApiKeyId = (await owner.call('POST', '/v1/api-keys', { name: 'd', permissions: ['encrypt'] })).body.id
  await owner.call('POST', `/v1/keys/${key_id}/rotate`)
  await wrap()
  await wrap()
  await owner.call('DELETE', `/v1/keys/${key_id}`)
  await owner.call('POST', `/v1/keys/${key_id}/destroy`, { confirm: 'k' })
  lostKeyId = (await owner.call('POST', '/v1/keys', { name: 'l' })).body.id
  await owner.call('DELETE', `/v1/keys/${lostKeyId}`)
  await emit()
  total.all = await entries()
  await writeFile(file('export'), (await owner.call('GET', '/v1/audit/export')).body)
  expect(await diff('--checkpoint', file('checkpoints'), '--export', file('export'))).toMatchObject({
    code: 0,
    found: { differs_at: null, agrees_through: total.all, lost: [], undone: [] },
  })
  await restoreTables(sql, 'early')
}, TIMEOUT_MS)
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

const wrap = () => owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })
const entries = async () => (await owner.call('GET', '/v1/audit')).body.total as number

/** Without a checkpoint file, which a server on the embedded database has by default. */
const withoutFile = () => ({
  database: service.database,
  rootKey: ROOT_KEY,
  environment: { EAAS_CHECKPOINT_FILE: 'none' },
})

async function diff(...args: string[]) {
  const options = withoutFile()
  const { code, stdout, stderr } = await runCommand(['audit', 'diff', '--tenant', 'acme', '--json', ...args], options)
  return { code, stderr, found: stdout === '' ? undefined : JSON.parse(stdout) }
}

describe('eaas audit diff', { timeout: TIMEOUT_MS }, () => {
  it('brackets by checkpoints alone what a log lost', async () => {
    expect(await diff('--checkpoint', file('checkpoints'))).toMatchObject({
      code: 1,
      found: {
        last_id: total.kept,
        agrees_through: total.kept - 1,
        differs_at: total.all,
        witnessed_through: total.all,
        lost: null,
      },
    })
  })

  it('says without an export in which order to accept the loss, look at the API keys and serve', async () => {
    const args = ['audit', 'diff', '--tenant', 'acme', '--checkpoint', file('checkpoints')]
    const { stdout } = await runCommand(args, { database: service.database, rootKey: ROOT_KEY })
    expect(stdout).toMatch(/stop the servers, accept the loss .*, list and revoke, and only then start the servers\.$/m)
  })

  it('names by an export every lost entry, and what each lost change asks for', async () => {
    const { code, found } = await diff('--checkpoint', file('checkpoints'), '--export', file('export'))
    expect(code).toBe(1)
    expect(found).toMatchObject({
      agrees_through: total.kept,
      differs_at: total.kept + 1,
      witnessed_through: total.all,
      undone: [
        {
          change: 'api_key.update',
          api_key_id: apiKeyId,
          remedy: 'change it again: name is as it was before',
        },
        { change: 'api_key.revoke', api_key_id: apiKeyId, remedy: 'revoke it again: it is valid again' },
        {
          change: 'api_key.create',
          api_key_id: lostApiKeyId,
          remedy: 'create another one: this one no longer exists and gets 401',
        },
        {
          change: 'key.rotate',
          key_id,
          key_version: 2,
          wraps: 2,
          remedy: expect.stringContaining("can't be unwrapped"),
        },
        { change: 'key.disable', key_id, key_version: 2, remedy: `${REPEAT}: the key is active now` },
        { change: 'key.destroy', key_id, remedy: `${REPEAT}: the key is active now` },
        { change: 'key.create', key_id: lostKeyId, remedy: expect.stringMatching(/^create the key again/) },
        { change: 'key.disable', key_id: lostKeyId, remedy: 'nothing: the key is lost too' },
      ],
    })
    expect(found.lost.map(({ id, action }: { id: number; action: string }) => [id, action])).toEqual([
      [total.kept + 1, 'api_key.update'],
      [total.kept + 2, 'api_key.revoke'],
      [total.kept + 3, 'api_key.create'],
      [total.kept + 4, 'key.rotate'],
      [total.kept + 5, 'key.wrap'],
      [total.kept + 6, 'key.wrap'],
      [total.kept + 7, 'key.disable'],
      [total.kept + 8, 'key.destroy'],
      [total.kept + 9, 'key.create'],
      [total.kept + 10, 'key.disable'],
    ])
  })

  it('prints a line for each lost change, with what it was about, how many wraps are lost, and what to do', async () => {
    const command = ['audit', 'diff', '--tenant', 'acme', '--export', file('export')]
    const { code, stdout } = await runCommand(command, withoutFile())
    expect(code).toBe(1)
    expect(stdout).toContain(
      'The log lost 10 entries of the export: 1 api_key.update, 1 api_key.revoke, 1 api_key.create, 1 key.rotate, 2 key.wrap, 2 key.disable, 1 key.destroy, 1 key.create.',
    )
    const rows = stdout.split('\n').map((line) => line.trim().split(/ {2,}/))
    expect(rows).toContainEqual(['ENTRY', 'CHANGE', 'OF', 'WRAPS LOST', 'TO DO'])
    const revoked = [`${total.kept + 2}`, 'api_key.revoke', apiKeyId, '-', 'revoke it again: it is valid again']
    expect(rows).toContainEqual(revoked)
    const rotated = [`${total.kept + 4}`, 'key.rotate', `${key_id} v2`, '2', expect.stringMatching(/^rotate again; /)]
    expect(rows).toContainEqual(rotated)
  })

  it('says what is wrong with the head of a log that lost no entry', async () => {
    const { sql } = service.services
    const { tenant_id } = (await service.createTenant({ name: 'initech' })).tenant
    const initech = async (...more: string[]) => {
      const options = { database: service.database, rootKey: ROOT_KEY }
      return runCommand(['audit', 'diff', '--tenant', 'initech', '--checkpoint', file('initech'), ...more], options)
    }
    const { stdout } = await runCommand(['audit', 'checkpoint', '--tenant', 'initech'], {
      database: service.database,
      rootKey: ROOT_KEY,
    })
    await writeFile(file('initech'), stdout)
    expect(await initech()).toMatchObject({ code: 0, stdout: expect.stringContaining('No difference: it agrees') })
    const head = await sql`select * from heads where tenant_id = ${tenant_id}`
    await sql`update heads set last_id = 7 where tenant_id = ${tenant_id}`
    expect(JSON.parse((await initech('--json')).stdout)).toMatchObject({ differs_at: null, head_fault: 'head_forged' })
    await sql`delete from heads where tenant_id = ${tenant_id}`
    const missing = await initech()
    expect(missing.code).toBe(1)
    expect(missing.stdout).toMatch(
      new RegExp(
        `^Its entries agree through entry 1,.*\\nBut the head is missing \\(head_missing\\)\\..*${RECOVERY_PAGE}`,
        'm',
      ),
    )
    expect(missing.stdout).not.toContain('No difference')
    await sql`insert into heads ${sql(head)}`
    expect(JSON.parse((await initech('--json')).stdout)).toMatchObject({ head_fault: null })
  })

  it('says what is wrong with the entries that a head which the server wrote is compared with', async () => {
    const { tenant_id } = (await service.createTenant()).tenant
    const { sql, states } = service.services
    const { auditKey } = (await states.find(tenant_id)) ?? expect.unreachable('the tenant is missing')
    const fault = () => findHeadFault(sql, { tenant_id, auditKey })
    expect(await fault()).toBeUndefined()
    const [entry] = await sql`select * from audit_log where tenant_id = ${tenant_id}`
    await sql`insert into audit_log ${sql({ ...entry, id: 0 })}`
    expect(await fault()).toMatchObject({ reason: 'entry_before_first', detail: expect.stringContaining('entry 0 ') })
    await sql`delete from audit_log where tenant_id = ${tenant_id} and id = 0`
    await sql`update audit_log set hash = mac where tenant_id = ${tenant_id}`
    expect(await fault()).toMatchObject({ reason: 'head_mismatch' })
  })

  it('finds nothing wrong with a head while entries are written', async () => {
    const { tenant, call } = await service.createTenant({ name: 'hooli' })
    const { sql, states } = service.services
    const state = await states.find(tenant.tenant_id)
    if (!state) throw new Error('the tenant is missing')
    let isDone = false
    const writes = (async () => {
      for (let at = 0; !isDone; at++) await call('POST', '/v1/keys', { name: `k${at}` })
    })()
    try {
      for (let round = 0; round < 100; round++) {
        expect(await findHeadFault(sql, { tenant_id: tenant.tenant_id, auditKey: state.auditKey })).toBeUndefined()
      }
    } finally {
      isDone = true
      await writes
    }
  })

  it('says that it compared nothing with a file that has no checkpoint of the log', async () => {
    const of = async (...args: string[]) =>
      (await runCommand(['audit', 'checkpoint', ...args], { database: service.database, rootKey: ROOT_KEY })).stdout
    await service.createTenant({ name: 'globex' })
    const own = await of('--tenant', 'acme')
    const cases: [string, string, string][] = [
      ['empty', '', 'has no checkpoint'],
      ['lines', 'x\n', 'has no checkpoint'],
      ['other', await of('--tenant', 'globex'), 'has checkpoints of tenant '],
      ['installation', await of('--installation'), "has checkpoints of the installation's log only"],
      ['forged', own.replace(/\d{3}Z/, '000Z'), "has checkpoints of it that this installation's key did not sign"],
    ]
    for (const [name, content, reason] of cases) {
      await writeFile(file(name), content)
      for (const more of [[], ['--export', file('export')]]) {
        const { code, found, stderr } = await diff('--checkpoint', file(name), ...more)
        expect([name, code, found]).toEqual([name, 3, undefined])
        expect(stderr).toContain(`${file(name)} must have a checkpoint of this tenant's log, but ${reason}`)
      }
    }
    const { code, stderr } = await runCommand(['audit', 'diff', '--tenant', 'globex'], {
      database: service.database,
      rootKey: ROOT_KEY,
      environment: { EAAS_CHECKPOINT_FILE: file('checkpoints') },
    })
    expect([code, stderr]).toEqual([3, expect.stringMatching(/nothing was compared: .* has checkpoints of tenant /)])
  })

  it('takes no export that is changed after it was verified', async () => {
    await writeFile(file('changed'), await readFile(file('export')))
    execFileSync('mkfifo', [file('fifo')])
    const found = diff('--export', file('changed'), '--checkpoint', file('fifo'))
    // The command reads the checkpoints in between, and waits for them.
    const fifo = await open(file('fifo'), 'w')
    const text = await readFile(file('export'), 'utf8')
    await writeFile(file('changed'), text.replace('"api_key.revoke"', '"api_key.update"'))
    await fifo.writeFile(await readFile(file('checkpoints')))
    await fifo.close()
    expect(await found).toMatchObject({
      code: 3,
      found: undefined,
      stderr: expect.stringContaining('was changed while'),
    })
  })

  it('takes no export that does not verify, and nothing without a file', async () => {
    await writeFile(file('bad'), 'x\n')
    for (const args of [['--export', file('bad')], ['--checkpoint', file('none')], []]) {
      const { code, found } = await diff(...args)
      expect([args, code, found]).toEqual([args, 3, undefined])
    }
    expect((await diff()).stderr).toContain('there is nothing to compare with: give --checkpoint, --export or both')
  })

  it.each<[string, RegExp, (text: string) => string]>([
    ['that was edited', /does not verify: /, (text) => text.replace('"key.rotate"', '"key.disable"')],
    [
      'that names another tenant',
      /does not verify: /,
      (text) => text.replaceAll(owner.tenant.tenant_id, crypto.randomUUID()),
    ],
    ['that was cut short', /does not verify: /, (text) => `${text.split('\n').slice(0, -2).join('\n')}\n`],
    ['whose lines were exchanged', /./, (text) => text.split('\n').toSorted().join('\n')],
  ])('takes no export %s', async (_, said, edit) => {
    await writeFile(file('edited'), edit(await readFile(file('export'), 'utf8')))
    const { code, found, stderr } = await diff('--export', file('edited'))
    expect([code, found, stderr]).toEqual([3, undefined, expect.stringMatching(said)])
  })

  it("takes no export of another tenant's log", async () => {
    const other = await service.createTenant({ name: 'umbrella' })
    await writeFile(file('other'), (await other.call('GET', '/v1/audit/export')).body)
    const { code, found, stderr } = await diff('--export', file('other'))
    expect([code, found, stderr]).toEqual([3, undefined, expect.stringContaining('is the log of another tenant')])
  })
})

describe('checkpoints of entries whose loss was accepted', { timeout: TIMEOUT_MS }, () => {
  it('are left out, so that they hide no later loss and no other change', async () => {
    const sql = service.services.sql as unknown as Scene['sql']
    const environment = { EAAS_CHECKPOINT_FILE: file('checkpoints') }
    const compare = (name = 'checkpoints') => diff('--checkpoint', file(name))
    const accept = ['accept', 'rollback', '--tenant', 'acme', '--reason', 'a drill']
    const ended = await runCommand(accept, { database: service.database, rootKey: ROOT_KEY, environment })
    expect(ended.code).toBe(0)
    const end = total.kept + 1
    const accepted = { accepted_through: total.all, differs_at: null, agrees_through: end, witnessed_through: end }
    expect(await compare()).toMatchObject({ code: 0, found: accepted })
    await copyTables(sql, 'accepted')

    // An entry of before that the log had still; and an acceptance that no server wrote so.
    await sql`update audit_log set hash = ${Buffer.alloc(32)} where tenant_id = ${owner.tenant.tenant_id} and id = ${total.kept - 1}`
    expect(await compare()).toMatchObject({ code: 1, found: { differs_at: total.kept - 1 } })
    await restoreTables(sql, 'accepted')
    await sql`update audit_log set metadata = replace(metadata, 'a drill', 'a real loss') where action = 'audit.rollback_accepted'`
    const forged = {
      differs_at: end,
      entry_fault: 'entry_altered',
      witnessed_through: total.all,
      accepted_through: null,
    }
    expect(await compare()).toMatchObject({ code: 1, found: forged })
    await restoreTables(sql, 'accepted')

    await owner.call('POST', '/v1/keys', { name: 'later' })
    await createCheckpointEmitter(service.services, file('checkpoints'), (error) => {
      throw error
    })()
    await restoreTables(sql, 'accepted')
    const later = { code: 1, found: { differs_at: end + 1, accepted_through: total.all, agrees_through: end } }
    expect(end + 1).toBeLessThan(total.all)
    expect(await compare()).toMatchObject(later)
    // Nor do they hide it if somebody edits what no signature covers.
    const lines = (await readFile(file('checkpoints'), 'utf8')).replaceAll(
      /"policy_version":\d+/g,
      '"policy_version":1',
    )
    await writeFile(file('edited'), lines)
    expect(await compare('edited')).toMatchObject({ code: 1, found: { differs_at: end + 1 } })
  })
  it('says after the loss was accepted in which state each key of a lost change is now', async () => {
    const environment = { EAAS_CHECKPOINT_FILE: file('checkpoints') }
    const run = (...args: string[]) =>
      runCommand([...args, '--tenant', 'acme'], { database: service.database, rootKey: ROOT_KEY, environment })
    expect((await run('accept', 'rollback', '--reason', 'a drill')).code).toBe(0)
    expect((await run('key', 'disable', key_id)).code).toBe(0)
    expect((await run('api-key', 'revoke', apiKeyId)).code).toBe(0)
    const { found } = await diff('--export', file('export'))
    expect(found.undone.map(({ change, remedy }: { change: string; remedy: string }) => [change, remedy])).toEqual(
      expect.arrayContaining([
        ['api_key.revoke', 'nothing: it was revoked again'],
        ['key.disable', `${REPEAT}: the key is disabled now`],
        ['key.destroy', `${REPEAT}: the key is disabled now`],
      ]),
    )
  })
})
