/** Where a follower delivers batches. */
import { CommandError } from '../files.js'
import type { Message } from './message.js'
import { readAddress, readToken, send, withoutQuery } from './request.js'
import { syslogSink } from './syslog-sink.js'

const PATIENCE_MS = 20_000
/** The collector accepts only smaller bodies. */
const TOO_LARGE = 413

/** Delivers a whole batch. @throws TryAgainError if not all was taken; CommandError if trying again would not help */
export type Sink = (batch: readonly Message[]) => Promise<void>

export type Receiver = { http?: string; tokenFile?: string; syslog?: string; tls: boolean }

export function openSink({ http, tokenFile, syslog, tls }: Receiver): Sink {
  if (http !== undefined) return httpSink(http, tokenFile)
  return syslog === undefined ? standardOutput : syslogSink(syslog, { tls })
}

/** Posts batches as NDJSON to a collector; reads the token from `tokenFile` for each attempt. @throws CommandError */
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

export class ReaderGoneError extends Error {
  override readonly name = 'ReaderGoneError'
}

/** Writes lines to standard output; they count as taken once they have left this process. */
const standardOutput: Sink = (batch) =>
  new Promise((resolve, reject) => {
    process.stdout.write(batch.map(lineOf).join(''), (error) =>
      error ? reject(new ReaderGoneError('nobody reads standard output')) : resolve(),
    )
  })

function lineOf({ text }: Message): string {
  return `${text}\n`
}
