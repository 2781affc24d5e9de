/** Paths that need no API key: the API's description, and the probes for a balancer or a supervisor. */
import { readFile } from 'node:fs/promises'
import { ROUTES, type wire } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { BUILT_DIRECTORY } from '../../package-directory.js'
import type { HealthCheck } from '../api/health.js'

const MAX_AGE_S = 3_600 // how long a client may keep the files, which change only with the server
const JSON_TYPE = 'application/json'

/** The build makes the files (docs/openapi); each is read at its first request. */
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
    reply.headers({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
    return reply.header('cache-control', `public, max-age=${MAX_AGE_S}`).type(type).send(content)
  })
}

async function readBuilt(name: string): Promise<Buffer> {
  try {
    return await readFile(new URL(name, BUILT_DIRECTORY))
  } catch (error) {
    throw new Error(`${name} is missing: npm run build makes it`, { cause: error })
  }
}

/** Each page states its own policy, but only a header can forbid other pages to frame it. */
export function policyOf(page: Buffer): string {
  const [, policy] = /<meta http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(page.toString()) ?? []
  if (policy === undefined) throw new Error('a page has no content security policy')
  return `${policy}; frame-ancestors 'none'`
}

export const LIVE_PATH = '/livez'
export const READY_PATH = '/readyz'
export const ALIVE = { status: 'alive' }

/**
 * Serves the probes. GET /health and GET /readyz say whether calls would be served. GET /livez says whether the process
 * answers at all; it does not check the database, since a restart fixes no fault of it.
 */
export function serveProbes(app: FastifyInstance, check: HealthCheck): void {
  const { path, alsoStatus } = ROUTES.getHealth
  const answerReady = async (_: unknown, reply: FastifyReply): Promise<wire.Health> => {
    const { health, isReady } = await check()
    reply.code(isReady ? 200 : alsoStatus).header('cache-control', 'no-store')
    return health
  }
  const answerAlive = async (_: unknown, reply: FastifyReply): Promise<typeof ALIVE> => {
    reply.header('cache-control', 'no-store')
    return ALIVE
  }
  for (const url of [path, READY_PATH]) app.route({ method: ['GET', 'HEAD'], url, handler: answerReady })
  app.route({ method: ['GET', 'HEAD'], url: LIVE_PATH, handler: answerAlive })
}
