/** Where a follower delivers batches: standard output, a collector over HTTP, or syslog. */
import { connect, isIP, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { connect as connectTls } from 'node:tls'
import { CommandError } from '../files.js'
import { isRefusal, type Message } from './message.js'
import { readAddress, readToken, send, TryAgainError, withoutQuery } from './request.js'

/** How long a collector may take to answer, and a syslog connection may be idle, in milliseconds. */
const PATIENCE_MS = 20_000
const TOO_LARGE = 413

/** Delivers a whole batch. @throws TryAgainError if not all of it was taken, CommandError if another attempt would not help */
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

/** Writes lines to standard output. They count as delivered once they have left this process. */
const standardOutput: Sink = (batch) =>
  new Promise((resolve, reject) => {
    process.stdout.write(batch.map(lineOf).join(''), (error) =>
      error ? reject(new ReaderGoneError('nobody reads standard output')) : resolve(),
    )
  })

function lineOf({ text }: Message): string {
  return `${text}\n`
}

/** The least time that a connection stays open after everything was sent, in milliseconds. */
const LINGER_MS = 100
/** RFC 5424 6.2.1: facility "log audit", severities "warning" and "informational". */
const LOG_AUDIT = 13
const WARNING = 4
const INFORMATIONAL = 6

/**
 * Sends batches as syslog messages (RFC 5424) over TCP or TLS, each with its length before it (RFC 6587 3.4.1, RFC
 * 5425). Syslog has no acknowledgement, so each batch has its own connection: the sink ends it, and when the receiver
 * ends it too, the receiver's process has read everything. If that process dies first, the connection is reset. A
 * receiver that closes without reading, as a balancer without a backend does, ends it first, so the sink waits a while
 * before it does.
 * @throws CommandError if the address is malformed
 */
export function syslogSink(address: string, { tls = false, patienceMs = PATIENCE_MS } = {}): Sink {
  const { host, port } = readReceiver(address)
  const open = (): Socket =>
    tls
      ? connectTls({ host, port, ...(isIP(host) ? {} : { servername: host }) })
      : connect({ host, port, allowHalfOpen: true })
  return (batch) =>
    new Promise((resolve, reject) => {
      const opened = performance.now()
      const socket = open()
      let connectMs = 0
      let isEnded = false
      const fail = (reason: string) => {
        socket.destroy()
        reject(new TryAgainError(`${address} did not take the messages (${reason})`))
      }
      socket
        .setTimeout(patienceMs, () => fail('no answer'))
        .on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? error.name))
        .on('connect', () => {
          connectMs = performance.now() - opened
        })
        .on('end', () => {
          isEnded = socket.writableEnded
          if (!isEnded) fail('closed early')
        })
        .on('close', () => (isEnded && socket.writableFinished ? resolve() : fail('closed')))
        .resume()
        .write(batch.map(frame).join(''), () => {
          // At most half of the time after which an idle connection fails.
          const lingerMs = Math.min(Math.max(LINGER_MS, 2 * connectMs), patienceMs / 2)
          setTimeout(() => socket.end(), lingerMs)
        })
    })
}

function frame({ entry, text }: Message): string {
  const priority = LOG_AUDIT * 8 + (isRefusal(entry) ? WARNING : INFORMATIONAL)
  const message = `<${priority}>1 ${entry.created_at} ${OWN_NAME} eaas - ${entry.action} - ${text}`
  return `${Buffer.byteLength(message)} ${message}`
}

/** RFC 5424 6.2.4: printable ASCII. */
const OWN_NAME =
  hostname()
    .replace(/[^\x21-\x7e]/g, '')
    .slice(0, 255) || '-'

function readReceiver(address: string): { host: string; port: number } {
  const [, bracketed, plain, port = ''] = /^(?:\[([\da-f:.]+)\]|([^\s:/[\]]+)):(\d{1,5})$/i.exec(address) ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535)
    throw new CommandError('--syslog: it must be HOST:PORT')
  return { host, port: Number(port) }
}
