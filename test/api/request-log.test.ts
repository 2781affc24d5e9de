// The request log: under failures its lines are short, and repeated ones are sampled; calls whose client leaves have lines.

import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { buildApp } from '../../packages/server/src/app.js'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { loggerOptions } from '../../packages/server/src/observe/logger.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

interface Line {
  level: number
  reqId: string
  status: number
  msg: string
  error?: string
  err?: { stack: string }
  left_out?: number
  answered?: boolean
}

let service: Service
let caller: Caller
let key_id: string
let written: string[] = []
const lines = () => written.map((text) => JSON.parse(text) as Line)
const byMessage = (msg: string) => lines().filter((line) => line.msg === msg)
/** How many calls the lines represent. */
const counted = (some: Line[]) => some.reduce((sum, { left_out = 0 }) => sum + 1 + left_out, 0)

beforeAll(async () => {
  service = await startService()
  caller = await service.createTenant()
  key_id = (await caller.call('POST', '/v1/keys', { name: 'a' })).body.key_id
})
afterAll(() => service?.close())
afterEach(() => {
  written = []
})

function openApp() {
  const logger = loggerOptions('info', { write: (line) => written.push(line) })
  const app = buildApp({ services: service.services, findDurability: async () => 'synchronous', logger })
  const headers = { authorization: `Bearer ${caller.secret}` }
  const dek = Buffer.alloc(32, 1).toString('base64')
  return {
    close: () => app.close(),
    /** Sends a call over a connection of its own, which the caller closes. Returns once the server has its head. */
    async send(method: string, path: string, body = '', length = body.length) {
      if (!app.server.listening) await app.listen({ port: 0, host: '127.0.0.1' })
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
      const head = [`${method} ${path} HTTP/1.1`, 'host: x', `authorization: ${headers.authorization}`]
      if (body !== '') head.push('content-type: application/json', `content-length: ${length}`)
      const received = once(app.server, 'request') // what is written before the connection is there is lost with the socket
      socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
      await received
      return socket
    },
    wrap: () => app.inject({ method: 'POST', url: `/v1/keys/${key_id}/wrap`, headers, payload: { dek } }),
    get: (url: string) => app.inject({ method: 'GET', url, headers }),
  }
}

/** Makes a table unavailable while `work` runs, so that writing to it fails. */
async function withoutTable(table: string, work: () => Promise<void>): Promise<void> {
  const { sql } = service.services
  await sql`alter table ${sql(table)} rename to gone`
  try {
    await work()
  } finally {
    await sql`alter table gone rename to ${sql(table)}`
  }
}

describe('the log of failed calls', { timeout: 60_000 }, () => {
  it('has one line of at most 512 bytes for a call whose entry could not be written', async () => {
    const app = openApp()
    await withoutTable('audit_log', async () => {
      const answer = await app.wrap()
      expect(answer.statusCode).toBe(500)
      expect(lines()).toEqual([
        expect.objectContaining({ level: 50, status: 500, reqId: answer.headers['x-request-id'] }),
      ])
      expect(lines()[0]).toMatchObject({
        msg: 'audit entry not written',
        error: expect.stringContaining('PostgresError 42P01'),
      })
      expect(Math.max(...written.map((line) => Buffer.byteLength(line)))).toBeLessThanOrEqual(512)
    })
    await app.close()
  })

  it('has a line for the first of many equal failures at once, then one a second at most, which count the others', async () => {
    const app = openApp()
    const began = performance.now()
    await withoutTable('audit_log', async () => {
      for (let round = 0; round < 5; round++) await Promise.all(Array.from({ length: 20 }, app.wrap))
      expect(byMessage('audit entry not written').length).toBeGreaterThan(0)
    })
    await app.close() // writes what waits
    const failed = byMessage('audit entry not written')
    const seconds = (performance.now() - began) / 1_000
    expect(counted(failed)).toBe(100)
    expect(failed.length).toBeLessThanOrEqual(2 + seconds)
    expect(failed[0]?.left_out).toBeUndefined()
    expect(written.filter((line) => Buffer.byteLength(line) > 512)).toEqual([])
  })

  it('has the stack of an error that nobody foresaw once, and other failures beside it', async () => {
    const app = openApp()
    await withoutTable('keys', async () => {
      for (let call = 0; call < 5; call++) expect((await app.get('/v1/keys')).statusCode).toBe(500)
    })
    await withoutTable('api_keys', async () => {
      expect((await app.get('/v1/api-keys')).statusCode).toBe(500)
    })
    await app.close()
    const unexpected = byMessage('unexpected error')
    expect(unexpected.filter(({ err }) => err?.stack.includes('"keys"'))).toHaveLength(1)
    expect(unexpected.filter(({ err }) => err?.stack.includes('"api_keys"'))).toHaveLength(1)
    expect(counted(unexpected.filter(({ err }) => err === undefined))).toBe(6)
    expect(unexpected.length).toBeLessThanOrEqual(2 + 6)
  })

  it('names the kind of error of a tenant that is no longer served', async () => {
    const watch = watchesOf(service.services.committer).get(caller.tenant.tenant_id)
    const app = openApp()
    watch.learn({ reason: 'the chain was cut', witness: undefined })
    try {
      expect((await app.wrap()).statusCode).toBe(500)
    } finally {
      watch.release()
      await app.close()
    }
    const error = expect.stringMatching(/^ChainAlarmError: the chain was cut/)
    expect(byMessage('the tenant has an alarm')).toEqual([expect.objectContaining({ error })])
  })

  it('has a line for an answer that could not be read to its end, which is cut off', async () => {
    const app = openApp()
    const operations = Array(1_000).fill({ op: 'wrap', key_id, dek: Buffer.alloc(32, 1).toString('base64') })
    expect((await caller.call('POST', '/v1/batch', { operations })).status).toBe(200)
    const { sql } = service.services
    await sql`delete from audit_log where id = 900 and tenant_id = ${caller.tenant.tenant_id}`
    await app.get('/v1/audit/export').catch((error: Error) => error)
    await expect
      .poll(() => byMessage('answer cut off'))
      .toMatchObject([{ level: 50, status: 200, route: '/v1/audit/export', error: expect.stringContaining('900') }])
    await app.close()
  })

  it('has a line for each call that did not fail', async () => {
    const app = openApp()
    for (let call = 0; call < 5; call++) await app.wrap()
    for (let call = 0; call < 5; call++) await app.get('/v1/nothing')
    await app.close()
    expect(lines().map(({ status, level }) => [status, level])).toEqual([
      ...Array.from({ length: 5 }, () => [200, 30]),
      ...Array.from({ length: 5 }, () => [404, 30]),
    ])
    expect(written.filter((line) => Buffer.byteLength(line) > 512)).toEqual([])
  })
})

