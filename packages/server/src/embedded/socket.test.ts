import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { copyCreatedCluster, openCreatedCluster } from '../../../../test/support/database/created-cluster.js'
import { DURABLE_START_PARAMS, DurableNodeFS } from './fsync.js'
import { type EmbeddedSocket, serveOnSocket } from './socket.js'

const IDLE_MS = 600

function connectTo(path: string): postgres.Sql {
  const options = { user: 'postgres', database: 'postgres', max: 1, onnotice: () => undefined, path }
  return postgres(options as postgres.Options<Record<string, never>>) as unknown as postgres.Sql
}

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
    const sql = connectTo(join(folder, '.s.PGSQL.5432'))
    clients.push(sql)
    return sql
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
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS / 2))
    }
    expect(await asking[0]).toBeLessThan(5 * IDLE_MS)
    await Promise.all(asking)
    expect(['25P03', 'CONNECTION_CLOSED']).toContain(await turn)
  })

  it('loses its turn also if it does not read what it asked for', async () => {
    const deaf = connect(join(folder, '.s.PGSQL.5432'))
    await once(deaf, 'connect')
    deaf.pause()
    const startup = Buffer.from('\0\x03\0\0user\0postgres\0database\0postgres\0\0')
    const length = (bytes: Buffer) => Buffer.from(new Uint32Array([bytes.length + 4]).buffer).swap32()
    const query = Buffer.from("begin; select repeat('x', 1000) from generate_series(1, 20000)\0")
    deaf.write(Buffer.concat([length(startup), startup, Buffer.from('Q'), length(query), query]))
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS / 2))
    const from = performance.now()
    await client()`select 1`
    expect(performance.now() - from).toBeLessThan(10 * IDLE_MS + 2_000)
    deaf.destroy()
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

it('rejects a statement of its own during which PGlite throws', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-socket-'))
  const path = join(folder, '.s.PGSQL.5432')
  const broken = new Error('out of memory')
  const database = { execProtocolRawStream: () => Promise.reject(broken) } as unknown as PGlite
  const failures: Error[] = []
  const onFailure = (error: Error) => void failures.push(error)
  const socket = await serveOnSocket({ database, path, failure: () => failures[0], onFailure })
  const rejected = { status: 'rejected', reason: broken }
  expect(await Promise.allSettled([socket.run('vacuum'), socket.run('checkpoint')])).toEqual([rejected, rejected])
  expect(failures).toEqual([broken])
  await socket.close()
  rmSync(folder, { recursive: true, force: true })
})

describe('a database that stops because an fsync failed', { timeout: 60_000 }, () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'eaas-socket-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('acknowledges no commit, disconnects all clients, and refuses new ones with the reason', async () => {
    const cluster = join(folder, 'postgres')
    await copyCreatedCluster(inject('runDir'), cluster)
    const fs = new DurableNodeFS(cluster)
    const database = await PGlite.create({ fs, startParams: [...DURABLE_START_PARAMS] })
    const path = join(folder, '.s.PGSQL.5432')
    const failures: Error[] = []
    const onFailure = (error: Error) => void failures.push(error)
    const socket = await serveOnSocket({ database, path, failure: () => fs.failure, onFailure })
    const [writer, reader, late] = [connectTo(path), connectTo(path), connectTo(path)]
    await writer`create table ledger (n integer primary key)`
    await reader`select 1`

    const { FS } = database.Module
    FS.filesystems.NODEFS.stream_ops.fsync = () => {
      throw new FS.ErrnoError(29) // EIO
    }
    const outcomeOf = (one: PromiseLike<unknown>) => one.then(() => 'done', String)
    const waiting: PromiseLike<string>[] = []
    const committing = writer.begin(async (transaction) => {
      await transaction`insert into ledger values (1)`
      waiting.push(outcomeOf(reader`select n from ledger`), outcomeOf(socket.run('select 1')))
    })
    expect(await outcomeOf(committing)).toMatch(/CONNECTION_CLOSED|ECONNRESET/)
    expect(await Promise.all(waiting)).toEqual([
      expect.stringMatching(/CONNECTION_CLOSED|ECONNRESET/),
      expect.stringContaining('PostgreSQL stopped'),
    ])
    expect(failures).toEqual([fs.failure])
    await expect(late`select 1`).rejects.toMatchObject({ code: '57P02' })
    await expect(socket.run('select 1')).rejects.toThrow('PostgreSQL stopped')

    await Promise.all([writer, reader, late].map((sql) => sql.end({ timeout: 1 })))
    await socket.close()
  })
})
