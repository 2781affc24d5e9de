// eaas tenant suspend, resume and delete, beside running servers: every server refuses the tenant at once, and a deletion destroys
// nothing else.
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { splitLines } from '../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../packages/audit/src/verify/verify-export.js'
import { checkTenant } from '../independent/checker.js'
import { openAuditKey } from '../independent/stored.js'
import { serverOf } from '../support/audit/audit-scene.js'
import { columnsOf } from '../support/database/migrations.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo } from '../support/service/eaas-process.js'
import { callRoute, makeGround, routesWithRules } from '../support/service/route-calls.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const dek = () => randomBytes(32).toString('base64')
const REFUSED = [403, 'E_TENANT_SUSPENDED']

let folder: string
let service: Service
/** on the same database, with caches of its own */
let other: ReturnType<typeof serverOf>
/** of the key that signs exports */
let publicKey: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-tenant-'))
  service = await startService()
  other = serverOf(service)
  publicKey = (await json('audit', 'public-key')).public_key
})
afterAll(async () => {
  await other?.app.close()
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Runs the operator's command in a process of its own. */
function eaas(...args: string[]) {
  return runCommand(args, { database: service.database, rootKey: ROOT_KEY })
}

async function json(...args: string[]) {
  const { code, stdout, stderr } = await eaas(...args, '--json')
  expect([args, code, stderr]).toEqual([args, 0, ''])
  return JSON.parse(stdout)
}

/** The caller's calls, answered by the other server. */
function onOther({ secret, tenant }: Caller): Caller {
  const call = async (method: string, path: string, body?: unknown) => ({
    ...(await other.call(secret, method, path, body)),
    headers: new Headers(),
  })
  return { secret, tenant, call: call as Caller['call'] }
}

/** Expects that the log verifies in place, offline from an export, and by the checker that shares no code with the server, rows included. */
async function expectSound(tenant_id: string): Promise<void> {
  const file = join(folder, `${randomBytes(6).toString('hex')}.ndjson`)
  expect(await json('audit', 'verify', '--tenant', tenant_id)).toMatchObject({ valid: true })
  expect((await eaas('audit', 'export', '--tenant', tenant_id, '--out', file)).code).toBe(0)
  expect(await verifyExport(splitLines([await readFile(file)]), { publicKey })).toMatchObject({ valid: true })
  const sql = connectTo(service.database)
  try {
    const auditKey = await openAuditKey(sql, Buffer.from(ROOT_KEY, 'base64'), tenant_id)
    expect(await checkTenant(sql, { tenant_id, auditKey })).toMatchObject({ verdict: { valid: true }, faults: [] })
  } finally {
    await sql.end()
  }
}

describe('eaas tenant suspend', { timeout: 120_000 }, () => {
  it('has every call refused by every server once it answers, and resume has them answered again, with nothing lost', async () => {
    const owner = await service.createTenant({ envelope_only: false })
    const neighbour = await service.createTenant()
    const { tenant_id, name } = owner.tenant
    const ground = await makeGround(owner)
    const servers = [owner, onOther(owner)]
    for (const caller of servers) expect((await caller.call('GET', '/v1/keys')).status).toBe(200) // cached from now on
    expect(await json('tenant', 'suspend', name, '--reason', 'not paid')).toMatchObject({
      tenant_id,
      status: 'suspended',
    })
    for (const caller of servers) {
      for (const route of routesWithRules()) {
        const { status, body } = await callRoute(caller, route, ground)
        expect([route.name, status, body.code]).toEqual([route.name, ...REFUSED])
      }
    }
    expect((await owner.call('GET', '/v1/keys', undefined, { authorization: `Bearer ${owner.secret}x` })).status).toBe(
      401,
    )
    for (const caller of [neighbour, onOther(neighbour)]) {
      expect((await caller.call('POST', '/v1/keys', { name: randomBytes(4).toString('hex') })).status).toBe(201)
    }
    await expectSound(tenant_id)
    await json('tenant', 'suspend', name) // is so already, and writes no entry
    const [listed] = (await json('tenant', 'list')).tenants.filter((tenant: { name: string }) => tenant.name === name)
    expect([listed.status, (await json('tenant', 'show', name)).status]).toEqual(['suspended', 'suspended'])

    expect(await json('tenant', 'resume', name)).toMatchObject({ status: 'active' })
    for (const caller of servers) {
      const { key_id, wrapped_key } = ground
      expect((await caller.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })).status).toBe(200)
    }
    const { logs } = (await owner.call('GET', '/v1/audit?action=tenant.update')).body
    expect(logs).toMatchObject([
      {
        actor: expect.stringMatching(/^operator:.+@/),
        ip_address: null,
        metadata: { status: 'active', status_before: 'suspended' },
      },
      {
        actor: expect.stringMatching(/^operator:.+@/),
        ip_address: null,
        metadata: { status: 'suspended', status_before: 'active', reason: 'not paid' },
      },
    ])
    await expectSound(tenant_id)
  })

  it('records a reason though the status stays, and without one writes nothing and says so', async () => {
    const { tenant, call } = await service.createTenant()
    const { tenant_id, name } = tenant
    const say = async (...args: string[]) =>
      (await eaas('tenant', ...args)).stdout.replace(`Tenant ${name} (${tenant_id}) `, '')
    await json('tenant', 'suspend', name)
    expect(await say('suspend', name)).toBe(
      'is suspended already: all of its calls are refused. Nothing was recorded.\n',
    )
    expect(await say('suspend', name, '--reason', 'case 4711')).toBe(
      'is suspended already: all of its calls are refused. The reason was recorded.\n',
    )
    await json('tenant', 'resume', name)
    expect(await say('resume', name)).toBe('is active already. Nothing was recorded.\n')
    expect(await say('resume', name, '--reason', 'case 4712')).toBe('is active already. The reason was recorded.\n')
    const { logs } = (await call('GET', '/v1/audit?action=tenant.update')).body
    const told = logs.map(({ metadata }: { metadata: Record<string, string> }) => [metadata.status, metadata.reason])
    expect(told.reverse()).toEqual([
      ['suspended', undefined],
      ['suspended', 'case 4711'],
      ['active', undefined],
      ['active', 'case 4712'],
    ])
    const { stdout } = await eaas('audit', 'list', '--installation', '--limit', '4', '--json')
    const own = JSON.parse(stdout).logs
    expect(own.map(({ action }: { action: string }) => action).reverse()).toEqual(
      ['suspend', 'suspend', 'resume', 'resume'].map((change) => `installation.tenant_${change}`),
    )
    await expectSound(tenant_id)
    expect(await json('audit', 'verify', '--installation')).toMatchObject({ valid: true })
  })

  it('lets no call through that is under way: the log has none between the two entries', async () => {
    const owner = await service.createTenant()
    const { key_id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
    let isOver = false
    const seen = new Set<string>()
    const clients = [owner, onOther(owner), owner, onOther(owner)].map(async (caller, at) => {
      while (!isOver) {
        const wrap = at < 2
        const { status, body } = wrap
          ? await caller.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
          : await caller.call('POST', '/v1/hash', { key_id, value: 'x' })
        seen.add(status === 200 ? '200' : `${status} ${body.code}`)
      }
    })
    await expect.poll(() => [...seen]).toEqual(['200'])
    await json('tenant', 'suspend', owner.tenant.tenant_id)
    await expect.poll(() => [...seen].sort()).toEqual(['200', REFUSED.join(' ')])
    await json('tenant', 'resume', owner.tenant.tenant_id)
    isOver = true
    await Promise.all(clients)
    const { logs } = (await owner.call('GET', '/v1/audit?action=tenant.update')).body
    expect(logs[0].id - logs[1].id).toBe(1)
    expect([...seen].sort()).toEqual(['200', REFUSED.join(' ')])
    await expectSound(owner.tenant.tenant_id)
  })
})

describe('eaas tenant delete', { timeout: 120_000 }, () => {
  it('is not completed while a key is hidden, and is when it is repeated', async () => {
    const owner = await service.createTenant()
    const { tenant_id, name } = owner.tenant
    for (const key of ['seen', 'hidden']) await owner.call('POST', '/v1/keys', { name: key })
    await json('tenant', 'suspend', name)
    const sql = connectTo(service.database)
    try {
      const [key] =
        await sql`select ${sql(columnsOf('keys'))} from keys where tenant_id = ${tenant_id} and name = 'hidden'`
      const [version] =
        await sql`select ${sql(columnsOf('key_versions'))} from key_versions where key_id = ${key?.key_id}`
      await sql`delete from key_versions where key_id = ${key?.key_id}`
      await sql`delete from keys where key_id = ${key?.key_id}`
      const refused = await eaas('tenant', 'delete', name, '--confirm', name)
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/stays suspended.*row_missing/)])
      await sql`insert into keys ${sql({ ...key })}`
      await sql`insert into key_versions ${sql({ ...version })}`
      expect(await json('tenant', 'delete', name, '--confirm', name)).toMatchObject({ deleted: true, keys: 1 })
      const left = await sql`select 1 from key_versions where tenant_id = ${tenant_id} and wrapped_kek is not null`
      expect(left).toHaveLength(0)
    } finally {
      await sql.end()
    }
  })

  it('takes a suspended tenant and its name, says what it would do without, and leaves nothing that opens data but a log that verifies', async () => {
    const owner = await service.createTenant({ envelope_only: false })
    const neighbour = await service.createTenant({ envelope_only: false })
    const theirs = await makeGround(neighbour)
    const { tenant_id, name } = owner.tenant
    const ground = await makeGround(owner)
    await owner.call('POST', `/v1/keys/${ground.key_id}/rotate`)
    for (const step of ['disabled', 'waits', 'active']) {
      const { id } = (await owner.call('POST', '/v1/keys', { name: step })).body
      if (step !== 'active') await owner.call('DELETE', `/v1/keys/${id}`)
      if (step === 'waits') await owner.call('POST', `/v1/keys/${id}/destroy`, { confirm: step })
    }
    const early = await eaas('tenant', 'delete', name, '--confirm', name)
    expect([early.code, early.stderr]).toEqual([1, expect.stringContaining('suspend it first')])
    await json('tenant', 'suspend', name)

    const unconfirmed = await eaas('tenant', 'delete', name)
    expect([unconfirmed.code, unconfirmed.stdout]).toEqual([
      1,
      expect.stringMatching(/4 keys in 5 versions[\s\S]*2 API keys[\s\S]*Nothing was deleted/),
    ])
    expect((await eaas('tenant', 'delete', name, '--confirm', 'another')).code).toBe(1)
    await json('tenant', 'resume', name)
    const { key_id, wrapped_key } = ground
    expect((await owner.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })).status).toBe(200)
    await json('tenant', 'suspend', name)

    const deleted = await json('tenant', 'delete', name, '--confirm', name, '--reason', 'asked for')
    expect(deleted).toMatchObject({
      deleted: true,
      keys: 4,
      versions: 5,
      api_keys: 2,
      tenant: { tenant_id, status: 'deleted' },
    })
    const sql = connectTo(service.database)
    try {
      const secrets = await sql`
        select 1 from key_versions where tenant_id = ${tenant_id} and wrapped_kek is not null
        union all select 1 from keys where tenant_id = ${tenant_id} and wrapped_hash_key is not null
        union all select 1 from api_keys where tenant_id = ${tenant_id} and revoked_at is null`
      expect(secrets).toHaveLength(0)
    } finally {
      await sql.end()
    }
    for (const caller of [owner, onOther(owner)]) {
      for (const route of routesWithRules()) expect((await callRoute(caller, route, ground)).status).toBe(401)
    }
    for (const [command, error] of [
      [['tenant', 'resume', name], /is final/],
      [['tenant', 'set', name, '--envelope-only', 'true'], /is final/],
      [['tenant', 'create', '--name', name], /already exists/],
      [['key', 'create', '--tenant', name, '--name', 'new'], /is final/],
      [['api-key', 'create', '--tenant', name, '--name', 'new', '--permissions', 'all'], /is final/],
    ] as const) {
      const { code, stderr } = await eaas(...command)
      expect([command, code, stderr]).toEqual([command, 1, expect.stringMatching(error)])
    }
    await expectSound(tenant_id)
    const { logs } = await json('audit', 'list', '--tenant', tenant_id)
    expect(logs[0]).toMatchObject({
      action: 'tenant.update',
      actor: expect.stringMatching(/^operator:.+@/),
      metadata: { status: 'deleted', reason: 'asked for' },
    })
    const unwrapped = await neighbour.call('POST', `/v1/keys/${theirs.key_id}/unwrap`, {
      wrapped_key: theirs.wrapped_key,
    })
    expect(unwrapped.status).toBe(200)
  })
})
