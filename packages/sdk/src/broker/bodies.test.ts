// What one user's bodies can take of the application that mounts a broker: memory, and time for their pieces.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { ask, hashPath, keyId, serveBroker, service, url, useBroker } from '../test-support/broker.js'

useBroker()

const LARGEST = 8 * 1_048_576
const hash = (cookie: string) => ask(hashPath(), { headers: { cookie }, body: { value: 'v', key_id: keyId } })

let open: Socket[] = []
afterEach(() => {
  for (const socket of open) socket.destroy()
  open = []
})

/** Sends the beginning of a request whose body never ends, and waits until the broker has begun to read it. */
async function begin(user: string, fields: string, body = ''): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  open.push(socket)
  const head = `POST ${hashPath()} HTTP/1.1\r\nHost: x\r\nCookie: sid=${user}\r\nSec-Fetch-Site: same-origin\r\n`
  const asked = authenticated(user)
  socket.write(`${head}Content-Type: application/json\r\n${fields}\r\n\r\n${body}`)
  await asked
  return socket
}

const waiting = new Map<string, () => void>()
const authenticated = (user: string) => new Promise<void>((resolve) => waiting.set(user, resolve))

/** Mounts a broker for any number of users, whose names are their sessions. */
function serveUsers(options: Parameters<typeof serveBroker>[0] = {}): void {
  serveBroker({
    maxBodyBytes: LARGEST,
    authenticate: (request) => {
      const id = request.headers.get('cookie')?.replace('sid=', '') ?? ''
      setImmediate(() => waiting.get(id)?.())
      return { id, mayRead: true }
    },
    allow: () => true,
    ...options,
  })
}

/** A body of `count` pieces of a byte. */
const inPieces = (count: number) => `${'1\r\n \r\n'.repeat(count)}0\r\n\r\n`

async function answerOf(socket: Socket): Promise<string> {
  let answer = ''
  socket.on('error', () => undefined) // the broker may close while we write
  socket.setEncoding('utf8').on('data', (text: string) => {
    answer += text
  })
  await once(socket, 'close')
  return answer
}

describe('the bodies of a user', () => {
  it('hold no more than a user may, from the length that they state on, and leave room for others', async () => {
    serveUsers()
    const held = await begin('ada', `Content-Length: ${LARGEST}`)
    const refused = await hash('sid=ada')
    expect([refused.status, refused.body.code, refused.headers['retry-after']]).toEqual([429, 'E_TOO_MANY_CALLS', '1'])
    expect((await hash('sid=ben')).status).toBe(200)
    held.destroy()
    await expect.poll(async () => (await hash('sid=ada')).status).toBe(200)
  })

  it('count as they arrive if they state no length', async () => {
    serveUsers()
    const piece = `100000\r\n${' '.repeat(0x100000)}\r\n`
    const send = async () => (await begin('ada', 'Transfer-Encoding: chunked', piece.repeat(7))).resume()
    let held = await send()
    const askToo = async () => {
      if (held.readableEnded || held.destroyed) held = await send() // it is the one that is refused if it arrives last
      const body = { value: 'v'.repeat(1_048_576), key_id: keyId }
      return (await ask(hashPath(), { headers: { cookie: 'sid=ada' }, body })).status
    }
    await expect.poll(askToo).toBe(429)
    expect((await hash('sid=ada')).status).toBe(200)
  })

  it('hold no more than the process may', async () => {
    serveUsers()
    for (let user = 0; user < 8; user += 1) await begin(`user-${user}`, `Content-Length: ${LARGEST - 100_000}`)
    const { status, body, headers } = await ask(hashPath(), {
      headers: { cookie: 'sid=ben' },
      body: { value: 'v'.repeat(1_048_576), key_id: keyId },
    })
    expect([status, body.code, headers['retry-after']]).toEqual([503, 'E_UNAVAILABLE', '1'])
    expect((await hash('sid=ben')).status).toBe(200)
  })

  it('hold nothing any more once they are answered', async () => {
    serveUsers({ limits: { callsPerMinute: 100 } })
    const body = { value: 'v'.repeat(1_000_000), key_id: keyId }
    const statuses: number[] = []
    for (let call = 0; call < 20; call += 1) {
      statuses.push((await ask(hashPath(), { headers: { cookie: 'sid=ada' }, body })).status)
    }
    expect(new Set(statuses)).toEqual(new Set([200]))
  })

  it('may be under way by the hundred, but not by the thousand, however short they are', async () => {
    serveUsers()
    for (let call = 0; call < 512; call += 1) await begin('ada', 'Content-Length: 1')
    expect(await hash('sid=ada')).toMatchObject({ status: 429, body: { code: 'E_TOO_MANY_CALLS' } })
    expect((await hash('sid=ben')).status).toBe(200)
  })

  it('are refused in more than 16,384 pieces, before they end', async () => {
    serveUsers({ limits: { callsPerMinute: 1_000_000 } })
    const socket = await begin('ada', 'Transfer-Encoding: chunked')
    const answer = answerOf(socket)
    socket.write(inPieces(17_000).slice(0, -5))
    expect(await answer).toMatch(/^HTTP\/1\.1 400 .*E_MALFORMED_REQUEST/s)
    expect(await answer).toContain('more than 16384 pieces')
    expect(service.requests).toEqual([])
  })

  it('count by their pieces as calls of a minute: each 256 as one', async () => {
    serveUsers({ limits: { callsPerMinute: 4 } })
    const few = await begin('ada', 'Transfer-Encoding: chunked')
    const refused = answerOf(few)
    few.write(inPieces(700))
    expect(await refused).toMatch(/^HTTP\/1\.1 400 /) // no JSON
    expect((await hash('sid=ada')).status).toBe(200) // the fourth
    const many = await begin('ben', 'Transfer-Encoding: chunked')
    const limited = answerOf(many)
    many.write(inPieces(1_200).slice(0, -5))
    expect(await limited).toMatch(/^HTTP\/1\.1 429 .*E_TOO_MANY_CALLS/s)
  })
})
