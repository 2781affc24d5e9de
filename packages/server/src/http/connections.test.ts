// Which connections are closed because nothing moves: that of an unread answer, and no other.
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { endConnections } from './connections.js'

const UNREAD_MS = 100

/**
 * Starts a server whose `/endless` never ends, and whose `/late` takes four times as long as an answer may
 * stay unread.
 */
async function start() {
  const app = Fastify()
  endConnections(app, () => false, { unreadMs: UNREAD_MS })
  const piece = Buffer.alloc(65_536)
  const endless = new Readable({
    read() {
      this.push(piece)
    },
  })
  app.get('/endless', (_, reply) => reply.send(endless))
  app.get('/late', async () => {
    await sleep(4 * UNREAD_MS)
    return 'late'
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  const ask = (path: string) => socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
  return { endless, socket, ask }
}

it('closes the connection of an answer that nobody reads, and ends the answer', async () => {
  const { endless, ask } = await start()
  ask('/endless')
  await once(endless, 'close')
})

it('waits for a first call, and for an answer that the server has not made yet', async () => {
  const { socket, ask } = await start()
  await sleep(3 * UNREAD_MS)
  ask('/late')
  const [answer] = await once(socket, 'data')
  expect(answer.toString()).toMatch(/late$/)
})
