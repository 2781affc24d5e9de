/**
 * Probes for a balancer or a supervisor, without an API key: GET /health and GET /readyz say whether calls would be
 * served, and GET /livez whether the process answers at all. A restart fixes no fault of the database, so /livez does
 * not check it.
 */
import { ROUTES, type wire } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { HealthCheck } from '../api/health.js'

export const LIVE_PATH = '/livez'
export const READY_PATH = '/readyz'
/** The answer to /livez. */
export const ALIVE = { status: 'alive' }

/** Serves the three probes. */
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
