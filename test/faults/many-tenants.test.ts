// Many tenants call at once: what goes wrong with one of them is not the others' concern, and every acknowledged call has its entry.
// The clients keep a ledger of what was acknowledged.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { lockHead } from '../../packages/server/src/core/store/audit.js'
import { suspendTenant } from '../../packages/server/src/operators/tenants.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { startPostgres } from '../support/database/postgres.js'
import { rounds } from '../support/run/rounds.js'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { startStallingProxy } from './stalling-proxy.js'

const TENANTS = 12
const CALLS = rounds(8, 200)
const UNKNOWN = /it is unknown whether/

interface Client {
  owner: Caller
  key_id: string
  /** wraps that were acknowledged, and those of which nobody knows whether they were carried out */
  acknowledged: number
  unknown: number
}

async function makeClients(service: Service): Promise<Client[]> {
  return Promise.all(
    Array.from({ length: TENANTS }, async () => {
      const owner = await service.createTenant()
      const { body } = await owner.call('POST', '/v1/keys', { name: 'k' })
      return { owner, key_id: body.id, acknowledged: 0, unknown: 0 }
    }),
  )
}

async function wrap(client: Client, caller = client.owner): Promise<{ status: number; detail: string }> {
  const dek = randomBytes(32).toString('base64')
  const { status, body } = await caller.call('POST', `/v1/keys/${client.key_id}/wrap`, { dek })
  if (status === 200) client.acknowledged += 1
  if (UNKNOWN.test(body.detail)) client.unknown += 1
  return { status, detail: body.detail ?? '' }
}

/** What the logs lack of what was acknowledged, or have too much, and the logs that are not valid; read through a server. */
async function findDisagreements(clients: readonly Client[], service: Service): Promise<string[]> {
  const found: string[] = []
  for (const { owner, acknowledged, unknown } of clients) {
    const reader = service.caller(owner.secret)
    const { body: log } = await reader.call('GET', '/v1/audit?action=key.wrap&limit=1')
    const { body: verified } = await reader.call('GET', '/v1/audit/verify')
    if (!verified.valid) found.push(`a log is not valid: ${JSON.stringify(verified)}`)
    if (log.total < acknowledged || log.total > acknowledged + unknown) {
      found.push(`${acknowledged} acknowledged and ${unknown} unknown, got ${log.total} entries`)
    }
  }
  return found
}

describe.each(['many', 'one'])('many tenants, with %s to a statement', (tenantsPerStatement) => {
  let services: Service[]
  let clients: Client[]
  const environment = { EAAS_DATABASE_APPENDS: tenantsPerStatement }

  // The embedded database has a single server.
  beforeAll(async () => {
    const first = await startService({ environment })
    services =
      backend() === 'embedded' ? [first] : [first, await startService({ environment, database: first.database })]
  })
  beforeEach(async () => {
    clients = await makeClients(services[0] as Service)
  })
  afterAll(() => Promise.all([...(services ?? [])].reverse().map((service) => service.close())))

  it('each have an entry for each call, by two servers at once, also of the tenants whose keys change', async () => {
    const failures: string[] = []
    const call = async (client: Client, service: Service, at: number) => {
      const caller = service.caller(client.owner.secret)
      for (let n = 0; n < CALLS; n++) {
        const { status, detail } = await wrap(client, caller)
        if (status !== 200) failures.push(`${status} ${detail}`)
        if (at % 4 === 0 && n % 5 === 0) await caller.call('POST', `/v1/keys/${client.key_id}/rotate`)
      }
    }
    await Promise.all(services.flatMap((service) => clients.map((client, at) => call(client, service, at))))
    expect(failures).toEqual([])
    expect(clients.map(({ acknowledged }) => acknowledged)).toEqual(clients.map(() => CALLS * services.length))
    for (const service of services) expect(await findDisagreements(clients, service)).toEqual([])
  })

  it('are served while one is alarmed about, one is suspended, and one has a row too many', async () => {
    const [service] = services as [Service]
    const { sql } = service.services
    const [alarmed, suspended, refused] = clients as [Client, Client, Client]
    await sql`update heads set policy_version = policy_version + 1 where tenant_id = ${alarmed.owner.tenant.tenant_id}`
    await performAsSystem(
      (services.at(-1) as Service).services,
      suspended.owner.tenant.tenant_id,
      suspendTenant({ reason: 'a test' }),
    )
    await sql`
      insert into audit_log (tenant_id, id, action, actor, created_at, hash, mac)
      select tenant_id, last_id + 1, 'key.wrap', 'somebody', now(), '', '' from heads
      where tenant_id = ${refused.owner.tenant.tenant_id}`
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(clients.map((client) => wrap(client)))
      expect(answers[0]).toMatchObject({ status: 500, detail: expect.stringContaining('until the operator settles') })
      expect(answers[1]).toMatchObject({ status: 403, detail: expect.stringContaining('suspended') })
      expect(answers[2]).toMatchObject({
        status: 500,
        detail: expect.stringContaining('so the call was not carried out'),
      })
      expect(answers.slice(3).filter(({ status }) => status !== 200)).toEqual([])
    }
    expect(await findDisagreements(clients.slice(3), service)).toEqual([])
  })

  it.skipIf(backend() === 'embedded')('are served while another process holds the head of one', async () => {
    const [service] = services as [Service]
    const [held, ...others] = clients as [Client, ...Client[]]
    await wrap(held) // its state is known now
    let release: () => void = () => undefined
    let holding: Promise<unknown> = Promise.resolve()
    await new Promise<void>((isHeld) => {
      holding = service.services.sql.begin(async (transaction) => {
        await lockHead(transaction, held.owner.tenant.tenant_id)
        isHeld()
        await new Promise<void>((resolve) => {
          release = resolve
        })
      })
    })
    const waiting = wrap(held) // until the head is released, or in vain
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(others.map((client) => wrap(client)))
      expect(answers.filter((answer) => !isCarriedOut(answer))).toEqual([])
    }
    release()
    await Promise.all([holding, waiting])
    expect(isCarriedOut(await wrap(held))).toBe(true)
    expect(await findDisagreements(clients, service)).toEqual([])
  })
})

