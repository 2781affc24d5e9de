// A graceful stop: SIGTERM under load, as a rolling restart sends it.
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { connectTo, ROOT_KEY, startEaas } from '../support/service/eaas-process.js'
import { type LedgerEntry, startLoad } from '../support/service/load.js'
import { startServer } from '../support/service/server.js'
import { checkInvariants } from './invariants.js'

const CLIENTS = 16
/** The service promises to end within this time after SIGTERM. */
const STOP_MS = 10_000
const ENOUGH_CALLS = 150

/** Under load until SIGTERM; the clients go on sending afterwards or not. */
async function stopUnderLoad({ sendOn }: { sendOn: boolean }) {
  const { database, tenant_id, api_key } = await databaseWithTenant()
  const eaas = await startEaas({ database })
  let url: string | undefined = eaas.url
  const load = await startLoad({ target: () => url, secret: api_key.secret, clients: CLIENTS })
  // A client's first call opens its connection, and the system resets one that arrives in the instant of the close (stopListening).
  const isAnswered = (calls: readonly LedgerEntry[]) => calls.some(({ state }) => state === 'acked')
  while (load.acked() < ENOUGH_CALLS || ![...load.ledgers.values()].every(isAnswered)) await sleep(20)

  if (!sendOn) url = undefined
  const from = performance.now()
  const { code, stderr } = await eaas.stop()
  const stopMs = performance.now() - from
  url = undefined
  await load.stop()
  const unanswered = [...load.ledgers.values()].flat().filter(({ state }) => state === 'sent').length

  const server = await startServer({ database, rootKey: ROOT_KEY })
  const sql = connectTo(database)
  try {
    const used = [...load.ledgers].filter(([, calls]) => isAnswered(calls)).map(([id]) => id)
    const unknownUses = await sql`
      select 1 from api_keys where api_key_id = any(${used}::uuid[]) and last_used_at is null`
    const { violations } = await checkInvariants(sql, {
      tenant_id,
      rootKey: ROOT_KEY,
      load,
      url: server.url,
      secret: api_key.secret,
      mostUnacknowledged: sendOn ? CLIENTS : 0,
    })
    return { code, stderr, stopMs, unanswered, unknownUses: unknownUses.length, violations, failures: load.failures() }
  } finally {
    await sql.end()
    await server.stop()
  }
}

describe('a server that is told to stop', () => {
  it('writes the counts of calls without an entry, though their time had not come', { timeout: 60_000 }, async () => {
    const { database, tenant_id, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database })
    const headers = { authorization: `Bearer ${api_key.secret}`, 'content-type': 'application/json' }
    const post = (path: string, body: object) =>
      fetch(`${eaas.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const { key_id } = (await (await post('/v1/keys', { name: 'counted' })).json()) as { key_id: string }
    for (const value of ['a', 'b', 'c']) expect((await post('/v1/hash', { key_id, value })).status).toBe(200)
    await eaas.stop()
    const server = await startServer({ database, rootKey: ROOT_KEY })
    const sql = connectTo(database)
    try {
      const counts = await sql`select api_key_id, kind, calls::int from unrecorded_calls where tenant_id = ${tenant_id}`
      expect(counts).toEqual([{ api_key_id: api_key.id, kind: 'hash', calls: 3 }])
    } finally {
      await sql.end()
      await server.stop()
    }
  })
})

describe('a server that is told to stop under load', () => {
  it('answers every call that is under way, and ends with exit code 0', { timeout: 120_000 }, async () => {
    const { code, stderr, stopMs, unanswered, unknownUses, violations, failures } = await stopUnderLoad({
      sendOn: false,
    })
    expect([code, stderr]).toEqual([0, expect.any(String)])
    expect({ unanswered, failures, violations }).toEqual({ unanswered: 0, failures: 0, violations: [] })
    expect(unknownUses).toBe(0) // when the API keys were last used is written too, though the minute was not over
    expect(stopMs).toBeLessThan(STOP_MS)
  })

  it('ends with exit code 0 though clients go on sending, and all that it acknowledged stands', {
    timeout: 120_000,
  }, async () => {
    const { code, stderr, stopMs, violations, failures } = await stopUnderLoad({ sendOn: true })
    expect([code, stderr]).toEqual([0, expect.any(String)])
    expect({ failures, violations }).toEqual({ failures: 0, violations: [] })
    expect(stopMs).toBeLessThan(STOP_MS)
  })
})
