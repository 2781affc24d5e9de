// A row that grants more than the log says, put back for a moment by somebody who has the whole database and no key: the entry that took
// the right away is deleted meanwhile, a server that has loaded neither lets the API key act, and then both are put back byte for byte.
// Every row and every entry is genuine then. What was done meanwhile contradicts the rights on record (chain.md 13).
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Operation } from '../../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { createTenantStates } from '../../../packages/server/src/core/runner/tenant-state.js'
import { resumeTenant, suspendTenant, updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { dek, type Scene, serverOf } from '../../support/audit/audit-scene.js'
import { insertFrom } from '../../support/database/migrations.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { verifyByBoth } from '../verify/other-verifier.js'
import { verifyInPlace } from './verify-in-place.js'

const PERMISSIONS = ['api_keys:manage', 'decrypt', 'encrypt', 'hash', 'keys:export', 'keys:read']

/** A tenant in server mode, with keys, an API key that may do much, one whose use is limited, and one of no key. */
interface Scenery {
  owner: Caller
  key_id: string
  other_id: string
  worker: { id: string; secret: string }
  till: { id: string }
  auditor: { id: string }
}
type Call = [method: string, path: string, body?: unknown]

interface Caught {
  what: string
  /** takes the right away */
  narrow: (scenery: Scenery) => Promise<unknown>
  /** what the API key may not do any more */
  call: (scenery: Scenery) => Call
  refusal: string
}

let service: Service
/** how far ahead the servers' clock is */
let aheadMs = 0
const now = () => Date.now() + aheadMs
beforeAll(async () => {
  service = await startService({ now })
})
afterAll(() => service?.close())

const sql = () => service.services.sql as unknown as Scene['sql']
const operate = ({ owner }: Scenery, operation: Operation<unknown>) =>
  performAsSystem(service.services, owner.tenant.tenant_id, operation)
const narrowTo =
  (...permissions: string[]) =>
  ({ owner, worker }: Scenery) =>
    owner.call('PATCH', `/v1/api-keys/${worker.id}`, { permissions })
const limitTo = (list: (scenery: Scenery) => string[]) => (scenery: Scenery) =>
  scenery.owner.call('PATCH', `/v1/api-keys/${scenery.worker.id}`, { keys: list(scenery) })
let calls = 0
/** Loosens a limit of the till's further than any call before. */
const loosen =
  (limits: (at: number) => object) =>
  ({ till }: Scenery): Call => ['PATCH', `/v1/api-keys/${till.id}`, limits(++calls)]
const wrap = ({ key_id }: Scenery): Call => ['POST', `/v1/keys/${key_id}/wrap`, { dek: dek() }]

async function makeScenery(): Promise<Scenery> {
  const owner = await service.createTenant({ name: crypto.randomUUID() })
  const key = await owner.call('POST', '/v1/keys', { name: 'customers/key' })
  const other = await owner.call('POST', '/v1/keys', { name: 'shop/key' })
  const worker = await owner.call('POST', '/v1/api-keys', { name: 'worker', permissions: PERMISSIONS })
  const till = await owner.call('POST', '/v1/api-keys', {
    name: 'till',
    permissions: ['decrypt'],
    expires_at: new Date(now() + 86_400_000).toISOString(),
    allowed_ips: ['10.0.0.0/24'],
    budgets: { unwrap: { per_day: 1 } },
  })
  const auditor = await owner.call('POST', '/v1/api-keys', { name: 'auditor', permissions: ['hash'], keys: [] })
  const scenery = {
    owner,
    key_id: key.body.id,
    other_id: other.body.id,
    worker: worker.body,
    till: till.body,
    auditor: auditor.body,
  }
  await operate(scenery, updateTenant({ envelope_only: false }))
  return scenery
}

/** The rows of a tenant, and how somebody with the database writes them. */
function databaseOf({ owner, worker }: Scenery) {
  const own = `where tenant_id = '${owner.tenant.tenant_id}'`
  const changed = `where api_key_id = '${worker.id}'`
  const run = (...statements: string[]) =>
    sql().begin((transaction) => transaction.unsafe(statements.join('; ')) as Promise<unknown>)
  return {
    keepRows: () =>
      run(
        'drop schema if exists older cascade; create schema older',
        `create table older.api_keys as select * from api_keys ${own}`,
        `create table older.tenants as select * from tenants ${own}`,
      ),
    putOlderRowsBack: () =>
      run(
        'drop schema if exists newer cascade; create schema newer',
        `create table newer.api_keys as select * from api_keys ${own}`,
        `create table newer.tenants as select * from tenants ${own}`,
        `create table newer.audit_log as select * from audit_log ${own} and id = (select max(id) from audit_log ${own})`,
        `delete from audit_log ${own} and id in (select id from newer.audit_log)`,
        `delete from api_keys ${changed}; insert into api_keys select * from older.api_keys ${changed}`,
        `delete from tenants ${own}; ${insertFrom('tenants', 'older.tenants')}`,
      ),
    putEverythingAsItWas: () =>
      run(
        'insert into audit_log select * from newer.audit_log',
        `delete from api_keys ${changed}; insert into api_keys select * from newer.api_keys ${changed}`,
        `delete from tenants ${own}; ${insertFrom('tenants', 'newer.tenants')}`,
      ),
    async lastId(): Promise<number> {
      const [row] = await sql().unsafe(`select max(id)::int as id from audit_log ${own}`)
      return row?.id
    },
  }
}

const verdictsOn = ({ owner }: Scenery) => verifyInPlace(service, owner.tenant.tenant_id)

async function checkpointOf({ owner }: Scenery) {
  const { checkpoint, public_key: publicKey } = (await owner.call('GET', '/v1/audit/checkpoint')).body
  return { checkpoint, publicKey }
}

/** The log is valid for every verifier, in the database and in an export, also by what was kept of before. */
async function expectUnnoticed(scenery: Scenery, kept: Awaited<ReturnType<typeof checkpointOf>>) {
  expect(await verdictsOn(scenery)).toMatchObject([{ valid: true }, { valid: true }])
  const { body } = await serverOf(service).call(scenery.owner.secret, 'GET', '/v1/audit/export')
  const verdict = await verifyByBoth({ file: Buffer.from(body as string), ...kept })
  expect(verdict).toMatchObject({ valid: true, checkpoint_compared: true })
}

/** Makes the call in the moment in which the older rows are back, by default on a server that has loaded nothing; returns its status. */
async function callMeanwhile(
  scenery: Scenery,
  narrow: Caught['narrow'],
  call: Call,
  server = serverOf(service),
): Promise<number> {
  const { keepRows, putOlderRowsBack, putEverythingAsItWas } = databaseOf(scenery)
  await keepRows()
  await narrow(scenery)
  await putOlderRowsBack()
  const { status, body } = await server.call(scenery.worker.secret, ...call)
  await putEverythingAsItWas()
  return body.results?.[0].status ?? status
}

const CAUGHT: Caught[] = [
  {
    what: 'an API key that may only hash wraps',
    narrow: narrowTo('hash'),
    call: wrap,
    refusal: 'E_MISSING_PERMISSION',
  },
  {
    what: 'an API key that may only hash wraps in a batch',
    narrow: narrowTo('hash'),
    call: ({ key_id }) => ['POST', '/v1/batch', { operations: [{ op: 'wrap', key_id, dek: dek() }] }],
    refusal: 'E_MISSING_PERMISSION',
  },
  {
    what: 'an API key that may only encrypt exports a key',
    narrow: narrowTo('encrypt'),
    call: ({ key_id }) => ['POST', `/v1/keys/${key_id}/export`],
    refusal: 'E_MISSING_PERMISSION',
  },
  {
    what: 'an API key that may only hash makes another one',
    narrow: narrowTo('hash'),
    call: () => ['POST', '/v1/api-keys', { name: 'minted', permissions: ['hash'] }],
    refusal: 'E_MISSING_PERMISSION',
  },
  {
    what: 'an API key makes another one that may do what it lost itself',
    narrow: narrowTo('api_keys:manage', 'hash'),
    call: () => ['POST', '/v1/api-keys', { name: 'minted', permissions: ['decrypt'] }],
    refusal: 'E_MISSING_PERMISSION',
  },
  {
    what: 'an API key that is limited to another key wraps',
    narrow: limitTo(({ other_id }) => [other_id]),
    call: wrap,
    refusal: 'E_NOT_FOUND',
  },
  {
    what: 'an API key that is limited to a folder wraps with a key outside of it in a batch',
    narrow: limitTo(() => ['shop/*']),
    call: ({ key_id }) => ['POST', '/v1/batch', { operations: [{ op: 'wrap', key_id, dek: dek() }] }],
    refusal: 'E_NOT_FOUND',
  },
  {
    what: 'an API key that is limited to a folder exports a key outside of it',
    narrow: limitTo(() => ['shop/*']),
    call: ({ key_id }) => ['POST', `/v1/keys/${key_id}/export`],
    refusal: 'E_NOT_FOUND',
  },
  {
    what: 'an API key that is limited to a folder makes one that is not limited',
    narrow: limitTo(() => ['shop/*']),
    call: () => ['POST', '/v1/api-keys', { name: 'minted', permissions: ['hash'] }],
    refusal: 'E_MISSING_PERMISSION',
  },
  {
    what: 'an API key that is limited to a folder makes one of another folder',
    narrow: limitTo(() => ['shop/*']),
    call: () => ['POST', '/v1/api-keys', { name: 'minted', permissions: ['hash'], keys: ['customers/*'] }],
    refusal: 'E_MISSING_PERMISSION',
  },
  ...Object.entries({
    expiry: loosen((at) => ({ expires_at: new Date(now() + (at + 1) * 86_400_000).toISOString() })),
    addresses: loosen((at) => ({ allowed_ips: ['10.0.0.0/24', `10.0.${at}.0/24`] })),
    budgets: loosen((at) => ({ budgets: { unwrap: { per_day: at + 1 } } })),
  }).map(([limit, call]) => ({
    what: `an API key loosens the ${limit} of one that may do what it lost itself`,
    narrow: narrowTo('api_keys:manage', 'hash'),
    call,
    refusal: 'E_MISSING_PERMISSION',
  })),
  {
    what: 'an API key that is limited to a folder revokes one of no key',
    narrow: limitTo(() => ['shop/*']),
    call: ({ auditor }) => ['DELETE', `/v1/api-keys/${auditor.id}`],
    refusal: 'E_NOT_FOUND',
  },
  {
    what: 'an API key of a suspended tenant wraps',
    narrow: (scenery) => operate(scenery, suspendTenant({})),
    call: wrap,
    refusal: 'E_TENANT_SUSPENDED',
  },
  {
    what: 'an API key encrypts while server mode is closed',
    narrow: (scenery) => operate(scenery, updateTenant({ envelope_only: true })),
    call: ({ key_id }) => ['POST', '/v1/encrypt', { key_id, plaintext: 'x' }],
    refusal: 'E_ENVELOPE_ONLY',
  },
]

describe('a row that was put back for a moment is found by what an API key did meanwhile:', () => {
  it.each(CAUGHT)('$what', async ({ narrow, call, refusal }) => {
    const scenery = await makeScenery()
    const { owner, worker } = scenery
    const { checkpoint, publicKey } = await checkpointOf(scenery)
    const status = await callMeanwhile(scenery, narrow, call(scenery))
    expect([200, 201, 204]).toContain(status)

    const broken_at = await databaseOf(scenery).lastId()
    const refused = { valid: false, reason: 'state_violated', broken_at }
    expect(await verdictsOn(scenery)).toMatchObject([refused, refused])
    const server = serverOf(service)
    const again = await server.call(worker.secret, ...call(scenery))
    expect(JSON.stringify(again.body)).toContain(refusal)

    await operate(scenery, resumeTenant({}))
    expect((await server.call(owner.secret, 'GET', '/v1/audit/verify')).body).toMatchObject(refused)
    const file = Buffer.from((await server.call(owner.secret, 'GET', '/v1/audit/export')).body as string)
    const told = { valid: false, verified_entries: broken_at - 1, line: broken_at + 1, broken_at }
    expect(await verifyByBoth({ file, publicKey })).toMatchObject(told)
    expect(await verifyByBoth({ file, publicKey, checkpoint })).toMatchObject(told)
  })

  it('and the same calls are no contradiction before the right is taken away', async () => {
    const scenery = await makeScenery()
    for (const { call } of CAUGHT) {
      const { status } = await serverOf(service).call(scenery.worker.secret, ...call(scenery))
      expect([200, 201, 204]).toContain(status)
    }
    expect(await verdictsOn(scenery)).toMatchObject([{ valid: true }, { valid: true }])
  })
})

const revoke: Caught['narrow'] = ({ owner, worker }) => owner.call('DELETE', `/v1/api-keys/${worker.id}`)

describe('a row that was put back for a moment is not found', () => {
  const UNNOTICED: [what: string, call: (scenery: Scenery) => Call][] = [
    ['reads', ({ key_id }) => ['GET', `/v1/keys/${key_id}`]],
    ['hashes', ({ key_id }) => ['POST', '/v1/hash', { key_id, value: 'x' }]],
  ]
  it.each(UNNOTICED)('if a revoked API key only %s meanwhile', async (_, call) => {
    const scenery = await makeScenery()
    const kept = await checkpointOf(scenery)
    expect(await callMeanwhile(scenery, revoke, call(scenery))).toBe(200)
    await expectUnnoticed(scenery, kept)
  })
})

describe('a row that was put back for a moment is not found either', () => {
  const NOT_COMPARED: Caught[] = [
    {
      what: 'its addresses',
      narrow: ({ owner, worker }) =>
        owner.call('PATCH', `/v1/api-keys/${worker.id}`, { allowed_ips: ['192.0.2.0/24'] }),
      call: wrap,
      refusal: 'E_IP_NOT_ALLOWED',
    },
    {
      what: 'its expiry',
      async narrow({ owner, worker }) {
        await owner.call('PATCH', `/v1/api-keys/${worker.id}`, { expires_at: new Date(now() + 60_000).toISOString() })
        aheadMs += 120_000
      },
      call: wrap,
      refusal: 'E_UNAUTHORIZED',
    },
    {
      what: "its tenant's quota",
      narrow: (scenery) => operate(scenery, updateTenant({ monthly_encrypt_quota: 0 })),
      call: ({ key_id }) => ['POST', '/v1/encrypt', { key_id, plaintext: 'x' }],
      refusal: 'E_QUOTA_EXCEEDED',
    },
  ]
  it.each(NOT_COMPARED)(
    'if an API key does meanwhile what only $what would forbid',
    async ({ narrow, call, refusal }) => {
      const scenery = await makeScenery()
      const kept = await checkpointOf(scenery)
      expect(await callMeanwhile(scenery, narrow, call(scenery))).toBe(200)
      const server = serverOf(service)
      expect((await server.call(scenery.worker.secret, ...call(scenery))).body.code).toBe(refusal)
      await expectUnnoticed(scenery, kept)
    },
  )
})

describe('a server that loaded a row in that moment', () => {
  it.each([
    ['a revoked API key', revoke, 401],
    ['a tenant that was suspended', (scenery: Scenery) => operate(scenery, suspendTenant({})), 403],
  ])('serves reads by it for ten minutes at most: %s', async (_, takeAway, refused) => {
    const scenery = await makeScenery()
    let elapsed = 0
    const server = serverOf(service)
    Object.assign(server.services, { states: createTenantStates({ ...service.services, elapsed: () => elapsed }) })
    const read: Call = ['GET', `/v1/keys/${scenery.key_id}`]
    const status = async () => (await server.call(scenery.worker.secret, ...read)).status

    expect(await callMeanwhile(scenery, takeAway, read, server)).toBe(200)
    elapsed = 10 * 60_000 - 1
    expect(await status()).toBe(200)
    elapsed += 1
    expect(await status()).toBe(refused)
  })
})
