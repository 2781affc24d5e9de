// EAAS_DRAIN_SECONDS: a stopping server first reports itself unhealthy, and serves until the balancer must have noticed.
// The long form, behind haproxy, is slow/drain.test.ts.
import { spawnSync } from 'node:child_process'
import { mkdtemp, rename } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { backend, freshDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { makeFullPipe } from '../support/full-pipe.js'
import { EAAS, environmentOf, startEaas, untilHealthy } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { restartRolling } from './rolling-restart.js'
import { startTcpBalancer } from './tcp-balancer.js'

const TIMEOUT_MS = 180_000

async function draining() {
  const { database, api_key } = await databaseWithTenant()
  const eaas = await startEaas({ database, environment: { EAAS_DRAIN_SECONDS: '6' } })
  const call = callsOf(api_key.secret)
  await untilHealthy(eaas)
  const ended = eaas.stop()
  await expect.poll(async () => (await fetch(`${eaas.url}/health`)).status, { timeout: 20_000 }).toBe(503)
  return { eaas, call, ended }
}

/** Runs a program on a terminal, sends it SIGHUP once it listens, and prints its exit code. */
const ON_TERMINAL = `
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0: os.execv(sys.argv[1], sys.argv[1:])
shown = b''
while b'Database:' not in shown: shown += os.read(terminal, 65536)
os.kill(child, signal.SIGHUP)
while True:
    try:
        if not os.read(terminal, 65536): break
    except OSError: break
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
`

describe('a server that drains', { timeout: TIMEOUT_MS }, () => {
  it('says so on /health, goes on serving, asks clients to connect anew, and ends with code 0', async () => {
    const { eaas, call, ended } = await draining()
    const health = await fetch(`${eaas.url}/health`)
    expect(health.headers.get('connection')).toBe('close')
    expect(await health.json()).toMatchObject({ status: 'degraded', database: 'up', detail: 'the server is stopping' })
    expect((await call(eaas.url, 'POST', '/v1/keys', { name: 'while draining' })).status).toBe(201)
    expect((await ended).code).toBe(0)
  })

  it('ends at once at a second signal', async () => {
    const database = await freshDatabase('drain', { migrated: true })
    const eaas = await startEaas({ database, environment: { EAAS_DRAIN_SECONDS: '3600' } })
    process.kill(eaas.pid, 'SIGINT')
    await expect.poll(async () => (await fetch(`${eaas.url}/health`)).status, { timeout: 20_000 }).toBe(503)
    await eaas.stop()
  })

  it('ends in its time also where the file of checkpoints takes nothing, for which Node would wait', async () => {
    const file = join(await mkdtemp(join(tmpdir(), 'drain-')), 'checkpoints')
    const { database, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database, environment: { EAAS_CHECKPOINT_FILE: file } })
    await untilHealthy(eaas)
    // Put in its place at once: the server makes a file that is missing.
    const reader = await makeFullPipe(`${file}.pipe`)
    onTestFinished(() => reader.close())
    await rename(`${file}.pipe`, file)
    expect((await callsOf(api_key.secret)(eaas.url, 'POST', '/v1/keys', { name: 'not in the file' })).status).toBe(201)
    expect((await eaas.stop()).code).toBeNull() // killed by itself
  })

  it('ends at SIGHUP on a terminal, as that sends it when it is closed, and elsewhere reads its files again', async () => {
    const database = await freshDatabase('drain', { migrated: true })
    const program = [process.execPath, EAAS, 'start']
    const { stdout } = spawnSync('python3', ['-c', ON_TERMINAL, ...program], {
      encoding: 'utf8',
      env: environmentOf({ database }),
    })
    expect(stdout).toBe('0\n')
    const eaas = await startEaas({ database })
    process.kill(eaas.pid, 'SIGHUP')
    await expect.poll(() => eaas.stderr).toContain('reloaded at SIGHUP')
    process.kill(eaas.pid, 'SIGHUP')
    await untilHealthy(eaas)
    expect((await eaas.stop()).code).toBe(0)
  })

  it('answers a call whose first byte had arrived when it closed', async () => {
    const { database, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database })
    const socket = connect(Number(new URL(eaas.url).port), '127.0.0.1')
    await new Promise<void>((resolve) => socket.once('connect', resolve))
    let answer = ''
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    socket.setEncoding('utf8').on('data', (text) => {
      answer += text
    })
    socket.on('error', (error) => {
      answer += error.message
    })
    socket.write('G')
    await sleep(200) // it has arrived
    const ended = eaas.stop()
    // Refused connections show that it has begun to close.
    await expect
      .poll(
        () =>
          fetch(`${eaas.url}/health`).then(
            () => 'open',
            () => 'closed',
          ),
        { timeout: 5_000, interval: 20 },
      )
      .toBe('closed')
    socket.write(`ET /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${api_key.secret}\r\n\r\n`)
    await closed
    expect(answer).toMatch(/^HTTP\/1\.1 200 /)
    expect((await ended).code).toBe(0)
  })
})

describe('a server that stops without a drain', { timeout: TIMEOUT_MS }, () => {
  it('resets no call of clients that send one after the other without a pause', async () => {
    const { database, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database })
    const failures: string[] = []
    let answered = 0
    const client = async () => {
      const call = callsOf(api_key.secret)
      for (;;) {
        const answer = await call(eaas.url, 'GET', '/v1/keys').catch((error) => error)
        if (answer.status === 200) answered += 1
        else if (answer.syscall === 'connect')
          return // refused, or reset before it was there
        else return void failures.push(answer.message ?? JSON.stringify(answer))
      }
    }
    const clients = Array.from({ length: 24 }, client)
    await expect.poll(() => answered, { timeout: 20_000 }).toBeGreaterThan(500)
    const ended = eaas.stop()
    await Promise.all(clients)
    expect({ failures, code: (await ended).code }).toEqual({ failures: [], code: 0 })
  })
})

describe.skipIf(backend() === 'embedded')('a rolling restart behind an L4 balancer without retry', () => {
  it('fails no call', { timeout: TIMEOUT_MS }, async () => {
    const { made, failures, codes } = await restartRolling({
      drainSeconds: 4,
      calls: 500,
      pauseMs: 150,
      startBalancer: (servers) => startTcpBalancer(servers, 500),
    })
    expect({ failures, codes }).toEqual({ failures: [], codes: [0, 0] })
    expect(made).toBeGreaterThanOrEqual(500)
  })
})
