// `eaas-audit rights` and `eaas audit rights`: who could do what with which key at a time, from an export alone and from the database.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRightsReader, type RightsReport } from '../../../packages/audit/src/verify/rights-report.js'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { suspendTenant, updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { runAuditCommand, runCommand } from '../../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'

const DAY_MS = 86_400_000
const START = Date.parse('2026-01-05T09:00:00.000Z')
const day = (days: number) => new Date(START + days * DAY_MS).toISOString()

let now = START
let service: Service
let owner: Caller
let folder: string
let key_id: string
let clerk: { id: string; secret: string }
let file: string
let publicKey: string

// Day 0: the tenant, its key, and an API key that may decrypt until day 40. Day 10: it may only read. Day 12: the key's first
// version is closed. Day 20: the API key is revoked, that version destroyed. Day 25: the key is disabled. Day 30: the tenant is suspended.
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-rights-'))
  service = await startService({ now: () => now })
  owner = await service.createTenant({ envelope_only: false })
  const { tenant_id } = owner.tenant
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  const granted = {
    permissions: ['decrypt', 'keys:read'],
    expires_at: day(40),
    allowed_ips: ['10.0.0.0/8', '127.0.0.1'],
  }
  clerk = (await owner.call('POST', '/v1/api-keys', { name: 'clerk', ...granted })).body
  now = START + 10 * DAY_MS
  await owner.call('PATCH', `/v1/api-keys/${clerk.id}`, { permissions: ['keys:read'], allowed_ips: null })
  await performAsSystem(service.services, tenant_id, updateTenant({ envelope_only: true }))
  await owner.call('POST', `/v1/keys/${key_id}/rotate`)
  now = START + 12 * DAY_MS
  await owner.call('PATCH', `/v1/keys/${key_id}`, { min_unwrap_version: 2 })
  now = START + 20 * DAY_MS
  await owner.call('DELETE', `/v1/api-keys/${clerk.id}`)
  await owner.call('POST', `/v1/keys/${key_id}/versions/1/destroy`, { confirm: 'k' })
  now = START + 25 * DAY_MS
  await owner.call('DELETE', `/v1/keys/${key_id}`)
  file = (await owner.call('GET', '/v1/audit/export')).body as string
  publicKey = JSON.parse(file.trimEnd().split('\n').at(-1) ?? '').public_key
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

async function rightsAt(at: string, text = file): Promise<RightsReport> {
  const reader = createRightsReader(at)
  const verdict = await verifyExport(splitLines([Buffer.from(text)]), { publicKey, onEntry: reader.read })
  expect(verdict).toMatchObject({ valid: true })
  return reader.report(verdict)
}
const ofClerk = ({ api_keys }: RightsReport) => api_keys.find(({ api_key_id }) => api_key_id === clerk.id)

describe('the rights at a time', () => {
  it('are none before the first entry', async () => {
    expect(await rightsAt('2026-01-05T08:59:59.999Z')).toMatchObject({
      through_id: 0,
      api_keys: [],
      keys: [],
      tenant: { status: null },
    })
  })

  it('are what was granted by then', async () => {
    const early = await rightsAt(day(5))
    expect(early).toMatchObject({ through_id: 3, tenant: { status: 'active', envelope_only: false } })
    expect(ofClerk(early)).toMatchObject({
      status: 'active',
      permissions: ['decrypt', 'keys:read'],
      expires_at: day(40),
      allowed_ips: ['10.0.0.0/8', '127.0.0.1'],
      entry_id: 3,
    })
    expect(early.keys).toMatchObject([{ key_id, status: 'active', version: 1, entry_id: 2 }])
    expect(early.keys[0]?.permissions).toContain('decrypt')
  })

  it('are those of API keys: an operator of the command line is none', () => {
    const reader = createRightsReader(day(5))
    const entry = {
      id: 1,
      action: 'tenant.update',
      key_id: null,
      key_version: null,
      metadata: null,
      created_at: day(1),
    }
    reader.read({ ...entry, actor: 'operator:ann@host' })
    expect(reader.state().api_keys).toEqual([])
    reader.read({ ...entry, id: 2, actor: clerk.id })
    expect(reader.state().api_keys).toMatchObject([{ api_key_id: clerk.id, permissions: null }])
  })

  it('are what was left of it later', async () => {
    const late = await rightsAt(day(15))
    expect(late.tenant).toEqual({ status: 'active', envelope_only: true })
    expect(ofClerk(late)).toMatchObject({ status: 'active', permissions: ['keys:read'], allowed_ips: null })
    expect(late.keys).toMatchObject([{ status: 'active', version: 2 }])
    expect(ofClerk(await rightsAt(day(19)))).toMatchObject({ status: 'active' })
    expect(ofClerk(await rightsAt(day(20)))).toMatchObject({ status: 'revoked', permissions: ['keys:read'] })
    expect((await rightsAt(day(26))).keys).toMatchObject([
      { status: 'disabled', permissions: expect.not.arrayContaining(['encrypt']) },
    ])
  })

  it('tell from which version on a key opened, and which were destroyed', async () => {
    const versionsAt = async (at: string, text?: string) => {
      const [key] = (await rightsAt(at, text)).keys
      return [key?.status, key?.version, key?.min_unwrap_version, key?.destroyed_through]
    }
    expect(await versionsAt(day(11))).toEqual(['active', 2, 1, 0])
    expect(await versionsAt(day(15))).toEqual(['active', 2, 2, 0])
    expect(await versionsAt(day(20))).toEqual(['active', 2, 2, 1])
    const part = (await owner.call('GET', '/v1/audit/export?after_id=3')).body as string
    expect(await versionsAt(day(11), part)).toEqual(['active', 2, null, null])
    expect(await versionsAt(day(15), part)).toEqual(['active', 2, 2, null])
    expect(await versionsAt(day(25), part)).toEqual(['disabled', 2, 2, 1])
  })

  it('are those of an API key until it expires', async () => {
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'short', permissions: [], expires_at: day(27) })
    const text = (await owner.call('GET', '/v1/audit/export')).body as string
    const of = async (at: string) =>
      (await rightsAt(at, text)).api_keys.find(({ api_key_id }) => api_key_id === body.id)?.status
    expect([await of(day(26)), await of(day(27))]).toEqual(['active', 'expired'])
  })

  it('are unknown where a part of the log does not record them', async () => {
    const part = (await owner.call('GET', '/v1/audit/export?after_id=3')).body as string
    const rights = await rightsAt(day(12), part)
    expect(rights.tenant).toEqual({ status: 'active', envelope_only: true }) // which each change of the tenant states
    expect(rights.api_keys).toMatchObject([
      { api_key_id: owner.tenant.api_key.id, status: null, permissions: null, entry_id: null },
      { api_key_id: clerk.id, permissions: ['keys:read'] },
    ])
  })
})

