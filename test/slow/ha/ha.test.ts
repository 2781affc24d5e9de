// High availability as the guide sets it up: Patroni, etcd and haproxy, servers under load, and what their clients were told.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@eaas/sdk'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkInvariants } from '../../faults/invariants.js'
import { freePort } from '../../support/database/postgres.js'
import { runCommand } from '../../support/service/command-host.js'
import { createTenantInProcess, type EaasProcess, ROOT_KEY, startEaas } from '../../support/service/eaas-process.js'
import { callsOf, type Load, startLoad } from '../../support/service/load.js'
import { haproxyConfig, nginxConfig } from '../../support/service/proxies.js'
import { shellOf } from '../../support/sources/server-docs.js'
import { type Cluster, startCluster } from './cluster.js'
import { findOrInstallCluster } from './find-patroni.js'

const CLIENTS = 4
const PAUSE_MS = 40
const CALM_MS = 3_000
const START_MS = 10 * 60_000

const programs = findOrInstallCluster()

const pgDatabase = (url: string, directUrl = url) => ({
  backend: 'postgres' as const,
  url,
  directUrl,
  drop: async () => undefined,
})

async function createEaasDatabase(cluster: Cluster): Promise<void> {
  const sql = postgres(cluster.urlOf(await cluster.leader(), 'postgres'), { max: 1 })
  await sql`create database eaas`
  await sql.end()
  // A standby refuses a database that it has not replayed, and the server takes that for a wrong URL.
  for (const node of cluster.nodes) {
    const follower = postgres(cluster.urlOf(node, 'postgres'), { max: 1 })
    const find = async () => (await follower`select from pg_database where datname = 'eaas'`).length > 0
    await cluster.until('the database on each node', find)
    await follower.end()
  }
}

/** Measures the longest time in which a load got no acknowledgement. */
function watchGap(load: Load): () => number {
  let [acked, at, longest] = [load.acked(), performance.now(), 0]
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - at)
    if (load.acked() === acked) return
    acked = load.acked()
    at = performance.now()
  }, 25)
  return () => {
    clearInterval(timer)
    return longest / 1_000
  }
}

/** An application: encrypts with the SDK's own retries, and keeps what it was given. */
async function startApplication(baseUrl: () => string, apiKey: string) {
  const eaas = createClient({ baseUrl: baseUrl(), apiKey })
  const { id: keyId } = await eaas.keys.ensure({ name: 'application' })
  const sealed: { text: string; envelope: Awaited<ReturnType<typeof eaas.encrypt>> }[] = []
  const errors: string[] = []
  let isOver = false
  const running = (async () => {
    for (let n = 0; !isOver; n++) {
      const text = `row ${n}`
      await eaas.encrypt(text, { keyId, dek: 'record', context: { row: String(n) } }).then(
        (envelope) => sealed.push({ text, envelope }),
        (error) => errors.push(error.code),
      )
      await sleep(200)
    }
  })()
  return async () => {
    isOver = true
    await running
    const reader = createClient({ baseUrl: baseUrl(), apiKey })
    const lost: string[] = []
    for (const { text, envelope } of sealed) {
      const row = text.replace('row ', '')
      const opened = await reader.decryptText(envelope, { context: { row } }).catch((error) => error.code)
      if (opened !== text) lost.push(`${text}: ${opened}`)
    }
    return { rows: sealed.length, errors, lost }
  }
}

