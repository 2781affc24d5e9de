/** Reads a page's request to a broker: its call, its origin, and only those members of the body that the call has. */
import type { Holding, WrapUse } from '@eaas/protocol'
import {
  createBodyHold,
  fillPath,
  foldUuid,
  isBase64,
  isUuid,
  isWrapContext,
  JSON_MEDIA_TYPE,
  KEY_BYTES,
  MAX_BATCH_OPERATIONS,
  MAX_BLINDED_ELEMENTS,
  MAX_PIECES,
  matchPath,
  PURPOSES,
  ROUTES,
  readDistinctJson,
  readUse,
  TOO_MANY_PIECES,
} from '@eaas/protocol'
import { type BodyFault, readText } from '../http/fetch.js'
import type { AuditContext } from '../input.js'
import { recordedAs } from '../uses.js'
import { BrokerRefusal } from './problem.js'

/** The operations that a broker forwards; it refuses all others of the API. */
export const BROKER_OPERATIONS = ['wrap', 'unwrap', 'hash', 'indexSecret', 'blindHash'] as const
export type BrokerOperation = (typeof BROKER_OPERATIONS)[number]

/** The only member of an operation's body, apart from the key's id and the use of a wrapped key. */
const ARGUMENTS = {
  wrap: 'dek',
  unwrap: 'wrapped_key',
  hash: 'value',
  indexSecret: 'name',
  blindHash: 'elements',
} as const
const NAME_THE_KEY = ['hash', 'blindHash'] as const
type NamesTheKey = (typeof NAME_THE_KEY)[number]
const ARE_BOUND: readonly BrokerOperation[] = ['wrap', 'unwrap']

export interface Asked {
  op: BrokerOperation
  key_id: string
  /** A DEK, a wrapped key, a value, the name of an index secret, or blinded values, as text. */
  argument: string | readonly string[]
  /** The use of a wrapped key of format 2; undefined for one of format 1. */
  use: WrapUse | undefined
}

export type Route = { name: 'batch' | NamesTheKey } | { name: Exclude<BrokerOperation, NamesTheKey>; key_id: string }

/** Finds the call of a path below the base path. @throws BrokerRefusal E_ROUTE_NOT_FOUND, E_METHOD_NOT_ALLOWED */
export function readRoute(method: string, url: URL, basePath: string): Route {
  const route = url.pathname.startsWith(`${basePath}/`) ? findRoute(url.pathname.slice(basePath.length)) : undefined
  if (!route || url.search !== '') throw new BrokerRefusal('E_ROUTE_NOT_FOUND', 'the broker has no such path')
  if (method !== 'POST')
    throw new BrokerRefusal('E_METHOD_NOT_ALLOWED', 'this path accepts POST only', { allow: 'POST' })
  return route
}

function findRoute(path: string): Route | undefined {
  for (const name of ['batch', ...BROKER_OPERATIONS] as const) {
    const named = matchPath(ROUTES[name].path, path)
    if (!named) continue
    const { id } = named
    if (name === 'batch' || namesTheKey(name)) return { name }
    const key_id = foldUuid(id)
    return isUuid(key_id) ? { name, key_id } : undefined
  }
  return undefined
}

/** Checks Sec-Fetch-Site, which no page can set, or without TLS Origin and Host. Without any of them, no page sent it. */
export function assertSameOrigin(request: Request, url: URL, origins: ReadonlySet<string>): void {
  const origin = request.headers.get('origin')
  if (origin !== null && origins.has(origin)) return
  const site = request.headers.get('sec-fetch-site')
  const isSame = site === null ? hostOf(origin) === (request.headers.get('host') ?? url.host) : site === 'same-origin'
  if (!isSame) throw new BrokerRefusal('E_CROSS_SITE', 'only pages of the application itself may call')
}

function hostOf(origin: string | null): string | undefined {
  return origin !== null && URL.canParse(origin) ? new URL(origin).host : undefined
}

/** Refuses anything but JSON, which browsers send to another origin only after a preflight. @throws E_MEDIA_TYPE */
export function assertJson(request: Request): void {
  if (JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? '')) return
  throw new BrokerRefusal('E_MEDIA_TYPE', 'the body must be application/json in UTF-8')
}

interface Bounds {
  maxBytes: number
  holding: Holding
  count: (calls: number) => void
}

/** This many pieces of a body take as long as a call. */
const PIECES_OF_A_CALL = 256

/** Reads the body, up to a bound. @throws E_BODY_TOO_LARGE, E_MALFORMED_REQUEST, E_TOO_MANY_CALLS; what `holding` throws */
export async function readBody(request: Request, { maxBytes, holding, count }: Bounds): Promise<unknown> {
  const tooLarge = new BrokerRefusal('E_BODY_TOO_LARGE', `the body must be at most ${maxBytes} bytes`)
  const stated = Number(request.headers.get('content-length'))
  if (stated > maxBytes) throw tooLarge
  const hold = createBodyHold(holding)
  hold(stated)
  let pieces = 0
  const onPiece = (length: number) => {
    pieces += 1
    if (pieces > MAX_PIECES) throw new BrokerRefusal('E_MALFORMED_REQUEST', TOO_MANY_PIECES)
    if (pieces % PIECES_OF_A_CALL === 0) count(1)
    hold(length)
  }
  // Without the parser's message, which quotes the text.
  const malformed = new BrokerRefusal(
    'E_MALFORMED_REQUEST',
    'the body is incomplete, is not valid JSON in UTF-8, or has a member twice',
  )
  const refuse = (fault: BodyFault) => (fault === 'not UTF-8' ? malformed : tooLarge)
  let body: unknown
  try {
    body = readDistinctJson(await readText(request.body, maxBytes, refuse, onPiece))
  } catch (error) {
    throw error instanceof BrokerRefusal ? error : malformed
  }
  if (body === undefined) throw malformed
  return body
}