// These reach PostgreSQL directly, whichever project runs them.
describe.skipIf(backend() === 'embedded' || isPooled())('many tenants whose database does not answer', () => {
  it('learn what is known of each call: of those that were not carried out there is no entry', async () => {
    const database = await freshDatabase('silent', { migrated: true })
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    const proxy = await startStallingProxy(database.directUrl)
    const service = await startService({ database: { ...database, url: proxy.url } })
    try {
      const clients = await makeClients(service)
      await Promise.all(clients.map((client) => wrap(client)))
      proxy.stall()
      const answers = await Promise.all([...clients, ...clients].map((client) => wrap(client)))
      expect(
        answers.map(({ detail }) => UNKNOWN.test(detail) || /so the call was not carried out/.test(detail)),
      ).toEqual(answers.map(() => true))
      expect(answers.some(({ detail }) => UNKNOWN.test(detail))).toBe(true)
      proxy.resume()
      await expect
        .poll(async () => (await Promise.all(clients.map((client) => wrap(client)))).every(isCarriedOut))
        .toBe(true)
      expect(await findDisagreements(clients, service)).toEqual([])
    } finally {
      proxy.resume()
      await service.close()
      await proxy.close()
    }
  }, 60_000)
})

describe.skipIf(backend() === 'embedded' || isPooled())('many tenants whose PostgreSQL is killed', () => {
  it('keep every entry of a call that was acknowledged', async () => {
    const bin = findPostgres()
    if (bin === undefined) throw new Error('there is no PostgreSQL to kill')
    const cluster = await startPostgres({ bin, runDir: inject('runDir') })
    const url = await cluster.createDatabase('many')
    const database: TestDatabase = { backend: 'postgres', url, directUrl: url, drop: () => Promise.resolve() }
    const service = await startService({ database })
    try {
      const clients = await makeClients(service)
      let isOver = false
      const load = clients.flatMap((client) =>
        [client.owner, client.owner].map(async (caller) => {
          while (!isOver) if ((await wrap(client, caller)).status !== 200) await sleep(20)
        }),
      )
      for (let kill = 0; kill < rounds(2, 10); kill++) {
        const before = clients.map(({ acknowledged }) => acknowledged)
        await expect
          .poll(() => clients.every(({ acknowledged }, at) => acknowledged > (before[at] ?? 0) + 5))
          .toBe(true)
        await cluster.kill()
        await cluster.start()
      }
      await expect
        .poll(async () => (await Promise.all(clients.map((client) => wrap(client)))).every(isCarriedOut))
        .toBe(true)
      isOver = true
      await Promise.all(load)
      expect(await findDisagreements(clients, service)).toEqual([])
    } finally {
      await service.close()
      await cluster.remove()
    }
  }, 180_000)
})

function isCarriedOut({ status }: { status: number }): boolean {
  return status === 200
}
