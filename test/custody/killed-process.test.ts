// kill -9 of the command that rotates the store key, and of a server beside it, under load: real processes, where killed.test.ts has
// a failing statement. What was acknowledged stays, every log verifies, and the next command finishes what was begun.
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { checkInvariants } from '../faults/invariants.js'
import { backend } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { rounds } from '../support/run/rounds.js'
import { connectTo, ROOT_KEY, runEaas, startEaas } from '../support/service/eaas-process.js'
import { startLoad } from '../support/service/load.js'

const CLIENTS = 4
const KILLS = rounds(3, 60)
/** A command takes about this long, in milliseconds, once its store key has the age to seal. */
const LONGEST_MS = 2_500
/** In this time the server has read a new store key: it reads them once a second. */
const READ_MS = 2_000
/** One kill in this many is the server's too. */
const KILLED_SERVER = 3

describe('a rotation of the store key whose command is killed', () => {
  it('loses nothing that was acknowledged, and is finished by the next command', { timeout: 1_200_000 }, async () => {
    const { database, tenant_id, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database })
    let url: string | undefined = eaas.url
    const load = await startLoad({ target: () => url, secret: api_key.secret, clients: CLIENTS, pauseMs: () => 10 })
    /** Has a new store key be as old as one that every process has read. A server that is slow now answers 503 instead. */
    const age = async () => {
      const sql = connectTo(database)
      await sql`
        update store_keys set created_at = created_at - interval '1 minute'
        where created_at < now() - make_interval(secs => ${READ_MS / 1_000}::float8)`.finally(() => sql.end())
    }
    const seen = new Set<number | null>()
    let killedServers = 0
    for (let kill = 1; kill <= KILLS; kill++) {
      const command = runEaas(['store-key', 'rotate'], { database }, { killAfterMs: randomInt(200, LONGEST_MS) })
      if (kill % KILLED_SERVER === 0) {
        await sleep(randomInt(LONGEST_MS))
        url = undefined
        await eaas.kill9()
        // A command that finds no server opens an embedded database itself, and holds it until it ends.
        if (backend() === 'embedded') await command
        await eaas.start()
        url = eaas.url
        killedServers += 1
      }
      seen.add((await command).code)
      await sleep(READ_MS)
      await age()
    }
    // A command on the embedded database ends when its server is killed.
    expect([...seen]).toContain(null)
    const aging = setInterval(() => void age().catch(() => undefined), 500)
    const { code, stderr } = await runEaas(['store-key', 'rotate'], { database }).finally(() => clearInterval(aging))
    expect([code, stderr]).toEqual([0, expect.any(String)])
    await sleep(READ_MS)
    await load.stop()
    expect(load.wraps.length).toBeGreaterThan(CLIENTS)

    const sql = connectTo(database)
    try {
      expect(await sql`select count(*)::int as n from store_keys`).toEqual([{ n: 1 }])
      const { violations } = await checkInvariants(sql, {
        tenant_id,
        rootKey: ROOT_KEY,
        load,
        url: eaas.url,
        secret: api_key.secret,
        mostUnacknowledged: killedServers * CLIENTS,
      })
      expect(violations).toEqual([])
    } finally {
      await sql.end()
      await eaas.stop()
    }
    console.log(
      `kill -9 of a rotation (${backend()}): ${KILLS} commands, ${killedServers} servers, ${load.acked()} calls`,
    )
  })
})
