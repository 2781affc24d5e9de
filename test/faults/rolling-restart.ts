// A rolling restart of two servers on one PostgreSQL behind an L4 balancer, as clients see it.
import { setTimeout as sleep } from 'node:timers/promises'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { freePort } from '../support/database/postgres.js'
import { type EaasProcess, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import type { Balancer } from './tcp-balancer.js'

const CLIENTS = 8

export interface RollingRestart {
  drainSeconds: number
  /** the least number of calls to make */
  calls: number
  /** how long each of the eight clients waits after a call, in milliseconds */
  pauseMs: number
  startBalancer: (servers: string[]) => Promise<Balancer>
}

/** Restarts each server once under load; returns how many calls were made, and what became of those that failed. */
export async function restartRolling({ drainSeconds, calls, pauseMs, startBalancer }: RollingRestart) {
  const { database, api_key } = await databaseWithTenant()
  const servers: EaasProcess[] = []
  for (let at = 0; at < 2; at++) {
    // A port of its own, which a server keeps when it starts again, as the balancer knows it.
    const environment = { EAAS_DRAIN_SECONDS: String(drainSeconds), EAAS_PORT: String(await freePort()) }
    servers.push(await startEaas({ database, environment }))
  }
  const balancer = await startBalancer(servers.map(({ url }) => url))
  const failures: string[] = []
  let made = 0
  let isOver = false
  const dek = Buffer.alloc(32, 1).toString('base64')
  const { body: key } = await callsOf(api_key.secret)(balancer.url, 'POST', '/v1/keys', { name: 'k' })

  // Half of the clients keep their connection, the others make a new one for each call.
  const client = async (at: number) => {
    let call = callsOf(api_key.secret)
    while (!isOver || made < calls) {
      if (at % 2 === 0) call = callsOf(api_key.secret)
      made += 1
      const answer = await call(balancer.url, 'POST', `/v1/keys/${key.id}/wrap`, { dek }).catch((error) => error)
      if (answer.status !== 200) failures.push(answer.message ?? JSON.stringify(answer))
      await sleep(pauseMs)
    }
  }
  const running = Promise.all(Array.from({ length: CLIENTS }, (_, at) => client(at)))
  const codes: (number | null)[] = []
  try {
    for (const server of servers) {
      codes.push((await server.stop()).code)
      await server.start()
      while (!(await hasTraffic(server))) await sleep(100) // the balancer sends calls there again
    }
  } finally {
    isOver = true
    await running
    balancer.close()
    await Promise.all(servers.map((server) => server.kill9()))
  }
  return { made, failures, codes }
}

async function hasTraffic({ url }: EaasProcess): Promise<boolean> {
  return (await (await fetch(`${url}/metrics`)).text()).includes('route="/v1/keys/:id/wrap",status="200"')
}
