// Where the 100 of a request that expects it stands among the answers of its connection.
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { continueInOrder } from './connections.js'

const BODY = '{"told":"whole"}'
const expecting = (path: string) =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: ${BODY.length}\r\nconnection: close\r\n\r\n${BODY}`

/** Sends these bytes at once. Returns the answers: the status line and the body of each. */
async function ask(bytes: string): Promise<[string | undefined, string][]> {
  const app = Fastify()
  continueInOrder(app)
  app.get('/late', async () => {
    await sleep(50)
    return 'late'
  })
  app.post('/bytes', (request, reply) => reply.send(Buffer.from(JSON.stringify(request.body))))
  app.post('/text', (request, reply) => reply.send(JSON.stringify(request.body)))
  app.post('/none', (_, reply) => reply.code(204).send())
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
  socket.write(bytes)
  const answered = await text(socket)
  return answered.split(/(?=HTTP\/1\.1 )/).map((answer) => {
    const [head = '', body = ''] = answer.split('\r\n\r\n')
    return [head.split('\r\n')[0], body]
  })
}

it.each([
  ['/bytes', 'HTTP/1.1 200 OK', BODY],
  ['/text', 'HTTP/1.1 200 OK', BODY],
  ['/none', 'HTTP/1.1 204 No Content', ''],
])('is before the head of its answer, also behind another answer: %s', async (path, status, body) => {
  const own = [
    ['HTTP/1.1 100 Continue', ''],
    [status, body],
  ]
  expect(await ask(expecting(path))).toEqual(own)
  const late = 'GET /late HTTP/1.1\r\nhost: x\r\n\r\n'
  expect(await ask(late + expecting(path))).toEqual([['HTTP/1.1 200 OK', 'late'], ...own])
})
