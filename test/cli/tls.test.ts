// A server that speaks TLS itself: which clients it serves, and certificates that change while it runs.
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { Agent, request as plainRequest } from 'node:http'
import { request, Agent as TlsAgent } from 'node:https'
import { join } from 'node:path'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { type Certificate, type Certificates, createCertificates } from '../support/service/certificates.js'
import { runCommand } from '../support/service/command-host.js'
import { type EaasProcess, startEaas } from '../support/service/eaas-process.js'

let certificates: Certificates
let first: Certificate
let database: TestDatabase
let secret: string
let eaas: EaasProcess | undefined

beforeAll(async () => {
  certificates = createCertificates()
  first = certificates.make('first')
  const { database: filled, api_key } = await databaseWithTenant()
  database = filled
  secret = api_key.secret
})
afterEach(async () => {
  await eaas?.stop()
  eaas = undefined
})
afterAll(() => certificates.remove())

const FILES = () => ({
  EAAS_TLS_CERT_FILE: join(certificates.folder, 'used.crt'),
  EAAS_TLS_KEY_FILE: join(certificates.folder, 'used.key'),
})
function use({ cert, key }: Certificate): void {
  copyFileSync(cert, FILES().EAAS_TLS_CERT_FILE)
  copyFileSync(key, FILES().EAAS_TLS_KEY_FILE)
}

async function start(environment: Record<string, string> = {}): Promise<EaasProcess> {
  use(first)
  eaas = await startEaas({ database, environment: { ...FILES(), ...environment } })
  return eaas
}

interface Called {
  status: number | undefined
  body: string
  /** the name in the certificate of the server */
  name: string | string[] | undefined
  protocol: string | null
}

/** Calls over TLS, and verifies the server's certificate. */
function call(
  path: string,
  {
    agent = new TlsAgent(),
    client,
    ...options
  }: { agent?: TlsAgent; client?: Certificate; maxVersion?: 'TLSv1.2'; key?: string } = {},
): Promise<Called> {
  const shown = client && { cert: readFileSync(client.cert), key: readFileSync(client.key) }
  const headers = options.key === undefined ? {} : { authorization: `Bearer ${options.key}` }
  const { maxVersion } = options
  return new Promise((resolve, reject) => {
    const sent = request(
      `${eaas?.url}${path}`,
      { ca: readFileSync(certificates.ca.cert), agent, headers, ...shown, ...(maxVersion && { maxVersion }) },
      (response) => {
        const socket = response.socket as TLSSocket
        const name = socket.getPeerCertificate().subject?.CN ?? nameOf.get(socket)
        if (name !== undefined) nameOf.set(socket, String(name))
        let body = ''
        response.setEncoding('utf8').on('data', (text: string) => {
          body += text
        })
        response.on('end', () => resolve({ status: response.statusCode, body, name, protocol: socket.getProtocol() }))
      },
    )
    sent.on('error', reject)
    sent.end()
  })
}
const nameOf = new WeakMap<TLSSocket, string>()

describe('a server with a certificate', () => {
  it('speaks TLS 1.3 and nothing else on its port', async () => {
    const { url } = await start()
    expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    expect(await call('/health')).toMatchObject({ status: 200, name: 'first', protocol: 'TLSv1.3' })
    expect(await call('/v1/keys', { key: secret })).toMatchObject({ status: 200 })
    await expect(call('/health', { maxVersion: 'TLSv1.2' })).rejects.toThrow(/protocol version/)
    const plain = new Promise((resolve, reject) => {
      plainRequest(url.replace('https', 'http'), { agent: new Agent() }, resolve).on('error', reject).end()
    })
    await expect(plain).rejects.toThrow()
    expect(eaas?.stdout).not.toContain('without TLS')
  })

  it('speaks TLS 1.2 where that is allowed', async () => {
    await start({ EAAS_TLS_MIN_VERSION: '1.2' })
    expect(await call('/health', { maxVersion: 'TLSv1.2' })).toMatchObject({ status: 200, protocol: 'TLSv1.2' })
  })

  it('does not start without one that it can use, and says why', async () => {
    use(first)
    copyFileSync(certificates.make('another').key, FILES().EAAS_TLS_KEY_FILE)
    const { code, stderr } = await runCommand(['start'], { database, environment: FILES() })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^eaas: the key in \S+used\.key .* is not that of the first certificate/),
    ])
    const { stdout } = await runCommand(['doctor'], { database, environment: FILES() })
    expect(stdout).toMatch(/^WRONG +TLS +the key in /m)
    use(first)
    expect((await runCommand(['doctor'], { database, environment: FILES() })).stdout).toMatch(
      /^WARN +TLS +the certificate expires at 20/m,
    )
  })

  it('ends soon although a client keeps its connection', async () => {
    const running = await start()
    const agent = new TlsAgent({ keepAlive: true })
    await call('/health', { agent })
    const from = performance.now()
    expect((await running.stop()).code).toBe(0)
    expect(performance.now() - from).toBeLessThan(4_000)
    agent.destroy()
  })
})

