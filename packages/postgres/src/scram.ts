/**
 * Logins by SCRAM as libpq makes them: the password by SASLprep, and the login bound to the connection's certificate (RFC 5802
 * 6, RFC 5929 4.1). The database then proves that it has that certificate, so an attacker in between cannot relay a login.
 */
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { saslPrep } from './saslprep.js'

/** Whether a login is bound to the connection, as by libpq's parameter `channel_binding`. */
export type ChannelBinding = 'disable' | 'prefer' | 'require'

/** For the patched driver (23-scram-as-in-libpq.diff). */
export interface Scram {
  /** returns what to hash for a password; other methods send the password itself */
  prepare: (password: string) => string
  /** chooses the beginning of the login from the mechanisms that the database offers */
  bind: (socket: Socket, mechanisms: readonly string[]) => Binding
  /** if a binding is required, refuses a login without SCRAM, or one whose end did not prove the binding */
  assertBound: () => void
}

/** The mechanism and header of SCRAM's first message, and the bytes that the second one repeats (RFC 5802 7). */
interface Binding {
  mechanism: 'SCRAM-SHA-256' | 'SCRAM-SHA-256-PLUS'
  /** `n`: this side binds nothing; `y`: it would, but the database offers no way; `p`: bound */
  header: 'n,,' | 'y,,' | 'p=tls-server-end-point,,'
  data: Uint8Array
}

const PLUS = 'SCRAM-SHA-256-PLUS'
const UNBOUND = { mechanism: 'SCRAM-SHA-256', data: new Uint8Array() } as const

/** The functions throw Error (NO_CHANNEL_BINDING) if the binding is required and impossible. */
export function createScram(mode: ChannelBinding): Scram {
  return {
    prepare: saslPrep,
    bind: (socket, mechanisms) => bindChannel(mode, socket, mechanisms),
    assertBound: () => {
      if (mode === 'require') throw unbound('it asked for no login by SCRAM')
    },
  }
}

function bindChannel(mode: ChannelBinding, socket: Socket, mechanisms: readonly string[]): Binding {
  const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate().raw : undefined
  const hash = certificate === undefined ? undefined : findHash(certificate)
  if (mode === 'disable' || certificate === undefined || hash === undefined) {
    if (mode !== 'require') return { ...UNBOUND, header: 'n,,' }
    throw unbound(
      certificate === undefined
        ? 'the connection has no TLS'
        : 'the signature of its certificate is of a kind for which no binding is defined (RFC 5929 4.1), such as Ed25519',
    )
  }
  if (mechanisms.includes(PLUS)) {
    const data = createHash(hash).update(certificate).digest()
    return { mechanism: PLUS, header: 'p=tls-server-end-point,,', data }
  }
  if (mode === 'require') throw unbound(`it offers ${mechanisms.filter(Boolean).join(', ')}, but not ${PLUS}`)
  return { ...UNBOUND, header: 'y,,' }
}

function unbound(why: string): Error {
  const error = new Error(`the database cannot be bound to its certificate: ${why}`)
  return Object.assign(error, { code: 'NO_CHANNEL_BINDING' })
}

/** Algorithms of signatures, as hexadecimal DER, and their hashes. MD5 and SHA-1 count as SHA-256 (RFC 5929 4.1). */
const HASHES: readonly (readonly [RegExp, string])[] = [
  [/^06092a864886f70d0101(?:04|05|0b)/, 'sha256'], // RSA
  [/^06092a864886f70d01010c/, 'sha384'],
  [/^06092a864886f70d01010d/, 'sha512'],
  [/^06092a864886f70d01010e/, 'sha224'],
  [/^06072a8648ce3d0401/, 'sha256'], // ECDSA
  [/^06082a8648ce3d040301/, 'sha224'],
  [/^06082a8648ce3d040302/, 'sha256'],
  [/^06082a8648ce3d040303/, 'sha384'],
  [/^06082a8648ce3d040304/, 'sha512'],
  [/^06092a864886f70d01010a30..a0..30..0609608648016503040201/, 'sha256'], // RSASSA-PSS, whose parameters name the hash
  [/^06092a864886f70d01010a30..a0..30..0609608648016503040202/, 'sha384'],
  [/^06092a864886f70d01010a30..a0..30..0609608648016503040203/, 'sha512'],
  [/^06092a864886f70d01010a30..a0..30..0609608648016503040204/, 'sha224'],
]

/** The hash of a certificate's signature; undefined for a signature without one. */
function findHash(certificate: Uint8Array): string | undefined {
  const body = contentsAt(certificate, 0)
  const algorithm = contentsAt(certificate, contentsAt(certificate, body.start).end)
  const der = Buffer.from(certificate.subarray(algorithm.start, algorithm.end)).toString('hex')
  return HASHES.find(([pattern]) => pattern.test(der))?.[1]
}

/** Where the contents of the DER element at an offset begin and end. */
function contentsAt(der: Uint8Array, offset: number): { start: number; end: number } {
  const first = der[offset + 1] ?? 0
  const more = first < 0x80 ? 0 : first & 0x7f // the bytes of a long length
  const start = offset + 2 + more
  const length = more === 0 ? first : der.subarray(offset + 2, start).reduce((sum, byte) => sum * 256 + byte, 0)
  return { start, end: start + length }
}
