// How to call each route of the table successfully: with the example of its body in the OpenAPI document, unless this
// file says otherwise. The matrix tests of the contract are generated from this.
import { randomBytes } from 'node:crypto'
import { fillPath, PERMISSIONS } from '@eaas/protocol'
import { openApiDocument } from '../../../docs/openapi/document.js'
import type { Route } from '../../../packages/server/src/core/api/route.js'
import { ROUTES } from '../../../packages/server/src/core/http/endpoints.js'
import type { Caller, Service } from './service.js'

/** The objects that calls use: one tenant's key, and things made under it. */
export interface Ground {
  key_id: string
  wrapped_key: string
  bundle: Record<string, unknown>
  api_key_id: string
  name: string
}

/** The fields of a call: `id` is in the path, the rest is sent. */
export interface RouteCall {
  body?: unknown
  query?: string
}

const DAY_MS = 86_400_000
const unique = () => randomBytes(8).toString('hex')
const dek = () => randomBytes(32).toString('base64')

type Rule = {
  call?: (ground: Ground) => RouteCall
  before?: (owner: Caller, id: string, service: Service) => Promise<void>
}

async function rotate(owner: Caller, id: string): Promise<void> {
  await owner.call('POST', `/v1/keys/${id}/rotate`)
}

async function disable(owner: Caller, id: string): Promise<void> {
  await owner.call('DELETE', `/v1/keys/${id}`)
}

/** Closes the first version, further in the past than the waiting period. */
async function closeVersion(owner: Caller, id: string, { services }: Service): Promise<void> {
  await rotate(owner, id)
  const { now, databaseNow, destroyWindowDays } = services
  const agoMs = (destroyWindowDays + 1) * DAY_MS
  services.now = () => now() - agoMs
  services.databaseNow = async (sql) => (await databaseNow(sql)) - agoMs
  try {
    await owner.call('PATCH', `/v1/keys/${id}`, { min_unwrap_version: 2 })
  } finally {
    Object.assign(services, { now, databaseNow })
  }
}

async function scheduleDestruction(owner: Caller, id: string): Promise<void> {
  await disable(owner, id)
  const { name } = (await owner.call('GET', `/v1/keys/${id}`)).body
  await owner.call('POST', `/v1/keys/${id}/destroy`, { confirm: name })
}

/** The routes that succeed only after another call, or with other values than their example, named `METHOD path`. */
const RULES: Record<string, Rule> = {
  'POST /v1/batch/keys': { call: () => ({ body: { keys: [{ name: unique() }] } }) },
  'PATCH /v1/keys/:id': { before: rotate },
  'POST /v1/keys/:id/enable': { before: disable },
  'POST /v1/keys/:id/destroy': { before: disable },
  'POST /v1/keys/:id/destroy/cancel': { before: scheduleDestruction },
  'POST /v1/keys/:id/versions/:version/destroy': { before: closeVersion },
  'POST /v1/decrypt': { call: ({ bundle }) => ({ body: bundle }) },
  'POST /v1/batch': { call: ({ key_id }) => ({ body: { operations: [{ op: 'wrap', key_id, dek: dek() }] } }) },
  'GET /v1/audit': { call: ({ key_id }) => ({ query: `?key_id=${key_id}` }) },
  'POST /v1/api-keys': { call: () => ({ body: { name: unique(), permissions: [] } }) },
  'PATCH /v1/api-keys/:id': { call: () => ({ body: { name: unique() } }) },
}

const DOCUMENT = openApiDocument()

/** The example of a route's body, with the objects of the ground in place of the example's. */
function exampleCall({ method, path }: Route, { key_id, wrapped_key, name }: Ground): RouteCall {
  const operation = DOCUMENT.paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()] as {
    requestBody?: { content: { 'application/json': { example: object } } }
  }
  const example = operation.requestBody?.content['application/json'].example
  if (!example) return {}
  const here = { key_id, wrapped_key, confirm: name, name: unique() }
  const known = Object.entries(here).filter(([field]) => field in example)
  return { body: { ...example, ...Object.fromEntries(known) } }
}

/** Lists every route with its rule, and what the id in its path refers to. */
export function routesWithRules() {
  return ROUTES.map((row) => {
    const name = `${row.method} ${row.path}`
    const rule: Rule = RULES[name] ?? {}
    const id = row.path.startsWith('/v1/api-keys/') ? ('api_key' as const) : ('key' as const)
    const call = rule.call ?? ((ground: Ground) => exampleCall(row, ground))
    return { name, row, rule: { ...rule, call, on: row.path.includes(':id') ? id : undefined } }
  })
}

/** Makes a key with things under it. The tenant must have server mode open. */
export async function makeGround(owner: Caller): Promise<Ground> {
  const { key_id, name } = await must(owner.call('POST', '/v1/keys', { name: `ground ${unique()}` }))
  const { wrapped_key } = await must(owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() }))
  const bundle = await must(owner.call('POST', '/v1/encrypt', { key_id, plaintext: 'secret' }))
  const { id } = await must(owner.call('POST', '/v1/api-keys', { name: 'ground', permissions: [] }))
  return { key_id, wrapped_key, bundle, api_key_id: id, name }
}

/** Makes another API key of the tenant with every permission, which a call may revoke. */
export async function spareCaller(owner: Caller, service: Service): Promise<Caller> {
  const { secret } = await must(owner.call('POST', '/v1/api-keys', { name: 'spare', permissions: PERMISSIONS }))
  return service.caller(secret)
}

/** Makes the call of a rule with the ids of a ground. */
export async function callRoute(
  caller: Caller,
  { row, rule }: ReturnType<typeof routesWithRules>[number],
  ground: Ground,
  headers?: Record<string, string>,
) {
  const { body, query = '' } = rule.call(ground)
  const id = rule.on === 'api_key' ? ground.api_key_id : ground.key_id
  return caller.call(row.method, fillPath(row.path, { id, version: 1 }) + query, body, headers)
}

// biome-ignore lint/suspicious/noExplicitAny: each call knows the fields of its own answer
async function must(answer: ReturnType<Caller['call']>): Promise<any> {
  const { status, body } = await answer
  if (status >= 300) throw new Error(`the ground could not be made: ${status} ${JSON.stringify(body)}`)
  return body
}
