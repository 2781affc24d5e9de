// A proxy that breaks a rule of the API: it changes what a call says or what is answered.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Call {
  method: string
  path: string
  query: URLSearchParams
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: each fault knows the members of its own call
  body: any
}

export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: each fault knows the members of its own answer
  body: any
}

/** What a proxy does to a call. */
export type Break = (call: Call, forward: () => Promise<Answer>) => Promise<Answer>

/** A fault in the answer. */
export const answering =
  (change: (answer: Answer, call: Call) => void): Break =>
  async (call, forward) => {
    const answer = await forward()
    change(answer, call)
    return answer
  }

/** A fault in how the call is understood. */
export const hearing =
  (change: (call: Call) => void): Break =>
  (call, forward) => {
    change(call)
    return forward()
  }

/** Wraps a `fetch`. Reads JSON bodies, and rewrites them if they were changed. */
export function breaking(fetch: typeof globalThis.fetch, change: Break): typeof globalThis.fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    const { origin, pathname, searchParams } = new URL(request.url)
    const bytes = new Uint8Array(await request.arrayBuffer())
    const said = read(bytes)
    const call: Call = {
      method: request.method,
      path: pathname,
      query: searchParams,
      headers: request.headers,
      body: said,
    }
    const before = JSON.stringify(said)
    const answer = await change(call, async () => {
      const { method, path, query, headers, body } = call
      const url = `${origin}${path}${query.size > 0 ? `?${query}` : ''}`
      const after = JSON.stringify(body)
      const sent = after === before ? bytes : new TextEncoder().encode(after)
      const response = await fetch(url, { method, headers, ...(method === 'GET' ? {} : { body: sent }) })
      const answered = new Uint8Array(await response.arrayBuffer())
      const { status, headers: received } = response
      return { status, headers: new Headers(received), body: read(answered) ?? new TextDecoder().decode(answered) }
    })
    const { status, headers, body } = answer
    const isEmpty = status === 204
    return new Response(isEmpty ? null : typeof body === 'string' ? body : JSON.stringify(body), { status, headers })
  }
}

/** Serves what a broken server answers, at a port of its own. */
export async function startBroken(url: string, change: Break): Promise<{ url: string; close(): void }> {
  const forward = breaking(fetch, change)
  const server: Server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const headers = new Headers()
    for (const [name, value] of Object.entries(request.headers))
      if (name !== 'host' && name !== 'connection' && name !== 'content-length') headers.set(name, String(value))
    const body = Buffer.concat(chunks)
    const answer = await forward(url + request.url, {
      method: request.method ?? 'GET',
      headers,
      ...(body.length > 0 ? { body } : {}),
    })
    const kept = [...answer.headers].filter(([name]) => !/^(content-length|transfer-encoding|connection)$/.test(name))
    response.writeHead(answer.status, Object.fromEntries(kept)).end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

function read(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return undefined
  }
}
