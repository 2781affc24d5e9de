// What a page downloads to seal one form, and to show one row: bundled as an application is, served compressed and under
// `default-src 'self'`, used in Chromium before a broker, and counted by Chromium.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import type { Page } from 'playwright-core'
import { createBroker, toNodeHandler } from '../../../packages/sdk/src/broker.js'
import { createClient, text } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import { ROOT } from '../sources/source-files.js'

const FIELDS = `{
  email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
  complaint: text(),
}`
const MODEL = `eaas.model({ name: 'intakes', keyId, bind: ['id'], format: 'text', fields: ${FIELDS} })`
/** What each page does, once. */
const USES = {
  seal: `${MODEL}.encrypt(row)`,
  show: `${MODEL}.decrypt(row)`,
} as const
const FORM = { id: 7, email: 'Ada@example.org', complaint: 'sleeps badly' }

type Run = (keyId: string, row: object) => Promise<Downloaded['row']>

const PAGE = '<!doctype html><title>page</title><script type="module" src="/page.js"></script>'

export interface Downloaded {
  /** The row that the page made. */
  row: Record<string, unknown>
  /** The bytes of its scripts as they were sent, and the names of the files. */
  bytes: number
  files: string[]
  /** What broke the page's policy. */
  violations: string[]
}

/**
 * @param open opens a URL in Chromium
 * @param sdk the module that the pages import: the package, or its sources
 */
export async function measureUses(
  open: (url: string) => Promise<Page>,
  sdk: string,
): Promise<Record<keyof typeof USES, Downloaded>> {
  const service = createTestService()
  const eaas = createClient(service)
  const { id: keyId } = await eaas.keys.create({ name: 'intakes' })
  const fields = { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), complaint: text() }
  const stored = await eaas.model({ name: 'intakes', keyId, bind: ['id'], format: 'text', fields }).encrypt(FORM)
  const broker = toNodeHandler(createBroker({ ...service, authenticate: () => ({ id: 'ada' }), allow: () => true }))
  const measure = async (use: keyof typeof USES, row: object) => {
    const server = await serve(await bundle(use, sdk), broker)
    const page = await open(server.url)
    try {
      await page.waitForFunction(() => 'run' in globalThis)
      return await page.evaluate(
        async ({ keyId, row }) => {
          const violations: string[] = []
          document.addEventListener('securitypolicyviolation', (event) => violations.push(event.effectiveDirective))
          const made = await (globalThis as unknown as { run: Run }).run(keyId, row)
          const scripts = performance
            .getEntriesByType('resource')
            .filter(({ name }) => name.endsWith('.js')) as PerformanceResourceTiming[]
          const bytes = scripts.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)
          return { row: made, bytes, files: scripts.map(({ name }) => new URL(name).pathname), violations }
        },
        { keyId, row },
      )
    } finally {
      await page.close()
      await server.close()
    }
  }
  return { seal: await measure('seal', FORM), show: await measure('show', stored) }
}

async function bundle(use: keyof typeof USES, sdk: string): Promise<Map<string, Uint8Array>> {
  const contents = `
    import { createClient, text } from ${JSON.stringify(sdk)}
    const eaas = createClient({ baseUrl: '/api/eaas' })
    globalThis.run = (keyId, row) => ${USES[use]}`
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: ROOT },
    bundle: true,
    minify: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    outdir: 'out',
    entryNames: 'page',
    write: false,
    logLevel: 'error',
  })
  return new Map(
    outputFiles.map(({ path, contents }) => [path.replace(/^.*\/out/, ''), gzipSync(contents, { level: 9 })]),
  )
}

async function serve(files: ReadonlyMap<string, Uint8Array>, broker: ReturnType<typeof toNodeHandler>) {
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    if (path.startsWith('/api/eaas/')) return void broker(request, response)
    const script = files.get(path)
    response.setHeader('content-security-policy', "default-src 'self'")
    if (path !== '/' && !script) return response.writeHead(404).end()
    if (!script) return response.setHeader('content-type', 'text/html').end(PAGE)
    response.writeHead(200, { 'content-type': 'text/javascript', 'content-encoding': 'gzip' }).end(script)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    },
  }
}
