// Rights that were taken away by entries that a purge has deleted since: rows of before it are put back for a moment by somebody who has
// an old copy of the database and no key. The purge restated the rows, so a server refuses the older ones, also while those entries are
// hidden; and with the purged entries put back too, what an API key did meanwhile contradicts the log (chain.md 8 and 13).
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Operation } from '../../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { resumeTenant, suspendTenant, updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { copyTables, dek, type Scene, serverOf } from '../../support/audit/audit-scene.js'
import { insertFrom } from '../../support/database/migrations.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { verifyByBoth } from '../verify/other-verifier.js'
import { verifyInPlace } from './verify-in-place.js'

const DAY_MS = 86_400_000
const PRESENT = Date.now() - 60_000
const RETENTION = { retentionMonths: 12, maxShare: 1 }
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
    'a destroyed version of a key unwraps',
    async ({ owner, key }) => {
      await owner.call('POST', `/v1/keys/${key.id}/rotate`)
      await owner.call('PATCH', `/v1/keys/${key.id}`, { min_unwrap_version: 2 })
      await owner.call('POST', `/v1/keys/${key.id}/versions/1/destroy`, { confirm: key.name })
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

/** Lets entries of some months ago prove that the clock is right; calls `later` at that time. */
async function agree(later?: () => Promise<unknown> | undefined): Promise<void> {
  clock = PRESENT - 100 * DAY_MS
  await later?.()
  await service.createTenant({ name: crypto.randomUUID() })
  clock = PRESENT
}

/** Purges what is over a year old: all that `takeAwayLongAgo` did. Keeps a copy of the database as `newer`. */
async function purge(scenery: Scenery, later?: (scenery: Scenery) => Promise<unknown>): Promise<number> {
  await agree(() => later?.(scenery))
  const { purged_through } = await purgeTenant(service.services, scenery.owner.tenant.tenant_id, RETENTION)
  expect(purged_through).toBeGreaterThanOrEqual(7)
  await copy('newer')
  return purged_through
}

async function copy(name: string): Promise<void> {
  await run(`drop schema if exists ${name} cascade`)
  await copyTables(sql(), name)
}

const ownedBy = ({ tenant }: Caller) => `tenant_id = '${tenant.tenant_id}'`

/** How somebody with the database writes the rows of a tenant. */
function attacksOn({ owner }: Scenery) {
  const own = ownedBy(owner)
  const rowsOf = (moment: string) =>
    ROWS.flatMap((table) => [
      `delete from ${table} where ${own}`,
      `${insertFrom(table, `${moment}.${table}`)} where ${own}`,
    ])
  const isNewest = `${own} and (action like '%.restate' or action in ('key.rotation_policy', 'tenant.update'))`
  return {
    putRowsBack: () => run(...rowsOf('older')),
    hideNewest: () => run(`delete from audit_log where ${isNewest}`),
    putEntriesBack: (purged_through: number) =>
      run(`insert into audit_log select * from older.audit_log where ${own} and id <= ${purged_through}`),
    hideMark: () => run(`delete from purge_marks where ${own}`),
    putEverythingAsItWas: (purged_through: number) =>
      run(
        `insert into purge_marks select * from newer.purge_marks where ${own} on conflict do nothing`,
        `delete from audit_log where ${own} and id <= ${purged_through}`,
        `insert into audit_log select * from newer.audit_log where ${isNewest} and id not in (select id from audit_log where ${own})`,
        ...rowsOf('newer'),
      ),
  }
}

const verdictsOn = ({ owner }: Scenery) => verifyInPlace(service, owner.tenant.tenant_id)

const VALID = [{ valid: true }, { valid: true }]

describe('rows of before a purge that are put back for a moment', () => {
  it.each(CASES)(
    'are refused, and if the log is put back with them it is found for good: %s',
    async (_, takeAway, use, later) => {
      const scenery = await takeAwayLongAgo(takeAway)
      const purged_through = await purge(scenery, later)
      const { putRowsBack, hideNewest, putEntriesBack, hideMark, putEverythingAsItWas } = attacksOn(scenery)
      const call = async () => (await serverOf(service).call(scenery.worker.secret, ...use(scenery))).status
      expect(await verdictsOn(scenery)).toMatchObject(VALID)

      await putRowsBack()
      expect(await call()).toBeGreaterThanOrEqual(401)
      await hideNewest()
      expect(await call()).toBeGreaterThanOrEqual(401)
      await putEverythingAsItWas(purged_through)
      expect(await verdictsOn(scenery)).toMatchObject(VALID)

      const { tenant_id } = scenery.owner.tenant
      const [head] = await sql()`select last_id::int from heads where tenant_id = ${tenant_id}`
      await putRowsBack()
      await hideNewest()
      await putEntriesBack(purged_through)
      expect(await call()).toBeGreaterThanOrEqual(401)
      await hideMark()
      expect(await call()).toBe(200)
      await putEverythingAsItWas(purged_through)
      const broken_at = head?.last_id + 1
      const fault = { valid: false, reason: 'state_violated', broken_at }
      expect(await verdictsOn(scenery)).toMatchObject([fault, fault])

      await operate(scenery, resumeTenant({}))
      const server = serverOf(service)
      const { public_key: publicKey } = (await server.call(scenery.owner.secret, 'GET', '/v1/audit/checkpoint')).body
      const file = Buffer.from((await server.call(scenery.owner.secret, 'GET', '/v1/audit/export')).body as string)
      expect(await verifyByBoth({ file, publicKey })).toMatchObject({ valid: false, broken_at })
    },
  )
})

/** What somebody with the database does while a purge runs, between its verification and its restatements, and what the purge says then. */
const MEANWHILE: [what: string, attack: (scenery: Scenery) => Promise<unknown>, refusal: string][] = [
  [
    'a revoked API key is hidden',
    ({ owner, worker }) => run(`delete from api_keys where ${ownedBy(owner)} and api_key_id = '${worker.id}'`),
    'row_missing',
  ],
  [
    'an older row is put back, and its newest entry hidden',
    ({ owner, worker }) => {
      const row = `${ownedBy(owner)} and api_key_id = '${worker.id}'`
      return run(
        `delete from audit_log where ${ownedBy(owner)} and action = 'api_key.revoke'`,
        `delete from api_keys where ${row}`,
        `insert into api_keys select * from older.api_keys where ${row}`,
      )
    },
    'entry_missing',
  ],
]

describe('a purge', () => {
  it.each(MEANWHILE)('takes nothing when meanwhile %s', async (_, attack, refusal) => {
    const scenery = await takeAwayLongAgo(({ owner, worker }) => owner.call('DELETE', `/v1/api-keys/${worker.id}`))
    await agree()
    const { tenant_id } = scenery.owner.tenant
    const { sql: genuine, verifyLog: verify } = service.services
    let isAttacked = false
    // The verification of the plan sees everything as it is.
    service.services.verifyLog = async (options) => {
      const answer = await verify(options)
      if (!isAttacked) await attack(scenery)
      isAttacked = true
      return answer
    }
    try {
      const purging = purgeTenant(service.services, tenant_id, RETENTION)
      await expect(purging).rejects.toThrow(refusal)
    } finally {
      service.services.verifyLog = verify
    }
    const marks = await genuine`select 1 from purge_marks where tenant_id = ${tenant_id}`
    expect(marks).toHaveLength(0)
  })

  it('judges what an API key did while it restated rights by the entries that it takes', async () => {
    const scenery = await takeAwayLongAgo(({ owner, worker }) =>
      owner.call('PATCH', `/v1/api-keys/${worker.id}`, { permissions: ['hash'] }),
    )
    await agree()
    const { owner, worker, spare_id } = scenery
    const { verifyLog: verify } = service.services
    let isAttacked = false
    service.services.verifyLog = async (options) => {
      const answer = await verify(options)
      if (isAttacked) return answer
      isAttacked = true
      await copy('newer')
      await attacksOn(scenery).putRowsBack()
      await run(`delete from audit_log where ${ownedBy(owner)} and action = 'api_key.update'`)
      const { status } = await serverOf(service).call(worker.secret, 'POST', `/v1/keys/${spare_id}/export`)
      expect(status).toBe(200)
      await run(
        `insert into audit_log select * from newer.audit_log where ${ownedBy(owner)} and action = 'api_key.update'`,
        `delete from api_keys where ${ownedBy(owner)}`,
        `insert into api_keys select * from newer.api_keys where ${ownedBy(owner)}`,
      )
      return answer
    }
    try {
      await expect(purgeTenant(service.services, owner.tenant.tenant_id, RETENTION)).rejects.toThrow('state_violated')
    } finally {
      service.services.verifyLog = verify
    }
  })
})
