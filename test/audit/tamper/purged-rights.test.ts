// Rights that were taken away by entries that a purge has deleted since: rows of before it are put back for a moment by somebody who has
// an old copy of the database and no key. The purge restated the rows, so a server refuses the older ones, also while those entries are
// hidden; and with the purged entries put back too, what an API key did meanwhile contradicts the log (chain.md 8 and 13).
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { verifyLog } from '../../../packages/server/src/audit/verify/verify.js'
import { purgeTenant } from '../../../packages/server/src/jobs/retention.js'
import { verifyOnce } from '../../../packages/server/src/operations/purge-audit.js'
import { restateRights } from '../../../packages/server/src/operations/restate-rights.js'
import { resumeTenant, suspendTenant } from '../../../packages/server/src/operations/suspend-tenant.js'
import { updateTenant } from '../../../packages/server/src/operations/update-tenant.js'
import type { Operation } from '../../../packages/server/src/runner/operation.js'
import { performAsSystem } from '../../../packages/server/src/runner/perform.js'
import { verifyIndependently } from '../../independent/verifier.js'
import { copyTables, dek, type Scene, serverOf } from '../../support/audit-scene.js'
import { type Caller, type Service, startService } from '../../support/service.js'
import { verifyByBoth } from '../other-verifier.js'

const DAY_MS = 86_400_000
const PRESENT = Date.now() - 60_000
const ROWS = ['tenants', 'keys', 'key_versions', 'api_keys']

/** A tenant in server mode with two keys, of which `key` loses its rights, and an API key that loses its own. */
interface Scenery {
  owner: Caller
  key: { id: string; name: string; wrapped: string }
  spare_id: string
  worker: { id: string; secret: string }
}

let service: Service
let clock = PRESENT
beforeAll(async () => {
  service = await startService({ now: () => clock })
  service.services.destroyWindowDays = 0
})
afterAll(() => service?.close())

const sql = () => service.services.sql as unknown as Scene['sql']
const run = (...statements: string[]) =>
  sql().begin((transaction) => transaction.unsafe(statements.join('; ')) as Promise<unknown>)
const operate = <T>({ owner }: Scenery, operation: Operation<T>) =>
  performAsSystem(service.services, owner.tenant.tenant_id, operation)

/** What takes a right away, what an API key can do again with the rows of before, and what is done later, and not purged. */
const CASES: [
  what: string,
  takeAway: (scenery: Scenery) => Promise<unknown>,
  use: (scenery: Scenery) => [method: string, path: string, body?: unknown],
  later?: (scenery: Scenery) => Promise<unknown>,
][] = [
  [
    'a revoked API key wraps',
    ({ owner, worker }) => owner.call('DELETE', `/v1/api-keys/${worker.id}`),
    ({ spare_id }) => ['POST', `/v1/keys/${spare_id}/wrap`, { dek: dek() }],
  ],
  [
    'a narrowed API key exports',
    ({ owner, worker }) => owner.call('PATCH', `/v1/api-keys/${worker.id}`, { permissions: ['hash'] }),
    ({ spare_id }) => ['POST', `/v1/keys/${spare_id}/export`],
  ],
  [
    'a disabled key wraps',
    ({ owner, key }) => owner.call('DELETE', `/v1/keys/${key.id}`),
    ({ key }) => ['POST', `/v1/keys/${key.id}/wrap`, { dek: dek() }],
  ],
  [
    'a destroyed key unwraps',
    async ({ owner, key }) => {
      await owner.call('DELETE', `/v1/keys/${key.id}`)
      await owner.call('POST', `/v1/keys/${key.id}/destroy`, { confirm: key.name })
    },
    ({ key }) => ['POST', `/v1/keys/${key.id}/unwrap`, { wrapped_key: key.wrapped }],
  ],
  [
    'a key wraps under the version before its rotation',
    ({ owner, key }) => owner.call('POST', `/v1/keys/${key.id}/rotate`),
    ({ key }) => ['POST', `/v1/keys/${key.id}/wrap`, { dek: dek() }],
  ],
  [
    'a tenant encrypts whose server mode was closed',
    (scenery) => operate(scenery, updateTenant({ envelope_only: true })),
    ({ spare_id }) => ['POST', '/v1/encrypt', { key_id: spare_id, plaintext: 'x' }],
  ],
  [
    'a disabled key wraps whose rotation was set since',
    ({ owner, key }) => owner.call('DELETE', `/v1/keys/${key.id}`),
    ({ key }) => ['POST', `/v1/keys/${key.id}/wrap`, { dek: dek() }],
    ({ owner, key }) => owner.call('PATCH', `/v1/keys/${key.id}/rotation`, { interval_days: 30 }),
  ],
  [
    'a tenant encrypts whose server mode was closed, and whose quota was set since',
    (scenery) => operate(scenery, updateTenant({ envelope_only: true })),
    ({ spare_id }) => ['POST', '/v1/encrypt', { key_id: spare_id, plaintext: 'x' }],
    (scenery) => operate(scenery, updateTenant({ monthly_encrypt_quota: 1_000 })),
  ],
  [
    'a suspended tenant wraps',
    (scenery) => operate(scenery, suspendTenant({})),
    ({ spare_id }) => ['POST', `/v1/keys/${spare_id}/wrap`, { dek: dek() }],
  ],
]

