/** A follower's requests to a collector or to the service: over TLS, without redirects, with retries, and without secrets in errors. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isLoopback } from '../../node/listen.js'
import { CommandError, readGiven } from '../files.js'

/** Statuses below 500 that mean "later". The same request would get any other one again. */
const LATER = [408, 425, 429]
const TOKEN = /^[\x21-\x7e]+$/

/** Returns an answer that the same request would get again. @throws TryAgainError if there is none, or it means "later" */
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

/** Writes a URL for a message. A query may hold a secret, so it is left out. */
export function withoutQuery({ origin, pathname }: URL): string {
  return `${origin}${pathname}`
}

/** Reads an address. @throws CommandError if requests to it would expose entries or the secret */
export function readAddress(address: string, where: { given: string; secret: string }): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLoopback(url.hostname)))
    throw new CommandError(`${where.given}: the URL must begin with https:, except on this machine`)
  if (url.username !== '' || url.password !== '')
    throw new CommandError(
      `${where.given}: no password in the URL, where every user of the machine can read it: ${where.secret}`,
    )
  return url
}

export async function readToken(path: string): Promise<string> {
  const token = (await readGiven(path)).trim()
  if (!TOKEN.test(token)) throw new CommandError(`${path}: it must hold one token`)
  return token
}

const UNKNOWN_AUTHORITY = [
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]

/** Names the reason of a failed request or a broken connection, and the remedy if it is known. */
export function reasonOf({ name, cause }: Error): string {
  const code = (cause as NodeJS.ErrnoException | undefined)?.code ?? name
  return UNKNOWN_AUTHORITY.includes(code) ? `${code}: set NODE_EXTRA_CA_CERTS to a file with its authority` : code
}

/** The pause between two attempts, in milliseconds. It doubles after each failure, up to the longest. */
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000

export class TryAgainError extends Error {
  override readonly name = 'TryAgainError'

  constructor(
    message: string,
    /** how long the receiver asks to wait, in milliseconds */
    readonly waitMs = 0,
  ) {
    super(message)
  }
}

interface Attempts {
  signal: AbortSignal
  /** called with the reason of a failed attempt, unless it is that of the failure before */
  tell: (line: string) => void
  /** added to the reason of a failure, and reported when an attempt succeeds after one */
  words: { again: string; done: string }
}

/** Makes attempts until one succeeds; undefined if the signal ended them. @throws any error but `TryAgainError` */
export async function untilDone<T>(
  attempt: () => Promise<T>,
  { signal, tell, words }: Attempts,
): Promise<{ result: T } | undefined> {
  let said = ''
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      const result = await attempt()
      if (said !== '') tell(words.done)
      return { result }
    } catch (error) {
      if (!(error instanceof TryAgainError)) throw error
      if (signal.aborted) return undefined
      if (error.message !== said) tell(`${error.message}; ${words.again}`)
      said = error.message
      // Randomised, so that several followers do not return at the same moment.
      const spreadMs = pauseMs * (0.5 + Math.random() / 2)
      const waitMs = Math.max(spreadMs, Math.min(error.waitMs, LONGEST_PAUSE_MS))
      await sleep(waitMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return undefined
    }
  }
}
