import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { stopListening } from './connections.js'

it('accepts every connection that waits in the kernel, so that none is reset when the server closes', async () => {
  let accepted = 0
  const server = createServer((socket) => {
    accepted += 1
    socket.end('served')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const answers = Array.from({ length: 50 }, () => {
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    return new Promise((resolve) => {
      socket.on('data', (bytes) => resolve(bytes.toString())).on('error', ({ message }) => resolve(message))
    })
  })
  await stopListening(server)
  expect(accepted).toBe(50)
  expect(new Set(await Promise.all(answers))).toEqual(new Set(['served']))
})

it('ends while clients connect without a pause', async () => {
  const server = createServer((socket) => {
    socket.destroy()
    connectAgain()
  })
  const connectAgain = () => {
    if (server.listening) connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined)
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  for (let client = 0; client < 8; client++) connectAgain()
  await once(server, 'connection')
  await stopListening(server)
  expect(server.listening).toBe(false)
})
