// EAAS_WORKERS: several processes serve one port, as one server. Which of them holds a connection is read from /proc.
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { copyTables } from '../support/audit-scene.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database.js'
import {
  connectTo,
  createTenantInProcess,
  type EaasProcess,
  ROOT_KEY,
  runEaas,
  startEaas,
} from '../support/eaas-process.js'
import { copyOfFilled, databaseWithTenant } from '../support/filled-database.js'
import { callsOf, startLoad } from '../support/load.js'
import type { Service } from '../support/service.js'
import { holderOf, isAlive, openRaw, type RawClient, workersOf } from '../support/worker-processes.js'
import { checkInvariants } from './invariants.js'

const TIMEOUT_MS = 180_000
const CLIENTS = 12
/** Between the calls of a client while nothing happens that could fail them. */
const PAUSE_MS = 150
const dek = Buffer.alloc(32, 1).toString('base64')

type Tenant = Awaited<ReturnType<typeof createTenantInProcess>>

function startWorkers(database: TestDatabase, environment: Record<string, string> = {}): Promise<EaasProcess> {
  return startEaas({ database, environment: { EAAS_WORKERS: '2', ...environment } })
}

/** Returns a database with a tenant whose connections the second of two workers gets. */
async function databaseWithTenantOfSecond() {
  const fill = async (service: Service) => {
    for (;;) {
      const { tenant } = await service.createTenant({ name: randomUUID() })
      if (Number.parseInt(tenant.tenant_id.slice(-8), 16) % 2 === 1) return tenant
    }
  }
  return copyOfFilled('of_second', fill, { environment: { EAAS_ROOT_KEY: ROOT_KEY } })
}

/** A key of a tenant that does not exist: its calls are refused, by the worker of that tenant. */
const strangersKey = () => `eaas_sk_${randomBytes(16).toString('hex')}_${'x'.repeat(43)}`

