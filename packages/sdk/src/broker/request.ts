/** Reads what a page asks of a broker: which call, from where, and nothing of the body that the call does not have. */
import { isUuid, JSON_MEDIA_TYPE } from '@eaas/protocol'
import { BrokerRefusal } from './problem.js'
import { readText } from './read-text.js'

/** What a broker passes on; every other operation of the API stays closed. */
export const BROKER_OPERATIONS = ['wrap', 'unwrap', 'hash'] as const
export type BrokerOperation = (typeof BROKER_OPERATIONS)[number]

/** The only member of an operation's body besides the key's id. */
const ARGUMENTS = { wrap: 'dek', unwrap: 'wrapped_key', hash: 'value' } as const
/** As many as the service takes in a batch. */
const MAX_OPERATIONS = 1_000

/** One operation that a page asks for. */
export interface Asked {
  op: BrokerOperation
  key_id: string
  /** A DEK, a wrapped key or a value, as text. */
  argument: string
}

/** A call by its path. */
export type Route = { name: 'batch' } | { name: 'hash' } | { name: 'wrap' | 'unwrap'; key_id: string }

/** Finds the call of a path below the base path. @throws BrokerRefusal E_ROUTE_NOT_FOUND, E_METHOD_NOT_ALLOWED */
export function readRoute(method: string, url: URL, basePath: string): Route {
  const route = url.pathname.startsWith(`${basePath}/v1/`)
    ? routeOf(url.pathname.slice(basePath.length + '/v1/'.length))
    : undefined
  if (!route || url.search !== '') throw new BrokerRefusal('E_ROUTE_NOT_FOUND', 'the broker has nothing at this path')
  if (method !== 'POST') {
    throw new BrokerRefusal('E_METHOD_NOT_ALLOWED', 'this path takes POST only', { allow: 'POST' })
  }
  return route
}

function routeOf(path: string): Route | undefined {
  if (path === 'batch' || path === 'hash') return { name: path }
  const [, key_id = '', name] = /^keys\/([^/]+)\/(wrap|unwrap)$/.exec(path) ?? []
  return (name === 'wrap' || name === 'unwrap') && isUuid(key_id) ? { name, key_id } : undefined
}

/**
 * Refuses what another site's page may have sent. A browser says where a request comes from in Sec-Fetch-Site, which no page
 * can set; to pages without TLS it does not say it, and Origin is compared with Host. What says neither comes from no page.
 *
 * @throws BrokerRefusal E_CROSS_SITE
 */
export function demandSameOrigin(request: Request, url: URL, origins: ReadonlySet<string>): void {
  const origin = request.headers.get('origin')
  if (origin !== null && origins.has(origin)) return
  const site = request.headers.get('sec-fetch-site')
  const isSame = site === null ? hostOf(origin) === (request.headers.get('host') ?? url.host) : site === 'same-origin'
  if (!isSame) throw new BrokerRefusal('E_CROSS_SITE', 'only pages of the application itself may call')
}

function hostOf(origin: string | null): string | undefined {
  return origin !== null && URL.canParse(origin) ? new URL(origin).host : undefined
}

/** Refuses every media type but JSON: with it, a browser asks before it sends across origins. @throws BrokerRefusal E_MEDIA_TYPE */
export function demandJson(request: Request): void {
  if (JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? '')) return
  throw new BrokerRefusal('E_MEDIA_TYPE', 'the body must be application/json in UTF-8')
}

/** Reads the body to its end, or to the limit. @throws BrokerRefusal E_BODY_TOO_LARGE, E_MALFORMED_REQUEST */
export async function readBody(request: Request, maxBytes: number): Promise<unknown> {
  const tooLarge = new BrokerRefusal('E_BODY_TOO_LARGE', `the body must be at most ${maxBytes} bytes`)
  if (Number(request.headers.get('content-length')) > maxBytes) throw tooLarge
  try {
    return JSON.parse(await readText(request.body, maxBytes, tooLarge))
  } catch (error) {
    if (error === tooLarge) throw error
    // The parser's message quotes the text.
    throw new BrokerRefusal('E_MALFORMED_REQUEST', 'the body broke off, or is not valid JSON in UTF-8')
  }
}

/**
 * Reads the operations of a body, and leaves out all that they need not hold: what is sent on is written anew from them, so
 * that no other reader can find something else in it.
 *
 * @throws BrokerRefusal E_VALIDATION, E_NOT_ALLOWED for an operation that no broker passes on
 */
export function readOperations(route: Route, body: unknown): Asked[] {
  if (route.name !== 'batch') {
    const key_id = route.name === 'hash' ? memberOf(body, 'key_id') : route.key_id
    return [readOperation(route.name, key_id, body)]
  }
  const { operations } = (body ?? {}) as { operations?: unknown }
  if (!Array.isArray(operations) || operations.length === 0 || operations.length > MAX_OPERATIONS) {
    throw new BrokerRefusal('E_VALIDATION', `operations: must be a list of 1 to ${MAX_OPERATIONS}`)
  }
  return operations.map((item: unknown) => {
    const name = memberOf(item, 'op')
    const op = BROKER_OPERATIONS.find((known) => known === name)
    if (!op) throw new BrokerRefusal('E_NOT_ALLOWED', `op: must be one of ${BROKER_OPERATIONS.join(', ')}`)
    return readOperation(op, memberOf(item, 'key_id'), item)
  })
}

function readOperation(op: BrokerOperation, key_id: string, body: unknown): Asked {
  if (!isUuid(key_id)) throw new BrokerRefusal('E_VALIDATION', 'key_id: must be a UUID, lower case, with dashes')
  return { op, key_id, argument: memberOf(body, ARGUMENTS[op]) }
}

function memberOf(value: unknown, name: string): string {
  const isOwn = typeof value === 'object' && value !== null && Object.hasOwn(value, name)
  const member: unknown = isOwn ? (value as Record<string, unknown>)[name] : undefined
  if (typeof member !== 'string') throw new BrokerRefusal('E_VALIDATION', `${name}: must be a string`)
  return member
}

/** The path and the body with which the service is asked. */
export function writeCall(route: Route, asked: readonly Asked[]): { path: string; body: string } {
  const [first] = asked
  if (route.name !== 'batch' && first) {
    const { op, key_id, argument } = first
    if (op === 'hash') return { path: 'v1/hash', body: JSON.stringify({ value: argument, key_id }) }
    return { path: `v1/keys/${key_id}/${op}`, body: JSON.stringify({ [ARGUMENTS[op]]: argument }) }
  }
  const operations = asked.map(({ op, key_id, argument }) => ({ op, key_id, [ARGUMENTS[op]]: argument }))
  return { path: 'v1/batch', body: JSON.stringify({ operations }) }
}
