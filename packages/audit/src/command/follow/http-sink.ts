/** Posts batches as NDJSON to the HTTP intake of a collector. */
import { CommandError } from '../files.js'
import type { Message } from './message.js'
import { readAddress, readToken, send, withoutQuery } from './request.js'
import type { Sink } from './sink.js'

/** How long one attempt may take, in milliseconds. */
const PATIENCE_MS = 20_000
/** The collector accepts only smaller bodies. */
const TOO_LARGE = 413

/**
 * Creates the sink; `tokenFile` has the bearer token and is read for each attempt, so that the token may change.
 *
 * @throws CommandError if the address would show entries or the token to others
 */
export function httpSink(address: string, tokenFile: string | undefined, patienceMs = PATIENCE_MS): Sink {
  const url = readAddress(address, { given: '--http', secret: '--token-file' })
  const post: Sink = async (batch) => {
    const response = await send(url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      token: tokenFile === undefined ? undefined : await readToken(tokenFile),
      body: batch.map(lineOf).join(''),
      signal: AbortSignal.timeout(patienceMs),
    })
    await response.body?.cancel().catch(() => undefined)
    if (response.ok) return
    if (response.status === TOO_LARGE && batch.length > 1) {
      const half = batch.length >> 1
      await post(batch.slice(0, half))
      return post(batch.slice(half))
    }
    throw new CommandError(`${withoutQuery(url)} answered ${response.status}, which another attempt would not change`)
  }
  return post
}

function lineOf({ text }: Message): string {
  return `${text}\n`
}
