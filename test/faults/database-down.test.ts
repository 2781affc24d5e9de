// PostgreSQL stops under a running server: what the server answers meanwhile, and that it recovers by itself afterwards.
import { randomBytes } from 'node:crypto'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend, freshDatabase } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

/** The most that a failing call may take. */
const TOLD_WITHIN_MS = 5_000

/** A proxy between the server and PostgreSQL that can be closed, and opened again on the same port. */
class Door {
  #server: Server | undefined
  #port = 0
  readonly #sockets = new Set<Socket>()

  constructor(private readonly target: URL) {}

  async open(): Promise<number> {
    this.#server = createServer((socket) => {
      const through = connect(Number(this.target.port), this.target.hostname)
      for (const end of [socket, through]) {
        this.#sockets.add(end)
        end.on('error', () => end.destroy()).on('close', () => this.#sockets.delete(end))
      }
      socket.pipe(through).pipe(socket)
    })
    await new Promise<void>((resolve) => this.#server?.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (this.#server.address() as AddressInfo).port
    return this.#port
  }

  shut(): void {
    this.#server?.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}

describe.skipIf(backend() === 'embedded')('while PostgreSQL does not answer', () => {
  let service: Service
  let door: Door
  let owner: Caller
  let stranger: Caller
  let key_id: string

  beforeAll(async () => {
    const database = await freshDatabase('down')
    if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
    const url = new URL(database.url)
    door = new Door(new URL(url))
    url.port = String(await door.open())
    service = await startService({ database: { ...database, url: url.href } })
    owner = await service.createTenant({ envelope_only: false })
    stranger = await service.createTenant() // never called before: its state is not cached
    key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
    await wrap()
    door.shut()
  })
  afterAll(() => service?.close())

  const wrap = () => owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: randomBytes(32).toString('base64') })

  async function statusAndCode(caller: Caller, method: string, path: string, body?: unknown) {
    const from = performance.now()
    const { status, headers, body: problem } = await caller.call(method, path, body)
    expect(performance.now() - from).toBeLessThan(TOLD_WITHIN_MS)
    expect(headers.get('content-type')).toBe('application/problem+json')
    return [status, problem.code]
  }

  it.each([
    ['GET', '/v1/keys', undefined],
    ['GET', '/v1/audit', undefined],
    ['POST', '/v1/hash', { value: 'x' }],
    ['POST', '/v1/keys/00000000-0000-4000-8000-000000000000/rotate', undefined],
  ])('%s %s, which writes no entry, is answered 503 E_UNAVAILABLE', async (method, path, body) => {
    const sent = body && { ...body, key_id }
    expect(await statusAndCode(owner, method, path, sent)).toEqual([503, 'E_UNAVAILABLE'])
  })

  it('so is every call of a tenant that is not cached', async () => {
    expect(await statusAndCode(stranger, 'GET', '/v1/keys')).toEqual([503, 'E_UNAVAILABLE'])
    expect(await statusAndCode(stranger, 'POST', '/v1/keys', { name: 'k' })).toEqual([503, 'E_UNAVAILABLE'])
  })

  it('so is a call whose entry was never sent, and it says that it was not carried out and when to come again', async () => {
    const { status, headers, body } = await wrap()
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'E_UNAVAILABLE', '1'])
    expect(body.detail).toContain('was not carried out')
    expect(await statusAndCode(owner, 'POST', '/v1/encrypt', { plaintext: 'x', key_id })).toEqual([
      503,
      'E_UNAVAILABLE',
    ])
  })

  it('health says so, and calls go on once it answers again', async () => {
    const { status, body } = await owner.call('GET', '/health')
    expect([status, body]).toEqual([503, expect.objectContaining({ status: 'degraded', database: 'down' })])
    expect(await owner.call('GET', '/readyz')).toMatchObject({ status: 503, body })
    expect(await owner.call('GET', '/livez')).toMatchObject({ status: 200, body: { status: 'alive' } })
    await door.open()
    await expect.poll(async () => (await owner.call('GET', '/v1/keys')).status, { timeout: 5_000 }).toBe(200)
  })
})
