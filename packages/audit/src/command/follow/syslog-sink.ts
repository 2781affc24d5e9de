/** Sends batches as syslog messages (RFC 5424) over TCP or TLS, each with its length before it (RFC 6587 3.4.1, RFC 5425). */
import { connect, isIP, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { connect as connectTls } from 'node:tls'
import { CommandError } from '../files.js'
import { isRefusal, type Message } from './message.js'
import { TryAgainError } from './request.js'
import type { Sink } from './sink.js'

/** How long a connection may be idle, in milliseconds. */
const PATIENCE_MS = 20_000
/** How long at least a connection stays open once everything was sent, in milliseconds. */
const LINGER_MS = 100
/** RFC 5424 6.2.1: facility "log audit", severities "warning" and "informational". */
const LOG_AUDIT = 13
const WARNING = 4
const INFORMATIONAL = 6

/**
 * Creates the sink. Syslog has no acknowledgement, so each batch has its own connection: the sink ends it, and the
 * receiver's end shows that its process has read everything. A receiver that dies before that resets the connection.
 * One that closes without reading, as a balancer without a backend does, ends first: the sink waits a while for that.
 * @throws CommandError if the address is malformed
 */
export function syslogSink(address: string, { tls = false, patienceMs = PATIENCE_MS } = {}): Sink {
  const { host, port } = readAddress(address)
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

function readAddress(address: string): { host: string; port: number } {
  const [, bracketed, plain, port = ''] = /^(?:\[([\da-f:.]+)\]|([^\s:/[\]]+)):(\d{1,5})$/i.exec(address) ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) < 1 || Number(port) > 65_535)
    throw new CommandError('--syslog: it must be HOST:PORT')
  return { host, port: Number(port) }
}
