/** `eaas audit follow`: entries as they are written, for a SIEM. */
import { setTimeout as sleep } from 'node:timers/promises'
import { visibleLine } from '@eaas/protocol'
import { type Command, Option } from 'commander'
import type { Config } from '../config.js'
import { type NextEntries, type Reached, readNextEntries } from '../operations/export-audit.js'
import type { Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import { listHeads } from '../store/audit.js'
import { addLogOptions, commandConfig, type LogChoice, readWhole, SAME_ENVIRONMENT } from './command.js'
import { type Cursor, readCursor, writeCursor } from './follow/cursor.js'
import { httpSink } from './follow/http-sink.js'
import { FORMATS, type Format, type Message, toMessage } from './follow/message.js'
import { deliver, ReaderGoneError, type Sink, standardOutput } from './follow/sink.js'
import { syslogSink } from './follow/syslog-sink.js'
import { describeTenant, getLogOwner, messageOf, withServices } from './with-services.js'

/** Between two looks at logs, in milliseconds: that have nothing new, and that entries come to. */
const POLL_MS = 1_000
const GATHER_MS = 250
/** A batch takes no further log once it has so many entries; a log adds a page of them at most. */
const BATCH_ENTRIES = 500

interface FollowOptions extends LogChoice {
  all: boolean
  /** where a log begins that the cursor does not have */
  afterId: number
  cursor?: string
  format: Format
  http?: string
  tokenFile?: string
  syslog?: string
  tls: boolean
}

/** Adds the command to those of `eaas audit`. */
export function addAuditFollow(audit: Command): void {
  addLogOptions(audit.command('follow'), ({ all }) => all === true)
    .description(
      'Deliver entries as they are written, each proven, until SIGINT or SIGTERM: one JSON object a line, to standard output or to a SIEM. With a cursor none is left out, and one may arrive twice.',
    )
    .addOption(
      new Option('--all', "the installation's log and every tenant's")
        .conflicts(['tenant', 'installation', 'afterId'])
        .default(false),
    )
    .option('--cursor <file>', 'file in which the command keeps how far it is, and where the next run goes on')
    .addOption(
      new Option(
        '--after-id <id>',
        'where to begin if the cursor does not say (default: at the first entry)',
      ).argParser(readWhole),
    )
    .addOption(new Option('--format <format>', 'form of a line').choices(FORMATS).default('export'))
    .option('--http <url>', 'post NDJSON there; again until it answers 2xx')
    .option('--token-file <file>', 'file with the bearer token for --http')
    .addOption(new Option('--syslog <host:port>', 'send syslog messages (RFC 5424) there over TCP').conflicts('http'))
    .option('--tls', 'with --syslog: by TLS', false)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((options, command: Command) => {
      if (options.tokenFile !== undefined && options.http === undefined)
        command.error("error: option '--token-file' needs '--http'", { exitCode: 2 })
      if (options.tls && options.syslog === undefined)
        command.error("error: option '--tls' needs '--syslog'", { exitCode: 2 })
      return auditFollow(commandConfig(), { afterId: 0, ...options })
    })
}

/** Delivers what the logs have and what comes, until a signal stops it between two batches, or its reader is gone. */
async function auditFollow(config: Config, { cursor: file, format, ...options }: FollowOptions): Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  const stop = () => stopping.abort()
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    const sink = openSink(options)
    const cursor = file === undefined ? new Map() : await readCursor(file)
    // Before anything is delivered: a cursor that cannot be written would have everything delivered again and again.
    if (file !== undefined) await writeCursor(file, cursor)
    await withServices(config, async (services) => {
      const logs = await openLogs(services, cursor, options)
      const waiting: string[] = []
      while (!signal.aborted) {
        const { messages, reached } = await readBatch(logs, waiting, format)
        if (messages.length > 0) {
          if (!(await deliver(sink, messages, signal))) return
          for (const [tenant_id, position] of reached) cursor.set(tenant_id, position)
          // A crash before this delivers the batch again.
          if (file !== undefined) await writeCursor(file, cursor)
        }
        // Only a full batch leaves more to read. A list of all heads for every few entries would cost more than they do.
        if (messages.length < BATCH_ENTRIES)
          await sleep(messages.length > 0 ? GATHER_MS : POLL_MS, undefined, { signal }).catch(() => undefined)
      }
    })
  } catch (error) {
    if (!(error instanceof ReaderGoneError)) throw error
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

function openSink({ http, tokenFile, syslog, tls }: Omit<FollowOptions, 'format'>): Sink {
  if (http !== undefined) return httpSink(http, tokenFile)
  return syslog === undefined ? standardOutput : syslogSink(syslog, { tls })
}

/** The logs that are followed. */
interface Logs {
  /** Lists those that may have something new. */
  list(): Promise<string[]>
  /** Reads what follows what was delivered; undefined if it cannot be read, which standard error has said. */
  read(tenant_id: string): Promise<NextEntries | undefined>
}

type LogsChoice = Pick<FollowOptions, 'all' | 'afterId' | 'tenant' | 'installation'>

async function openLogs(services: Services, cursor: Cursor, { all, afterId, ...log }: LogsChoice): Promise<Logs> {
  const positionOf = (tenant_id: string): Reached => cursor.get(tenant_id) ?? { id: afterId, hash: undefined }
  if (!all) {
    const owner = await getLogOwner(services, log)
    process.stderr.write(`eaas: follows the log of ${describeTenant(owner)}\n`)
    return {
      list: async () => [owner.tenant_id],
      read: (tenant_id) => readNext(services, tenant_id, positionOf(tenant_id)),
    }
  }
  process.stderr.write('eaas: follows every log\n')
  const faults = new Map<string, string>()
  return {
    list: async () => (await listHeads(services.sql)).filter(isNew).map(({ tenant_id }) => tenant_id),
    // A log that was tampered with holds up no other one. If the database is away, the next list() says so.
    async read(tenant_id) {
      try {
        const next = await readNext(services, tenant_id, positionOf(tenant_id))
        faults.delete(tenant_id)
        return next
      } catch (error) {
        const fault = messageOf(error)
        if (faults.get(tenant_id) !== fault)
          process.stderr.write(`eaas: the log ${tenant_id} is not followed: ${visibleLine(fault)}\n`)
        faults.set(tenant_id, fault)
        process.exitCode = 1
        return undefined
      }
    },
  }

  function isNew({ tenant_id, last_id, hash }: { tenant_id: string; last_id: number; hash: Uint8Array }): boolean {
    const known = cursor.get(tenant_id)
    return known?.id !== last_id || known.hash === undefined || Buffer.compare(known.hash, hash) !== 0
  }
}

async function readNext(services: Services, tenant_id: string, after: Reached): Promise<NextEntries> {
  const next = await performAsSystem(services, tenant_id, readNextEntries(after))
  if (next.from_id > after.id + 1) {
    process.stderr.write(
      `eaas: entries ${after.id + 1} to ${next.from_id - 1} of the log ${tenant_id} were purged and are left out\n`,
    )
  }
  return next
}

/**
 * Reads a batch; `reached` is where its logs are once it was taken. The logs that wait have their turn before any
 * other, so that no busy log holds up another one.
 */
async function readBatch(
  logs: Logs,
  waiting: string[],
  format: Format,
): Promise<{ messages: Message[]; reached: Cursor }> {
  const messages: Message[] = []
  const reached: Cursor = new Map()
  if (waiting.length === 0) waiting.push(...(await logs.list()))
  while (messages.length < BATCH_ENTRIES) {
    const tenant_id = waiting.shift()
    if (tenant_id === undefined) break
    const next = await logs.read(tenant_id)
    if (!next || next.entries.length === 0) continue
    messages.push(...next.entries.map((entry) => toMessage(entry, format)))
    reached.set(tenant_id, next.reached)
  }
  return { messages, reached }
}
