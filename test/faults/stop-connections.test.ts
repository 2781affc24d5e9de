// Stopping while clients hold connections open: clients that send nothing, stall or never read do not delay the stop.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { connectTo, type EaasProcess, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { startService } from '../support/service/service.js'

/** The most that a stop without calls under way may take. */
const AT_ONCE_MS = 3_000
/** The most that any stop may take, as the service promises. */
const STOP_MS = 10_000
const TIMEOUT_MS = 120_000

/** Connects and sends a text; resolves when it is sent. The connection reads nothing. */
async function say(url: string, text: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  await new Promise<void>((resolve) => socket.once('connect', resolve))
  if (text !== '') await new Promise<void>((resolve) => socket.write(text, () => resolve()))
  await sleep(200)
  return socket
}

const head = (method: string, path: string, secret: string) =>
  `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${secret}\r\n`

async function started(): Promise<{ eaas: EaasProcess; database: TestDatabase; secret: string }> {
  const { database, api_key } = await databaseWithTenant()
  // Without a checkpoint file, a server on PostgreSQL warns when it starts.
  const folder = mkdtempSync(join(tmpdir(), 'eaas-stop-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const environment = { EAAS_CHECKPOINT_FILE: join(folder, 'checkpoints') }
  return { eaas: await startEaas({ database, environment }), database, secret: api_key.secret }
}

async function expectCleanStop({ eaas, database }: { eaas: EaasProcess; database: TestDatabase }, withinMs: number) {
  const from = performance.now()
  const { code, stderr } = await eaas.stop()
  expect([code, stderr]).toEqual([0, ''])
  expect(performance.now() - from).toBeLessThan(withinMs)
  if (database.backend === 'postgres') return
  expect(readdirSync(database.dataDir).filter((name) => /^alive-|PGSQL/.test(name))).toEqual([])
}

describe('a server that is told to stop', () => {
  it('does not wait for connections without a call', { timeout: TIMEOUT_MS }, async () => {
    const running = await started()
    await say(running.eaas.url, '')
    await say(running.eaas.url, `${head('GET', '/v1/keys', running.secret)}\r\n`) // answered, and kept alive
    await expectCleanStop(running, AT_ONCE_MS)
  })

  it('waits for calls whose head or body stalls no longer than it may', { timeout: TIMEOUT_MS }, async () => {
    const running = await started()
    await say(running.eaas.url, 'GET /v1/keys HTTP/1.1\r\nHost:')
    const headers = 'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{'
    await say(running.eaas.url, head('POST', '/v1/keys', running.secret) + headers)
    await expectCleanStop(running, STOP_MS)
  })

  it('waits for who does not read his answer no longer than it may', { timeout: TIMEOUT_MS }, async () => {
    const running = await started()
    const call = callsOf(running.secret)
    const { body: key } = await call(running.eaas.url, 'POST', '/v1/keys', { name: 'k' })
    const wrap = { op: 'wrap', key_id: key.id, dek: Buffer.alloc(32, 5).toString('base64') }
    const operations = Array.from({ length: 1_000 }, () => wrap)
    for (let round = 0; round < 5; round++) await call(running.eaas.url, 'POST', '/v1/batch', { operations })
    // Five pages of 4 MB: more than the kernel takes for a reader that does not read. An export has entries as they stand.
    const sql = connectTo(running.database)
    await sql`update audit_log set metadata = repeat('x', 4000) where action = 'key.wrap' and id between 100 and 4900`
    await sql.end()
    const reader = await say(running.eaas.url, `${head('GET', '/v1/audit/export', running.secret)}\r\n`)
    reader.pause()
    await expectCleanStop(running, STOP_MS)
  })

  it('answers the call that is under way, though a silent connection is there too', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const running = await started()
    await say(running.eaas.url, '')
    const answer = callsOf(running.secret)(running.eaas.url, 'POST', '/v1/keys', { name: 'last' })
    await sleep(20)
    await expectCleanStop(running, AT_ONCE_MS)
    expect((await answer).status).toBe(201)
  })
})

describe('an application that is closed', () => {
  it('does not wait for a connection that never spoke', async () => {
    const service = await startService()
    await say(service.url, '')
    const from = performance.now()
    await service.close()
    expect(performance.now() - from).toBeLessThan(AT_ONCE_MS)
  })
})
