/** GET /health: whether the service can do its work, without authentication. */
import type { wire } from '@eaas/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Services } from '../operations/operation.js'
import { type Durability, durabilityWithin } from '../store/settings.js'

/** How long the database may take to answer before it counts as down, in milliseconds. */
const PATIENCE_MS = 1_000

/** Registers the route. Calls that come together share one question to the database. */
export function serveHealth(
  app: FastifyInstance,
  { committer }: Services,
  findDurability: () => Promise<Durability>,
): void {
  let durability: Durability = 'asynchronous' // until the database said better
  let asking: Promise<Durability | undefined> | undefined
  const ask = () => {
    asking ??= durabilityWithin(findDurability, PATIENCE_MS).finally(() => {
      asking = undefined
    })
    return asking
  }

  const answer = async (_: FastifyRequest, reply: FastifyReply): Promise<wire.Health> => {
    const found = await ask()
    durability = found ?? durability
    const database = found ? (committer.alarmed().length === 0 ? 'up' : 'alarm') : 'down'
    const status = database === 'up' ? 'healthy' : 'degraded'
    reply.code(status === 'healthy' ? 200 : 503).header('cache-control', 'no-store')
    return { status, database, cache: 'up', hsm: 'none', durability }
  }
  app.route({ method: ['GET', 'HEAD'], url: '/health', handler: answer })
}
