// Logs whose last entries a wrong clock dated a year ahead, after it was put right: the server says so, and an operator can accept it.

import { randomBytes } from 'node:crypto'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRightsReader } from '../../packages/audit/src/verify/rights-report.js'
import { currentKey } from '../../packages/server/src/core/audit/formats/chain.js'
import { verifyByBoth } from '../audit/verify/other-verifier.js'
import { verifyIndependently } from '../independent/verifier.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { runCommand, runDoctor } from '../support/service/command-host.js'
import { startScheduleOf } from '../support/service/schedule.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const DAY_MS = 86_400_000
const YEAR_MS = 365 * DAY_MS
const CHECKED = { EAAS_MAX_CLOCK_SKEW_SECONDS: '300' }

let database: TestDatabase
let service: Service
let owner: Caller
let key_id: string
let revoked: string

const wrap = () => owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })
const eaas = (...args: string[]) => runCommand(args, { database, rootKey: ROOT_KEY, environment: CHECKED })
const entries = async (query = '') => (await owner.call('GET', `/v1/audit?order=asc&limit=100${query}`)).body

beforeAll(async () => {
  database = await freshDatabase('ahead', { migrated: true })
  const before = await startService({ database, now: () => Date.now() - 3 * DAY_MS })
  owner = await before.createTenant({ envelope_only: false })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  expect((await wrap()).status).toBe(200)
  revoked = (await owner.call('POST', '/v1/api-keys', { name: 'r', permissions: ['keys:read'] })).body.id
  await before.close()
  // What a boot with a wrong clock does, whose database has no other clock, or has the same one.
  const wrong = await startService({ database, now: () => Date.now() + YEAR_MS })
  const { secret, tenant } = owner
  owner = { ...wrong.caller(secret), tenant }
  expect((await wrap()).status).toBe(200)
  expect((await owner.call('DELETE', `/v1/api-keys/${revoked}`)).status).toBe(204)
  await wrong.createTenant()
  await wrong.close()
  service = await startService({ database, environment: CHECKED })
  owner = { ...service.caller(secret), tenant }
})
afterAll(() => service?.close())