const get = (path: string, secret: string) =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\n\r\n`

const post = (path: string, secret: string, body: object) => {
  const text = JSON.stringify(body)
  const headers = `Host: x\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\nAuthorization: Bearer ${secret}`
  return `POST ${path} HTTP/1.1\r\n${headers}\r\n\r\n${text}`
}

const runs = backend() === 'postgres' && process.platform === 'linux'

describe.skipIf(!runs)(
  'a server with two workers (an embedded database is held by one process)',
  { timeout: TIMEOUT_MS },
  () => {
    let database: TestDatabase
    let eaas: EaasProcess
    let a: Tenant
    let b: Tenant
    let key_id: string

    beforeAll(async () => {
      ;({ database, ...a } = await databaseWithTenant())
      b = await createTenantInProcess({ database }, 'b')
      eaas = await startWorkers(database)
      key_id = (await callsOf(a.api_key.secret)(eaas.url, 'POST', '/v1/keys', { name: 'of a' })).body.id
    }, TIMEOUT_MS)
    afterAll(() => eaas?.stop())

    async function open(): Promise<RawClient> {
      const client = await openRaw(eaas.url)
      onTestFinished(() => void client.socket.destroy())
      return client
    }

    /** Makes one call on a new connection; returns the status and the number of the worker that holds the connection. */
    async function callOnce(text: string) {
      const client = await open()
      client.write(text)
      const { status } = await client.answer()
      return { status, worker: holderOf(client.socket, eaas.pid) }
    }

    it('gives every connection of a tenant to the same worker, and different tenants to both', async () => {
      const seen = new Set<number | undefined>()
      for (let tenant = 0; tenant < 16; tenant++) {
        const text = get('/v1/keys', strangersKey())
        const calls = [await callOnce(text), await callOnce(text), await callOnce(text)]
        expect(new Set(calls.map(({ status }) => status))).toEqual(new Set([401]))
        expect(new Set(calls.map(({ worker }) => worker)).size).toBe(1)
        seen.add(calls[0]?.worker)
      }
      expect([...seen].sort()).toEqual([1, 2])
    })

    it('finds the tenant whatever the case of header and scheme, and behind other headers', async () => {
      for (let tenant = 0; tenant < 6; tenant++) {
        const secret = strangersKey()
        const plain = await callOnce(get('/v1/keys', secret))
        const filler = `X-Filler: ${'f'.repeat(3_000)}\r\n`
        const other = await callOnce(
          `GET /v1/keys HTTP/1.1\r\nHost: x\r\n${filler}aUTHORIZATION:\t bEARER ${secret}\r\nAccept: */*\r\n\r\n`,
        )
        expect(other).toEqual(plain)
      }
    })

    it('serves two tenants on one connection, which stays where it is', async () => {
      const client = await open()
      const holders: (number | undefined)[] = []
      for (const [tenant, names] of [
        [a, ['of a']],
        [b, []],
        [a, ['of a']],
      ] as const) {
        client.write(get('/v1/keys', tenant.api_key.secret))
        const { status, body } = await client.answer()
        expect([status, JSON.parse(body).keys?.map(({ name }: { name: string }) => name)]).toEqual([200, names])
        holders.push(holderOf(client.socket, eaas.pid))
      }
      expect(new Set(holders).size).toBe(1)
    })

    it('loses no byte of a head and a body that arrive in pieces of any size', async () => {
      const operations = Array.from({ length: 1_000 }, () => ({ op: 'wrap', key_id, dek }))
      const text = post('/v1/batch', a.api_key.secret, { operations })
      for (const piece of [text.length, 40, 7_000, 100_000]) {
        const client = await open()
        for (let at = 0; at < text.length; at += piece) {
          client.write(text.slice(at, at + piece))
          if (at < 2_000) await sleep(5) // as packets of their own, at first
        }
        const { status, body } = await client.answer()
        expect([piece, status, JSON.parse(body).results?.length]).toEqual([piece, 200, 1_000])
      }
    })

    it('serves a head that arrives byte by byte, and one that takes longer than the primary waits', async () => {
      const text = get('/v1/keys', a.api_key.secret)
      const [fast, slow] = [await open(), await open()]
      for (const byte of text) {
        fast.write(byte)
        await sleep(1)
      }
      slow.write(text.slice(0, 40))
      await sleep(1_500)
      expect(holderOf(slow.socket, eaas.pid)).toBeDefined()
      slow.write(text.slice(40))
      expect([(await fast.answer()).status, (await slow.answer()).status]).toEqual([200, 200])
    })

    it('answers pipelined requests in their order', async () => {
      const client = await open()
      const paths = [`/v1/keys/${key_id}`, '/v1/keys/none', '/v1/tenant', '/v1/keys/none', `/v1/keys/${key_id}`]
      client.write(paths.map((path) => get(path, a.api_key.secret)).join(''))
      const statuses: number[] = []
      for (const _ of paths) statuses.push((await client.answer()).status)
      expect(statuses).toEqual([200, 404, 200, 404, 200])
    })

    it.each([
      ['no Authorization', 'GET /v1/keys HTTP/1.1\r\nHost: x\r\n\r\n', 401],
      [
        'an Authorization of another kind',
        'GET /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eDp4\r\n\r\n',
        401,
      ],
      ['what is not HTTP', '\x16\x03\x01\x02\x00\x01\x00', 400],
      ['what is not HTTP, in a complete head', 'GARBAGE\r\n\r\n', 400],
      ['a head that is too large', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(30_000)}\r\n\r\n`, 431],
    ])('answers %s as HTTP has it', async (_, text, status) => {
      expect(await callOnce(text)).toMatchObject({ status })
    })

    it('ends connections whose request does not arrive, as a single process does', async () => {
      const [silent, stalled] = [await open(), await open()]
      stalled.write('GET /v1/keys HTTP/1.1\r\nHost:')
      await Promise.all([silent.ended, stalled.ended])
      expect(stalled.rest()).toMatch(/^HTTP\/1\.1 408 /)
    })

    it('shows the sums over all workers on /metrics, whichever answers, and goes on when one of them is away', async () => {
      const series = 'eaas_http_requests_total{method="DELETE",route="/v1/keys/:id",status="401"}'
      for (let call = 0; call < 20; call++) {
        await callOnce(get('/v1/keys/some', strangersKey()).replace('GET', 'DELETE'))
      }
      for (let scrape = 0; scrape < 4; scrape++) {
        const text = await (await fetch(`${eaas.url}/metrics`, { headers: { connection: 'close' } })).text()
        for (const line of [`${series} 20`, 'eaas_workers 2', 'eaas_workers_missing 0'])
          expect(text).toContain(`${line}\n`)
        expect(text).toMatch(/^eaas_build_info\{version="[^"]+"\} 1$/m)
        expect(text).toMatch(/^eaas_audit_alarmed_tenants 0$/m)
        expect(text.match(/^# TYPE process_cpu_seconds_total /gm)).toHaveLength(1)
      }
      const [, stopped = 0] = [...workersOf(eaas.pid).values()]
      process.kill(stopped, 'SIGSTOP')
      try {
        const text = await scrapeWhenPossible()
        for (const line of [`${series} 20`, 'eaas_workers_missing 1']) expect(text).toContain(`${line}\n`)
        // Callers are served: /health names what an operator should see, and turns nobody away.
        expect(await healthWhenPossible()).toEqual([
          200,
          'degraded',
          expect.stringMatching(/^1 of the server's workers /),
        ])
      } finally {
        process.kill(stopped, 'SIGCONT')
      }
      await expect.poll(healthWhenPossible, { timeout: 20_000 }).toEqual([200, 'healthy', undefined])
      process.kill(stopped, 'SIGKILL')
      await expect.poll(scrapeWhenPossible).toMatch(/^eaas_workers_ended_total 1$/m)
      await expect.poll(scrapeWhenPossible).toMatch(/^eaas_workers_missing 0$/m)
      expect(await scrapeWhenPossible()).toContain(`${series} 20\n`)
    })

    it('ends with its primary process, even if that is killed', async () => {
      const workers = [...workersOf(eaas.pid).values()]
      expect(workers).toHaveLength(2)
      await eaas.kill9()
      await expect.poll(() => workers.filter(isAlive), { timeout: 20_000 }).toEqual([])
    })

    /** Calls until a worker answers: a connection that waits for one which is stopped goes to the other one later. */
    async function fetchWhenPossible(path: string): Promise<Response> {
      for (;;) {
        const answer = await fetch(`${eaas.url}${path}`, {
          headers: { connection: 'close' },
          signal: AbortSignal.timeout(20_000),
        }).catch(() => undefined)
        if (answer?.status === 200) return answer
      }
    }

    const scrapeWhenPossible = async () => (await fetchWhenPossible('/metrics')).text()

    async function healthWhenPossible() {
      const answer = await fetchWhenPossible('/health')
      const { status, detail } = (await answer.json()) as { status: string; detail?: string }
      return [answer.status, status, detail]
    }
  },
)

