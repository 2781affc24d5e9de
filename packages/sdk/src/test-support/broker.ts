// What the tests of the broker share: an application that mounts one, requests as a page sends them, and the
// service behind it.
import { randomBytes } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { type Broker, type BrokerOptions, createBroker, toNodeHandler } from '../broker.js'
import { useService } from './clients.js'
import { API_KEY, type Service } from './service.js'

interface User {
  id: string
  mayRead: boolean
}

const USERS: Record<string, User> = {
  'sid=ada': { id: 'ada', mayRead: true },
  'sid=ben': { id: 'ben', mayRead: false },
}
export const DEK = randomBytes(32).toString('base64')

export let service: Service
/** The broker that the application mounts. */
export let broker: Broker
/** The origin of the application. */
export let url: string
/** A key that Ada may use for everything, and Ben for all but unwrapping. */
export let keyId: string
/** A key that nobody may use. */
export let otherKey: string
/** What the broker gave to `onError`; a test that expects something there takes it out. */
export let reported: unknown[]

/**
 * Starts the application and the service for the tests of a file, with a new broker and new keys for each.
 */
export function useBroker(): void {
  let application: Server
  service = useService()
  beforeAll(async () => {
    application = createServer((request, response) => toNodeHandler(broker)(request, response))
    await new Promise<void>((resolve) => application.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(application.address() as AddressInfo).port}`
  })
  afterAll(async () => {
    application.closeAllConnections()
    await new Promise((resolve) => application.close(resolve))
  })
  beforeEach(() => {
    reported = []
    keyId = service.createKey()
    otherKey = service.createKey()
    serveBroker()
  })
  afterEach(() => expect(reported).toEqual([])) // a test that expects one takes it out
}

const allow: BrokerOptions<User>['allow'] = (user, { operation, key_id }) =>
  key_id === keyId && (operation !== 'unwrap' || user.mayRead)

export function makeBroker(options: Partial<BrokerOptions<User>> = {}): Broker {
  return createBroker({
    baseUrl: service.url,
    apiKey: API_KEY,
    authenticate: (request) => USERS[request.headers.get('cookie') ?? ''],
    allow,
    onError: (error) => reported.push(error),
    ...options,
  })
}

export interface Ask {
  method?: string
  headers?: Record<string, string | string[] | undefined>
  body?: unknown
}

/** Sends exactly this; `fetch` would tidy up the path and the headers. */
export function ask(path: string, { method = 'POST', headers = {}, body }: Ask = {}) {
  const hasBody = method !== 'GET'
  const text = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body ?? {})
  const all = {
    'content-type': 'application/json',
    'content-length': hasBody ? Buffer.byteLength(text) : undefined,
    cookie: 'sid=ada',
    'sec-fetch-site': 'same-origin',
    ...headers,
  }
  const kept = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
  // biome-ignore lint/suspicious/noExplicitAny: the tests look at the fields that they expect, whatever the answer is
  return new Promise<{ status: number; headers: IncomingHttpHeaders; text: string; body: any }>((resolve, reject) => {
    const sending = send(`${url}/`, { path, method, headers: kept as Record<string, string> }, async (response) => {
      let text = ''
      for await (const chunk of response.setEncoding('utf8')) text += chunk
      const isJson = /json/.test(response.headers['content-type'] ?? '')
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        body: isJson ? JSON.parse(text) : undefined,
      })
    })
    sending.on('error', reject)
    sending.end(hasBody ? text : undefined)
  })
}

export const wrapPath = (id = keyId) => `/api/eaas/v1/keys/${id}/wrap`
export const hashPath = () => '/api/eaas/v1/hash'
export const batchPath = () => '/api/eaas/v1/batch'
export const wrapBody = { body: { dek: DEK } }
export const batch = (...operations: unknown[]) => ({ body: { operations } })

/** Mounts a broker with these options instead. */
export function serveBroker(options: Partial<BrokerOptions<User>> = {}): void {
  broker = makeBroker(options)
}