describe('logs that a wrong clock dated ahead', () => {
  it('make the server degraded, and are counted; eaas doctor and the server name them and the command', async () => {
    // Found by what compares the logs each second.
    const written: unknown[] = []
    const log = {
      info: () => undefined,
      fatal: () => undefined,
      error: (...line: unknown[]) => void written.push(line),
    }
    const schedule = startScheduleOf(service, {
      config: { checkpointFile: undefined, auditRetentionMonths: 0 },
      log: log as never,
    })
    await wrap()
    await expect.poll(() => JSON.stringify(written)).toContain('accept clock')
    await schedule.stop()
    expect(JSON.stringify(written)).toContain(owner.tenant.tenant_id)
    const { status, body } = await owner.call('GET', '/health')
    expect([status, body.status, body.database]).toEqual([200, 'degraded', 'clock'])
    const year = new Date(Date.now() + YEAR_MS).getUTCFullYear()
    expect(body.detail).toMatch(new RegExp(`in the future, until ${year}-.*accept clock`))
    expect(body.detail).not.toContain(owner.tenant.tenant_id)
    expect((await owner.call('GET', '/metrics')).body).toMatch(/^eaas_clock_ahead_logs [1-9]/m)
    const { code, found } = await runDoctor({ database, rootKey: ROOT_KEY, environment: CHECKED })
    expect(code).toBe(1)
    expect(found('clock')).toMatchObject({
      ok: false,
      detail: expect.stringMatching(/in the future.*eaas accept clock/),
    })
  })

  it('refuse new entries if the database has no other clock, and date them ahead if it has', async () => {
    const { status } = await wrap()
    expect(status).toBe(backend() === 'embedded' ? 500 : 200)
  })

  it('are shown by eaas accept clock, which changes nothing without a reason', async () => {
    const total = (await entries()).total
    const { code, stdout } = await eaas('accept', 'clock', '--json')
    expect(code).toBe(0)
    const { logs } = JSON.parse(stdout)
    expect(logs).toHaveLength(3)
    for (const tenant_id of [INSTALLATION_ID, owner.tenant.tenant_id])
      expect(logs).toContainEqual(expect.objectContaining({ tenant_id, ahead_until: expect.any(String) }))
    expect((await entries()).total).toBe(total)
  })

  it('go on with the right time once an operator accepts that the clock was wrong, on record', async () => {
    const last = (await entries()).logs.at(-1)
    const { code, stdout } = await eaas('accept', 'clock', '--reason', 'the CMOS battery', '--json')
    expect([code, JSON.parse(stdout).logs.map(({ refused }: { refused?: string }) => refused)]).toEqual([
      0,
      [undefined, undefined, undefined],
    ])
    await expect.poll(async () => (await wrap()).status).toBe(200)
    const { logs } = await entries()
    const accepted = logs.find(({ action }: { action: string }) => action === 'audit.clock_accepted')
    expect(accepted).toMatchObject({
      actor: expect.stringMatching(/^operator:/),
      metadata: { ahead_until: last.created_at, reason: 'the CMOS battery' },
    })
    for (const { created_at } of [accepted, logs.at(-1)])
      expect(Math.abs(Date.parse(created_at) - Date.now())).toBeLessThan(60_000)
    const again = await eaas('accept', 'clock', '--reason', 'again', '--json')
    expect([again.code, JSON.parse(again.stdout).logs]).toEqual([0, []])
  })

  it('are valid then, in place and offline, by every verifier', async () => {
    for (const path of ['/v1/audit/verify']) expect((await owner.call('GET', path)).body).toMatchObject({ valid: true })
    expect((await eaas('audit', 'verify', '--all')).code).toBe(0)
    const { sql, states } = service.services
    const { tenant_id } = owner.tenant
    const state = await states.find(tenant_id)
    if (!state) throw new Error('no state')
    const auditKey = currentKey(state.auditKey).export()
    expect(await verifyIndependently(sql as never, { tenant_id, auditKey })).toMatchObject({ valid: true })
    const file = Buffer.from((await owner.call('GET', '/v1/audit/export')).body as string)
    const publicKey = (await owner.call('GET', '/v1/audit/checkpoint')).body.public_key
    expect(await verifyByBoth({ file, publicKey })).toMatchObject({ valid: true, whole: true })
  })

  it('leave nothing to be degraded for', async () => {
    const schedule = startScheduleOf(service, { config: { checkpointFile: undefined, auditRetentionMonths: 0 } })
    await expect
      .poll(async () => (await owner.call('GET', '/health')).body)
      .toMatchObject({ status: 'healthy', database: 'up' })
    await schedule.stop()
    expect((await owner.call('GET', '/metrics')).body).toMatch(/^eaas_clock_ahead_logs 0$/m)
  })

  it('tell the rights of today with what happened while the clock was wrong', async () => {
    const reader = createRightsReader(new Date().toISOString())
    for (const entry of (await entries()).logs) reader.read({ ...entry, metadata: JSON.stringify(entry.metadata) })
    const { api_keys, through_id } = reader.state()
    expect(api_keys.find(({ api_key_id }) => api_key_id === revoked)?.status).toBe('revoked')
    expect(through_id).toBe((await entries()).logs.at(-1).id)
  })

  it('tell that the rights of before the acceptance are not known', async () => {
    const rights = (at: number) =>
      eaas('audit', 'rights', '--tenant', owner.tenant.tenant_id, '--at', new Date(at).toISOString())
    const said = 'UNKNOWN  whether these were the rights at that time, as a clock was ahead: entry '
    const ended = await rights(Date.now() - DAY_MS)
    expect([ended.code, ended.stdout]).toEqual([4, expect.stringContaining(said)])
    expect(await rights(Date.now())).toMatchObject({ code: 0, stdout: expect.not.stringContaining('UNKNOWN') })
  })

  it('are listed with exact totals, where more days follow', async () => {
    await service.close()
    service = await startService({ database, now: () => Date.now() + 2 * DAY_MS })
    owner = { ...service.caller(owner.secret), tenant: owner.tenant }
    expect((await wrap()).status).toBe(200)
    const all = (await entries()).logs as { action: string; id: number }[]
    const wraps = all.filter(({ action }) => action === 'key.wrap').map(({ id }) => id)
    const [from, to] = [-4 * DAY_MS, 3 * DAY_MS].map((ms) => new Date(Date.now() + ms).toISOString())
    const { logs, total } = await entries(`&action=key.wrap&date_from=${from}&date_to=${to}`)
    expect([total, logs.map(({ id }: { id: number }) => id)]).toEqual([wraps.length, wraps])
    const far = await entries('&date_to=2099-01-01T00:00:00Z')
    expect([far.total, far.logs.length]).toEqual([all.length, all.length])
    const late = await entries(`&date_from=${new Date(Date.now() + DAY_MS).toISOString()}`)
    expect(late.logs.map(({ id }: { id: number }) => id)).toContain(all.at(-1)?.id)
  })
})
