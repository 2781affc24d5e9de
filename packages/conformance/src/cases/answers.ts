/** What every operation answers: its success, the permission that it needs, and the states of a key in which it works. */
import {
  CALL_RULES,
  findMissingPermission,
  findStateRefusal,
  type KeyCall,
  type KeyStatus,
  type OperationId,
  PERMISSIONS,
  PROBLEMS,
  ROUTES,
  type RouteRow,
  wire,
} from '@eaas/protocol'
import { isJson, refusalOf, type Session } from '../session.js'
import { type Case, check, each, NOWHERE, needs, OPERATIONS, same } from './case.js'
import { awaitDestruction, BEFORE, type Ground, makeGround, READY } from './ready-calls.js'

export const ANSWER_CASES = OPERATIONS.map(
  (operation): Case => [
    `${operation}: ${describeAnswer(operation)}`,
    async (session) => {
      const ground = await makeGround(session)
      await BEFORE[operation]?.(session, ground)
      const answer = await session.call(operation, READY[operation](ground, session))
      const status = statusOf(operation)
      same(answer.status, status, 'the status')
      check((answer.headers.get('x-request-id') ?? '') !== '', 'the answer has no X-Request-Id')
      same(answer.headers.get('cache-control'), 'no-store', 'Cache-Control')
      if (status === 204) return same(answer.text, '', 'the body')
      if (operation === 'exportAudit')
        return same(answer.headers.get('content-type'), 'application/x-ndjson', 'Content-Type')
      check(isJson(answer), `Content-Type: expected application/json, got ${answer.headers.get('content-type')}`)
      const { answer: schema } = wire.getSchemas(operation)
      if (schema) wire.readAnswer(schema, answer.body)
    },
  ],
)

function statusOf(operation: OperationId): number {
  const { status }: RouteRow = ROUTES[operation]
  return status ?? 200
}

function describeAnswer(operation: OperationId): string {
  const status = statusOf(operation)
  return status === 204 ? 'answers 204 without a body' : `answers ${status} with every member of its description`
}

/** One case for each operation that needs a permission. */
export const PERMISSION_CASES = OPERATIONS.flatMap((operation): Case[] => {
  const { permissions } = CALL_RULES[operation]
  if (permissions.length === 0) return []
  const name = `${operation}: needs ${permissions.join(' and ')}, and no other permission`
  const run: Case[1] = async (session) => {
    const said = READY[operation]({ ...(await makeNothing(session)), id: NOWHERE, apiKeyId: NOWHERE }, session)
    for (const needed of permissions) {
      const others = PERMISSIONS.filter((one) => findMissingPermission([one], [needed]))
      const { secret: apiKey } = await session.newApiKey({ permissions: others })
      const refused = await session.refused(operation, { ...said, apiKey }, '403 E_MISSING_PERMISSION')
      same(refused.body.detail, `missing permission: ${needed}`, 'detail')
    }
    const holding = await session.newApiKey({ permissions })
    const { status, body } = await session.call(operation, { ...said, apiKey: holding.secret })
    check(body?.code !== 'E_MISSING_PERMISSION', `with ${permissions.join(' and ')}: ${refusalOf(status, body)}`)
  }
  return [[name, run]]
})

/** A key that does not exist is enough: a permission is checked before anything else. */
async function makeNothing({ newName }: Session): Promise<Ground> {
  const key = { name: newName() } as Ground['key']
  return { id: NOWHERE, key, wrapped_key: 'AAAA', bundle: { key_id: NOWHERE }, apiKeyId: NOWHERE, apiKeySecret: '' }
}

/** One case for each state that a run can bring a key into. */
export const STATE_CASES = (['active', 'disabled', 'pending_destruction'] as const).map(
  (status): Case => [
    `${callsByState(status).join(', ')}: are refused on a key that is ${status}, and no other call is`,
    async (session) => {
      const ground = await makeGround(session)
      for (const operation of keyCalls(session)) {
        const state = await bring(session, ground, status)
        const refusal = findStateRefusal(operation, state)
        const answer = await session.call(operation, READY[operation](ground, session))
        const got = answer.status < 300 ? 'success' : refusalOf(answer.status, answer.body)
        const expected = refusal ? `${PROBLEMS[refusal.code].status} ${refusal.code}` : 'success'
        same(got, expected, `${operation} of a key that is ${state}`)
      }
    },
  ],
)

function callsByState(status: KeyStatus): OperationId[] {
  return OPERATIONS.filter((operation) => {
    const { key } = CALL_RULES[operation]
    return key && !key.states.includes(status)
  })
}

/** The calls on a key, except `destroyVersion`, whose success depends on more than the key's state. */
function keyCalls({ isOpen }: Session): KeyCall[] {
  const calls = OPERATIONS.filter((operation) => {
    const { key, serverMode } = CALL_RULES[operation]
    return key && operation !== 'destroyVersion' && (isOpen || !serverMode)
  })
  return calls as KeyCall[]
}

/** Brings a key into a state. Returns the state: `destroyed` if the service has no waiting period. */
async function bring(session: Session, { id, key }: Ground, to: KeyStatus): Promise<KeyStatus> {
  const from = (await session.ok('getKey', { id })).status
  if (from === to || from === 'destroyed') return from
  if (from === 'pending_destruction') await session.ok('cancelDestruction', { id })
  if (to === 'pending_destruction') return (await awaitDestruction(session, id, key.name)) as KeyStatus
  await session.ok(to === 'active' ? 'enableKey' : 'disableKey', { id })
  return to
}

/** Server mode is closed to the tenant. */
export const CLOSED_CASES = (['encrypt', 'decrypt'] as const).map(
  (operation): Case => [
    `${operation}: is refused with 403 E_ENVELOPE_ONLY to an envelope-only tenant, before the body is read, and on record`,
    async (session) => {
      needs(session, 'closed')
      const ground = await makeGround(session)
      const { body } = await session.refused(operation, READY[operation](ground, session), '403 E_ENVELOPE_ONLY')
      check(
        `${body.detail}`.startsWith('E_ENVELOPE_ONLY:'),
        `detail does not begin with E_ENVELOPE_ONLY: ${body.detail}`,
      )
      const json = { 'content-type': 'application/json' }
      await session.refused(operation, { body: '{', headers: json }, '403 E_ENVELOPE_ONLY')
      const operations = [{ op: operation, key_id: ground.id }]
      const { results } = await session.ok('batch', { body: { operations } })
      same(each(results, 'status'), [403], 'the statuses of a batch')
      const { logs } = await session.ok('listAudit', { query: { key_id: ground.id, action: 'envelope_only.refused' } })
      same(each(logs, 'key_version'), [1, 1], 'the key versions of the entries')
      await session.ok('hash', { body: { key_id: ground.id, value: 'x' } })
    },
  ],
)
