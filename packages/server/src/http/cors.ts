/** Calls from pages of other origins: off unless origins are named. API keys travel in a header, so no cookie is ever let in. */
import { ON_BEHALF_OF_HEADER } from '@eaas/protocol'
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'

/** How long a browser may remember the answer to its preflight, in seconds. */
const MAX_AGE_S = 600

/** Lets pages of these origins call; every other origin gets no permission from the browser. */
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
