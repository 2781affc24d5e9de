/**
 * /v1/batch: many calls in one request. Each gets the status and the body that it would have got alone, is checked for its
 * own permission and has its own entry; all entries are committed together, before any answer is made.
 */
import { type ProblemDocument, problemDocument, wire } from '@eaas/protocol'
import { assertPermissions } from '../runner/admit.js'
import { inServerMode, refuseServerMode } from '../runner/envelope-only.js'
import { failsOneItem } from '../runner/failure.js'
import type { Context, Decision, Operation } from '../runner/operation.js'
import { zeroSecrets } from '../runner/perform.js'
import { Refusal } from '../runner/refusal.js'
import { createStretches, mapInStretches } from '../turn.js'
import { envelopeModeRoutes } from './envelope-mode.js'
import { UNEXPECTED_DETAIL } from './errors.js'
import { parse } from './parse.js'
import { type Route, route } from './route.js'
import { serverModeRoutes } from './server-mode.js'

const BODY_LIMIT = 8 * 1_048_576

type Item = wire.Batch['operations'][number]
type OnError = (error: unknown) => void
interface Result {
  status: number
  body: unknown
}

export const batchRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/batch',
    operationId: 'batch',
    summary: 'Make many calls in one request',
    permissions: [],
    status: 200,
    bodyLimit: BODY_LIMIT,
    body: wire.batch,
    answer: wire.batchResults,
    countOperations: ({ operations }) => operations.length,
    operation: ({ body, onError }) => batch(body.operations, onError),
  }),
]

function batch(items: readonly Item[], onError: OnError): Operation<wire.BatchResults> {
  return async (context) => {
    const decisions = await decideAll(items, context, onError)
    return {
      entries: decisions.flatMap(({ entries }) => entries),
      release: async () => ({ results: await mapInStretches(decisions, ({ release }) => release({})) }),
      secrets: decisions.flatMap(({ secrets = [] }) => secrets),
    }
  }
}

// Where one of them fails otherwise than by a refusal, there is no decision that would hold the secrets of those before it.
async function decideAll(items: readonly Item[], context: Context, onError: OnError): Promise<Decision<Result>[]> {
  let { quotaLeft } = context
  const decisions: Decision<Result>[] = []
  const pause = createStretches() // under the lock of the head too: no other tenant's calls wait for that
  try {
    for (const item of items) {
      const due = pause()
      if (due) await due
      const decision = await decide(item, { ...context, quotaLeft }, onError)
      quotaLeft -= decision.entries.filter(({ action }) => action === 'encrypt').length
      decisions.push(decision)
    }
    return decisions
  } catch (error) {
    decisions.forEach(zeroSecrets)
    throw error
  }
}

async function decide(item: Item, context: Context, onError: OnError): Promise<Decision<Result>> {
  const row = routeOf(item.op)
  try {
    if (context.caller.apiKey) assertPermissions(context.caller.apiKey, row.permissions)
    const { entries, release, secrets = [] } = await itemOperation(row, { item, onError }, context)(context)
    return { entries, release: () => settle(row.status, () => release({})), secrets }
  } catch (error) {
    if (error instanceof Refusal) return { entries: [], release: () => refused(error) }
    // A tampered key fails only the items that use it. Any other error fails the batch.
    if (!failsOneItem(error)) throw error
    onError(error)
    return { entries: [], release: () => refused(new Refusal('E_INTERNAL', UNEXPECTED_DETAIL)) }
  }
}

// As for the single call: what is closed is refused before the body is looked at.
function itemOperation(
  row: Route,
  { item, onError }: { item: Item; onError: OnError },
  { state }: Context,
): Operation<unknown> {
  const call = row.serverMode && { operation: row.serverMode, body: item }
  if (call && state.tenant.envelope_only) return refuseServerMode(call)
  const { key_id } = item
  if (typeof key_id !== 'string') throw new Refusal('E_VALIDATION', 'key_id: must be a string')
  const operation = row.operation({
    id: key_id,
    body: row.body && parse(row.body, item, 'must be an object'),
    query: {},
    onError,
  })
  return call ? inServerMode(call, operation) : operation
}

async function settle(status: number, release: () => unknown): Promise<Result> {
  try {
    return { status, body: await release() }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refused(error)
  }
}

function refused({ status, code, message }: Refusal): { status: number; body: ProblemDocument } {
  return { status, body: problemDocument(code, message) }
}

const BATCHABLE = new Map([...envelopeModeRoutes, ...serverModeRoutes].map((row) => [row.path.split('/').at(-1), row]))

function routeOf(op: wire.BatchOperation): Route {
  const row = BATCHABLE.get(op)
  if (!row) throw new Error(`no route for the batch operation ${op}`)
  return row
}
