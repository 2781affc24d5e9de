// A rolling restart of two servers on one PostgreSQL behind a balancer, as clients see it.
import { setTimeout as sleep } from 'node:timers/promises'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { freePort } from '../support/database/postgres.js'
import { createTenantInProcess, type EaasProcess, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import type { Balancer } from './tcp-balancer.js'

const CLIENTS = 8
/** A balancer may send calls to a killed server until it notices that the connections are closed. */
const UNNOTICED_MS = 100

export interface RollingRestart {
  drainSeconds: number
  /** the least number of calls to make */
  calls: number
  /** how long each of the eight clients waits after a call, in milliseconds */
  pauseMs: number
  /** whose calls these are, in turn: many for a balancer that sends each to one server */
  tenants?: number
  /** by SIGKILL, in place of SIGTERM and a drain */
  isKilled?: boolean
  startBalancer: (servers: string[]) => Promise<Balancer>
}

/**
 * Restarts each server once under load; returns how many calls were made, how many of those failed that were under way
 * when a server was killed, and what became of the others that failed.
 */
export async function restartRolling(options: RollingRestart) {
  const { drainSeconds, calls, pauseMs, tenants: count = 1, isKilled = false, startBalancer } = options
  const { database, api_key } = await databaseWithTenant()
  const secrets = [api_key.secret]
  while (secrets.length < count) {
    secrets.push((await createTenantInProcess({ database }, `tenant ${secrets.length}`)).api_key.secret)
  }
  const servers: EaasProcess[] = []
  for (let at = 0; at < 2; at++) {
    // A port of its own, which a server keeps when it starts again, as the balancer knows it.
    const environment = { EAAS_DRAIN_SECONDS: String(drainSeconds), EAAS_PORT: String(await freePort()) }
    servers.push(await startEaas({ database, environment }))
  }
  const balancer = await startBalancer(servers.map(({ url }) => url))
  const failures: string[] = []
  /** With whether a server was killed meanwhile. Killing one takes a moment. */
  const underWay = new Set<{ metKill: boolean }>()
  let isDying = false
  let lost = 0
  let made = 0
  let isOver = false
  const dek = Buffer.alloc(32, 1).toString('base64')
  const tenants = await Promise.all(
    secrets.map(async (secret) => {
      const { body } = await callsOf(secret)(balancer.url, 'POST', '/v1/keys', { name: 'k' })
      return { secret, path: `/v1/keys/${body.id}/wrap` }
    }),
  )

  // Half of the clients keep their connection, the others make a new one for each call.
  const client = async (at: number) => {
    const kept = tenants.map(({ secret }) => callsOf(secret))
    for (let turn = at; !isOver || made < calls; turn += CLIENTS) {
      const { secret, path } = tenants[turn % count] as (typeof tenants)[number]
      const call = (at % 2 === 1 && kept[turn % count]) || callsOf(secret)
      made += 1
      const sent = { metKill: isDying }
      underWay.add(sent)
      const answer = await call(balancer.url, 'POST', path, { dek }).catch((error) => error)
      underWay.delete(sent)
      if (answer.status !== 200 && sent.metKill) lost += 1
      else if (answer.status !== 200) failures.push(answer.message ?? JSON.stringify(answer))
      await sleep(pauseMs)
    }
  }
  const running = Promise.all(Array.from({ length: CLIENTS }, (_, at) => client(at)))
  const codes: (number | null)[] = []
  try {
    for (const server of servers) {
      isDying = isKilled
      for (const sent of underWay) sent.metKill ||= isKilled
      codes.push(isKilled ? await server.kill9().then(() => null) : (await server.stop()).code)
      if (isKilled) await sleep(UNNOTICED_MS)
      isDying = false
      await server.start()
      while (!(await hasTraffic(server))) await sleep(100) // the balancer sends calls there again
    }
  } finally {
    isOver = true
    await running
    balancer.close()
    await Promise.all(servers.map((server) => server.kill9()))
  }
  return { made, lost, failures, codes }
}

async function hasTraffic({ url }: EaasProcess): Promise<boolean> {
  return (await (await fetch(`${url}/metrics`)).text()).includes('route="/v1/keys/:id/wrap",status="200"')
}
