// Every error is a problem document, including those of the framework and of the HTTP parser.
import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { PROBLEM_CONTENT_TYPE, PROBLEMS } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
})
afterAll(() => service?.close())

/** Sends bytes as they are and returns the whole answer. */
function raw(bytes: string, patienceMs = 5_000): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    let answer = ''
    const giveUp = () => socket.destroy(new Error(`no answer in ${patienceMs} ms, only ${JSON.stringify(answer)}`))
    socket.setTimeout(patienceMs, giveUp)
    socket.on('data', (chunk) => {
      answer += chunk
    })
    socket.on('end', () => resolve(answer)).on('error', reject)
  })
}

/** Sends a head and a body of 64 KiB pieces, and reads only when all is sent; returns the answer, and how much could be sent. */
function sendThenRead(head: string, bytes: number): Promise<{ answer: string; sent: number }> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    const piece = Buffer.alloc(65_536, ' ')
    let answer = ''
    let sent = 0
    socket.pause()
    const send = (error?: Error | null) => {
      if (error) return
      if (sent >= bytes) {
        socket.on('data', (chunk) => {
          answer += chunk
        })
        socket.resume()
        return
      }
      sent += piece.length
      const isChunked = head.includes('chunked')
      socket.write(isChunked ? Buffer.concat([Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')]) : piece, send)
    }
    socket.write(`${head}\r\nhost: x\r\nauthorization: Bearer ${owner.secret}\r\n\r\n`, send)
    socket.on('error', (error) => {
      answer += error.message
    })
    socket.on('close', () => resolve({ answer, sent }))
  })
}

function expectProblem(
  answer: { status: number; headers: Headers; body: Record<string, unknown> },
  code: keyof typeof PROBLEMS,
) {
  const { status, title } = PROBLEMS[code]
  expect(answer.body).toEqual({ type: 'about:blank', title, status, detail: expect.any(String), code })
  expect([answer.status, answer.headers.get('content-type')]).toEqual([status, PROBLEM_CONTENT_TYPE])
  expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
}

