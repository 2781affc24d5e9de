/** Mounts a broker on node:http: in Express, Connect, Fastify, or a server without a framework. */
import type { Broker } from '../broker.js'
import { readBinary } from '../input.js'
import { BrokerRefusal, refusalResponse } from './problem.js'

/** The parts of an IncomingMessage that are used; Express adds `originalUrl` and `body`. */
export interface NodeBrokerRequest extends AsyncIterable<Uint8Array> {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly originalUrl?: string | undefined
  readonly rawHeaders: readonly string[]
  readonly readableEnded?: boolean | undefined
  readonly body?: unknown
}

export interface NodeBrokerResponse {
  readonly headersSent: boolean
  once(event: 'close', listener: () => void): unknown
  writeHead(status: number, headers: Record<string, string>): unknown
  end(body?: Uint8Array): unknown
}

/** Headers of the connection, and those that a Request sets itself. The broker needs none of them. */
const LEFT_OUT = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'expect', 'te', 'trailer'])
const UNREADABLE = new BrokerRefusal('E_MALFORMED_REQUEST', 'not a request that the broker can read')

/**
 * Makes a handler for node:http from a broker. Mount it before anything that reads bodies. If Express has already read
 * the body, the handler takes `request.body`, and turns a parsed one into JSON again.
 * @example
 * ```ts
 * const handle = toNodeHandler(broker)
 *
 * app.use('/api/eaas', handle) // Express, Connect
 *
 * fastify.addHook('onRequest', async (request, reply) => {
 *   if (request.url.startsWith('/api/eaas/')) handle(request.raw, reply.hijack().raw)
 * })
 * ```
 */
export function toNodeHandler(broker: Broker): (request: NodeBrokerRequest, response: NodeBrokerResponse) => void {
  return (request, response) => void answer(broker, request, response)
}

async function answer(broker: Broker, incoming: NodeBrokerRequest, outgoing: NodeBrokerResponse): Promise<void> {
  const left = new AbortController()
  outgoing.once('close', () => left.abort())
  const request = readRequest(incoming, left.signal)
  const response = request ? await broker(request) : refusalResponse(UNREADABLE)
  const body = new Uint8Array(await response.arrayBuffer())
  if (outgoing.headersSent) return // the application has already answered, for example after a timeout
  // The unread rest of a body must not be taken for the next request.
  const isRead = request === undefined || request.body === null || incoming.readableEnded === true
  outgoing.writeHead(response.status, {
    ...Object.fromEntries(response.headers),
    'content-length': String(body.length),
    ...(isRead ? {} : { connection: 'close' }),
  })
  outgoing.end(body)
}

/** Makes a Request; undefined if that is impossible: no path, a method such as TRACE, a broken header. */
function readRequest(incoming: NodeBrokerRequest, signal: AbortSignal): Request | undefined {
  const { method = 'GET', rawHeaders } = incoming
  const target = incoming.originalUrl ?? incoming.url ?? ''
  if (!target.startsWith('/')) return undefined
  try {
    const headers = new Headers()
    for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
      const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
      if (name === ':authority') headers.append('host', value)
      else if (!name.startsWith(':') && !LEFT_OUT.has(name.toLowerCase())) headers.append(name, value)
    }
    const hasBody = method !== 'GET' && method !== 'HEAD'
    // The broker reads the host from the header, and from the URL only if that is missing.
    return new Request(`http://localhost${target}`, {
      method,
      headers,
      signal,
      ...(hasBody ? { body: bodyOf(incoming), duplex: 'half' } : {}),
    } as RequestInit)
  } catch {
    return undefined // not the platform's error, which may quote a header
  }
}

function bodyOf(incoming: NodeBrokerRequest): ReadableStream<Uint8Array> | Uint8Array | string {
  const { body } = incoming
  if (incoming.readableEnded === true && body !== undefined)
    return typeof body === 'string' ? body : (readBinary(body) ?? JSON.stringify(body))
  let chunks: AsyncIterator<Uint8Array> | undefined
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        chunks ??= incoming[Symbol.asyncIterator]()
        const { done, value } = await chunks.next()
        if (done) controller.close()
        else controller.enqueue(new Uint8Array(value)) // a copy, since Node's buffers share memory
      },
      // Without `chunks.return()`, which would end the connection before the answer is sent.
    },
    { highWaterMark: 0 },
  )
}
