/** Answers a request with the call's function. Checks in the service's order: first the caller, then the input. */
import type { OperationId, RouteRow, SdkOperation } from '@eaas/protocol'
import {
  CALL_RULES,
  DETAILS,
  decodeUtf8,
  foldUuid,
  isOnBehalfOf,
  JSON_MEDIA_TYPE,
  MAX_BATCH_BODY_BYTES,
  MAX_BODY_BYTES,
  matchPath,
  ON_BEHALF_OF_HEADER,
  PROBLEM_CONTENT_TYPE,
  ROUTES,
  readDistinctJson,
  readJson,
  wire,
} from '@eaas/protocol'
import type { Failing, Failures } from './failures.js'
import { currentVersion, doDueWork, keyFakes } from './keys.js'
import { secretFakes } from './secrets.js'
import { type Call, note, parse, Refusal, type Result, randomId, refused, type State } from './state.js'

/** The name of an API call for `failNext`: any call that the SDK makes. */
export type TestOperation = SdkOperation
type Input<Id> = Id extends keyof wire.Bodies
  ? wire.Bodies[Id]
  : Id extends keyof wire.Queries
    ? wire.Queries[Id]
    : undefined
type Answer<Id> = Id extends keyof wire.Answers ? wire.Answers[Id] : unknown

/** The calls that only a real service answers: on API keys, and lists of the log. */
type LeftOut =
  | 'createApiKey'
  | 'listApiKeys'
  | 'updateApiKey'
  | 'revokeApiKey'
  | 'listAudit'
  | 'verifyAudit'
  | 'getUsage'
/** The calls that it answers, besides `batch` and `getHealth`, which this file handles. */
type Faked = Exclude<TestOperation, LeftOut | 'batch' | 'getHealth'>

const FAKES: { [Id in Faked]: (call: Call, input: Input<Id>) => Answer<Id> | Promise<Answer<Id>> } = {
  ...keyFakes,
  ...secretFakes,
  getTenant: ({ state }) => state.tenant,
}

const HEALTH: wire.Health = { status: 'healthy', database: 'up', cache: 'up', hsm: 'none', durability: 'synchronous' }
const OPERATIONS = Object.keys(ROUTES) as OperationId[]

/** Thrown when a test requested a network error or a timeout, to end the whole request. */
export class NoAnswer extends Error {
  readonly failing: Exclude<Failing, Result>

  constructor(failing: Exclude<Failing, Result>) {
    super('no answer')
    this.failing = failing
  }
}

export async function serve(state: State, failures: Failures, request: Request): Promise<Response> {
  doDueWork(state)
  const url = new URL(request.url)
  const found = findRoute(request.method, url.pathname)
  try {
    const failing = 'name' in found ? failures.take(found.name) : undefined
    if (failing) return respond(resultOf(failing))
    if ('refusal' in found) throw found.refusal
    const { name, id, version } = found
    if (name === 'getHealth') return respond({ status: 200, body: HEALTH })
    return respond(await answer(state, failures, { name, id, version, request, query: readQuery(url) }))
  } catch (error) {
    return respond(refused(error))
  }
}

/** A repeated parameter becomes an array, which every schema refuses. */
function readQuery({ searchParams }: URL): object {
  return Object.fromEntries(
    [...searchParams.keys()].map((name) => {
      const [value, ...more] = searchParams.getAll(name)
      return [name, more.length > 0 ? [value, ...more] : value]
    }),
  )
}

interface Asked {
  name: OperationId
  id: string
  version: string
  request: Request
  query: object
}

async function answer(state: State, failures: Failures, asked: Asked): Promise<Result> {
  const { name, request, query } = asked
  const call = identify(state, asked)
  if (isClosed(call, name)) refuseServerMode(call, name, await peekBody(request))
  const isLong = name === 'batch' || name === 'createKeys'
  const sent = await readBody(request, isLong ? MAX_BATCH_BODY_BYTES : MAX_BODY_BYTES)
  if (name === 'batch') return answerBatch(call, failures, parse(wire.batch, sent, DETAILS.E_VALIDATION.body))
  const schemas = wire.getSchemas(name)
  const body = schemas.body && parse(schemas.body, sent, DETAILS.E_VALIDATION.body)
  const input = body ?? (schemas.query && parse(schemas.query, query, DETAILS.E_VALIDATION.query))
  return run(name, call, input)
}

async function answerBatch(call: Call, failures: Failures, { operations }: wire.Batch): Promise<Result> {
  const results: Result[] = []
  for (const part of operations) {
    const name = wire.batchedCall(part.op)
    const failing = failures.take(name, { isPart: true })
    results.push(failing ? resultOf(failing) : await answerPart(call, name, part))
  }
  return { status: 200, body: { results } }
}

async function answerPart(call: Call, name: OperationId, part: wire.Batch['operations'][number]): Promise<Result> {
  try {
    if (isClosed(call, name)) refuseServerMode(call, name, part)
    if (typeof part.key_id !== 'string') throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.itemKey)
    const { body: schema } = wire.getSchemas(name)
    const body = schema && parse(schema, part, DETAILS.E_VALIDATION.item)
    return await run(name, { ...call, id: part.key_id }, body)
  } catch (error) {
    return refused(error)
  }
}

