/** GET /health: whether the service works; without authentication. */
import { ROUTES, type wire } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { HealthCheck } from '../../operations/check-health.js'

const { path, alsoStatus } = ROUTES.getHealth

/** Registers the route. */
export function serveHealth(app: FastifyInstance, check: HealthCheck): void {
  const answer = async (_: FastifyRequest, reply: FastifyReply): Promise<wire.Health> => {
    const { health, isReady } = await check()
    reply.code(isReady ? 200 : alsoStatus).header('cache-control', 'no-store')
    return health
  }
  app.route({ method: ['GET', 'HEAD'], url: path, handler: answer })
}
