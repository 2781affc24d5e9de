// Puts the service in memory behind a real port, for programs that call it over the network.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { TestService } from '@eaas/sdk/testing'

/** Answers as the service does, after a pause; `/api-key` answers with its API key, marked as expired. */
export async function relay(service: TestService, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 20))
  response.setHeader('content-type', 'application/json')
  if (request.url === '/api-key') {
    const [created_at, expires_at] = [new Date(0).toISOString(), new Date(1).toISOString()]
    response.end(JSON.stringify({ secret: service.apiKey, created_at, expires_at }))
    return
  }
  const headers = new Headers({ 'content-type': 'application/json' })
  for (const name of ['authorization', 'eaas-on-behalf-of']) {
    const value = request.headers[name]
    if (typeof value === 'string') headers.set(name, value)
  }
  const answer = await service.fetch(service.baseUrl + request.url, {
    method: request.method ?? 'GET',
    headers,
    ...(chunks.length > 0 ? { body: new Uint8Array(Buffer.concat(chunks)) } : {}),
  })
  response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
  response.end(Buffer.from(await answer.arrayBuffer()))
}
