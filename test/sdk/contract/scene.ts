// One tenant of a service as the cases of the contract see it, and what went over the wire while one was played.
import { randomUUID } from 'node:crypto'
import { vi } from 'vitest'
import { type Client, createClient, type DekOptions, type Entry } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import { doDueWork } from '../../../packages/server/src/core/jobs/due-work.js'
import { type Service, startService } from '../../support/service/service.js'

const START = Date.parse('2026-05-31T12:00:00.000Z')
export const MINUTE_MS = 60_000
export const DAY_MS = 1_440 * MINUTE_MS

/** What the tenant of a case is like. */
export interface SceneOptions {
  serverMode?: boolean
  destroyWindowDays?: number
}

/** One answer of the service, in words that are the same for every service that keeps the contract. */
export interface Exchange {
  asked: string
  status: number
  headers: Record<string, string | null>
  body: unknown
}

export interface Scene {
  /** A client of the tenant's API key. */
  connect(deks?: DekOptions): Client
  /** A request as no SDK would send it. */
  raw(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<number>
  /** The entries of the audit log, or those of an action, the oldest first; without that of the API key. */
  entries(action?: Entry['action']): Promise<Entry[]>
  /** Lets time pass on the service, and what is due be done. */
  pass(ms: number): Promise<void>
  /** Lets time pass for the clients alone: their DEKs grow older. */
  passForClients(ms: number): void
  now(): number
}

export interface Stage {
  play(options: SceneOptions, run: (scene: Scene) => Promise<void>): Promise<Exchange[]>
  close(): Promise<void>
}

interface Tenant {
  name: string
  baseUrl: string
  apiKey: string
  fetch: typeof fetch
  entries(): Promise<Entry[]>
  doDueWork(): Promise<void>
}

/** The service of `@eaas/sdk/testing`: a new one for each case. */
export function inMemory(): Stage {
  const clock = { now: START }
  return {
    play: ({ serverMode = false, ...options }, run) =>
      play(clock, run, async () => {
        const service = createTestService({ ...options, envelopeOnly: !serverMode, now: () => clock.now })
        // What is due is done at the next call, whatever it is.
        return {
          ...service,
          name: 'test',
          entries: async () => service.entries(),
          doDueWork: async () => void (await service.fetch(`${service.baseUrl}/health`)),
        }
      }),
    close: async () => undefined,
  }
}

/** A real server on a real database, over HTTP: a new tenant for each case. */
export function overHttp(): Stage {
  const clock = { now: START }
  const services = new Map<number | undefined, Promise<Service>>()
  const serviceOf = (days: number | undefined) => {
    const environment: Record<string, string> = days === undefined ? {} : { EAAS_DESTROY_WINDOW_DAYS: String(days) }
    const service = services.get(days) ?? startService({ now: () => clock.now, environment })
    services.set(days, service)
    return service
  }
  return {
    play: ({ serverMode = false, destroyWindowDays }, run) =>
      play(clock, run, async () => {
        const { url, createTenant, services } = await serviceOf(destroyWindowDays)
        const { secret, tenant } = await createTenant({ envelope_only: !serverMode, name: randomUUID() })
        const auditor = createClient({ baseUrl: url, apiKey: secret })
        return {
          name: tenant.name,
          baseUrl: url,
          apiKey: secret,
          fetch,
          async entries() {
            const all: Entry[] = []
            for await (const entry of auditor.audit.entries({ order: 'asc' })) all.push(entry)
            return all
          },
          doDueWork: async () => void (await doDueWork(services)),
        }
      }),
    async close() {
      for (const service of services.values()) await (await service).close()
    },
  }
}

async function play(
  clock: { now: number },
  run: (scene: Scene) => Promise<void>,
  open: () => Promise<Tenant>,
): Promise<Exchange[]> {
  clock.now = START
  const tenant = await open()
  const seen: { request: Request; response: Response; text: string }[] = []
  const recording: typeof fetch = async (input, init) => {
    clock.now += 1 // no two calls at the same time: what is listed by time has one order
    const request = new Request(input, init)
    const response = await tenant.fetch(request)
    seen.push({ request, response, text: await response.clone().text() })
    return response
  }
  const clients: Client[] = []
  const clientNow = performance.now.bind(performance)
  let ahead = 0
  const timer = vi.spyOn(performance, 'now').mockImplementation(() => clientNow() + ahead)
  const { baseUrl, apiKey } = tenant
  const entries = async (wanted?: Entry['action']) =>
    (await tenant.entries()).filter(({ action }) => action === (wanted ?? action) && action !== 'api_key.create')
  await run({
    entries,
    connect(deks = {}) {
      const client = createClient({ baseUrl, apiKey, fetch: recording, retries: 0, deks })
      clients.push(client)
      return client
    },
    async raw(method, path, body, headers = {}) {
      const isText = typeof body === 'string'
      const response = await recording(baseUrl + path, {
        method,
        headers: {
          authorization: `Bearer ${apiKey}`,
          ...(body === undefined || isText ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
      })
      return response.status
    },
    async pass(ms) {
      clock.now += ms
      await tenant.doDueWork()
    },
    passForClients(ms) {
      ahead += ms
    },
    now: () => clock.now,
  }).finally(() => timer.mockRestore())
  for (const client of clients) client.close()
  const describe = createDescriber(tenant.name)
  // The service in memory leaves out which entry each one replaces.
  const log = (await entries()).map(({ metadata: { replaces: _, ...metadata }, ...entry }) => ({ ...entry, metadata }))
  const answers = seen.map(({ request, response: { status, headers }, text }) => ({
    asked: `${request.method} ${describe(request.url.slice(baseUrl.length))}`,
    status,
    headers: {
      ...Object.fromEntries(
        ['content-type', 'cache-control', 'www-authenticate'].map((name) => [name, headers.get(name)]),
      ),
      'x-request-id': headers.has('x-request-id') ? 'given' : null,
      'retry-after': headers.has('retry-after') ? 'given' : null,
    },
    body: text === '' ? null : JSON.parse(describe(text).replaceAll(/"retry_after":\d+/g, '"retry_after":"given"')), // by the database's clock
  }))
  return [...answers, { asked: 'the log', status: 0, headers: {}, body: JSON.parse(describe(JSON.stringify(log))) }]
}

/**
 * Words what differs from service to service by what it is: a random value by its kind, its length and the order in which it
 * came first, so that two that are the same stay so.
 */
function createDescriber(name: string): (text: string) => string {
  const seen = new Map<string, string>()
  const random =
    /eaas_sk_[0-9a-f]{32}_[\w-]{4,43}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{64}\b|(?<="(?:wrapped_key|ciphertext|iv|dek|secret|proof|blind_hash_public_key)":"|"elements":\[")[^"]+/gi
  return (text) =>
    text.replaceAll(JSON.stringify(name), '"the name of the tenant"').replace(random, (value) => {
      const known = seen.get(value) ?? `${kindOf(value)} ${seen.size + 1}`
      seen.set(value, known)
      return known
    })
}

function kindOf(value: string): string {
  if (value.startsWith('eaas_sk_')) return `an API key of ${value.length}`
  return /^[0-9a-f-]{36}$/i.test(value) ? 'an id' : `${value.length} characters`
}