describe('a certificate that changes', () => {
  it('is shown to new connections after SIGHUP, and the open ones go on', async () => {
    const { pid } = await start()
    const kept = new TlsAgent({ keepAlive: true, maxSockets: 1 })
    expect((await call('/health', { agent: kept })).name).toBe('first')
    use(certificates.make('second'))
    process.kill(pid, 'SIGHUP')
    await expect.poll(async () => (await call('/health')).name).toBe('second')
    expect(await call('/health', { agent: kept })).toMatchObject({ status: 200, name: 'first' })
    kept.destroy()
    expect(eaas?.stderr).toMatch(/new connections get another certificate/)
  })

  it('and cannot be used leaves the earlier one, which the log and the metrics say', async () => {
    const { pid } = await start()
    const stale = async () => /^eaas_tls_certificate_stale (\d)$/m.exec((await call('/metrics')).body)?.[1]
    expect(await stale()).toBe('0')
    writeFileSync(FILES().EAAS_TLS_CERT_FILE, 'no certificate')
    process.kill(pid, 'SIGHUP')
    await expect.poll(stale).toBe('1')
    expect((await call('/health')).name).toBe('first')
    expect(eaas?.stderr).toMatch(
      /the earlier certificate stays.*EAAS_TLS_CERT_FILE must hold certificates|EAAS_TLS_CERT_FILE must hold certificates.*the earlier certificate stays/,
    )
    use(first)
    process.kill(pid, 'SIGHUP')
    await expect.poll(stale).toBe('0')
  })
})

describe('a server that asks clients for certificates', () => {
  it('serves those that have one of its authorities and an API key, and not one without the other', async () => {
    await start({ EAAS_TLS_CLIENT_CA_FILE: certificates.ca.cert })
    const client = certificates.make('client')
    expect(await call('/v1/keys', { client, key: secret })).toMatchObject({ status: 200 })
    expect(await call('/v1/keys', { client })).toMatchObject({ status: 401 })
    await expect(call('/v1/keys', { key: secret })).rejects.toThrow()
    await expect(call('/livez')).rejects.toThrow()
    const others = createCertificates()
    await expect(call('/v1/keys', { client: others.make('client'), key: secret })).rejects.toThrow()
    others.remove()
  })

  it.each(['TLSv1.3', 'TLSv1.2'] as const)(
    'resumes no session, which would need no certificate: %s',
    async (maxVersion) => {
      const { url } = await start({
        EAAS_TLS_CLIENT_CA_FILE: certificates.ca.cert,
        EAAS_TLS_MIN_VERSION: maxVersion.replace('TLSv', ''),
      })
      const { cert, key } = certificates.make('client')
      const to = {
        port: Number(new URL(url).port),
        host: '127.0.0.1',
        ca: readFileSync(certificates.ca.cert),
        maxVersion,
      }
      const shown = { cert: readFileSync(cert), key: readFileSync(key) }
      const speak = async (options: ConnectionOptions) => {
        const sessions: Buffer[] = []
        const socket = connect({ ...to, ...options })
        let isReused: boolean | undefined
        socket.on('secureConnect', () => {
          isReused = socket.isSessionReused()
        })
        socket.on('session', (session) => sessions.push(session))
        socket.write(`GET /livez HTTP/1.1\r\nhost: eaas\r\nconnection: close\r\n\r\n`)
        try {
          let text = ''
          for await (const chunk of socket) text += chunk
          return { answer: text.slice(0, 12), sessions, isReused }
        } catch (error) {
          return { answer: (error as Error).message, sessions, isReused }
        }
      }
      const { answer, sessions } = await speak(shown)
      expect(answer).toBe('HTTP/1.1 200')
      for (const session of sessions) {
        expect((await speak({ session })).answer).not.toMatch(/^HTTP/)
        expect(await speak({ session, ...shown })).toMatchObject({ answer: 'HTTP/1.1 200', isReused: false })
      }
    },
  )

  it('ends open connections once other authorities issue certificates, and not where none changed', async () => {
    const authorities = join(certificates.folder, 'authorities.pem')
    copyFileSync(certificates.ca.cert, authorities)
    const { pid } = await start({ EAAS_TLS_CLIENT_CA_FILE: authorities })
    const client = certificates.make('client')
    const agent = new TlsAgent({ keepAlive: true, maxSockets: 1 })
    const sockets = new Set<unknown>()
    agent.on('free', (socket) => sockets.add(socket))
    const calls = () => call('/v1/keys', { client, key: secret, agent })
    await calls()
    use(certificates.make('renewed'))
    process.kill(pid, 'SIGHUP')
    await expect.poll(() => eaas?.stderr).toMatch(/reloaded at SIGHUP/)
    await calls()
    expect(sockets.size).toBe(1) // a renewal leaves it open
    const others = createCertificates()
    copyFileSync(others.ca.cert, authorities)
    process.kill(pid, 'SIGHUP')
    const [socket] = sockets as Set<TLSSocket>
    await expect.poll(() => socket?.destroyed).toBe(true)
    await expect(calls()).rejects.toThrow()
    expect(await call('/v1/keys', { client: others.make('client'), key: secret })).toMatchObject({ status: 200 })
    others.remove()
    agent.destroy()
  })
})
