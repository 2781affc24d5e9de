// What a sink takes for delivered: receivers that fail, hang, answer wrongly or die in the middle.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { ExportedEntry } from '../../verify/read-export.js'
import { CommandError } from '../files.js'
import { toMessage } from './message.js'
import { TryAgainError } from './request.js'
import { httpSink, syslogSink } from './sinks.js'

/** Long enough for every receiver that answers, since only one that hangs is waited for. */
const HANGS_MS = 300

const told = { on_behalf_of: 'zoë', request_id: 'r-1', trace_id: '0af7651916cd43dd8448eb211c80319c' }
const entry: ExportedEntry = {
  tenant_id: '0195f3a0-0000-7000-8000-000000000001',
  id: 7,
  action: 'key.unwrap',
  key_id: '0195f3a0-0000-7000-8000-000000000002',
  key_version: 2,
  actor: '0195f3a0-0000-7000-8000-000000000003',
  ip_address: '192.0.2.7',
  metadata: JSON.stringify(told),
  created_at: '2026-05-03T12:00:00.000Z',
  hash: new Uint8Array(32).fill(7),
}
const message = toMessage(entry, 'export')

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

describe('an entry on its way', () => {
  it('is the line of an export after its tenant', () => {
    expect(JSON.parse(message.text)).toEqual({
      tenant_id: entry.tenant_id,
      id: 7,
      action: 'key.unwrap',
      key_id: entry.key_id,
      key_version: 2,
      actor: entry.actor,
      ip_address: '192.0.2.7',
      metadata: entry.metadata,
      created_at: entry.created_at,
      hash: '07'.repeat(32),
    })
  })

  it('has the fields of ECS', () => {
    expect(JSON.parse(toMessage(entry, 'ecs').text)).toEqual({
      '@timestamp': '2026-05-03T12:00:00.000Z',
      ecs: { version: '8.11.0' },
      event: {
        kind: 'event',
        module: 'eaas',
        dataset: 'eaas.audit',
        id: `${entry.tenant_id}/7`,
        sequence: 7,
        action: 'key.unwrap',
        category: ['api'],
        type: ['access'],
        outcome: 'success',
      },
      organization: { id: entry.tenant_id },
      user: { id: entry.actor },
      source: { ip: '192.0.2.7', address: '192.0.2.7' },
      trace: { id: '0af7651916cd43dd8448eb211c80319c' },
      http: { request: { id: 'r-1' } },
      eaas: {
        key_id: entry.key_id,
        key_version: 2,
        on_behalf_of: 'zoë',
        hash: '07'.repeat(32),
        metadata: told,
      },
    })
    const refused: ExportedEntry = { ...entry, action: 'budget.refused', ip_address: 'unknown', metadata: null }
    expect(JSON.parse(toMessage(refused, 'ecs').text)).toMatchObject({
      event: { outcome: 'failure', type: ['denied'] },
      source: { address: 'unknown' },
    })
    expect(JSON.parse(toMessage(refused, 'ecs').text)).not.toHaveProperty('source.ip')
  })
})

