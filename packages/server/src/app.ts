/** Builds the HTTP application: the table of routes on Fastify, with what all answers have in common. */
import { randomUUID } from 'node:crypto'
import { MAX_BODY_BYTES } from '@eaas/protocol'
import Fastify, { type FastifyInstance, type FastifyServerOptions, LogController } from 'fastify'
import { refuseAmbiguousHeads } from './http/ambiguous-head.js'
import { ROUTES } from './http/bind-routes.js'
import { readJsonBodies } from './http/bodies/json-body.js'
import { endConnections } from './http/connections.js'
import { allowOrigins } from './http/cors.js'
import { serveDocs } from './http/endpoints/docs.js'
import { serveHealth } from './http/endpoints/health.js'
import { sendError } from './http/errors.js'
import { endHoldings } from './http/held-until-answered.js'
import { createMetrics, type Metrics, serveMetrics } from './http/metrics.js'
import { answerNotFound } from './http/not-found.js'
import { serveOpenApi } from './http/openapi/openapi.js'
import { sendParserError } from './http/parser-errors.js'
import { createRequestLog } from './http/request-log.js'
import { serveRoutes } from './http/serve.js'
import { createHealthCheck } from './operations/check-health.js'
import type { Services } from './runner/operation.js'
import type { Durability } from './store/settings.js'
import { probeCommit as probe } from './store/writability.js'

/**
 * Long enough for any text that a client may send as an id; anything longer than the parser's header limit
 * never gets here.
 */
const PARAM_LIMIT = 16_384
/**
 * For a request to arrive. After that, each wait for the database has a deadline, and a long call has a limit
 * in its route.
 */
const REQUEST_TIMEOUT_MS = 30_000
const HEADERS_TIMEOUT_MS = 15_000
/** How often Node checks these timeouts; with its default of 30 s a request could take twice as long. */
const TIMEOUT_CHECK_MS = 2_000

export interface AppOptions {
  services: Services
  /** reads the durability in force from the database, for /health */
  findDurability: () => Promise<Durability>
  /**
   * commits a write that changes nothing; by default with a deadline, after which the connection still waits
   */
  probeCommit?: () => Promise<void>
  /** whether the server is stopping, so that /health turns callers away; by default never */
  isStopping?: () => boolean
  /** pino's logger, or false */
  logger: FastifyServerOptions['logger']
  /** proxies whose X-Forwarded-For is trusted; none by default */
  trustProxy?: string[]
  /** origins of pages that may call from a browser; none by default */
  corsOrigins?: string[]
  /** the metrics that the committer reports to as well; by default new ones, which measure calls only */
  metrics?: Metrics
  /** whether others may add routes that have schemas of Fastify; by default such a route is refused */
  takesSchemas?: boolean
}

/**
 * Fastify loads its compilers of JSON Schema where none are given, in a seventh of the CPU time of a start.
 * Our routes use parse.ts.
 */
const NO_SCHEMAS = { compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema } }

function refuseSchema(): never {
  throw new Error('a route of this application cannot have a schema: it has no compiler of JSON Schema')
}

/** Builds the application; does not listen yet. */
export function buildApp({
  services,
  findDurability,
  probeCommit = () => probe(services.sql),
  isStopping = () => false,
  logger,
  trustProxy = [],
  corsOrigins = [],
  metrics = createMetrics(),
  takesSchemas = false,
}: AppOptions): FastifyInstance {
  const requestLog = createRequestLog(services, metrics)
  const app = Fastify({
    ...(logger === undefined ? {} : { logger }),
    ...(trustProxy.length > 0 ? { trustProxy } : {}),
    ...(takesSchemas ? {} : { schemaController: NO_SCHEMAS }),
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    exposeHeadRoutes: false,
    return503OnClosing: false, // requests under way when the server stops are answered, not refused
    requestIdHeader: false,
    genReqId: () => randomUUID(),
    routerOptions: { maxParamLength: PARAM_LIMIT },
    frameworkErrors(error, request, reply) {
      requestLog.logWithoutHooks(request, reply)
      sendError(error, request, reply)
    },
    clientErrorHandler: sendParserError,
    http: { headersTimeout: HEADERS_TIMEOUT_MS, connectionsCheckingInterval: TIMEOUT_CHECK_MS },
  })
  app.setErrorHandler(sendError)
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
  endConnections(app, isStopping)
  refuseAmbiguousHeads(app)
  requestLog.attach(app)
  answerNotFound(app)
  if (corsOrigins.length > 0) allowOrigins(app, corsOrigins)
  endHoldings(app)
  readJsonBodies(app)
  const checkHealth = createHealthCheck(services, {
    findDurability,
    probeCommit,
    isStopping,
    countUnpurged: metrics.unpurged,
  })
  serveHealth(app, checkHealth)
  serveMetrics(app, services, { metrics, checkHealth })
  serveOpenApi(app)
  serveDocs(app)
  serveRoutes(app, services, ROUTES)
  return app
}
