import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { PGlite } from '@electric-sql/pglite'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { openCreatedCluster } from '../../../../../test/support/created-cluster.js'
import { type EmbeddedSocket, serveOnSocket } from './socket.js'

const IDLE_MS = 600

describe('a client that says nothing within its transaction', { timeout: 60_000 }, () => {
  let folder: string
  let database: PGlite
  let socket: EmbeddedSocket
  const clients: postgres.Sql[] = []

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'eaas-socket-'))
    database = await openCreatedCluster(inject('runDir'))
    const path = join(folder, '.s.PGSQL.5432')
    const never = (error: Error) => {
      throw error
    }
    socket = await serveOnSocket({ database, path, failure: () => undefined, onFailure: never, idleInTurnMs: IDLE_MS })
  })
  afterAll(async () => {
    await Promise.all(clients.map((sql) => sql.end({ timeout: 1 })))
    await socket.close()
    await database.close()
    rmSync(folder, { recursive: true, force: true })
  })

  function client(): postgres.Sql {
    const options = { user: 'postgres', database: 'postgres', max: 1, onnotice: () => undefined }
    const sql = postgres({ ...options, path: join(folder, '.s.PGSQL.5432') } as postgres.Options<Record<string, never>>)
    clients.push(sql as unknown as postgres.Sql)
    return sql as unknown as postgres.Sql
  }

  it('loses its turn in time, however busy the others are', async () => {
    const silent = client()
    const from = performance.now()
    const turn = silent
      .begin(async (transaction) => {
        await transaction`select 1`
        await new Promise((resolve) => setTimeout(resolve, 10 * IDLE_MS))
      })
      .catch((error) => error.code)
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS / 4))
    const asking = []
    for (let at = 0; at < 12; at++) {
      asking.push(client()`select 1`.then(() => performance.now() - from))
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS / 4))
    }
    expect(await asking[0]).toBeLessThan(3 * IDLE_MS)
    await Promise.all(asking)
    expect(['25P03', 'CONNECTION_CLOSED']).toContain(await turn)
  })

  it('keeps its turn for as long as it says something', async () => {
    await client().begin(async (transaction) => {
      for (let at = 0; at < 8; at++) {
        await transaction`select 1`
        await new Promise((resolve) => setTimeout(resolve, IDLE_MS / 3))
      }
    })
  })
})