describe('the line of a call whose client leaves', () => {
  const makeApiKey = async () =>
    (await caller.call('POST', '/v1/api-keys', { name: 'x', permissions: ['keys:read'] })).body.id
  const countEntries = async () => {
    const { sql } = service.services
    const [row] = await sql`select count(*)::int as count from audit_log where tenant_id = ${caller.tenant.tenant_id}`
    return row?.count
  }

  it.each([
    [
      'POST',
      async () => `/v1/keys/${key_id}/wrap`,
      JSON.stringify({ dek: Buffer.alloc(32, 1).toString('base64') }),
      200,
    ],
    ['DELETE', async () => `/v1/api-keys/${await makeApiKey()}`, '', 204],
  ] as const)('says so, and what the call came to: %s', async (method, findPath, body, status) => {
    const app = openApp()
    const path = await findPath()
    const { sql } = service.services
    const before = await countEntries()
    await sql.begin(async (transaction) => {
      await transaction`select from heads where tenant_id = ${caller.tenant.tenant_id} for update`
      const socket = await app.send(method, path, body)
      await setTimeout(300) // until it waits for the lock
      socket.destroy()
    })
    await expect.poll(() => byMessage('request')).toMatchObject([{ level: 30, status, answered: false }])
    expect(await countEntries()).toBe(before + 1)
    expect((await app.get('/metrics')).body).toMatch(
      /_requests_total\{method="\w+",route="[^"]+",status="unanswered"\} 1\n/,
    )
    await app.close()
    expect(byMessage('request')).toHaveLength(2)
  })

  it('is there for an answer that it reads in part', async () => {
    const app = openApp()
    const socket = await app.send('GET', '/v1/audit/export')
    socket.once('data', () => socket.destroy())
    await expect.poll(() => byMessage('request')).toMatchObject([{ level: 30, status: 200, answered: false }])
    await app.close()
  })

  it('is there for a body that does not arrive', async () => {
    const app = openApp()
    const socket = await app.send('POST', `/v1/keys/${key_id}/wrap`, '{', 100)
    await setTimeout(50)
    socket.destroy()
    const line = { level: 30, route: '/v1/keys/:id/wrap', status: 400, answered: false }
    await expect.poll(() => byMessage('request')).toMatchObject([line])
    expect((await app.get('/metrics')).body).not.toMatch(/code="E_MALFORMED_REQUEST"[^}]*\} [1-9]/)
    await app.close()
    expect(byMessage('request')).toHaveLength(2)
  })

  it('is one for each listing, which is no failure', async () => {
    const app = openApp()
    const calls = 5
    await service.services.sql.begin(async (transaction) => {
      await transaction`lock table audit_log`
      for (let call = 0; call < calls; call++) {
        const socket = await app.send('GET', '/v1/audit')
        await setTimeout(100) // until it waits for the lock
        socket.destroy()
      }
    })
    await expect.poll(() => byMessage('request')).toMatchObject(Array(calls).fill({ level: 30, answered: false }))
    await app.close()
    expect(byMessage('request')).toHaveLength(calls)
  })

  it.each(['destroy', 'resetAndDestroy'] as const)(
    'is one for each call, where it leaves during admission: %s',
    async (leave) => {
      const app = openApp()
      const calls = 30
      const { tenant_id } = caller.tenant
      for (let call = 0; call < calls; call++) {
        service.services.states.forget(tenant_id) // so that admission waits for the database
        const socket = await app.send('POST', `/v1/keys/${key_id}/wrap`, '{', 100)
        await setTimeout(2)
        socket[leave]()
      }
      await expect.poll(() => byMessage('request')).toHaveLength(calls)
      await app.close()
      expect(byMessage('request').filter(({ status, answered }) => status !== 400 || answered !== false)).toEqual([])
    },
  )
})