async function run(name: OperationId, call: Call, input: unknown): Promise<Result> {
  if (!isFaked(name))
    throw new Refusal('E_METHOD_NOT_ALLOWED', `the service in memory does not answer ${name}: test it on \`eaas dev\``)
  const body = await FAKES[name](call, input as never) // parsed with the schema of this call
  const row: RouteRow = ROUTES[name]
  return { status: row.status ?? 200, body }
}

function isFaked(name: OperationId): name is Faked {
  return Object.hasOwn(FAKES, name)
}

function identify(state: State, { request, id, version }: Asked): Call {
  const [, secret = ''] = /^bearer (.+)$/i.exec(request.headers.get('authorization') ?? '') ?? []
  if (secret !== state.apiKey.secret) throw new Refusal('E_UNAUTHORIZED', DETAILS.E_UNAUTHORIZED.apiKey)
  const onBehalfOf = request.headers.get(ON_BEHALF_OF_HEADER) ?? undefined
  if (onBehalfOf !== undefined && !isOnBehalfOf(onBehalfOf))
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.onBehalfOf)
  return { state, onBehalfOf, id, version }
}

function isClosed({ state }: Call, name: OperationId): boolean {
  return CALL_RULES[name].serverMode === true && state.tenant.envelope_only
}

function refuseServerMode(call: Call, operation: string, body: unknown): never {
  note(call, { action: 'envelope_only.refused', ...findNamedKey(call, body), metadata: { operation } })
  throw new Refusal('E_ENVELOPE_ONLY', DETAILS.E_ENVELOPE_ONLY.call)
}

function findNamedKey({ state }: Call, body: unknown): { key_id: string; key_version: number } | undefined {
  const { key_id, key_version } = (body ?? {}) as { key_id?: unknown; key_version?: unknown }
  const id = typeof key_id === 'string' ? foldUuid(key_id) : undefined
  const key = state.keys.find((one) => one.key_id === id)
  if (!key) return undefined
  const version = key.versions.find((one) => one.version === key_version) ?? currentVersion(key)
  return { key_id: key.key_id, key_version: version.version }
}

type Found = { name: OperationId; id: string; version: string } | { refusal: Refusal }

function findRoute(method: string, path: string): Found {
  const there = OPERATIONS.flatMap((name) => {
    const named = matchPath(ROUTES[name].path, path)
    return named ? [{ name, id: foldUuid(decodeURIComponent(named.id)), version: named.version }] : []
  })
  const found = there.find(({ name }) => ROUTES[name].method === method)
  if (found) return found
  const isPath = there.length > 0
  return {
    refusal: isPath
      ? new Refusal('E_METHOD_NOT_ALLOWED', DETAILS.E_METHOD_NOT_ALLOWED.method)
      : new Refusal('E_ROUTE_NOT_FOUND', DETAILS.E_ROUTE_NOT_FOUND.path),
  }
}

/** Reads the body of a call that is refused anyway; undefined if it is not JSON, or too large. */
async function peekBody(request: Request): Promise<unknown> {
  const bytes = new Uint8Array(await request.arrayBuffer())
  try {
    return bytes.length > MAX_BODY_BYTES ? undefined : readDistinctJson(decodeUtf8(bytes))
  } catch {
    return undefined
  }
}

async function readBody(request: Request, most: number): Promise<unknown> {
  const bytes = new Uint8Array(await request.arrayBuffer())
  if (bytes.length > most) throw new Refusal('E_BODY_TOO_LARGE', DETAILS.E_BODY_TOO_LARGE.body)
  if (bytes.length === 0) return undefined
  if (!JSON_MEDIA_TYPE.test(request.headers.get('content-type') ?? ''))
    throw new Refusal('E_MEDIA_TYPE', DETAILS.E_MEDIA_TYPE.body)
  const { json, repeated } = DETAILS.E_MALFORMED_REQUEST
  let text: string
  try {
    text = decodeUtf8(bytes)
  } catch {
    throw new Refusal('E_MALFORMED_REQUEST', json)
  }
  const body = readDistinctJson(text)
  if (body === undefined) throw new Refusal('E_MALFORMED_REQUEST', readJson(text) === undefined ? json : repeated)
  return body
}

function resultOf(failing: Failing): Result {
  if (typeof failing === 'string') throw new NoAnswer(failing)
  return failing
}

function respond({ status, body }: Result): Response {
  const headers = new Headers({ 'x-request-id': randomId() })
  if (status < 400) headers.set('cache-control', 'no-store')
  if (status === 401) headers.set('www-authenticate', 'Bearer')
  const { retry_after } = (body ?? {}) as { retry_after?: number }
  if (retry_after !== undefined) headers.set('retry-after', String(retry_after))
  if (status === 204) return new Response(null, { status, headers })
  const isPage = typeof body === 'string'
  const type = status < 400 ? 'application/json; charset=utf-8' : PROBLEM_CONTENT_TYPE
  headers.set('content-type', isPage ? 'text/html' : type)
  return new Response(isPage ? body : JSON.stringify(body), { status, headers })
}
