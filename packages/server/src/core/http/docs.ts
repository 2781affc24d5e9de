/**
 * The API's description for readers and programs: GET /docs, /openapi.json and, for operators, /admin/openapi.json. The build makes
 * these files of the routes and their schemas (docs/openapi); the server sends them as they are.
 */
import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { BUILT_DIRECTORY } from '../../package-directory.js'

/** How long a client may keep the files, in seconds: they change only with the server. */
const MAX_AGE_S = 3_600

const JSON_TYPE = 'application/json'

/** Registers the files; each is read once, at its first request. */
export function serveDocs(app: FastifyInstance, { operatorApi }: { operatorApi: boolean }): void {
  serveFile(app, '/openapi.json', 'openapi.json', JSON_TYPE)
  if (operatorApi) serveFile(app, '/admin/openapi.json', 'operators-openapi.json', JSON_TYPE)
  serveFile(app, '/docs', 'docs.html', 'text/html; charset=utf-8')
}

function serveFile(app: FastifyInstance, url: string, name: string, type: string): void {
  let content: Buffer | undefined
  app.get(url, async (_, reply) => {
    content ??= await readBuilt(name)
    if (type !== JSON_TYPE) reply.header('content-security-policy', policyOf(content))
    return reply
      .headers({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': `public, max-age=${MAX_AGE_S}`,
      })
      .type(type)
      .send(content)
  })
}

async function readBuilt(name: string): Promise<Buffer> {
  try {
    return await readFile(new URL(name, BUILT_DIRECTORY))
  } catch (error) {
    throw new Error(`${name} is missing: npm run build makes it`, { cause: error })
  }
}

/** Each page states its policy; only a header can forbid other pages to frame it. */
export function policyOf(page: Buffer): string {
  const [, policy] = /<meta http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(page.toString()) ?? []
  if (policy === undefined) throw new Error('a page has no content security policy')
  return `${policy}; frame-ancestors 'none'`
}
