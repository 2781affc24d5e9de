/** Builds the HTTP application: the table of routes on Fastify, and what is common to all answers. */
import type { RequestListener, Server } from 'node:http'
import { MAX_BODY_BYTES, ON_BEHALF_OF_HEADER } from '@eaas/protocol'
import cors from '@fastify/cors'
import Fastify, {
  type FastifyInstance,
  type FastifyServerFactory,
  type FastifyServerOptions,
  LogController,
} from 'fastify'
import { createHealthCheck, type HealthSources } from './core/api/health.js'
import { readJsonBodies } from './core/http/bodies/json-body.js'
import { continueInOrder, endConnections, endHoldings, onParserError } from './core/http/connections.js'
import { correlate, requestId, type Tracing } from './core/http/correlation.js'
import { ROUTES } from './core/http/endpoints.js'
import { answerNotFound, sendError } from './core/http/errors.js'
import { serveDocs, serveProbes } from './core/http/open-paths.js'
import { refuseAmbiguousHeads } from './core/http/request-head.js'
import { serveRoutes } from './core/http/serve.js'
import type { TlsListener } from './core/http/tls-listener.js'
import { isAllowed } from './core/runner/admission.js'
import type { Services } from './core/runner/operation.js'
import { createMetrics, type Metrics, serveMetrics } from './observe/metrics.js'
import { createRequestLog } from './observe/request-log.js'
import { serveConsole } from './operators/console.js'
import { operatorRoutes } from './operators/operator-endpoints.js'

/** Long enough for any id within the parser's limit of a head. */
const PARAM_LIMIT = 16_384
/** How long a request may take to arrive. After that, the database's deadlines and the route's limit apply. */
const REQUEST_TIMEOUT_MS = 30_000
const HEADERS_TIMEOUT_MS = 15_000
/** How often Node checks these timeouts. With its default of 30 s, a request could take twice as long. */
const TIMEOUT_CHECK_MS = 2_000
const PREFLIGHT_MAX_AGE_S = 600 // how long a browser may remember the answer to a preflight

/** Without a member, nothing is served, trusted or reported to in that respect. */
interface AppOptions extends Pick<HealthSources, 'findDurability' | 'describeRootKey'> {
  services: Services
  isStopping?: HealthSources['isStopping']
  logger: FastifyServerOptions['logger'] // pino's logger, or false
  trustProxy?: string[] // proxies whose X-Forwarded-For is trusted, `unix` for those on a unix socket
  tls?: TlsListener | undefined
  tracing?: Tracing | undefined
  consoleDirectory?: string | undefined
  corsOrigins?: string[]
  operatorApi?: boolean
  metrics?: Metrics // the same metrics as the committer's
  takesSchemas?: boolean // whether routes with Fastify schemas may be added
}

/** Saves a seventh of the CPU time of a start: our routes validate by their own schemas, not by JSON Schema. */
const NO_SCHEMAS = { compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema } }

function refuseSchema(): never {
  throw new Error('a route of this application cannot have a schema: it has no compiler of JSON Schema')
}

export function buildApp({
  services,
  findDurability,
  describeRootKey,
  isStopping = () => false,
  logger,
  trustProxy = [],
  tls,
  tracing,
  corsOrigins = [],
  operatorApi = false,
  consoleDirectory,
  metrics = createMetrics(),
  takesSchemas = false,
}: AppOptions): FastifyInstance {
  const requestLog = createRequestLog(services, metrics)
  const app = Fastify({
    ...(logger !== undefined && { logger }),
    ...(trustProxy.length > 0 && { trustProxy: trustsOf(trustProxy) }),
    ...(tls !== undefined && { serverFactory: factoryOf(tls) }),
    ...(!takesSchemas && { schemaController: NO_SCHEMAS }),
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    exposeHeadRoutes: false,
    return503OnClosing: false, // when the server stops, requests under way are answered, not refused
    requestIdHeader: false,
    genReqId: requestId,
    routerOptions: { maxParamLength: PARAM_LIMIT },
    frameworkErrors(error, request, reply) {
      requestLog.logWithoutHooks(request, reply)
      sendError(error, request, reply)
    },
    clientErrorHandler: onParserError,
    http: { headersTimeout: HEADERS_TIMEOUT_MS, connectionsCheckingInterval: TIMEOUT_CHECK_MS },
  })
  app.setErrorHandler(sendError)
  correlate(app, tracing)
  endConnections(app, isStopping)
  continueInOrder(app)
  refuseAmbiguousHeads(app)
  requestLog.attach(app)
  answerNotFound(app)
  if (corsOrigins.length > 0) allowOrigins(app, corsOrigins)
  endHoldings(app)
  readJsonBodies(app)
  const checkHealth = createHealthCheck(services, {
    findDurability,
    isStopping,
    countUnpurged: metrics.unpurged,
    listFailedJobs: metrics.failedJobs,
    describeRootKey,
  })
  serveProbes(app, checkHealth)
  serveMetrics(app, services, { metrics, checkHealth, tls })
  serveDocs(app, { operatorApi })
  if (consoleDirectory !== undefined) serveConsole(app, consoleDirectory)
  const forOperators = operatorApi ? operatorRoutes({ checkHealth, ...metrics }) : []
  serveRoutes(app, services, [...ROUTES, ...forOperators])
  return app
}

/** Node gives a peer on a unix socket no address. */
function trustsOf(proxies: string[]): string[] | ((address: string | undefined) => boolean) {
  if (!proxies.includes('unix')) return proxies
  const ranges = proxies.filter((proxy) => proxy !== 'unix')
  return (address) => address === undefined || isAllowed(ranges, address)
}

/** Makes Fastify's servers speak TLS, with the limits that Fastify gives its own servers. */
function factoryOf(tls: TlsListener): FastifyServerFactory {
  return (handler, { http, keepAliveTimeout, requestTimeout }) => {
    const options = { ...(http as object), keepAliveTimeout, requestTimeout }
    // like an HTTP server, except for its connection event
    return tls.createServer(options, handler as RequestListener) as unknown as Server
  }
}

/** Lets pages of these origins call the API. API keys are sent in a header, so cookies are never allowed. */
function allowOrigins(app: FastifyInstance, origins: string[]): void {
  app.register(cors, {
    origin: origins,
    credentials: false,
    methods: ['GET', 'POST', 'PATCH', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', ON_BEHALF_OF_HEADER, 'traceparent', 'x-request-id'],
    exposedHeaders: ['x-request-id', 'traceresponse'],
    maxAge: PREFLIGHT_MAX_AGE_S,
  })
}