describe.skipIf(!runs)('the start of a server with workers', { timeout: TIMEOUT_MS }, () => {
  it('prints one API key, which works, and records one start with the number of workers, and one stop', async () => {
    const database = await freshDatabase('workers')
    const eaas = await startWorkers(database)
    await expect.poll(() => eaas.stdout).toContain('/docs')
    const secrets = eaas.stdout.match(/eaas_sk_\w+/g) ?? []
    expect(secrets).toHaveLength(1)
    expect((await callsOf(secrets[0] ?? '')(eaas.url, 'GET', '/v1/keys')).status).toBe(200)
    expect(eaas.stdout.match(/EaaS is listening on/g)).toHaveLength(1)
    expect((await eaas.stop()).code).toBe(0)
    const sql = connectTo(database)
    const found = await sql`
      select action, metadata::json->>'workers' as workers from audit_log
      where action in ('installation.start', 'installation.stop') order by id`
    await sql.end()
    expect([...found]).toEqual([
      { action: 'installation.start', workers: '2' },
      { action: 'installation.stop', workers: '2' },
    ])
  })

  it('ends with the code and the one sentence of a worker that cannot start', async () => {
    const { database } = await databaseWithTenant()
    const rootKey = Buffer.alloc(32, 8).toString('base64')
    const { code, stderr } = await runEaas(['start'], { database, rootKey, environment: { EAAS_WORKERS: '2' } })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^eaas: The root key does not belong to this database\. .*\n$/)
  })

  it('ends with what to do when the port is taken, and leaves no worker', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void other.close())
    await once(other, 'listening')
    const environment = { EAAS_WORKERS: '2', EAAS_PORT: String((other.address() as AddressInfo).port) }
    const database = await freshDatabase('workers', { migrated: true })
    const { code, stderr } = await runEaas(['start'], { database, environment }) // ends when no process holds its output
    expect([code, stderr]).toEqual([1, expect.stringContaining('(EADDRINUSE): another program listens there.')])
  })
})

