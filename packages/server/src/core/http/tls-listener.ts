/**
 * The server's own TLS. The files are read again while it runs: new connections get the new certificate, and open ones
 * stay, unless the authorities of clients change. Files that cannot be used are refused at the start; later, the old
 * certificate stays in use.
 */
import { constants, createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer, type Server } from 'node:https'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { TlsSetting } from '../config.js'
import { createClientCertificates } from './client-certificates.js'

/** How long a client may take for the handshake, in milliseconds. */
const HANDSHAKE_TIMEOUT_MS = 10_000

/** Thrown when the files of TLS cannot be used. */
export class TlsError extends Error {
  override readonly name = 'TlsError'
}

/** The certificate that is in use. */
interface TlsState {
  /** when it expires, in milliseconds since 1970 */
  expiresAt: number
  /** whether the files cannot be used now, so that an earlier certificate is still in use */
  isStale: boolean
}

export interface TlsListener {
  /** Makes a server; several share the certificate. */
  createServer(options: object, handler: RequestListener): Server
  /** Reads the files again. Returns whether they changed. @throws TlsError; the certificate in use then stays */
  reload(): boolean
  state(): TlsState
}

/** What the files hold, checked. */
interface TlsMaterial extends Pick<SecureContextOptions, 'cert' | 'key' | 'ca' | 'minVersion' | 'secureOptions'> {
  cert: string
  key: string
  ca?: string
  expiresAt: number
}

/** Creates the listener. @throws TlsError */
export function createTlsListener(files: TlsSetting): TlsListener {
  const servers: Server[] = []
  const clients = createClientCertificates()
  let used = readTls(files, Date.now())
  let isStale = false
  return {
    createServer(options, handler) {
      const { expiresAt: _, ...material } = used
      const asksClients = { requestCert: files.clientCaFile !== undefined, rejectUnauthorized: true }
      const server = createServer(
        { ...options, ...material, ...asksClients, handshakeTimeout: HANDSHAKE_TIMEOUT_MS },
        handler,
      )
      servers.push(server)
      if (asksClients.requestCert) clients.watch(server)
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
  const privateKey = attempt(
    () => createPrivateKey(key),
    `EAAS_TLS_KEY_FILE must hold a private key in PEM, without a passphrase: ${keyFile}`,
  )
  if (!leaf.checkPrivateKey(privateKey)) {
    throw new TlsError(
      `the key in ${keyFile} (EAAS_TLS_KEY_FILE) is not that of the first certificate in ${certFile} (EAAS_TLS_CERT_FILE)`,
    )
  }
  const expiresAt = Date.parse(leaf.validTo)
  if (expiresAt <= now)
    throw new TlsError(`the certificate in ${certFile} (EAAS_TLS_CERT_FILE) expired: ${leaf.validTo}`)
  if (clientCaFile !== undefined && ca !== undefined) {
    const ends = readCertificates('EAAS_TLS_CLIENT_CA_FILE', clientCaFile, ca).map(({ validTo }) => validTo)
    if (ends.every((end) => Date.parse(end) <= now))
      throw new TlsError(`each certificate in ${clientCaFile} (EAAS_TLS_CLIENT_CA_FILE) expired: ${ends.join(', ')}`)
  }
  // A resumed session would show no certificate, and OpenSSL would not check the earlier one again.
  const ofClients = ca === undefined ? {} : { ca, secureOptions: constants.SSL_OP_NO_TICKET }
  const material = { cert, key, ...ofClients, minVersion }
  attempt(() => createSecureContext(material), `TLS cannot be set up with ${certFile} and ${keyFile}`)
  return { ...material, expiresAt }
}

function readText(variable: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new TlsError(
      `${variable} names a file that cannot be read (${(error as NodeJS.ErrnoException).code}): ${path}`,
    )
  }
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs

function readCertificates(variable: string, path: string, text: string): [X509Certificate, ...X509Certificate[]] {
  const message = `${variable} must hold certificates in PEM: ${path}`
  const [first, ...others] = (text.match(CERTIFICATE) ?? []).map((pem) =>
    attempt(() => new X509Certificate(pem), message),
  )
  if (!first) throw new TlsError(message)
  return [first, ...others]
}

// OpenSSL's own message says what is wrong with the file, and shows nothing of it.
function attempt<T>(work: () => T, message: string): T {
  try {
    return work()
  } catch (error) {
    throw new TlsError(`${message} (${(error as Error).message})`)
  }
}
