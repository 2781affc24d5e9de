// Which connections are closed because nothing moves, that of an unread answer and no other, or because they are withdrawn, and when
// pipelined calls begin.
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { endConnections, onParserError } from './connections.js'
import { WITHDRAWN } from './tls-listener.js'

const UNREAD_MS = 100

/**
 * Starts a server whose `/endless` never ends, and whose `/late` takes four times as long as an answer may
 * stay unread.
 */
async function start() {
  const app = Fastify({ clientErrorHandler: onParserError })
  endConnections(app, () => false, { unreadMs: UNREAD_MS })
  const piece = Buffer.alloc(65_536)
  const endless = new Readable({
    read() {
      this.push(piece)
    },
  })
  app.get('/endless', (_, reply) => reply.send(endless))
  app.get('/withdrawn', async ({ raw }) => {
    raw.socket.emit(WITHDRAWN)
    return 'answered'
  })
  const parts = new PassThrough()
  app.get('/parts', (_, reply) => reply.send(parts))
  app.get('/late', async () => {
    await sleep(4 * UNREAD_MS)
    return 'late'
  })
  const addresses: unknown[] = []
  app.get('/address', async ({ ip }) => {
    addresses.push(ip)
    return 'seen'
  })
  const begun: string[] = []
  app.all('/call/:name', async (request, reply) => {
    const { name } = request.params as { name: string }
    begun.push(name)
    await sleep(UNREAD_MS / 5)
    if (name === 'last') reply.header('connection', 'close')
    return name
  })
  const accepted = once(app.server, 'connection') as Promise<[Socket]>
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const { port } = app.server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  const ask = (...paths: string[]) =>
    socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`).join(''))
  const withdraw = async () => (await accepted)[0].emit(WITHDRAWN)
  return { addresses, begun, endless, parts, port, socket, ask, withdraw }
}

it('closes the connection of an answer that nobody reads, and ends the answer', async () => {
  const { endless, ask } = await start()
  ask('/endless')
  await once(endless, 'close')
})

it('begins no call without the address of its client, also if that resets the connection at once', async () => {
  const { addresses, port } = await start()
  for (const isAccepted of [false, true]) {
    for (let call = 0; call < 20; call++) {
      const socket = connect(port, '127.0.0.1')
      if (isAccepted) await sleep(5)
      socket.write('GET /address HTTP/1.1\r\nhost: x\r\n\r\n', () => socket.resetAndDestroy())
      await once(socket, 'close')
    }
  }
  await expect.poll(() => addresses.length).toBeGreaterThan(0) // a busy machine may lose others
  expect(new Set(addresses)).toEqual(new Set(['127.0.0.1']))
})

it('waits for a first call, and for an answer that the server has not made yet', async () => {
  const { socket, ask } = await start()
  await sleep(3 * UNREAD_MS)
  ask('/late')
  const [answer] = await once(socket, 'data')
  expect(answer.toString()).toMatch(/late$/)
})

it('begins a pipelined call once the call before it is answered', async () => {
  const { begun, socket, ask } = await start()
  ask('/call/one', '/call/two', '/call/three')
  const [first] = await once(socket, 'data')
  expect(first.toString()).toMatch(/one$/)
  expect(begun).not.toContain('three')
  let answers = first.toString()
  for await (const more of socket) {
    answers += more
    if (/three$/.test(answers)) break
  }
  expect(answers.match(/(?<=\r\n\r\n)(one|two|three)/g)).toEqual(['one', 'two', 'three'])
})

it('begins no call behind an answer that closes the connection, nor more than one of too many', async () => {
  const { begun, socket, ask } = await start()
  ask('/call/last', '/call/unanswered')
  await once(socket.resume(), 'close')
  expect(begun).toEqual(['last'])
  const other = await start()
  other.ask(...Array.from({ length: 130 }, () => '/call/one'))
  await once(other.socket.resume(), 'close')
  await sleep(UNREAD_MS)
  expect(other.begun.length).toBeLessThanOrEqual(1)
})

it('answers the call under way on a connection that is withdrawn, says that it ends, and begins no other', async () => {
  const { begun, socket, ask } = await start()
  ask('/withdrawn', '/call/other')
  expect(await text(socket)).toMatch(/^connection: close\r\n.*answered$/ims)
  expect(begun).toEqual([])
})

it('ends a connection that is withdrawn in the middle of an answer with that answer', async () => {
  const { begun, parts, socket, ask, withdraw } = await start()
  ask('/parts')
  parts.write('some')
  await once(socket, 'readable')
  await withdraw()
  ask('/call/other')
  parts.end('more')
  expect(await text(socket)).toMatch(/some.*more/s)
  expect(begun).toEqual([])
})

it.each([
  ['garbage', '/call/one', '}\r\n\r\n'],
  ['a head that is too long', '/call/one', `GET / HTTP/1.1\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`],
  ['garbage behind an answer that closes', '/call/last', '}\r\n\r\n'],
])('answers the call under way before %s, and nothing else', async (_, path, rest) => {
  const { begun, socket, ask } = await start()
  ask(path)
  socket.write(rest)
  const answer = await text(socket)
  expect(answer.match(/^HTTP\/1.1 \d+/gm)).toEqual(['HTTP/1.1 200'])
  expect(answer).toMatch(/^connection: close\r\n.*(one|last)$/ims)
  expect(begun).toHaveLength(1)
})

it('writes nothing into an answer that has begun', async () => {
  const { parts, socket, ask } = await start()
  ask('/parts')
  parts.write('some')
  await once(socket, 'readable')
  socket.write('}\r\n\r\n')
  await sleep(UNREAD_MS / 5)
  parts.end('more')
  expect(await text(socket)).toMatch(/^4\r\nsome\r\n4\r\nmore\r\n0\r\n\r\n$/m)
})

it('answers garbage once where no call is under way, or within one that has no answer', async () => {
  const chunked =
    'POST /call/one HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nz\r\n'
  for (const sent of ['}\r\n\r\n', chunked]) {
    const { begun, socket } = await start()
    socket.write(sent)
    expect((await text(socket)).match(/^HTTP\/1.1 \d+/gm)).toEqual(['HTTP/1.1 400'])
    expect(begun).toEqual([])
  }
})

it('ends a connection that is withdrawn without a call at once', async () => {
  const { socket, withdraw } = await start()
  await withdraw()
  expect(await text(socket)).toBe('')
})