describe.skipIf(!runs)('a server with workers under load', { timeout: TIMEOUT_MS }, () => {
  let database: TestDatabase
  let eaas: EaasProcess
  let tenant_id: string
  let api_key: Tenant['api_key']

  beforeAll(async () => {
    ;({ database, tenant_id, api_key } = await databaseWithTenant())
    eaas = await startWorkers(database)
  }, TIMEOUT_MS)
  afterAll(() => eaas?.stop())

  it('loses nothing that was acknowledged when a worker is killed; the others serve on, and it is replaced', async () => {
    let pauseMs = 0
    const load = await startLoad({
      target: () => eaas.url,
      secret: api_key.secret,
      clients: CLIENTS,
      pauseMs: () => pauseMs,
    })
    const more = async (calls: number) => {
      const from = load.acked()
      while (load.acked() < from + calls) await sleep(10)
    }
    // All calls are of one tenant: at least one of the two workers has its connections when it is killed.
    const killed = [1, 2]
    for (const number of killed) {
      await more(100)
      const pid = workersOf(eaas.pid).get(number) ?? 0
      process.kill(pid, 'SIGKILL')
      await more(100)
      pauseMs = PAUSE_MS // until it is replaced
      await expect.poll(() => workersOf(eaas.pid).get(number) ?? pid).not.toBe(pid)
      await expect.poll(async () => (await fetch(`${eaas.url}/metrics`)).text()).toMatch(/^eaas_workers_missing 0$/m)
      const lines = eaas.stderr.split('\n').filter((line) => line.includes('a worker ended; it is replaced'))
      expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ level: 50, worker: number, signal: 'SIGKILL' })
      pauseMs = 0
    }
    await load.stop()
    const sql = connectTo(database)
    try {
      const { violations } = await checkInvariants(sql, {
        tenant_id,
        rootKey: ROOT_KEY,
        load,
        url: eaas.url,
        secret: api_key.secret,
        mostUnacknowledged: CLIENTS * killed.length,
      })
      expect(violations).toEqual([])
    } finally {
      await sql.end()
    }
  })

  it('answers a call whose first byte had arrived at the primary or at a worker when it is told to stop', async () => {
    const early = await openRaw(eaas.url)
    const text = get('/v1/keys', api_key.secret)
    early.write(text.slice(0, 10))
    await expect.poll(() => holderOf(early.socket, eaas.pid)).toBeDefined()
    const late = await openRaw(eaas.url)
    late.write(text.slice(0, 10))
    await sleep(100)
    const ended = eaas.stop()
    await sleep(1_200) // longer than a connection without a call is kept
    for (const client of [early, late]) client.write(text.slice(10))
    expect([(await early.answer()).status, (await late.answer()).status]).toEqual([200, 200])
    expect((await ended).code).toBe(0)
  })
})

