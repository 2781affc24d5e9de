/**
 * The connections of clients that show certificates: each ends when its certificate expires, and all of them when the
 * authorities change. The server gives such clients no session to resume, so each connection begins with a certificate.
 */
import type { Socket } from 'node:net'
import type { DetailedPeerCertificate, Server, TLSSocket } from 'node:tls'

/** How long the call under way on such a connection may take, in milliseconds. A handshake under way has as long. */
const GRACE_MS = 5_000
/** How often the clock is read, in milliseconds: it may be set, and timers stop while a machine sleeps. */
const LOOK_MS = 10_000

/** Emitted on the socket of a connection that is to take no more calls. */
export const WITHDRAWN = 'withdrawn'

interface ClientCertificates {
  /** Watches the connections of a server. */
  watch(server: Server): void
  /** Ends all connections, since other authorities issue certificates now. */
  endAll(): void
}

/** Creates the watch. `now` is in milliseconds since 1970. */
export function createClientCertificates({
  now = Date.now,
  lookMs = LOOK_MS,
  graceMs = GRACE_MS,
} = {}): ClientCertificates {
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
    watch(server) {
      server.on('connection', add) // the connection below TLS: its handshake may still end with an earlier authority
      server.on('secureConnection', (socket) => {
        add(socket)
        endAt(socket, findEnd(socket.getPeerCertificate(true)))
      })
    },
    endAll() {
      for (const socket of open) end(socket)
    },
  }
}

/** When the first certificate of the chain expires: from then on a handshake with it fails. */
function findEnd(certificate: DetailedPeerCertificate): number {
  const { valid_to, issuerCertificate: issuer, fingerprint256 } = certificate
  const expiresAt = Date.parse(valid_to)
  return !issuer || issuer.fingerprint256 === fingerprint256 ? expiresAt : Math.min(expiresAt, findEnd(issuer))
}
