/**
 * Allows calls from pages of other origins: none unless origins are configured. API keys are sent in a
 * header, so cookies are never allowed.
 */
import { ON_BEHALF_OF_HEADER } from '@eaas/protocol'
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'

/** How long a browser may remember the answer to its preflight, in seconds. */
const MAX_AGE_S = 600

/** Allows calls from pages of these origins; the browser refuses calls of every other origin. */
export function allowOrigins(app: FastifyInstance, origins: string[]): void {
  app.register(cors, {
    origin: origins,
    credentials: false,
    methods: ['GET', 'POST', 'PATCH', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', ON_BEHALF_OF_HEADER],
    exposedHeaders: ['x-request-id'],
    maxAge: MAX_AGE_S,
  })
}