/** Makes a tenant 400 days ago, keeps a copy of the database as `older`, and takes a right away. */
async function takeAwayLongAgo(takeAway: (scenery: Scenery) => Promise<unknown>): Promise<Scenery> {
  clock = PRESENT - 400 * DAY_MS
  const owner = await service.createTenant({ name: crypto.randomUUID() })
  const post = async (path: string, body: unknown) => (await owner.call('POST', path, body)).body
  const key = await post('/v1/keys', { name: 'key' })
  const { wrapped_key: wrapped } = await post(`/v1/keys/${key.id}/wrap`, { dek: dek() })
  const { id: spare_id } = await post('/v1/keys', { name: 'spare' })
  const permissions = ['decrypt', 'encrypt', 'hash', 'keys:export', 'keys:read']
  const worker = await post('/v1/api-keys', { name: 'worker', permissions })
  const scenery = { owner, key: { ...key, wrapped }, spare_id, worker }
  await operate(scenery, updateTenant({ envelope_only: false }))
  await copy('older')
  await takeAway(scenery)
  return scenery
}

/** Purges what is over a year old: all that `takeAwayLongAgo` did. Keeps a copy of the database as `newer`. */
async function purge(scenery: Scenery, later?: (scenery: Scenery) => Promise<unknown>): Promise<number> {
  const { owner } = scenery
  clock = PRESENT - 100 * DAY_MS
  await later?.(scenery)
  await service.createTenant({ name: crypto.randomUUID() }) // whose entries prove that the clock is right
  clock = PRESENT
  const options = { retentionMonths: 12, maxShare: 1 }
  const { purged_through } = await purgeTenant(service.services, owner.tenant.tenant_id, options)
  expect(purged_through).toBeGreaterThanOrEqual(7)
  await copy('newer')
  return purged_through
}

async function copy(name: string): Promise<void> {
  await run(`drop schema if exists ${name} cascade`)
  await copyTables(sql(), name)
}

/** How somebody with the database writes the rows of a tenant. */
function attacksOn({ owner }: Scenery) {
  const own = `tenant_id = '${owner.tenant.tenant_id}'`
  const rowsOf = (moment: string) =>
    ROWS.flatMap((table) => [
      `delete from ${table} where ${own}`,
      `insert into ${table} select * from ${moment}.${table} where ${own}`,
    ])
  const isNewest = `${own} and (action like '%.restate' or action in ('key.rotation_policy', 'tenant.update'))`
  return {
    putRowsBack: () => run(...rowsOf('older')),
    hideNewest: () => run(`delete from audit_log where ${isNewest}`),
    putEntriesBack: (purged_through: number) =>
      run(`insert into audit_log select * from older.audit_log where ${own} and id <= ${purged_through}`),
    putEverythingAsItWas: (purged_through: number) =>
      run(
        `delete from audit_log where ${own} and id <= ${purged_through}`,
        `insert into audit_log select * from newer.audit_log where ${isNewest} and id not in (select id from audit_log where ${own})`,
        ...rowsOf('newer'),
      ),
  }
}

