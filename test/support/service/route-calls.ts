// How to call each route of the table successfully. The matrix tests of the contract are generated from this, and fail if a
// route is missing here.
import { randomBytes } from 'node:crypto'
import { ROUTES } from '../../../packages/server/src/http/endpoints.js'
import type { Caller } from './service.js'

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

const unique = () => randomBytes(8).toString('hex')
const dek = () => randomBytes(32).toString('base64')

type Rule = {
  call?: (ground: Ground) => RouteCall
  before?: (owner: Caller, id: string) => Promise<void>
}

async function rotate(owner: Caller, id: string): Promise<void> {
  await owner.call('POST', `/v1/keys/${id}/rotate`)
}

async function disable(owner: Caller, id: string): Promise<void> {
  await owner.call('DELETE', `/v1/keys/${id}`)
}

async function scheduleDestruction(owner: Caller, id: string): Promise<void> {
  await disable(owner, id)
  const { name } = (await owner.call('GET', `/v1/keys/${id}`)).body
  await owner.call('POST', `/v1/keys/${id}/destroy`, { confirm: name })
}

/** The routes that take more than an id, named `METHOD path`: what is sent, and what is done before. */
export const RULES: Record<string, Rule> = {
  'POST /v1/keys': { call: () => ({ body: { name: unique() } }) },
  'POST /v1/batch/keys': { call: () => ({ body: { keys: [{ name: unique() }] } }) },
  'PATCH /v1/keys/:id': { before: rotate, call: () => ({ body: { min_unwrap_version: 2 } }) },
  'PATCH /v1/keys/:id/rotation': { call: () => ({ body: { interval_days: 30 } }) },
  'POST /v1/keys/:id/enable': { before: disable },
  'POST /v1/keys/:id/destroy': { before: disable, call: ({ name }) => ({ body: { confirm: name } }) },
  'POST /v1/keys/:id/destroy/cancel': { before: scheduleDestruction },
  'POST /v1/keys/:id/wrap': { call: () => ({ body: { dek: dek() } }) },
  'POST /v1/keys/:id/unwrap': { call: ({ wrapped_key }) => ({ body: { wrapped_key } }) },
  'POST /v1/keys/:id/rewrap': { call: ({ wrapped_key }) => ({ body: { wrapped_key } }) },
  'POST /v1/hash': { call: ({ key_id }) => ({ body: { key_id, value: 'x' } }) },
  'POST /v1/encrypt': { call: ({ key_id }) => ({ body: { key_id, plaintext: 'x' } }) },
  'POST /v1/decrypt': { call: ({ bundle }) => ({ body: bundle }) },
  'POST /v1/batch': { call: ({ key_id }) => ({ body: { operations: [{ op: 'wrap', key_id, dek: dek() }] } }) },
  'GET /v1/audit': { call: ({ key_id }) => ({ query: `?key_id=${key_id}` }) },
  'POST /v1/api-keys': { call: () => ({ body: { name: unique(), permissions: [] } }) },
  'PATCH /v1/api-keys/:id': { call: () => ({ body: { name: unique() } }) },
}

/** Lists every route with its rule, and what the id in its path is of. @throws when a route needs a body and has no rule */
export function routesWithRules() {
  return ROUTES.map((row) => {
    const name = `${row.method} ${row.path}`
    const rule: Rule = RULES[name] ?? {}
    if (row.body && !rule.call)
      throw new Error(`test/support/service/route-calls.ts has no rule for ${name}: say there how it is called`)
    const id = row.path.startsWith('/v1/api-keys/') ? ('api_key' as const) : ('key' as const)
    const call = rule.call ?? ((): RouteCall => ({}))
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

/** Makes the call of a rule with the ids of a ground. */
export async function callRoute(
  caller: Caller,
  { row, rule }: ReturnType<typeof routesWithRules>[number],
  ground: Ground,
  headers?: Record<string, string>,
) {
  const { body, query = '' } = rule.call(ground)
  const id = rule.on === 'api_key' ? ground.api_key_id : ground.key_id
  return caller.call(row.method, row.path.replace(':id', id) + query, body, headers)
}

// biome-ignore lint/suspicious/noExplicitAny: each call knows the fields of its own answer
async function must(answer: ReturnType<Caller['call']>): Promise<any> {
  const { status, body } = await answer
  if (status >= 300) throw new Error(`the ground could not be made: ${status} ${JSON.stringify(body)}`)
  return body
}