describe('a problem document', () => {
  it.each([
    ['GET', '/', 'E_ROUTE_NOT_FOUND'],
    ['GET', '/v1', 'E_ROUTE_NOT_FOUND'],
    ['GET', '//v1/keys', 'E_ROUTE_NOT_FOUND'],
    ['GET', '/v1/keys/', 'E_NOT_FOUND'],
    ['GET', '/V1/keys', 'E_ROUTE_NOT_FOUND'],
    ['GET', '/v1/keys/a/b', 'E_ROUTE_NOT_FOUND'],
    ['PUT', '/v1/keys', 'E_METHOD_NOT_ALLOWED'],
    ['DELETE', '/v1/audit', 'E_METHOD_NOT_ALLOWED'],
    ['OPTIONS', '/v1/keys', 'E_METHOD_NOT_ALLOWED'],
    ['POST', '/health', 'E_METHOD_NOT_ALLOWED'],
    ['GET', '/%E0%A4%A', 'E_MALFORMED_REQUEST'],
    ['GET', '/v1/keys/%E0%A4%A', 'E_MALFORMED_REQUEST'],
  ] as const)('answers %s %s', async (method, path, code) => {
    expectProblem(await owner.call(method, path), code)
  })

  it.each([
    ['/v1/keys', 'content-type: application/json', 413],
    ['/v1/batch', 'content-type: application/json', 413],
    ['/v1/keys', 'content-type: text/plain', 415],
    ['/v1/nothing', 'content-type: application/json', 404],
  ])('can be read after a body of 9 MiB is sent to %s as %s', async (path, type, status) => {
    const bytes = 9 * 1_048_576
    const head = `POST ${path} HTTP/1.1\r\nconnection: close\r\n${type}\r\ncontent-length: ${bytes}`
    const { answer, sent } = await sendThenRead(head, bytes)
    expect([answer.slice(0, 12), sent]).toEqual([`HTTP/1.1 ${status}`, bytes])
    expect(answer).toContain(PROBLEM_CONTENT_TYPE)
  })

  it.each(['close', 'keep-alive'])(
    'is not waited with for a client that never stops sending (%s)',
    async (connection) => {
      const type = 'content-type: application/json\r\ntransfer-encoding: chunked'
      const head = `POST /v1/keys HTTP/1.1\r\nconnection: ${connection}\r\n${type}`
      const most = 1_048_576 * 1_024
      expect((await sendThenRead(head, most)).sent).toBeLessThan(most)
    },
  )

  it('says that a body must not be compressed', async () => {
    const body = gzipSync('{"name":"x"}')
    const answer = await owner.call('POST', '/v1/keys', body, { 'content-encoding': 'gzip' })
    expectProblem(answer, 'E_MEDIA_TYPE')
    expect(answer.body.detail).toContain('Content-Encoding')
    const identity = await owner.call('POST', '/v1/keys', { name: 'identity' }, { 'content-encoding': 'identity' })
    expect(identity.status).toBe(201)
  })

  it('says which methods a path takes', async () => {
    expect((await owner.call('PUT', '/v1/keys')).headers.get('allow')).toBe('POST, GET')
  })

  it('says that a body is nested too deep to be read', async () => {
    const body = `{"name":"x","deep":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    const answer = await owner.call('POST', '/v1/keys', body, { 'content-type': 'application/json' })
    expectProblem(answer, 'E_MALFORMED_REQUEST')
  })

  it('pollutes no prototype', async () => {
    const body = '{"name":"p","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    expect((await owner.call('POST', '/v1/keys', body)).status).toBe(201)
    await owner.call('GET', '/v1/audit?__proto__[polluted]=1&constructor=1')
    expect('polluted' in {}).toBe(false)
  })

  it.each([
    ['two content lengths', 'POST /v1/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
    [
      'both kinds of length',
      'POST /v1/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['a folded header', 'GET /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer\r\n x\r\n\r\n'],
    ['a bare line feed', 'GET /v1/keys HTTP/1.1\nHost: x\n\n'],
    ['two hosts', 'GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n'],
    ['the same host twice', 'GET /v1/keys HTTP/1.1\r\nhost: x\r\nHost: x\r\n\r\n'],
    ['two codings', 'POST /v1/keys HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['a NUL in a header', 'GET /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\0b\r\n\r\n'],
  ])('answers %s with 400 and closes', async (_, bytes) => {
    const answer = await raw(bytes)
    expect(answer).toMatch(/^HTTP\/1.1 400 Bad Request\r\n/)
    expect(answer).toContain(`content-type: ${PROBLEM_CONTENT_TYPE}`)
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject({
      status: 400,
      code: 'E_MALFORMED_REQUEST',
    })
  })

  it.each([
    ['', 'keep-alive'],
    ['Connection: Upgrade\r\nUpgrade: websocket\r\n', 'close'],
    ['Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n', 'close'],
  ])('answers a request with %j over a connection that says %s', async (head, connection) => {
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    socket.write(`GET /health HTTP/1.1\r\nHost: x\r\n${head}\r\n`)
    const [answer] = await once(socket, 'data')
    socket.destroy()
    expect(answer.toString()).toMatch(new RegExp(`^HTTP/1.1 200 .*\r\nconnection: ${connection}\r\n`, 'is'))
  })

  it.each(['', 'content-type: application/json\r\n', 'content-type: text/plain\r\n'])(
    'takes no empty body in chunks for one of the wrong kind: %j',
    async (type) => {
      const { id } = (await owner.call('POST', '/v1/keys', { name: `chunks ${type}` })).body
      const head = `Host: x\r\nConnection: close\r\nAuthorization: Bearer ${owner.secret}\r\n${type}`
      const chunked = `POST /v1/keys/${id}/rotate HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n`
      expect(await raw(`${chunked}0\r\n\r\n`)).toMatch(/^HTTP\/1.1 200 /)
      expect(await raw(`POST /v1/keys/${id}/rotate HTTP/1.1\r\n${head}Content-Length: 0\r\n\r\n`)).toMatch(
        /^HTTP\/1.1 200 /,
      )
      if (!type.includes('json')) expect(await raw(`${chunked}2\r\n{}\r\n0\r\n\r\n`)).toMatch(/^HTTP\/1.1 415 /)
    },
  )

  it('answers headers beyond all measure with 431', async () => {
    const answer = await raw(
      `GET /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${'x'.repeat(1_000_000)}\r\n\r\n`,
    )
    expect(answer).toMatch(/^HTTP\/1.1 431 /)
    expect(answer).toContain('"code":"E_HEADERS_TOO_LARGE"')
  })

  it('answers two Authorization headers with 401, whichever is good', async () => {
    const lines = [`Authorization: Bearer ${owner.secret}`, 'Authorization: Bearer x']
    for (const headers of [lines, lines.toReversed()]) {
      const answer = await raw(
        `GET /v1/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${headers.join('\r\n')}\r\n\r\n`,
      )
      expect(answer).toMatch(/^HTTP\/1.1 401 /)
    }
  })
})

describe('health', () => {
  it('needs no authentication and says what is in force', async () => {
    const response = await fetch(`${service.url}/health`)
    expect([response.status, await response.json()]).toEqual([
      200,
      { status: 'healthy', database: 'up', cache: 'up', hsm: 'none', durability: 'synchronous' },
    ])
  })

  it('is told at /readyz too', async () => {
    const [health, ready] = await Promise.all(['/health', '/readyz'].map((path) => fetch(`${service.url}${path}`)))
    expect([ready?.status, await ready?.json()]).toEqual([200, await health?.json()])
  })

  it('is told to HEAD too, by its status', async () => {
    const { status, headers } = await fetch(`${service.url}/health`, { method: 'HEAD' })
    expect([status, headers.get('content-type')]).toEqual([200, expect.stringContaining('application/json')])
  })

  it.skipIf(backend() === 'embedded')('tells of durability that was taken away since the start', async () => {
    const { sql } = service.services
    const durability = async () => (await (await fetch(`${service.url}/health`)).json()).durability
    const [database] = await sql<{ name: string }[]>`select quote_ident(current_database()) as name`
    await sql.unsafe(`alter database ${database?.name} set synchronous_commit = off`)
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
    await sql`select pg_terminate_backend(pg_backend_pid())`.catch(() => undefined)
    await expect.poll(durability).toBe('asynchronous')
    await sql.unsafe(`alter database ${database?.name} reset synchronous_commit`)
    await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
    await sql`select pg_terminate_backend(pg_backend_pid())`.catch(() => undefined)
    await expect.poll(durability).toBe('synchronous')
  })
})

// Nothing of it reaches a database, and it waits for as long as a caller may take.
describe('a request that never arrives whole', () => {
  const start = () => `POST /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${owner.secret}\r\n`

  it.concurrent.each([
    ['in its headers', 15, () => start()],
    ['in its body', 30, () => `${start()}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"na`],
  ])('is given up %s after %i s', { timeout: 60_000 }, async (_, seconds, bytes) => {
    const answer = await raw(bytes(), (seconds + 10) * 1_000)
    expect(answer).toMatch(/^HTTP\/1\.1 408 /)
    expect(answer).toContain('"code":"E_REQUEST_TIMEOUT"')
  })
})
