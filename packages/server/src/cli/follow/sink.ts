/** Where `eaas audit follow` delivers batches, and how often it tries. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CommandError } from '@eaas/audit/command'
import { messageOf } from '../with-services.js'
import type { Message } from './message.js'

/** Between two attempts, in milliseconds: twice as long each time, up to the last. */
const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 30_000

/**
 * Delivers a batch whole: resolves once the receiver has taken all of it. @throws CommandError if another attempt
 * would end the same way
 */
export type Sink = (batch: readonly Message[]) => Promise<void>

/** Thrown for a batch that was not taken, or only in part, and is delivered again. */
export class NotTakenError extends Error {
  override readonly name = 'NotTakenError'

  constructor(
    message: string,
    /** how long the receiver wants to be left alone, in milliseconds */
    readonly waitMs = 0,
  ) {
    super(message)
  }
}

/**
 * Delivers a batch until it is taken; standard error says why not, once for each reason. Returns false if the signal
 * ended the attempts.
 */
export async function deliver(sink: Sink, batch: readonly Message[], signal: AbortSignal): Promise<boolean> {
  let said = ''
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      await sink(batch)
      if (said !== '') process.stderr.write('eaas: the entries are taken again\n')
      return true
    } catch (error) {
      if (error instanceof CommandError || error instanceof ReaderGoneError) throw error
      const message = messageOf(error)
      if (message !== said) process.stderr.write(`eaas: ${message}; the batch is delivered again\n`)
      said = message
      const waitMs = error instanceof NotTakenError ? error.waitMs : 0
      // Spread, so that several followers do not come back at the same moment.
      const spreadMs = pauseMs * (0.5 + Math.random() / 2)
      await sleep(Math.max(spreadMs, Math.min(waitMs, LONGEST_PAUSE_MS)), undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return false
    }
  }
}

/** Thrown when nobody reads standard output any more. */
export class ReaderGoneError extends Error {
  override readonly name = 'ReaderGoneError'
}

/** Writes lines to standard output; taken is what has left this process. */
export const standardOutput: Sink = (batch) =>
  new Promise((resolve, reject) => {
    const lines = batch.map(({ text }) => `${text}\n`).join('')
    process.stdout.write(lines, (error) =>
      error ? reject(new ReaderGoneError('nobody reads standard output')) : resolve(),
    )
  })