describe.skipIf(!runs)('a server with workers that is told to stop', { timeout: TIMEOUT_MS }, () => {
  it('turns callers away on /health in every worker while it drains, and cuts no call off', async () => {
    const { database, api_key } = await databaseWithTenant()
    const eaas = await startWorkers(database, { EAAS_DRAIN_SECONDS: '4' })
    const workers = [...workersOf(eaas.pid).values()]
    const failures: string[] = []
    let answered = 0
    let isDrained = false
    let pauseMs = 0
    // Half of the clients make a new connection for each call. When the port closes, the system resets connections that arrive just then:
    // nobody accepted them. A balancer sends no calls any more by that time.
    const client = async (_: unknown, at: number) => {
      let call = callsOf(api_key.secret)
      for (;;) {
        if (at % 2 === 0) call = callsOf(api_key.secret)
        const answer = await call(eaas.url, 'GET', '/v1/keys').catch((error) => error)
        if (answer.status === 200) answered += 1
        else if (answer.syscall === 'connect' || (isDrained && answer.syscall !== undefined)) return
        else return void failures.push(answer.message ?? JSON.stringify(answer))
        if (pauseMs > 0) await sleep(pauseMs)
      }
    }
    const clients = Array.from({ length: CLIENTS }, client)
    while (answered < 200) await sleep(10)
    for (const pid of workers) process.kill(pid, 'SIGTERM') // as Ctrl-C and some supervisors signal every process
    const ended = eaas.stop()
    const closing = sleep(3_700) // from then on many calls should be under way
    const health = async () =>
      Promise.all(
        [1, 2, 3, 4].map(async () => {
          const { status } = await fetch(`${eaas.url}/health`, { headers: { connection: 'close' } })
          return status
        }),
      )
    await expect.poll(health, { timeout: 3_500, interval: 50 }).toEqual([503, 503, 503, 503])
    isDrained = true
    pauseMs = PAUSE_MS
    await closing
    pauseMs = 0
    await Promise.all(clients)
    expect({ failures, code: (await ended).code }).toEqual({ failures: [], code: 0 })
    expect(workers.filter(isAlive)).toEqual([])
  })

  it('has the first worker know what the others wrote last: what is cut off once they ended is alarmed about', async () => {
    const { database, filled } = await databaseWithTenantOfSecond()
    const { tenant_id, api_key } = filled
    const folder = await mkdtemp(join(tmpdir(), 'eaas-workers-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const eaas = await startWorkers(database, { EAAS_CHECKPOINT_FILE: join(folder, 'checkpoints') })
    const attacker = connectTo(database)
    const holder = connectTo(database)
    try {
      const anchored = async () => (await attacker`select from anchored_heads`).length
      await expect.poll(anchored).toBeGreaterThan(0) // the first round is over
      await copyTables(attacker, 'early')
      const session = await holder.reserve()
      await session`begin`
      await session`select from heads where tenant_id = ${INSTALLATION_ID} for update` // keeps the first worker from its last comparison
      const call = callsOf(api_key.secret)
      expect((await call(eaas.url, 'POST', '/v1/keys', { name: 'late' })).status).toBe(201)
      const ended = eaas.stop()
      await expect.poll(() => workersOf(eaas.pid).has(2), { interval: 5 }).toBe(false)
      await attacker`
        delete from audit_log where tenant_id = ${tenant_id}
          and id > (select last_id from early.heads where tenant_id = ${tenant_id})`
      for (const table of ['heads', 'keys', 'key_versions', 'audit_counts']) {
        await attacker`delete from ${attacker(table)} where tenant_id = ${tenant_id}`
        await attacker`
          insert into ${attacker(table)} select * from early.${attacker(table)} where tenant_id = ${tenant_id}`
      }
      await session`commit`
      session.release()
      await ended
      await eaas.start()
      const health = async () => (await (await fetch(`${eaas.url}/health`)).json()) as { database: string }
      expect(await health()).toMatchObject({ database: 'alarm' })
    } finally {
      await Promise.all([attacker.end(), holder.end(), eaas.stop()])
    }
  })

  it('ends at once at a second signal, with all workers', async () => {
    const eaas = await startWorkers(await freshDatabase('workers', { migrated: true }), { EAAS_DRAIN_SECONDS: '3600' })
    const workers = [...workersOf(eaas.pid).values()]
    const ended = eaas.stop()
    await expect.poll(async () => (await fetch(`${eaas.url}/health`)).status).toBe(503)
    process.kill(eaas.pid, 'SIGTERM')
    await ended // when no process holds its output any more
    expect(workers.filter(isAlive)).toEqual([])
  })
})