describe.runIf(programs)('synchronous replication', () => {
  let cluster: Cluster
  let tenant: Awaited<ReturnType<typeof createTenantInProcess>>
  /** One server has the nodes in its URL, the other reaches them through haproxy. */
  const servers: EaasProcess[] = []
  const environment = () => ({ EAAS_CHECKPOINT_FILE: join(cluster.folder, 'checkpoints') })

  beforeAll(async () => {
    if (!programs) return
    cluster = await startCluster(programs, { nodes: 3 })
    await createEaasDatabase(cluster)
    tenant = await createTenantInProcess({ database: pgDatabase(cluster.hostsUrl()) }, 'acme')
    for (const url of [cluster.hostsUrl(), cluster.proxyUrl()]) {
      const own = { ...environment(), EAAS_PORT: String(await freePort()), EAAS_DRAIN_SECONDS: '8' }
      servers.push(await startEaas({ database: pgDatabase(url), environment: own }))
    }
  }, START_MS)
  afterAll(async () => {
    await Promise.all(servers.map((server) => server.kill9()))
    await cluster?.remove()
  }, START_MS)

  /** Has clients call at each URL while something happens, then checks what they were told. */
  async function underLoad(
    what: string,
    targets: Record<string, () => string>,
    happen: (served: () => Promise<void>) => Promise<void>,
  ): Promise<void> {
    const { secret } = tenant.api_key
    const loads = await Promise.all(
      Object.values(targets).map((target) => startLoad({ target, secret, clients: CLIENTS, pauseMs: () => PAUSE_MS })),
    )
    const [firstTarget = () => ''] = Object.values(targets)
    const endApplication = await startApplication(firstTarget, secret)
    const gaps = loads.map(watchGap)
    const served = async () => {
      const before = loads.map((load) => load.acked())
      await expect
        .poll(() => loads.every((load, at) => load.acked() > (before[at] ?? 0) + CLIENTS), { timeout: 120_000 })
        .toBe(true)
    }
    await sleep(CALM_MS)
    await happen(served)
    await served()
    await sleep(CALM_MS)
    const outages = gaps.map((gap) => gap())
    await Promise.all(loads.map((load) => load.stop()))
    const application = await endApplication()
    const leader = await cluster.leader()
    const sql = postgres(cluster.urlOf(leader), { max: 1 })
    try {
      for (const [at, load] of loads.entries()) {
        const url = Object.values(targets)[at]?.() ?? ''
        const mostUnacknowledged = load.failures() + 2 * CLIENTS
        const options = { tenant_id: tenant.tenant_id, rootKey: ROOT_KEY, load, url, secret, mostUnacknowledged }
        expect((await checkInvariants(sql, options)).violations).toEqual([])
      }
    } finally {
      await sql.end()
    }
    expect(application.lost).toEqual([])
    for (const command of [
      ['audit', 'verify', '--all'],
      ['doctor', '--json'],
    ]) {
      const options = { database: pgDatabase(cluster.hostsUrl()), rootKey: ROOT_KEY, environment: environment() }
      const { code, stdout, stderr } = await runCommand(command, options)
      expect([command, code, code === 0 ? '' : stdout + stderr]).toEqual([command, 0, ''])
    }
    for (const { url, stderr } of servers) {
      const health = async () => {
        const { status, detail } = await (await fetch(`${url}/health`)).json()
        return [status, detail]
      }
      // A job that failed in the outage is tried again within minutes.
      await expect.poll(health, { timeout: 180_000, interval: 1_000 }).toEqual(['healthy', undefined])
      expect(stderr).not.toContain('the audit chain is broken')
    }
    const numbers = Object.keys(targets).map((name, at) => {
      const { acked, failures } = loads[at] as Load
      return `${name}: ${acked()} calls acknowledged, 0 lost, ${failures()} failed, ${outages[at]?.toFixed(1)} s without an answer`
    })
    const seen = [...new Set(application.errors)].join(', ')
    console.log(
      `${what}\n  ${numbers.join('\n  ')}\n  SDK: ${application.rows} rows, ${application.errors.length} errors (${seen})`,
    )
  }

  const direct = { 'hosts in the URL': () => servers[0]?.url ?? '', haproxy: () => servers[1]?.url ?? '' }

  it('loses nothing when the leader is killed', async () => {
    await underLoad('kill -9 of the leader', direct, async (served) => {
      const old = await cluster.leader()
      await cluster.kill9(old)
      await cluster.leader(old)
      await served()
      cluster.start(old)
      await cluster.whole()
    })
  })

  it('loses nothing when the leader stands still and wakes as one that was deposed', async () => {
    await underLoad('SIGSTOP of the leader, later SIGCONT', direct, async (served) => {
      const old = await cluster.leader()
      cluster.freeze(old)
      await cluster.leader(old)
      await served()
      cluster.thaw(old)
      await cluster.whole()
      expect(await cluster.isPrimary(old)).toBe(false)
    })
  })

  it('loses nothing in a planned switchover', async () => {
    await underLoad('patronictl switchover', direct, async (served) => {
      const old = await cluster.leader()
      await cluster.patronictl('switchover', 'eaas', '--leader', old.name, '--force')
      await cluster.leader(old)
      await served()
      await cluster.whole()
    })
  })

  it.each(['haproxy', 'nginx'] as const)(
    'loses nothing when servers restart one after another behind %s',
    async (name) => {
      const port = await freePort()
      const ports = servers.map(({ url }) => new URL(url).port)
      const isHaproxy = name === 'haproxy'
      const config = isHaproxy ? haproxyConfig(port, ports) : nginxConfig(port, ports, cluster.folder)
      const file = cluster.writeOwn(join(cluster.folder, `${name}.conf`), config)
      const options = isHaproxy ? ['-db', '-f', file] : ['-c', file, '-e', 'stderr', '-g', 'daemon off;']
      cluster.run(name, programs?.[name] ?? '', options)
      const url = `http://127.0.0.1:${port}`
      await cluster.until('a proxy', () =>
        fetch(`${url}/health`).then(
          ({ ok }) => ok,
          () => false,
        ),
      )
      await underLoad(`rolling restart behind ${name}`, { [name]: () => url }, async (served) => {
        for (const server of servers) {
          expect((await server.stop()).code).toBe(0)
          await server.start()
          await sleep(7_000) // haproxy takes it in again after three checks
          await served()
        }
      })
    },
  )
})

