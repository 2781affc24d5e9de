// Rows that somebody exchanges while a purge runs, before each of its statements in turn: an API key that was revoked long ago, and the
// entry that says so, which the purge takes. Nobody may get the API key back by it unseen.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createCommitter } from '../../../packages/server/src/core/audit/append/committer.js'
import { verifyLog } from '../../../packages/server/src/core/audit/verify/verify.js'
import type { Services } from '../../../packages/server/src/core/runner/operation.js'
import { createTenantStates } from '../../../packages/server/src/core/runner/tenant-state.js'
import { connect, type Sql } from '../../../packages/server/src/core/store/db.js'
import { HeadWatches } from '../../../packages/server/src/guard/watch/head-watch.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { copyTables, restoreTables, type Scene, serverOf } from '../../support/audit/audit-scene.js'
import { backend, isPooled } from '../../support/database/database.js'
import { rounds } from '../../support/run/rounds.js'
import { connectTo } from '../../support/service/eaas-process.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { verifyInPlace } from './verify-in-place.js'

const DAY_MS = 86_400_000
const PRESENT = Date.now() - 60_000
const RETENTION = { retentionMonths: 12, maxShare: 1 }
const TIMEOUT_MS = 600_000

/** Every one of so many statements is the first with which the rows are exchanged. */
const STRIDE = rounds(3, 1)
/** For how many statements they are exchanged. */
const LENGTHS = [4, 1, 2, Number.POSITIVE_INFINITY].slice(0, rounds(1, 4))

let service: Service
/** the purge's own connections, each of whose statements is waited for */
let connection: Sql
let attacker: Scene['sql']
let owner: Caller
let tenant_id: string
let revoked: { id: string; secret: string }
let clock = PRESENT

/** A server that waits for `before` ahead of each statement. */
function watched(before: () => Promise<unknown>): Services {
  // A query begins when somebody waits for it; until then it may be a part of another one.
  const hold = (query: unknown): unknown => {
    if (!(query instanceof Promise)) return query
    const send = query.then.bind(query)
    return Object.defineProperty(query, 'then', {
      value: (...handlers: Parameters<typeof send>) =>
        before()
          .then(() => send())
          .then(...handlers),
    })
  }
  const watch = <T extends object>(target: T): T =>
    new Proxy(target, {
      apply: (of, self, args) => hold(Reflect.apply(of as () => unknown, self, args)),
      get(of, name) {
        const member: unknown = Reflect.get(of, name)
        if (name !== 'begin' || typeof member !== 'function') return member
        return (...args: unknown[]) => {
          const work = args.pop() as (sql: object) => unknown
          return Reflect.apply(member, of, [...args, (sql: object) => work(watch(sql))])
        }
      },
    })
  const sql = watch(connection)
  const { committer, storeKeys } = service.services
  return {
    ...service.services,
    sql,
    committer: createCommitter({ sql, clock: committer.clock, guard: new HeadWatches(() => undefined) }),
    states: createTenantStates({ sql, storeKeys }),
    verifyLog: (options) => verifyLog(sql, { ...options, storeKeys }),
  }
}

const inTurn = (...statements: string[]) =>
  attacker.begin((sql) => sql.unsafe(statements.join('; ')) as Promise<unknown>)
const row = () => `tenant_id = '${tenant_id}' and api_key_id = '${revoked.id}'`
const entry = () => `tenant_id = '${tenant_id}' and action = 'api_key.revoke'`

/** Puts the row of before the revocation in the place of the row that is there. */
const putBack = (hidden: string) =>
  inTurn(
    `create table hidden as select * from audit_log where ${hidden}`,
    `delete from audit_log where ${hidden}`,
    `create table replaced as select * from api_keys where ${row()}`,
    `delete from api_keys where ${row()}`,
    `insert into api_keys select * from older.api_keys where ${row()}`,
  )
/** Undoes it, but leaves a row that the purge has written meanwhile. */
const undo = () =>
  inTurn(
    'insert into audit_log select * from hidden on conflict do nothing',
    `delete from api_keys where ${row()} and mac = (select mac from older.api_keys where ${row()})`,
    'insert into api_keys select * from replaced on conflict do nothing',
    'drop table hidden, replaced',
  )

/** Purges with the rows exchanged from one statement on; returns how many statements the purge had. */
async function purgeMeanwhile(hidden: string, { from, length }: { from: number; length: number }): Promise<number> {
  let statements = 0
  let isPut = false
  // One after another, because some statements of a purge are sent at once. A row that the purge has locked stays as it is.
  let acting: Promise<unknown> = Promise.resolve()
  const act = (work: () => Promise<unknown>) => {
    acting = acting.then(work).catch(() => undefined)
  }
  const takeBack = async () => {
    if (isPut) await undo()
    isPut = false
  }
  const before = () => {
    if (statements === from) act(() => putBack(hidden).then(() => (isPut = true)))
    if (statements === from + length) act(takeBack)
    statements += 1
    return acting
  }
  await purgeTenant(watched(before), tenant_id, RETENTION).catch(() => undefined) // it may be refused
  await acting
  await takeBack()
  return statements
}

describe.skipIf(backend() === 'embedded')('an API key that was revoked before what a purge takes', () => {
  beforeAll(async () => {
    service = await startService({ now: () => clock })
    const { database } = service
    connection = connect({ url: database.backend === 'postgres' ? database.url : '', max: 4, isPooled: isPooled() })
    attacker = connectTo(database) as unknown as Scene['sql']
    clock = PRESENT - 400 * DAY_MS
    owner = await service.createTenant()
    tenant_id = owner.tenant.tenant_id
    await owner.call('POST', '/v1/keys', { name: 'k' })
    revoked = (await owner.call('POST', '/v1/api-keys', { name: 'r', permissions: ['encrypt', 'keys:read'] })).body
    await copyTables(attacker, 'older')
    await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)
    clock = PRESENT - 100 * DAY_MS
    await owner.call('POST', '/v1/keys', { name: 'recent' })
    clock = PRESENT
    await copyTables(attacker, 'before')
    await attacker`set lock_timeout = '100ms'`
  })
  afterAll(async () => {
    await attacker?.end()
    await connection?.end()
    await service?.close()
  })

  it.each([
    ['its older row', () => 'false'],
    ['its older row, with the entry of the revocation hidden,', entry],
  ])(
    'is not served in a valid log, whenever %s is put back while the purge runs',
    { timeout: TIMEOUT_MS },
    async (_, hidden) => {
      let most = 1 // a purge that is refused has fewer statements
      for (const length of LENGTHS) {
        for (let from = 0; from < most; from += STRIDE) {
          most = Math.max(most, await purgeMeanwhile(hidden(), { from, length }))
          const { status } = await serverOf(service).call(revoked.secret, 'GET', '/v1/keys')
          const isValid = (await verifyInPlace(service, tenant_id)).some(({ valid }) => valid)
          expect({ from, length, isServedUnseen: status === 200 && isValid }).toMatchObject({ isServedUnseen: false })
          await restoreTables(attacker, 'before')
          await attacker`delete from chain_alarms`
        }
      }
      expect(most).toBeGreaterThan(20)
    },
  )
})