describe('the report of rights', () => {
  /** Of a file. */
  const rights = (...args: string[]) => runAuditCommand(['rights', ...args])
  const rightsInDatabase = (...args: string[]) =>
    runCommand(['audit', 'rights', ...args], { database: service.database, rootKey: ROOT_KEY })

  it('says who could do what, from a file alone and from the database, with the exit code of a verification', async () => {
    const path = join(folder, 'log.ndjson')
    await writeFile(path, (await owner.call('GET', '/v1/audit/export')).body as string)
    const told = await rights(path, '--at', day(5), '--public-key', publicKey, '--json')
    expect([told.code, told.stderr]).toEqual([0, ''])
    expect(ofClerk(JSON.parse(told.stdout))).toMatchObject({ permissions: ['decrypt', 'keys:read'] })

    const reading = await rights(path, '--at', day(15), '--public-key', publicKey, '--key-id', key_id, '--json')
    expect(JSON.parse(reading.stdout)).toMatchObject({ valid: true, whole: true, keys: [{ key_id }] })
    expect(JSON.parse(reading.stdout).api_keys.map(({ api_key_id }: { api_key_id: string }) => api_key_id)).toContain(
      owner.tenant.api_key.id,
    )

    const lines = await rights(path, '--at', day(5), '--public-key', publicKey)
    expect(lines.stdout).toContain(`${clerk.id}  clerk      active  decrypt keys:read`)
    expect((await rights(path, '--at', day(5))).code).toBe(6)

    const versions = async (at: string) => (await rights(path, '--at', at, '--public-key', publicKey)).stdout
    expect(await versions(day(15))).toMatch(new RegExp(`^${key_id}  k +none +active +2 +2 +none +wrap encrypt `, 'm'))
    expect(await versions(day(20))).toMatch(
      new RegExp(`^${key_id}  k +none +active +2 +2 +through 1 +wrap encrypt `, 'm'),
    )

    const part = join(folder, 'part.ndjson')
    await writeFile(part, (await owner.call('GET', '/v1/audit/export?after_id=3')).body as string)
    const some = await rights(part, '--at', day(12), '--public-key', publicKey, '--key-id', key_id)
    expect([some.code, some.stdout]).toEqual([
      4,
      expect.stringMatching(new RegExp(`^${owner.tenant.api_key.id}  unknown  unknown  unknown `, 'm')),
    ])

    const other = await rightsInDatabase('--at', day(5), '--tenant', owner.tenant.tenant_id, '--json')
    expect(other.code).toBe(0)
    expect(ofClerk(JSON.parse(other.stdout))).toEqual(ofClerk(JSON.parse(told.stdout)))
    expect(JSON.parse(other.stdout).keys).toMatchObject([{ key_id, name: 'k' }])
  })

  it('has the names that keys and API keys had then, from the log alone, as a terminal can show them', async () => {
    const { tenant, call } = await service.createTenant()
    const { body: key } = await call('POST', '/v1/keys', { name: 'shop/orders' })
    const { body: made } = await call('POST', '/v1/api-keys', { name: 'till \u001b[2J', permissions: ['wrap'] })
    const before = new Date(now).toISOString()
    now += DAY_MS
    await call('PATCH', `/v1/api-keys/${made.id}`, { name: 'till ' })
    const after = new Date(now).toISOString()
    const path = join(folder, 'named.ndjson')
    await writeFile(path, (await call('GET', '/v1/audit/export')).body as string)
    for (const told of [
      await rights(path, '--at', before, '--public-key', publicKey),
      await rightsInDatabase('--at', before, '--tenant', tenant.tenant_id),
    ]) {
      expect(told.stdout).toContain(`${made.id}  till \\u001b[2J`)
      expect(told.stdout).toMatch(new RegExp(`^${key.id}  shop/orders +shop/? +active`, 'm'))
    }
    const { stdout } = await rights(path, '--at', after, '--public-key', publicKey)
    expect(stdout).toContain(`${made.id}  till\\u0020 `)
    const json = JSON.parse((await rights(path, '--at', after, '--public-key', publicKey, '--json')).stdout)
    expect(json.api_keys.map(({ name }: { name: string }) => name)).toEqual(['first key', 'till '])
    now -= DAY_MS
  })

  it('says nothing of a time after the one at which the log was signed', async () => {
    const path = join(folder, 'signed.ndjson')
    await writeFile(path, file)
    const { code, stdout, stderr } = await rights(path, '--at', day(26), '--public-key', publicKey)
    expect([code, stdout]).toEqual([3, ''])
    expect(stderr).toMatch(
      /^eaas-audit: the log was signed at .*, which is before .*: nothing proves what happened in between/,
    )
    expect((await rights(path, '--at', day(25), '--public-key', publicKey)).code).toBe(0)
  })

  it('names the copies of a key that were exported until then', async () => {
    const { tenant, call } = await service.createTenant()
    const { body: key } = await call('POST', '/v1/keys', { name: 'copied' })
    const at = new Date(now).toISOString()
    now += DAY_MS
    expect((await call('POST', `/v1/keys/${key.id}/export`)).status).toBe(200)
    const path = join(folder, 'copied.ndjson')
    await writeFile(path, (await call('GET', '/v1/audit/export')).body as string)
    const before = await rights(path, '--at', at, '--public-key', publicKey, '--json')
    expect(JSON.parse(before.stdout).exports).toEqual([])
    const later = new Date(now).toISOString()
    const { stdout } = await rights(path, '--at', later, '--public-key', publicKey, '--json', '--key-id', key.id)
    const copy = { key_id: key.id, actor: tenant.api_key.id, created_at: later, through_version: 1 }
    expect(JSON.parse(stdout).exports).toEqual([{ ...copy, entry_id: expect.any(Number) }])
    const told = await rights(path, '--at', later, '--public-key', publicKey)
    expect(told.stdout).toContain(`${key.id}  through 1  ${tenant.api_key.id}`)
    expect(told.stdout).toContain('A copy opens what its versions encrypted for ever')
    now -= DAY_MS
  })

  it('says nothing of a log that does not verify, and nothing of another tenant', async () => {
    const path = join(folder, 'altered.ndjson')
    await writeFile(path, file.replace('decrypt keys:read', 'encrypt keys:read'))
    const told = await rights(path, '--at', day(5), '--public-key', publicKey, '--json')
    expect([told.code, JSON.parse(told.stdout)]).toEqual([
      1,
      expect.not.objectContaining({ api_keys: expect.anything() }),
    ])
    await writeFile(join(folder, 'whole.ndjson'), file)
    const other = await rights(join(folder, 'whole.ndjson'), '--at', day(5), '--tenant', crypto.randomUUID())
    expect([other.code, other.stdout]).toEqual([3, ''])
    expect((await rightsInDatabase('--at', 'yesterday', '--tenant', 'x')).code).toBe(2)
    for (const run of [rights, rightsInDatabase]) expect((await run('--at', day(5))).code).toBe(2)
  })

  it('shows of a purged and suspended tenant what the log that is left records', async () => {
    const { tenant_id } = owner.tenant
    now = START + 45 * DAY_MS
    await owner.call('POST', `/v1/keys/${key_id}/enable`)
    await performAsSystem(service.services, tenant_id, suspendTenant({}))
    now = START + 60 * DAY_MS
    await purgeTenant(service.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
    const told = await rightsInDatabase('--at', day(50), '--tenant', tenant_id, '--key-id', key_id, '--json')
    expect(told.code).toBe(0)
    expect(JSON.parse(told.stdout)).toMatchObject({
      tenant: { status: 'suspended' },
      keys: [{ status: 'active' }],
      api_keys: [],
    })
    expect(JSON.parse(told.stdout).after_id).toBeGreaterThan(0)

    // The purge restated what it took, so from then on all is known again.
    const later = JSON.parse((await rightsInDatabase('--at', day(60), '--tenant', tenant_id, '--json')).stdout)
    expect(later.tenant).toEqual({ status: 'suspended', envelope_only: true })
    expect(later.keys).toMatchObject([{ key_id, status: 'active', version: 2 }])
    expect(ofClerk(later)).toMatchObject({ status: 'revoked', permissions: ['keys:read'], allowed_ips: null })
    const own = (later as RightsReport).api_keys.find(({ api_key_id }) => api_key_id === owner.tenant.api_key.id)
    expect(own).toMatchObject({ status: 'active', permissions: expect.arrayContaining(['api_keys:manage', 'decrypt']) })
  })
})