// Two nodes, of which one has not received the newest changes when the other dies: what the guides say recovers them.
describe.runIf(programs)('asynchronous replication', () => {
  it('raises alarms about what a failover lost, and the pages bring it back', async () => {
    if (!programs) return
    const settings = (text: string) =>
      text
        .replace(/synchronous_mode: true\n +synchronous_mode_strict: true/, 'synchronous_mode: false')
        .replace('use_pg_rewind: true', 'use_pg_rewind: false')
    const cluster = await startCluster(programs, { nodes: 2, settings })
    const servers: EaasProcess[] = []
    try {
      await createEaasDatabase(cluster)
      const database = pgDatabase(cluster.hostsUrl())
      const environment = { EAAS_CHECKPOINT_FILE: join(cluster.folder, 'checkpoints') }
      const tenants = []
      for (const name of ['acme', 'globex']) tenants.push(await createTenantInProcess({ database, environment }, name))
      for (const url of [cluster.hostsUrl(), cluster.proxyUrl()])
        servers.push(await startEaas({ database: pgDatabase(url), environment }))
      const url = servers[0]?.url ?? ''
      const owners = tenants.map(({ api_key }) => callsOf(api_key.secret))
      const stolen: { id: string; secret: string }[] = []
      const keys: { id: string }[] = []
      for (const owner of owners) {
        stolen.push((await owner(url, 'POST', '/v1/api-keys', { name: 'stolen', permissions: ['keys:read'] })).body)
        keys.push((await owner(url, 'POST', '/v1/keys', { name: 'kept' })).body)
      }
      const old = await cluster.leader()
      const [standby] = cluster.nodes.filter((node) => node !== old)
      if (!standby) throw new Error('no standby')
      const follower = postgres(cluster.urlOf(standby), { max: 1 })
      await cluster.until('the newest key on the standby', async () => {
        const [row] = await follower`select from keys where key_id = ${keys[1]?.id ?? ''}`
        return row !== undefined
      })

      // Patroni would connect the standby again.
      cluster.freezePatroni(standby)
      await follower`alter system set primary_conninfo = ''`
      await follower`select pg_reload_conf()`
      await cluster.until(
        'a standby without WAL',
        async () => (await follower`select from pg_stat_wal_receiver`).length === 0,
      )
      for (const [at, owner] of owners.entries()) {
        const revoked = await owner(url, 'DELETE', `/v1/api-keys/${stolen[at]?.id}`)
        const disabled = await owner(url, 'DELETE', `/v1/keys/${keys[at]?.id}`)
        const created = await owner(url, 'POST', '/v1/keys', { name: 'lost' })
        expect([revoked.status, disabled.status, created.status]).toEqual([204, 204, 201])
      }
      await cluster.kill9(old)
      await follower`alter system reset primary_conninfo`
      await follower.end()
      cluster.thaw(standby)
      await cluster.leader(old)

      // The alarm, at both servers.
      for (const server of servers) {
        await expect
          .poll(async () => (await (await fetch(`${server.url}/health`)).json()).database, { timeout: 120_000 })
          .toBe('alarm')
        for (const owner of owners) {
          const { status, body } = await owner(server.url, 'POST', '/v1/keys', { name: 'refused' })
          expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
        }
      }
      const from = performance.now()
      const run = async (args: string[], from = database) =>
        runCommand(args, { database: from, rootKey: ROOT_KEY, environment })
      await sleep(2_000) // as the page says

      // The guide's commands for the old node, which start a copy of its data.
      const [abandoned, socket] = [join(cluster.folder, 'abandoned'), await freePort()]
      const shell = shellOf('high-availability.md', 'standby.signal')
        .join('\n')
        .replaceAll('/var/lib/postgresql/abandoned', abandoned)
        .replaceAll('/var/lib/postgresql/data', join(old.folder, 'data'))
        .replaceAll('5499', String(socket))
        .replace(/^systemctl .*\n/m, '')
        .replace('runuser -u postgres -- ', '') // the cluster's shell is that of its user already
      await cluster.shell(shell)
      const copy = { ...pgDatabase(cluster.urlOf({ port: socket })) }
      const exports = new Map<string, string>()
      for (const name of ['acme', 'globex']) {
        const file = join(cluster.folder, `${name}-old.ndjson`)
        const own = { EAAS_CHECKPOINT_FILE: 'none' }
        const { code, stderr } = await runCommand(['audit', 'export', '--tenant', name, '--out', file], {
          database: copy,
          rootKey: ROOT_KEY,
          environment: own,
        })
        expect([code, code === 0 ? '' : stderr]).toEqual([0, ''])
        exports.set(name, file)
      }
      await Promise.all(servers.map((server) => server.stop()))
      const found = await run(['audit', 'diff', '--all', '--json'])
      const diff = join(cluster.folder, 'diff.json')
      writeFileSync(diff, found.stdout)
      const done = async (...args: string[]) => {
        const { code, stdout, stderr } = await run(args)
        console.log(stdout.trim())
        expect([args, code, code === 0 ? '' : stderr]).toEqual([args, 0, ''])
      }
      await done('accept', 'rollback', '--all', '--from-diff', diff, '--reason', 'a failover')
      for (const [at, [name, file]] of [...exports].entries()) {
        const lost = await run(['audit', 'diff', '--tenant', name, '--export', file, '--json'])
        const changes = JSON.parse(lost.stdout).undone.map(({ change }: { change: string }) => change)
        expect(changes).toEqual(['api_key.revoke', 'key.disable', 'key.create'])
        await done('api-key', 'revoke', stolen[at]?.id ?? '', '--tenant', name)
        await done('key', 'disable', keys[at]?.id ?? '', '--tenant', name)
      }
      await Promise.all(servers.map((server) => server.start()))
      for (const server of servers) {
        for (const [at, owner] of owners.entries()) {
          expect((await callsOf(stolen[at]?.secret ?? '')(server.url, 'GET', '/v1/keys')).status).toBe(401)
          const dek = Buffer.alloc(32, 1).toString('base64')
          expect((await owner(server.url, 'POST', `/v1/keys/${keys[at]?.id}/wrap`, { dek })).status).toBe(409)
          expect((await owner(server.url, 'POST', '/v1/keys', { name: `again at ${server.url}` })).status).toBe(201)
        }
        expect(await (await fetch(`${server.url}/health`)).json()).toMatchObject({ status: 'healthy' })
      }
      console.log(`recovered ${((performance.now() - from) / 1_000).toFixed(0)} s after the alarm`)
      expect((await run(['audit', 'verify', '--all'])).code).toBe(0)

      // Without pg_rewind the old node keeps what was lost, and follows nobody, until it is copied anew.
      cluster.start(old)
      await cluster.until('the old node', async () => (await cluster.membersNow()).length === 2)
      await sleep(15_000)
      const members = await cluster.membersNow()
      expect(members).toContainEqual(expect.objectContaining({ name: old.name, role: 'replica', timeline: 1 }))
      expect(members).toContainEqual(expect.objectContaining({ name: standby.name, role: 'leader', timeline: 2 }))
      await cluster.patronictl('reinit', 'eaas', old.name, '--force', '--wait')
      await cluster.whole()
    } finally {
      await Promise.all(servers.map((server) => server.kill9()))
      await cluster.remove()
    }
  })
})
