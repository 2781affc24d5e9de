// An application as small as it can be: a page under `default-src 'self'`, a broker, and a mint of short-lived API keys.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { createBroker, toNodeHandler } from '../../packages/sdk/src/broker.js'

export interface PageServer {
  /** `http://127.0.0.1:…`, the page's origin. */
  url: string
  port: number
  /** Path and status of each call of the API and of what the page asks besides, in order. */
  answered: { path: string; status: number }[]
  /** What calls are passed to, once it is known. */
  service: { url: string; brokerKey: string; keyId: string; mint: () => Promise<object> } | undefined
  close(): Promise<void>
}

/** The pages by their paths, each with the script that it loads. */
const PAGES: ReadonlyMap<string, string> = new Map([
  ['/', 'page'],
  ['/suite', 'suite'],
])

/** Bundles the pages and serves them. What is asked for below `/redirecting/` is sent to `/followed`. */
export async function startPageServer(): Promise<PageServer> {
  const files = await bundle()
  const answered: PageServer['answered'] = []
  let broker: ReturnType<typeof toNodeHandler> | undefined

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? ''
    response.once('finish', () => answered.push({ path, status: response.statusCode }))
    const { service } = pages
    if (path.startsWith('/api/eaas/') && service) {
      broker ??= toNodeHandler(
        createBroker({
          baseUrl: service.url,
          apiKey: service.brokerKey,
          authenticate: ({ headers }) => (headers.get('cookie') === 'sid=ada' ? { id: 'ada' } : undefined),
          allow: {
            wrap: [service.keyId],
            unwrap: [service.keyId],
            hash: [service.keyId],
            indexSecret: [service.keyId],
          },
        }),
      )
      return broker(request, response)
    }
    if (path === '/api/key' && request.method === 'POST' && service) {
      return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(await service.mint()))
    }
    if (path.startsWith('/redirecting/')) return response.writeHead(307, { location: '/followed' }).end()
    const script = files.get(path)
    const page = PAGES.get(path)
    const connect = service ? `connect-src 'self' ${service.url}` : ''
    response.writeHead(script !== undefined || page !== undefined ? 200 : 404, {
      'content-type': script === undefined ? 'text/html' : 'text/javascript',
      'content-security-policy': `default-src 'self'; ${connect}`,
      'set-cookie': 'sid=ada; HttpOnly; SameSite=Strict',
    })
    const module = `<script type="module" src="/${page}.js"></script>`
    response.end(script ?? `<!doctype html><title>test</title><link rel="icon" href="/none">${page ? module : ''}`)
  }
  const server = createServer((request, response) => {
    serve(request, response).catch((error) => response.writeHead(500).end(String(error)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const pages: PageServer = {
    url: `http://127.0.0.1:${port}`,
    port,
    answered,
    service: undefined,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
  return pages
}

async function bundle(): Promise<Map<string, Uint8Array>> {
  const folder = fileURLToPath(new URL('./page/', import.meta.url))
  const sources = fileURLToPath(new URL('../../packages/sdk/src', import.meta.url))
  const { outputFiles } = await build({
    entryPoints: [`${folder}page.ts`, `${folder}worker.ts`, `${folder}suite.mjs`],
    alias: Object.fromEntries(
      ['/broker', '/offline', '/testing', ''].map((entry) => [
        `@eaas/sdk${entry}`,
        `${sources}${entry || '/index'}.ts`,
      ]),
    ),
    outdir: folder,
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2022',
    write: false,
    logLevel: 'error',
  })
  return new Map(outputFiles.map(({ path, contents }) => [`/${path.slice(folder.length)}`, contents]))
}
