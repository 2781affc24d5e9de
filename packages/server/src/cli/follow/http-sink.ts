/** Posts batches as NDJSON to the HTTP intake of a collector. */
import { CommandError, readGiven } from '@eaas/audit/command'
import { isLoopback } from '../../root-key/transit.js'
import type { Message } from './message.js'
import { NotTakenError, type Sink } from './sink.js'

/** How long one attempt may take, in milliseconds. */
const PATIENCE_MS = 20_000
/** Answers that say "later" below 500; every other one would come again for the same request. */
const LATER = [408, 425, 429]
const TOKEN = /^[\x21-\x7e]+$/

/**
 * Creates it; `tokenFile` has the bearer token, and is read for each attempt, so that the token may change.
 *
 * @throws CommandError if the address would show entries or the token to others
 */
export function httpSink(address: string, tokenFile: string | undefined, patienceMs = PATIENCE_MS): Sink {
  const url = readAddress(address)
  const where = `${url.origin}${url.pathname}` // a query may hold a secret
  return async (batch) => {
    const token = tokenFile === undefined ? undefined : await readToken(tokenFile)
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson', ...(token && { authorization: `Bearer ${token}` }) },
      body: batch.map(lineOf).join(''),
      redirect: 'error', // it would show the token to another server
      signal: AbortSignal.timeout(patienceMs),
    }).catch((error: Error) => {
      throw new NotTakenError(`${where} did not answer (${reasonOf(error)})`)
    })
    await response.body?.cancel().catch(() => undefined)
    if (response.ok) return
    const { status } = response
    if (status < 500 && !LATER.includes(status)) {
      throw new CommandError(`${where} answered ${status}, which another attempt would not change`)
    }
    const seconds = Number(response.headers.get('retry-after') ?? 0)
    throw new NotTakenError(`${where} answered ${status}`, seconds > 0 ? seconds * 1_000 : 0)
  }
}

function lineOf({ text }: Message): string {
  return `${text}\n`
}

function readAddress(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLoopback(url.hostname))) {
    throw new CommandError('--http: the URL must begin with https:, except on this machine')
  }
  if (url.username !== '' || url.password !== '') {
    throw new CommandError('--http: no password in the URL, where every user of the machine can read it: --token-file')
  }
  return url
}

async function readToken(path: string): Promise<string> {
  const token = (await readGiven(path)).trim()
  if (!TOKEN.test(token)) throw new CommandError(`${path}: it must hold one token`)
  return token
}

function reasonOf({ name, cause }: Error): string {
  return (cause as NodeJS.ErrnoException | undefined)?.code ?? name
}
