/** Requests of a follower to a collector or the service: over TLS, without redirects or secrets in errors. */
import { isLoopback } from '../../node/is-loopback.js'
import { CommandError, readGiven } from '../files.js'
import { TryAgainError } from './try-again.js'

/** Statuses below 500 that mean "later"; any other status below 500 would recur for the same request. */
const LATER = [408, 425, 429]
const TOKEN = /^[\x21-\x7e]+$/

/**
 * Sends a request. Returns an answer that the same request would get again, whatever its status.
 *
 * @throws TryAgainError if there was no answer, or one that says "later"
 */
export async function send(
  url: URL,
  { token, ...init }: RequestInit & { token: string | undefined },
): Promise<Response> {
  const response = await fetch(url, {
    ...init,
    headers: { ...init.headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) },
    redirect: 'error', // a redirect would send the token to another server
  }).catch((error: Error) => {
    throw new TryAgainError(`${withoutQuery(url)} did not answer (${reasonOf(error)})`)
  })
  const { status, headers } = response
  if (status < 500 && !LATER.includes(status)) return response
  await response.body?.cancel().catch(() => undefined)
  const seconds = Number(headers.get('retry-after') ?? 0)
  throw new TryAgainError(`${withoutQuery(url)} answered ${status}`, seconds > 0 ? seconds * 1_000 : 0)
}

/** Writes a URL for a message, without its query, which may hold a secret. */
export function withoutQuery({ origin, pathname }: URL): string {
  return `${origin}${pathname}`
}

/**
 * Reads the address of a collector or of the service.
 *
 * @param where where it was given, and where the secret belongs
 * @throws CommandError if it would show entries or the secret to others
 */
export function readAddress(address: string, where: { given: string; secret: string }): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLoopback(url.hostname))) {
    throw new CommandError(`${where.given}: the URL must begin with https:, except on this machine`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new CommandError(
      `${where.given}: no password in the URL, where every user of the machine can read it: ${where.secret}`,
    )
  }
  return url
}

/** Reads a file that holds only a token. @throws CommandError */
export async function readToken(path: string): Promise<string> {
  const token = (await readGiven(path)).trim()
  if (!TOKEN.test(token)) throw new CommandError(`${path}: it must hold one token`)
  return token
}

/** Error codes for a certificate from an unknown authority. */
const UNKNOWN_AUTHORITY = [
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]

/** Names the reason of a failed request or broken connection, and what to do if that is known. */
export function reasonOf({ name, cause }: Error): string {
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? name
  return UNKNOWN_AUTHORITY.includes(code) ? `${code}: set NODE_EXTRA_CA_CERTS to a file with its authority` : code
}
