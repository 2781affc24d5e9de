/**
 * The server's own TLS. Reads the files again while it runs: new connections get the new certificate, and open ones
 * stay, unless the client authorities change. If the new files cannot be used, the old certificate stays in use.
 */
import { constants, createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import { createSecureContext, type DetailedPeerCertificate, type SecureContextOptions, type TLSSocket } from 'node:tls'
import type { TlsSetting } from '../config.js'

const HANDSHAKE_TIMEOUT_MS = 10_000

export class TlsError extends Error {
  override readonly name = 'TlsError'
}

export interface TlsListener {
  createServer(options: object, handler: RequestListener): Server
  /** Reads the files again; returns whether they changed. @throws TlsError; the certificate in use stays */
  reload(): boolean
  /** When the certificate in use expires, in milliseconds since 1970, and whether the current files cannot be used. */
  state(): { expiresAt: number; isStale: boolean }
}

interface TlsMaterial extends Pick<SecureContextOptions, 'cert' | 'key' | 'ca' | 'minVersion' | 'secureOptions'> {
  cert: string
  key: string
  ca?: string
  expiresAt: number
}

export function createTlsListener(files: TlsSetting): TlsListener {
  const servers: Server[] = []
  const clients = createClientCertificates()
  let used = readTls(files, Date.now())
  let isStale = false
  return {
    createServer(options, handler) {
      const { expiresAt: _, ...material } = used
      const requestCert = files.clientCaFile !== undefined
      const asked = { requestCert, rejectUnauthorized: true, handshakeTimeout: HANDSHAKE_TIMEOUT_MS }
      const server = createServer({ ...options, ...material, ...asked }, handler)
      servers.push(server)
      if (requestCert) clients.watch(server)
      return server
    },
    reload() {
      isStale = true
      const { expiresAt, ...material } = readTls(files, Date.now())
      isStale = false
      if (used.cert === material.cert && used.key === material.key && used.ca === material.ca) return false
      for (const server of servers) server.setSecureContext(material)
      if (used.ca !== material.ca) clients.endAll()
      used = { ...material, expiresAt }
      return true
    },
    state: () => ({ expiresAt: used.expiresAt, isStale }),
  }
}

/** Reads and checks the files. @throws TlsError, which says what is wrong with which file */
export function readTls({ certFile, keyFile, clientCaFile, minVersion }: TlsSetting, now: number): TlsMaterial {
  const cert = readText('EAAS_TLS_CERT_FILE', certFile)
  const key = readText('EAAS_TLS_KEY_FILE', keyFile)
  const ca = clientCaFile === undefined ? undefined : readText('EAAS_TLS_CLIENT_CA_FILE', clientCaFile)
  const [leaf] = readCertificates('EAAS_TLS_CERT_FILE', certFile, cert)
  const badKey = `EAAS_TLS_KEY_FILE must hold a private key in PEM, without a passphrase: ${keyFile}`
  if (!leaf.checkPrivateKey(attempt(() => createPrivateKey(key), badKey)))
    throw new TlsError(
      `the key in ${keyFile} (EAAS_TLS_KEY_FILE) is not that of the first certificate in ${certFile} (EAAS_TLS_CERT_FILE)`,
    )
  const expiresAt = Date.parse(leaf.validTo)
  if (expiresAt <= now)
    throw new TlsError(`the certificate in ${certFile} (EAAS_TLS_CERT_FILE) expired: ${leaf.validTo}`)
  if (clientCaFile !== undefined && ca !== undefined) {
    const ends = readCertificates('EAAS_TLS_CLIENT_CA_FILE', clientCaFile, ca).map(({ validTo }) => validTo)
    if (ends.every((end) => Date.parse(end) <= now))
      throw new TlsError(`each certificate in ${clientCaFile} (EAAS_TLS_CLIENT_CA_FILE) expired: ${ends.join(', ')}`)
  }
  // A resumed session would present no certificate, and OpenSSL would not check the earlier one again.
  const ofClients = ca === undefined ? {} : { ca, secureOptions: constants.SSL_OP_NO_TICKET }
  const material = { cert, key, ...ofClients, minVersion }
  attempt(() => createSecureContext(material), `TLS cannot be set up with ${certFile} and ${keyFile}`)
  return { ...material, expiresAt }
}

function readText(variable: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new TlsError(`${variable} names a file that cannot be read (${code}): ${path}`)
  }
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs

function readCertificates(variable: string, path: string, text: string): [X509Certificate, ...X509Certificate[]] {
  const message = `${variable} must hold certificates in PEM: ${path}`
  const pems = text.match(CERTIFICATE) ?? []
  const [first, ...others] = pems.map((pem) => attempt(() => new X509Certificate(pem), message))
  if (!first) throw new TlsError(message)
  return [first, ...others]
}

// OpenSSL's own message says what is wrong with the file, and quotes nothing of it.
function attempt<T>(work: () => T, message: string): T {
  try {
    return work()
  } catch (error) {
    throw new TlsError(`${message} (${(error as Error).message})`)
  }
}

const GRACE_MS = 5_000 // for the call, or the handshake, under way on a connection that ends
const LOOK_MS = 10_000 // how often the clock is read: it may be set, and timers stop while a machine sleeps

/** Emitted on the socket of a connection that may take no more calls. */
export const WITHDRAWN = 'withdrawn'

/**
 * Watches the connections of clients with certificates. Each ends when its certificate expires, and `endAll` ends all of
 * them when the authorities change. These clients get no session to resume, so each connection presents a certificate.
 */
export function createClientCertificates({ now = Date.now, lookMs = LOOK_MS, graceMs = GRACE_MS } = {}) {
  const open = new Set<Socket>()
  const end = (socket: Socket) => {
    socket.emit(WITHDRAWN)
    const timer = setTimeout(() => socket.destroy(), graceMs).unref()
    socket.once('close', () => clearTimeout(timer))
  }
  const endAt = (socket: TLSSocket, expiresAt: number) => {
    let timer: NodeJS.Timeout | undefined
    const look = () => {
      const left = expiresAt - now()
      if (left > 0) timer = setTimeout(look, Math.min(left, lookMs)).unref()
      else end(socket)
    }
    look()
    socket.once('close', () => clearTimeout(timer))
  }
  const add = (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  }
  return {
    watch(server: Server) {
      server.on('connection', add) // the connection below TLS, since its handshake may still end with an earlier authority
      server.on('secureConnection', (socket: TLSSocket) => {
        add(socket)
        endAt(socket, findEnd(socket.getPeerCertificate(true)))
      })
    },
    endAll() {
      for (const socket of open) end(socket)
    },
  }
}

/** When the first certificate of the chain expires, after which a handshake with it fails. */
function findEnd(certificate: DetailedPeerCertificate): number {
  const { valid_to, issuerCertificate: issuer, fingerprint256 } = certificate
  const expiresAt = Date.parse(valid_to)
  return !issuer || issuer.fingerprint256 === fingerprint256 ? expiresAt : Math.min(expiresAt, findEnd(issuer))
}