describe('the HTTP sink', () => {
  const serve = async (listener: RequestListener) => {
    const server = createServer(listener)
    onTestFinished(() => server.closeAllConnections())
    return `http://127.0.0.1:${await listen(server)}/in?secret=x`
  }

  it('posts lines with the token that is in the file then, and takes 2xx for delivered', async () => {
    const seen: unknown[] = []
    const url = await serve((request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (text) => {
        body += text
      })
      request.on('end', () => {
        seen.push([request.method, request.headers['content-type'], request.headers.authorization, body])
        response.writeHead(204).end()
      })
    })
    const tokenFile = join(mkdtempSync(join(tmpdir(), 'eaas-token-')), 'token')
    const sink = httpSink(url, tokenFile)
    writeFileSync(tokenFile, 'first\n')
    await sink([message, message])
    writeFileSync(tokenFile, 'second\n')
    await sink([message])
    const line = `${message.text}\n`
    expect(seen).toEqual([
      ['POST', 'application/x-ndjson', 'Bearer first', line + line],
      ['POST', 'application/x-ndjson', 'Bearer second', line],
    ])
    writeFileSync(tokenFile, 'two words')
    await expect(sink([message])).rejects.toThrow(CommandError)
  })

  it('posts a batch that is too large for the collector in parts, in order; a message that is too large ends it', async () => {
    const taken: string[] = []
    const url = await serve(async (request, response) => {
      const body = await text(request)
      if (body.length > 2 * message.text.length + 2) return response.writeHead(413).end()
      taken.push(...body.trimEnd().split('\n'))
      response.writeHead(200).end()
    })
    const sink = httpSink(url, undefined)
    const texts = ['1', '2', '3', '4', '5']
    await sink(texts.map((text) => ({ ...message, text })))
    const long = texts.map((id) => ({ ...message, text: message.text.replace('"id":7', `"id":${id}`) }))
    await sink(long)
    expect(taken).toEqual([...texts, ...long.map(({ text }) => text)])
    await expect(sink([{ ...message, text: message.text.repeat(3) }])).rejects.toThrow('answered 413')
  })

  it.each([
    ['500', TryAgainError, (_, response) => response.writeHead(500).end()],
    ['429', TryAgainError, (_, response) => response.writeHead(429, { 'retry-after': '7' }).end()],
    ['401', CommandError, (_, response) => response.writeHead(401).end()],
    ['a redirect', TryAgainError, (_, response) => response.writeHead(307, { location: '/other' }).end()],
    ['nothing', TryAgainError, () => undefined],
    ['a cut connection', TryAgainError, (request) => request.socket.destroy()],
  ] satisfies [string, new (message: string) => Error, RequestListener][])(
    'answered with %s, the batch is not delivered',
    async (answer, kind, listener) => {
      const error = await httpSink(await serve(listener), undefined, HANGS_MS)([message]).catch((cause) => cause)
      expect(error).toBeInstanceOf(kind)
      expect(error.message).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/in /)
      expect(error.message).not.toContain('secret')
      if (answer === '429') expect(error.waitMs).toBe(7_000)
    },
  )

  it.each(['http://siem.example.org/in', 'https://user:password@siem.example.org/in', 'ftp://127.0.0.1/', 'siem'])(
    'refuses %s',
    (address) => {
      expect(() => httpSink(address, undefined)).toThrow(CommandError)
    },
  )
})

describe('the syslog sink', () => {
  const serve = async (onConnection: (socket: Socket) => void) => {
    const open = new Set<Socket>()
    const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
      open.add(socket)
      onConnection(socket.on('error', () => undefined))
    })
    onTestFinished(() => {
      for (const socket of open) socket.destroy()
    })
    return `127.0.0.1:${await listen(server)}`
  }

  it('sends each message with its length in bytes, and waits until the receiver has read to the end', async () => {
    let received = ''
    const address = await serve((socket) => {
      socket.setEncoding('utf8').on('data', (text: string) => {
        received += text
      })
      socket.on('end', () => socket.end())
    })
    const refused = toMessage({ ...entry, action: 'budget.refused' } as ExportedEntry, 'export')
    await syslogSink(address)([message, refused])
    const first = `<110>1 2026-05-03T12:00:00.000Z ${hostname()} eaas - key.unwrap - ${message.text}`
    const second = `<108>1 2026-05-03T12:00:00.000Z ${hostname()} eaas - budget.refused - ${refused.text}`
    expect(Buffer.byteLength(first)).toBe(first.length + 1) // of the ë
    expect(received).toBe(`${first.length + 1} ${first}${second.length + 1} ${second}`)
  })

  it.each([
    ['reads and never ends', (socket) => socket.resume()],
    ['resets the connection', (socket) => socket.resetAndDestroy()],
    ['dies after the first bytes', (socket) => socket.once('data', () => socket.resetAndDestroy())],
  ] satisfies [string, (socket: Socket) => void][])(
    'does not take a batch for delivered if the receiver %s',
    async (_, onConnection) => {
      const sink = syslogSink(await serve(onConnection), { patienceMs: HANGS_MS })
      await expect(sink(Array(2_000).fill(message))).rejects.toThrow(TryAgainError)
    },
  )

  it.each([
    ['ends the connection at once and reads nothing', (socket) => socket.end()],
    ['closes it at once', (socket) => socket.destroy()],
    ['reads, and ends it before it has the end', (socket) => socket.resume().once('data', () => socket.end())],
  ] satisfies [string, (socket: Socket) => void][])(
    'does not take one message for delivered if the receiver %s',
    async (_, onConnection) => {
      await expect(syslogSink(await serve(onConnection))([message])).rejects.toThrow(TryAgainError)
    },
  )

  it('does not take a batch for delivered where nobody listens, or the other end speaks no TLS', async () => {
    await expect(syslogSink('127.0.0.1:1')([message])).rejects.toThrow(TryAgainError)
    const address = await serve((socket) => socket.resume().on('end', () => socket.end()))
    await expect(syslogSink(address, { tls: true, patienceMs: HANGS_MS })([message])).rejects.toThrow(TryAgainError)
  })

  it.each(['siem', 'siem:0', 'siem:70000', '::1:514', 'user@siem:514/x', '[siem]:514'])('refuses %s', (address) => {
    expect(() => syslogSink(address)).toThrow(CommandError)
  })
})
