// The recipes of the guide for proxies that send each tenant's calls to the same server, as they stand there, with real proxies.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { MAX_BATCH_BODY_BYTES } from '../../packages/protocol/src/limits.js'
import { problemDocument } from '../../packages/protocol/src/problem.js'
import { freePort } from '../support/database/postgres.js'
import { type Certificate, type Certificates, createCertificates } from '../support/service/certificates.js'
import { haproxyConfig, nginxConfig } from '../support/service/proxies.js'

const NGINX = process.env.EAAS_TEST_NGINX || 'nginx'
const TENANTS = 24

const isThere = (program: string) => spawnSync(program, ['-v']).status === 0
for (const program of ['haproxy', NGINX]) {
  if (!isThere(program)) console.error(`!!! NO ${program} FOUND: its recipe in the guide was not tested. Install it.`)
}

let servers: Server[] = []
let ports: number[] = []

beforeAll(async () => {
  servers = ['one', 'two'].map((name) =>
    createServer((request, response) => {
      request.resume().once('end', () => response.end(name))
    }).listen(0, '127.0.0.1'),
  )
  await Promise.all(servers.map((server) => once(server, 'listening')))
  ports = servers.map((server) => (server.address() as AddressInfo).port)
})
afterAll(() => {
  for (const server of servers) server.closeAllConnections()
  for (const server of servers) server.close()
})

/** Starts a proxy with a configuration, in a folder of its own, and waits until it passes calls on. */
async function startProxy(
  command: (file: string) => string[],
  configuration: (folder: string) => string,
  port: number,
  status = 200,
) {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-proxy-'))
  const file = join(folder, 'proxy.conf')
  writeFileSync(file, configuration(folder))
  const [program = '', ...args] = command(file)
  const proxy: ChildProcess = spawn(program, args, { stdio: 'inherit' })
  onTestFinished(async () => {
    const ended = once(proxy, 'exit')
    proxy.kill()
    await ended
    rmSync(folder, { recursive: true, force: true })
  })
  const url = `http://127.0.0.1:${port}/v1/keys`
  await expect.poll(() => fetch(url).then((answer) => answer.status, String)).toBe(status)
  return url
}

async function expectSticky(url: string): Promise<void> {
  const used = new Set<string>()
  for (let tenant = 0; tenant < TENANTS; tenant++) {
    const id = randomBytes(16).toString('hex')
    const found = new Set<string>()
    for (const scheme of ['Bearer', 'bearer', 'Bearer']) {
      const authorization = `${scheme} eaas_sk_${id}_${randomBytes(22).toString('hex').slice(1)}` // several API keys of a tenant
      found.add(await (await fetch(url, { headers: { authorization } })).text())
    }
    expect(found.size).toBe(1)
    for (const name of found) used.add(name)
  }
  expect([...used].sort()).toEqual(['one', 'two'])
}

/** A server that answers after a while, and can be killed under its calls. */
async function startSlow(tls?: Certificate) {
  const sockets = new Set<Socket>()
  const answer: RequestListener = (request, response) => {
    request.resume().once('end', () => setTimeout(() => response.end('slow'), 20))
  }
  const server = tls
    ? createTlsServer({ cert: readFileSync(tls.cert), key: readFileSync(tls.key) }, answer)
    : createServer(answer)
  server.on('connection', (socket: Socket) => sockets.add(socket.once('close', () => sockets.delete(socket))))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    /** As SIGKILL does. */
    kill(): void {
      server.close()
      for (const socket of sockets) socket.resetAndDestroy()
    },
  }
}

/** Within this time after a reset of its connections, a proxy knows of it. */
const NOTICED_MS = 50

/** Calls without a pause while one of two servers is killed; the calls that failed, and those that were under way then. */
async function killUnderCalls(
  start: (ports: number[]) => Promise<string>,
  { method, tls }: { method: 'GET' | 'POST'; tls?: Certificate },
) {
  const [one, two] = [await startSlow(tls), await startSlow(tls)]
  onTestFinished(two.kill)
  const url = await start([one.port, two.port])
  const [failed, underWay, lost]: [number[], Set<number>, number[]] = [[], new Set(), []]
  let made = 0
  let killedAt = Number.POSITIVE_INFINITY
  const call = async () => {
    while (made < 400) {
      const id = ++made
      if (id === 150) {
        lost.push(...underWay)
        one.kill()
        killedAt = performance.now()
      }
      underWay.add(id)
      // A call may be sent on a connection whose reset the proxy has not seen yet.
      if (performance.now() - killedAt < NOTICED_MS) lost.push(id)
      const authorization = `Bearer eaas_sk_${randomBytes(16).toString('hex')}_${randomBytes(22).toString('hex').slice(1)}`
      const answer = fetch(url, { method, headers: { authorization } })
      if ((await answer.then(({ status }) => status, String)) !== 200) failed.push(id)
      underWay.delete(id)
    }
  }
  await Promise.all(Array.from({ length: 8 }, call))
  return { failed, lost }
}

