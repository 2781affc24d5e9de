/** Where a follower delivers batches. */
import { httpSink } from './http-sink.js'
import type { Message } from './message.js'
import { syslogSink } from './syslog-sink.js'

/**
 * Delivers a whole batch: resolves once the receiver has taken all of it. @throws TryAgainError if it was not taken,
 * or only in part; CommandError if another attempt would end the same way
 */
export type Sink = (batch: readonly Message[]) => Promise<void>

export interface Receiver {
  http?: string
  tokenFile?: string
  syslog?: string
  tls: boolean
}

/** Opens the sink that the options name. @throws CommandError */
export function openSink({ http, tokenFile, syslog, tls }: Receiver): Sink {
  if (http !== undefined) return httpSink(http, tokenFile)
  return syslog === undefined ? standardOutput : syslogSink(syslog, { tls })
}

/** Thrown when the reader of standard output is gone. */
export class ReaderGoneError extends Error {
  override readonly name = 'ReaderGoneError'
}

/** Writes lines to standard output; they count as taken once they have left this process. */
const standardOutput: Sink = (batch) =>
  new Promise((resolve, reject) => {
    const lines = batch.map(({ text }) => `${text}\n`).join('')
    process.stdout.write(lines, (error) =>
      error ? reject(new ReaderGoneError('nobody reads standard output')) : resolve(),
    )
  })
