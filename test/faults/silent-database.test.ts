// A database that accepts connections and answers nothing, with every connection of the pool open: the server still answers every
// call, in time and truthfully.

import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createCommitter } from '../../packages/server/src/core/audit/append/committer.js'
import { doDueWork } from '../../packages/server/src/core/jobs/due-work.js'
import { lockHead } from '../../packages/server/src/core/store/audit.js'
import { connect } from '../../packages/server/src/core/store/db.js'
import { HeadWatches } from '../../packages/server/src/guard/watch/head-watch.js'
import { backend, freshDatabase } from '../support/database/database.js'
import { callRoute, makeGround, routesWithRules } from '../support/service/route-calls.js'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { type StallingProxy, startStallingProxy } from './stalling-proxy.js'

/** The deadline is 4 s. Two waits in a row would take 8, and a busy machine some time more than one. */
const IN_TIME_MS = 7_500

// The embedded database is not reached over a network.
describe.skipIf(backend() === 'embedded')('while the database is silent', () => {
  let proxy: StallingProxy
  let service: Service
  let owner: Caller
  let key_id: string

  beforeEach(async () => {
    const database = await freshDatabase('silent')
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    proxy = await startStallingProxy(database.url)
    service = await startService({ database: { ...database, url: proxy.url } })
    owner = await service.createTenant({ envelope_only: false })
    key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.key_id
    await wrap() // the state of the tenant is known now
    const { sql } = service.services
    await Promise.all(Array.from({ length: 40 }, () => sql`select pg_sleep(0.02)`))
  })
  afterEach(async () => {
    proxy?.resume()
    await service?.close()
    await proxy?.close()
  })

  const wrap = () => owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })
  const rotate = () => owner.call('POST', `/v1/keys/${key_id}/rotate`)

  it('changes that wait for one another are all refused in time, each with what is known of it, and not carried out later', async () => {
    proxy.stall()
    const from = performance.now()
    const begin = vi.spyOn(service.services.sql, 'begin')
    const first = rotate()
    await expect.poll(() => begin).toHaveBeenCalled() // the others wait for another transaction
    const answers = await Promise.all([first, ...Array.from({ length: 4 }, rotate)])
    expect(performance.now() - from).toBeLessThan(IN_TIME_MS)
    const details = answers.map(({ status, body }) => `${status} ${body.code}: ${body.detail}`)
    const refused = '503 E_UNAVAILABLE: the database does not answer, so the call was not carried out; try again later'
    // Of a call whose transaction began nothing is known. One that waited begins a transaction of its own if it still has time.
    const isUnknown = (detail = '') => /it is unknown whether .* check before you repeat it/.test(detail)
    expect(isUnknown(details[0])).toBe(true)
    expect(details).toContain(refused)
    expect(details.filter((detail) => detail !== refused && !isUnknown(detail))).toEqual([])
    proxy.resume()
    expect((await wrap()).body.key_version).toBe(1)
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('a call whose entry was sent is not said to be left undone', async () => {
    proxy.stall()
    const { status, body } = await wrap()
    expect([status, body.code, body.detail]).toEqual([500, 'E_AUDIT_NOT_WRITTEN', expect.stringContaining('unknown')])
    proxy.resume()
    await expect.poll(async () => (await owner.call('GET', '/v1/audit?action=key.wrap')).body.total).toBe(2)
  })

  it('reads of one tenant do not pile up', async () => {
    const { sql, states, committer: own } = service.services
    const state = await states.find(owner.tenant.tenant_id)
    if (!state) throw new Error('no state')
    let asked = 0
    const counting = new Proxy(sql, {
      apply(target, self, args) {
        const [[start]] = args
        if (start.trimStart().startsWith('select')) asked += 1 // not parts of a statement
        return Reflect.apply(target, self, args)
      },
    })
    const committer = createCommitter({ sql: counting, clock: own.clock, guard: new HeadWatches(() => undefined) })
    const ask = () => committer.currentPolicyVersion({ tenant_id: owner.tenant.tenant_id, auditKey: state.auditKey })
    proxy.stall()
    const waiting = []
    for (let at = 0; at < 100; at++) {
      waiting.push(ask())
      await new Promise((resolve) => setImmediate(resolve))
    }
    const ended = Promise.allSettled(waiting)
    expect(asked).toBeLessThan(10)
    proxy.resume()
    expect((await ended).every(({ status }) => status === 'fulfilled')).toBe(true)
  })
  it('no call hangs, whatever it reads and when, nor does the work that is due', async () => {
    const ground = await makeGround(owner)
    await Promise.all(Array.from({ length: 40 }, () => service.services.sql`select pg_sleep(0.02)`))
    proxy.stall()
    const from = performance.now()
    const answers = await Promise.all(
      routesWithRules().map(async (route) => ({
        name: route.name,
        status: (await callRoute(owner, route, ground)).status,
        isInTime: performance.now() - from < IN_TIME_MS,
      })),
    )
    expect(answers.filter(({ status, isInTime }) => status < 500 || !isInTime)).toEqual([])
    await expect(doDueWork(service.services)).rejects.toThrow('did not answer within')
  })
})

describe.skipIf(backend() === 'embedded')('a process that stands still in the middle of a change', () => {
  it('keeps the others from that tenant for some seconds only', async () => {
    const database = await freshDatabase('still')
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    const service = await startService({ database })
    const still = connect({ url: database.directUrl, max: 1 })
    try {
      const owner = await service.createTenant()
      const standing = still.begin(async (transaction) => {
        await lockHead(transaction, owner.tenant.tenant_id)
        await sleep(20_000, undefined, { ref: false })
      })
      const ended = standing.then(
        () => 'it ended by itself',
        (error) => error.code,
      )
      const from = performance.now()
      let status = 0
      for (let at = 0; status !== 201 && performance.now() - from < 15_000; at++) {
        await sleep(200)
        status = (await owner.call('POST', '/v1/keys', { name: `k ${at}` })).status
      }
      expect(performance.now() - from).toBeLessThan(8_000)
      expect(['25P03', 'CONNECTION_CLOSED']).toContain(await ended)
    } finally {
      await still.end({ timeout: 1 })
      await service.close()
    }
  })
})
