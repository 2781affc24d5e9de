// Stands between a browser and a server, and writes down each request as it left the browser: target, headers, body.
import { createServer, type IncomingMessage, type ServerResponse, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface RecordedRequest {
  method: string
  target: string
  headers: string
  body: string
}

export interface RecordingProxy {
  url: string
  requests: RecordedRequest[]
  close(): Promise<void>
}

/** Starts a proxy for one server. What it answers is passed on as it comes. */
export async function startRecordingProxy(target: string): Promise<RecordingProxy> {
  const requests: RecordedRequest[] = []

  const pass = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const { method = '', url = '', rawHeaders, headers } = incoming
    const body = Buffer.concat(chunks)
    requests.push({ method, target: url, headers: rawHeaders.join('\n'), body: body.toString() })
    const passing = send(new URL(url, target), { method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers)
      response.on('error', () => outgoing.destroy()).pipe(outgoing)
    })
    outgoing.once('close', () => passing.destroy())
    passing.on('error', () => outgoing.destroy()).end(body)
  }
  const server = createServer((incoming, outgoing) => {
    pass(incoming, outgoing).catch(() => outgoing.destroy()) // the browser left
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
