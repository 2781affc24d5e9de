// A server on a unix socket: who may connect, whose address it sees, and the socket of a process that is gone.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand } from '../support/service/command-host.js'
import { type EaasProcess, startEaas } from '../support/service/eaas-process.js'

let folder: string
let socketPath: string
let database: TestDatabase
let secret: string
let eaas: EaasProcess | undefined

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-socket-'))
  socketPath = join(folder, 'eaas.sock')
  const { database: filled, api_key } = await databaseWithTenant()
  database = filled
  secret = api_key.secret
})
afterEach(async () => {
  await eaas?.stop()
  eaas = undefined
  rmSync(folder, { recursive: true, force: true })
})

// The environment of a test sets a port, which does not go with a socket.
const on = (more: Record<string, string> = {}) => ({ EAAS_SOCKET: socketPath, EAAS_PORT: '', ...more })

function call(
  method: string,
  path: string,
  { headers = {}, body }: { headers?: Record<string, string>; body?: object } = {},
) {
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const authorization = `Bearer ${secret}`
    const sent = request(
      {
        socketPath,
        method,
        path,
        headers: { authorization, ...(body && { 'content-type': 'application/json' }), ...headers },
      },
      (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part
        })
        response.on('end', () => resolve({ status: response.statusCode, body: text }))
      },
    )
    sent.on('error', reject)
    sent.end(body && JSON.stringify(body))
  })
}

async function loggedAddress(headers: Record<string, string>): Promise<unknown> {
  await call('POST', '/v1/keys', { headers, body: { name: `k${Math.random()}` } })
  const { logs } = JSON.parse((await call('GET', '/v1/audit?action=key.create&limit=1')).body)
  return logs[0].ip_address
}

describe('a server on a unix socket', () => {
  it('serves those who may write its file, and removes it when it ends', async () => {
    eaas = await startEaas({ database, environment: on() })
    expect(eaas.url).toBe(`unix:${socketPath}`)
    expect(statSync(socketPath).mode & 0o777).toBe(0o660)
    expect((await call('GET', '/v1/keys')).status).toBe(200)
    await eaas.stop()
    expect(statSync(socketPath, { throwIfNoEntry: false })).toBeUndefined()
  })

  it('gives its file the mode that is set', async () => {
    eaas = await startEaas({ database, environment: on({ EAAS_SOCKET_MODE: '600' }) })
    expect(statSync(socketPath).mode & 0o777).toBe(0o600)
  })

  it('takes over the socket of a process that was killed', async () => {
    eaas = await startEaas({ database, environment: on() })
    await eaas.kill9()
    expect(statSync(socketPath).isSocket()).toBe(true)
    await eaas.start()
    expect((await call('GET', '/v1/keys')).status).toBe(200)
  })

  it('refuses the socket of a living process, which goes on', async () => {
    eaas = await startEaas({ database, environment: on() })
    const another = await databaseWithTenant()
    const { code, stderr } = await runCommand(['start'], { database: another.database, environment: on() })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/another process listens there/)])
    expect((await call('GET', '/v1/keys')).status).toBe(200)
  })

  it('removes nothing that is no socket', async () => {
    writeFileSync(socketPath, 'a file')
    const { code, stderr } = await runCommand(['start'], { database, environment: on() })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/it is no socket/)])
    expect(statSync(socketPath).size).toBe(6)
  })

  it('knows no address of its callers, and believes no header', async () => {
    eaas = await startEaas({ database, environment: on({ EAAS_TRUST_PROXY: '10.0.0.0/8' }) })
    expect(await loggedAddress({})).toBe('unknown')
    expect(await loggedAddress({ 'x-forwarded-for': '203.0.113.9' })).toBe('unknown')
  })

  it('believes the proxy on it where unix is trusted, and beyond it those that are named', async () => {
    eaas = await startEaas({ database, environment: on({ EAAS_TRUST_PROXY: 'unix,10.0.0.0/8' }) })
    expect(await loggedAddress({ 'x-forwarded-for': '203.0.113.9' })).toBe('203.0.113.9')
    expect(await loggedAddress({ 'x-forwarded-for': '198.51.100.7, 203.0.113.9, 10.1.2.3' })).toBe('203.0.113.9')
  })
})
