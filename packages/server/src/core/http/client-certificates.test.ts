import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import { type AddressInfo, connect as connectTcp } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Certificates, createCertificates } from '../../../../../test/support/service/certificates.js'
import { createClientCertificates, WITHDRAWN } from './tls-listener.js'

const DAY_MS = 86_400_000

let certificates: Certificates
let server: Server
let shown: { cert: Buffer; key: Buffer; ca: Buffer }
beforeAll(() => {
  certificates = createCertificates()
  const { cert, key } = certificates.make('one')
  shown = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(certificates.ca.cert) }
})
afterAll(() => certificates.remove())
afterEach(() => server.close())

/** A connection of a client to a server whose clock `now` tells; the events of its socket there, which it ends if it `obeys`. */
async function connected(
  now: () => number,
  { obeys = true } = {},
): Promise<{ client: TLSSocket; port: number; withdrawn: () => boolean; end: () => void }> {
  const clients = createClientCertificates({ now, lookMs: 20, graceMs: 100 })
  server = createServer({ ...shown, requestCert: true })
  clients.watch(server)
  let isWithdrawn = false
  server.on('secureConnection', (socket) =>
    socket.on(WITHDRAWN, () => {
      isWithdrawn = true
      if (obeys) socket.destroy()
    }),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = connect({ ...shown, port, host: '127.0.0.1' })
  client.on('error', () => undefined)
  await new Promise((resolve) => server.once('secureConnection', resolve))
  return { client, port, withdrawn: () => isWithdrawn, end: clients.endAll }
}

describe('the connection of a client', () => {
  it('ends when its certificate expires by the clock', async () => {
    let now = Date.now()
    const { client, withdrawn } = await connected(() => now)
    now += 1.9 * DAY_MS
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect([client.destroyed, withdrawn()]).toEqual([false, false])
    now += 0.2 * DAY_MS
    await expect.poll(() => [client.destroyed, withdrawn()]).toEqual([true, true])
  })

  it('ends with the certificate of the authority, if that expires before', async () => {
    const before = shown
    certificates.remove()
    certificates = createCertificates({ days: 1 })
    const { cert, key } = certificates.make('one')
    shown = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(certificates.ca.cert) }
    let now = Date.now()
    const { withdrawn } = await connected(() => now)
    now += 1.1 * DAY_MS
    await expect.poll(withdrawn).toBe(true)
    shown = before
  })

  it('ends when the authorities change', async () => {
    const { client, withdrawn, end } = await connected(Date.now)
    expect(withdrawn()).toBe(false)
    end()
    await expect.poll(() => [client.destroyed, withdrawn()]).toEqual([true, true])
  })

  it('ends after a grace if its call, or its handshake, is still under way then', async () => {
    const { client, port, end } = await connected(Date.now, { obeys: false })
    const handshake = connectTcp(port, '127.0.0.1')
    await once(server, 'connection')
    end()
    await Promise.all([client, handshake].map((socket) => once(socket.resume(), 'close')))
  })
})