async function verifyInPlace({ owner }: Scenery) {
  const { tenant_id } = owner.tenant
  const state = await serverOf(service).services.states.find(tenant_id)
  if (!state) throw new Error('no tenant')
  const { auditKey, rowKey } = state
  return [
    await verifyLog(service.services.sql, { tenant_id, auditKey, rowKey }),
    await verifyIndependently(sql(), { tenant_id, auditKey: auditKey.export() }),
  ]
}

const VALID = [{ valid: true }, { valid: true }]

describe('rows of before a purge that are put back for a moment', () => {
  it.each(CASES)(
    'are refused, and if the log is put back with them it is found for good: %s',
    async (_, takeAway, use, later) => {
      const scenery = await takeAwayLongAgo(takeAway)
      const purged_through = await purge(scenery, later)
      const { putRowsBack, hideNewest, putEntriesBack, putEverythingAsItWas } = attacksOn(scenery)
      const call = async () => (await serverOf(service).call(scenery.worker.secret, ...use(scenery))).status
      expect(await verifyInPlace(scenery)).toMatchObject(VALID)

      await putRowsBack()
      expect(await call()).toBeGreaterThanOrEqual(401)
      await hideNewest()
      expect(await call()).toBeGreaterThanOrEqual(401)
      await putEverythingAsItWas(purged_through)
      expect(await verifyInPlace(scenery)).toMatchObject(VALID)

      const { tenant_id } = scenery.owner.tenant
      const [head] = await sql()`select last_id::int from heads where tenant_id = ${tenant_id}`
      await putRowsBack()
      await hideNewest()
      await putEntriesBack(purged_through)
      expect(await call()).toBe(200)
      await putEverythingAsItWas(purged_through)
      const broken_at = head?.last_id + 1
      const fault = { valid: false, reason: 'state_violated', broken_at }
      expect(await verifyInPlace(scenery)).toMatchObject([fault, fault])

      await operate(scenery, resumeTenant({}))
      const server = serverOf(service)
      const { public_key: publicKey } = (await server.call(scenery.owner.secret, 'GET', '/v1/audit/checkpoint')).body
      const file = Buffer.from((await server.call(scenery.owner.secret, 'GET', '/v1/audit/export')).body as string)
      expect(await verifyByBoth({ file, publicKey })).toMatchObject({ valid: false, broken_at })
    },
  )

  it('while the purge restates them are not restated', async () => {
    const [, takeAway] = CASES[0] ?? []
    if (!takeAway) throw new Error('no case')
    const scenery = await takeAwayLongAgo(takeAway)
    const { tenant_id } = scenery.owner.tenant
    const through_id = 9
    const [{ last_id } = { last_id: 0 }] = await sql()`select last_id::int from heads where tenant_id = ${tenant_id}`
    await copy('newer')
    const verify = verifyOnce()
    const attacked: typeof verify = async (...given) => {
      const valid = await verify(...given)
      const own = `tenant_id = '${tenant_id}'`
      await run(
        `delete from audit_log where ${own} and action = 'api_key.revoke'`,
        `delete from api_keys where ${own}`,
        `insert into api_keys select * from older.api_keys where ${own}`,
      )
      return valid
    }
    await expect(operate(scenery, restateRights({ through_id, verify: attacked }))).rejects.toThrow(
      'while its log was purged',
    )
    const [after] = await sql()`select last_id::int from heads where tenant_id = ${tenant_id}`
    expect(after?.last_id).toBe(last_id)
  })
})
