// Runs a whole service in the test's process, on the back end of the running vitest project, reached over real HTTP.
import { Agent, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buildApp } from '../../../packages/server/src/app.js'
import { readConfig } from '../../../packages/server/src/core/config.js'
import type { Services } from '../../../packages/server/src/core/runner/operation.js'
import { openInstallation } from '../../../packages/server/src/installation.js'
import { createMetrics } from '../../../packages/server/src/observe/metrics.js'
import { createTenant, type NewTenant } from '../../../packages/server/src/operators/tenants.js'
import { findConsoleDirectory } from '../../../packages/server/src/package-directory.js'
import { freshDatabase, type TestDatabase } from '../database/database.js'

export const ROOT_KEY = Buffer.alloc(32, 7).toString('base64')

export interface ServiceOptions {
  /** a database shared with another service of the test (PostgreSQL only); a fresh one by default */
  database?: TestDatabase
  now?: () => number
  /** the database's clock; the same as `now` if that is given */
  databaseNow?: () => number
  environment?: Record<string, string | undefined>
  /** the folder of the migrations; the server's own by default */
  migrations?: URL
  /** called while a migration waits for locks */
  onMigrationLocked?: (message: string) => void
}

export interface Service {
  url: string
  services: Services
  database: TestDatabase
  /** the alarms that the service raised, in order */
  alarms: Record<string, unknown>[]
  /** Reads the store keys, as a server does each second. */
  refreshStoreKeys(): Promise<void>
  createTenant(options?: { envelope_only?: boolean; name?: string }): Promise<Caller>
  /** Makes a caller with any API key. */
  caller(secret: string): Caller
  close(): Promise<void>
}

export interface Answer<Body> {
  status: number
  headers: Headers
  body: Body
}

/** Calls the service with one API key. */
export interface Caller {
  secret: string
  tenant: NewTenant
  // biome-ignore lint/suspicious/noExplicitAny: the tests look at the fields that they expect, whatever the answer is
  call<Body = any>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Answer<Body>>
}

let tenants = 0

/** Starts a service. Each has caches of its own, so two services on one database behave like two processes. */
export async function startService({
  database,
  now,
  databaseNow = now,
  environment = {},
  migrations,
  onMigrationLocked,
}: ServiceOptions = {}): Promise<Service> {
  const used = database ?? (await freshDatabase('test', { migrated: true }))
  const config = readConfig({
    EAAS_ROOT_KEY: ROOT_KEY,
    EAAS_LOG_LEVEL: 'silent',
    // A test's own clock differs from the database's, so any difference is allowed.
    ...(now === undefined ? {} : { EAAS_MAX_CLOCK_SKEW_SECONDS: '0' }),
    ...(used.backend === 'postgres' ? { EAAS_DATABASE_URL: used.url } : { EAAS_DATA_DIR: used.dataDir }),
    ...environment,
  })
  const alarms: Record<string, unknown>[] = []
  const metrics = createMetrics()
  const installation = await openInstallation({
    config,
    observeCommit: metrics.observeCommit,
    observeUnrecorded: metrics.observeUnrecorded,
    onAlarm: (message, details) => alarms.push({ message, ...details }),
    onWrongClock: (message) => alarms.push({ message }),
    ...(now ? { now } : {}),
    ...(migrations ? { migrations } : {}),
    ...(onMigrationLocked ? { onMigrationLocked } : {}),
    ...(databaseNow ? { databaseNow: async () => databaseNow() } : {}),
  })
  const { services, findDurability, describeRootKey, refreshStoreKeys } = installation
  const { trustProxy, corsOrigins, operatorApi } = config
  const app = buildApp({
    services,
    findDurability,
    describeRootKey,
    logger: false,
    trustProxy,
    corsOrigins,
    operatorApi,
    // Only if a test asks for it: the other suites need no build of the console.
    consoleDirectory: environment.EAAS_CONSOLE === 'on' ? findConsoleDirectory() : undefined,
    metrics,
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
  return {
    url,
    services,
    database: used,
    alarms,
    refreshStoreKeys,
    async createTenant({ envelope_only = true, name = `tenant ${++tenants}` } = {}) {
      const tenant = await createTenant(services, { name, envelope_only })
      return callerOf(url, tenant.api_key.secret, tenant)
    },
    caller: (secret) => callerOf(url, secret, undefined as unknown as NewTenant),
    async close() {
      await app.close()
      await installation.close()
    },
  }
}

function callerOf(url: string, secret: string, tenant: NewTenant): Caller {
  return {
    secret,
    tenant,
    async call(method, path, body, headers = {}) {
      const isRaw = typeof body === 'string' || body instanceof Uint8Array
      const answer = await send(new URL(url + path), {
        method,
        headers: {
          authorization: `Bearer ${secret}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        body: body === undefined || isRaw ? body : JSON.stringify(body),
      })
      const isJson = /^application\/(problem\+)?json/.test(answer.headers.get('content-type') ?? '')
      return { ...answer, body: isJson ? JSON.parse(answer.body) : answer.body || undefined }
    },
  }
}

const agent = new Agent({ keepAlive: true })

/**
 * Sends a request with `node:http`: `fetch` takes half a millisecond more CPU time for each of the thousands of calls of a run.
 * @param as a connection instead of a shared one, and a path to send as it is instead of that of the URL
 */
export function send(
  url: URL,
  { body, ...options }: { method: string; headers: Record<string, string>; body: string | Uint8Array | undefined },
  as: { agent?: Agent; path?: string } = {},
): Promise<Answer<string>> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { ...options, agent, ...as }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const headers = new Headers()
        for (const [name, values = []] of Object.entries(response.headersDistinct)) {
          for (const value of values) headers.append(name, value)
        }
        resolve({ status: response.statusCode ?? 0, headers, body: Buffer.concat(chunks).toString() })
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}