/** Reads only the members that operations need. @throws BrokerRefusal E_VALIDATION; E_NOT_ALLOWED for one never forwarded */
export function readOperations(route: Route, body: unknown): Asked[] {
  if (route.name !== 'batch') {
    const key_id = 'key_id' in route ? route.key_id : foldUuid(memberOf(body, 'key_id'))
    return [readOperation(route.name, key_id, body)]
  }
  const { operations } = (body ?? {}) as { operations?: unknown }
  if (!Array.isArray(operations) || operations.length === 0 || operations.length > MAX_BATCH_OPERATIONS)
    throw new BrokerRefusal('E_VALIDATION', `operations: must be a list of 1 to ${MAX_BATCH_OPERATIONS}`)
  return operations.map((item: unknown) => {
    const name = memberOf(item, 'op')
    const op = BROKER_OPERATIONS.find((known) => nameInBatch(known) === name)
    if (!op)
      throw new BrokerRefusal('E_NOT_ALLOWED', `op: must be one of ${BROKER_OPERATIONS.map(nameInBatch).join(', ')}`)
    return readOperation(op, foldUuid(memberOf(item, 'key_id')), item)
  })
}

function readOperation(op: BrokerOperation, key_id: string, body: unknown): Asked {
  if (!isUuid(key_id)) throw new BrokerRefusal('E_VALIDATION', 'key_id: must be a UUID, with dashes')
  const argument = op === 'blindHash' ? readElements(body) : memberOf(body, ARGUMENTS[op])
  return { op, key_id, argument, use: ARE_BOUND.includes(op) ? readStatedUse(body) : undefined }
}

/** Reads blinded values, which only the service can check further. @throws BrokerRefusal E_VALIDATION */
function readElements(body: unknown): readonly string[] {
  const { elements } = (body ?? {}) as { elements?: unknown }
  const isElement = (one: unknown) => typeof one === 'string' && isBase64(one, KEY_BYTES)
  if (
    Array.isArray(elements) &&
    elements.length > 0 &&
    elements.length <= MAX_BLINDED_ELEMENTS &&
    elements.every(isElement)
  )
    return elements
  const message = `elements: must be a list of 1 to ${MAX_BLINDED_ELEMENTS}, each base64 of ${KEY_BYTES} bytes`
  throw new BrokerRefusal('E_VALIDATION', message)
}

/** Reads the use that a page states for a wrapped key. The key opens for no other. @throws E_VALIDATION */
function readStatedUse(body: unknown): WrapUse | undefined {
  const own = (name: string) =>
    Object.hasOwn(body as object, name) ? (body as Record<string, unknown>)[name] : undefined
  const [stated, context] = [own('purpose'), own('context')]
  const purpose = PURPOSES.find((one) => one === stated)
  if (stated !== undefined && !purpose)
    throw new BrokerRefusal('E_VALIDATION', `purpose: must be one of ${PURPOSES.join(', ')}`)
  if (context !== undefined && !isWrapContext(context))
    throw new BrokerRefusal('E_VALIDATION', 'context: must be pairs of a name and a short text')
  return readUse({ purpose, context })
}

function memberOf(value: unknown, name: string): string {
  const isOwn = typeof value === 'object' && value !== null && Object.hasOwn(value, name)
  const member: unknown = isOwn ? (value as Record<string, unknown>)[name] : undefined
  if (typeof member !== 'string') throw new BrokerRefusal('E_VALIDATION', `${name}: must be a string`)
  return member
}

function nameInBatch(op: BrokerOperation): string {
  return op === 'blindHash' ? 'blind_hash' : op
}

function namesTheKey(op: BrokerOperation): op is NamesTheKey {
  return NAME_THE_KEY.some((one) => one === op)
}

export function writeCall(
  route: Route,
  asked: readonly Asked[],
  auditContext: AuditContext | undefined,
): { path: string; body: string } {
  const [first] = asked
  const stated = ({ use }: Asked) => use && { ...use, ...recordedAs(auditContext) }
  if (route.name !== 'batch' && first) {
    const { op, key_id, argument } = first
    const body = { [ARGUMENTS[op]]: argument, ...(namesTheKey(op) ? { key_id } : stated(first)) }
    return { path: relativePath(op, key_id), body: JSON.stringify(body) }
  }
  const operations = asked.map((one) => {
    const { op, key_id, argument } = one
    return { op: nameInBatch(op), key_id, [ARGUMENTS[op]]: argument, ...stated(one) }
  })
  return { path: relativePath('batch'), body: JSON.stringify({ operations }) }
}

function relativePath(name: Route['name'], key_id = ''): string {
  return fillPath(ROUTES[name].path.slice(1), { id: key_id })
}
