/** What followers of all sources share: options, the cursor, and delivery of each batch at least once. */
import { setTimeout as sleep } from 'node:timers/promises'
import { visibleLine } from '@eaas/protocol'
import { type Command, Option } from 'commander'
import type { ExportedEntry } from '../../verify/read-export.js'
import { CommandError } from '../files.js'
import { readKeptPath, readWhole } from '../options.js'
import { type Cursor, readCursor, writeCursor } from './cursor.js'
import { FORMATS, type Format, toMessage } from './message.js'
import { untilDone } from './request.js'
import { openSink, ReaderGoneError, type Receiver } from './sinks.js'

/** Pauses between two reads of the logs, in milliseconds: after no entries, and after some. */
const POLL_MS = 1_000
const GATHER_MS = 250
/** A batch with this many entries takes no further log. Each log adds at most one page. */
export const BATCH_ENTRIES = 500

export interface DeliveryOptions extends Receiver {
  cursor?: string
  /** where to begin in a log that the cursor lacks */
  afterId?: number
  format: Format
}

export function addDeliveryOptions(command: Command): Command {
  return command
    .option(
      '--cursor <file>',
      'file in which the command keeps its position, where the next run continues',
      readKeptPath,
    )
    .addOption(
      new Option(
        '--after-id <id>',
        'where to begin if the cursor does not say (default: at the first entry)',
      ).argParser(readWhole),
    )
    .addOption(new Option('--format <format>', 'form of a line').choices(FORMATS).default('export'))
    .option('--http <url>', 'post NDJSON there, and repeat until it answers 2xx')
    .option('--token-file <file>', 'file with the bearer token for --http; it is read for each request', readKeptPath)
    .addOption(new Option('--syslog <host:port>', 'send syslog messages (RFC 5424) there over TCP').conflicts('http'))
    .option('--tls', 'with --syslog: by TLS', false)
    .hook('preAction', (_, action) => {
      const options = action.opts<DeliveryOptions>()
      const { tokenFile, http, tls, syslog } = options
      if (tokenFile !== undefined && http === undefined) action.error("error: option '--token-file' needs '--http'")
      if (tls && syslog === undefined) action.error("error: option '--tls' needs '--syslog'")
      try {
        openSink(options) // connects only for the first batch
      } catch (error) {
        if (!(error instanceof CommandError)) throw error
        action.error(`error: option ${error.message}`)
      }
    })
}

export interface Batch {
  entries: ExportedEntry[]
  /** the positions in the logs once the batch is delivered */
  reached: Cursor
}

export interface Delivery {
  readonly cursor: Cursor
  readonly signal: AbortSignal
  tell(line: string): void
  /** Delivers batches until the signal stops it. After fewer than `BATCH_ENTRIES` entries it waits for more. */
  run(read: () => Promise<Batch>): Promise<void>
}

/** Lets a source deliver until a signal stops it, or the reader of the output is gone. `name` begins lines on standard error. */
export async function deliverFrom(
  { cursor: file, format, ...receiver }: DeliveryOptions,
  { name }: { name: string },
  source: (delivery: Delivery) => Promise<void>,
): Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  const stop = () => stopping.abort()
  const tell = (line: string) => void process.stderr.write(`${name}: ${visibleLine(line)}\n`)
  const words = { again: 'the batch is delivered again', done: 'the entries are taken again' }
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    const sink = openSink(receiver)
    const cursor: Cursor = file === undefined ? new Map() : await readCursor(file)
    // Written before the first delivery: if the cursor cannot be written, each run would deliver everything again.
    if (file !== undefined) await writeCursor(file, cursor)
    const run: Delivery['run'] = async (read) => {
      while (!signal.aborted) {
        const { entries, reached } = await read()
        const batch = entries.map((entry) => toMessage(entry, format))
        if (batch.length > 0 && !(await untilDone(() => sink(batch), { signal, tell, words }))) return
        for (const [tenant_id, position] of reached) cursor.set(tenant_id, position)
        // A crash before this line delivers the batch again.
        if (batch.length > 0 && file !== undefined) await writeCursor(file, cursor)
        // Only after a full batch may more be waiting. Listing all heads for every few entries would cost more than the entries.
        if (batch.length < BATCH_ENTRIES)
          await sleep(batch.length > 0 ? GATHER_MS : POLL_MS, undefined, { signal }).catch(() => undefined)
      }
    }
    await source({ cursor, signal, tell, run })
  } catch (error) {
    if (!(error instanceof ReaderGoneError)) throw error
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}