const KILLED = [
  { method: 'GET' as const, what: 'fails no call that reads' },
  { method: 'POST' as const, what: 'fails no other call but those that were under way' },
]

function expectOnlyLost({ failed, lost }: { failed: number[]; lost: number[] }, method: 'GET' | 'POST'): void {
  expect(failed.filter((id) => method === 'GET' || !lost.includes(id))).toEqual([])
}

let certificates: Certificates
let certificate: Certificate
beforeAll(() => {
  certificates = createCertificates()
  certificate = certificates.make('eaas')
})
afterAll(() => certificates.remove())

describe.skipIf(!isThere('haproxy'))('the recipe for haproxy', () => {
  const start = (ca?: string) => async (ports: number[]) => {
    const port = await freePort()
    const file = (path: string) => ['haproxy', '-db', '-f', path]
    return startProxy(file, () => haproxyConfig(port, ports, ca), port)
  }

  it.each(KILLED)('$what, while a server is killed', async ({ method }) =>
    expectOnlyLost(await killUnderCalls(start(), { method }), method),
  )

  it('does so with servers that speak TLS, and takes no server with a certificate of another authority', async () => {
    const tls = certificate
    expectOnlyLost(await killUnderCalls(start(certificates.ca.cert), { method: 'GET', tls }), 'GET')
    const other = createCertificates()
    onTestFinished(other.remove)
    const [port, server] = [await freePort(), await startSlow(tls)]
    onTestFinished(server.kill)
    const config = () => haproxyConfig(port, [server.port, server.port], other.ca.cert)
    const url = await startProxy((path) => ['haproxy', '-db', '-f', path], config, port, 503)
    expect(await (await fetch(url)).json()).toEqual(problemDocument('E_UNAVAILABLE', 'no server answers'))
  })

  it('sends all calls of a tenant to one server, and uses all servers', async () => {
    const port = await freePort()
    const url = await startProxy(
      (file) => ['haproxy', '-db', '-f', file],
      () => haproxyConfig(port, ports),
      port,
    )
    await expectSticky(url)
  })
})

describe.skipIf(!isThere(NGINX))('the recipe for nginx', () => {
  const start = (ca?: string) => async (ports: number[]) => {
    const port = await freePort()
    const command = (file: string) => [NGINX, '-c', file, '-e', 'stderr', '-g', 'daemon off;']
    return startProxy(command, (folder) => nginxConfig(port, ports, folder, ca), port)
  }

  it.each(KILLED)('$what, while a server is killed', async ({ method }) =>
    expectOnlyLost(await killUnderCalls(start(), { method }), method),
  )

  it('does so with servers that speak TLS', async () => {
    const tls = certificate
    expectOnlyLost(await killUnderCalls(start(certificates.ca.cert), { method: 'GET', tls }), 'GET')
  })

  async function startNginx(): Promise<string> {
    const port = await freePort()
    return startProxy(
      (file) => [NGINX, '-c', file, '-e', 'stderr', '-g', 'daemon off;'],
      (folder) => nginxConfig(port, ports, folder),
      port,
    )
  }

  it('sends all calls of a tenant to one server, and uses all servers', async () => {
    await expectSticky(await startNginx())
  })

  it('answers each call while the servers are restarted one after another', async () => {
    const url = await startNginx()
    const answers = async () => {
      const ids = Array.from({ length: TENANTS }, () => randomBytes(16).toString('hex'))
      const authorization = ids.map((id) => `Bearer eaas_sk_${id}_${randomBytes(22).toString('hex').slice(1)}`)
      const found = await Promise.all(
        authorization.map((authorization) =>
          fetch(url, { headers: { authorization } }).then((answer) => answer.text()),
        ),
      )
      return [...new Set(found)].sort()
    }
    expect(await answers()).toEqual(['one', 'two'])
    for (const [at, left] of [
      [0, ['two']],
      [1, ['one']],
    ] as const) {
      const server = servers[at] as Server
      server.close().closeAllConnections()
      await once(server, 'close')
      expect(await answers()).toEqual(left)
      server.listen(ports[at], '127.0.0.1')
      await once(server, 'listening')
    }
    expect(await answers()).toEqual(['one', 'two'])
  })

  it('lets a batch of the size that the server takes through, and of the other routes /health alone', async () => {
    const url = await startNginx()
    const statusOf = async (path: string, init?: RequestInit) => (await fetch(new URL(path, url), init)).status
    expect(await statusOf('/v1/batch', { method: 'POST', body: Buffer.alloc(MAX_BATCH_BODY_BYTES) })).toBe(200)
    expect(await statusOf('/v1/batch', { method: 'POST', body: Buffer.alloc(MAX_BATCH_BODY_BYTES + 1) })).toBe(413)
    for (const [path, status] of [
      ['/health', 200],
      ['/metrics', 404],
      ['/docs', 404],
      ['/openapi.json', 404],
    ] as const)
      expect([path, await statusOf(path)]).toEqual([path, status])
  })
})
