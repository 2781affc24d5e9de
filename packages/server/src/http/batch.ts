/**
 * /v1/batch: many calls in one request. Each gets the status and the body that it would get alone, is checked for its own
 * permissions and has its own entry; all entries are committed together, before any answer is made.
 */
import { MAX_BATCH_BODY_BYTES, type ProblemDocument, problemDocument, type wire } from '@eaas/protocol'
import { assertPermissions } from '../runner/admit.js'
import { inServerMode, refuseServerMode } from '../runner/envelope-only.js'
import { describeTampering, failsOneItem } from '../runner/failure.js'
import type { Context, Decision, Operation } from '../runner/operation.js'
import { unrecordedRefusal, zeroSecrets } from '../runner/perform.js'
import { Refusal } from '../runner/refusal.js'
import { createStretches, mapInStretches } from '../turn.js'
import { envelopeModeRoutes } from './envelope-mode.js'
import { parse } from './parse.js'
import { bindRoutes, type Route } from './route.js'
import { serverModeRoutes } from './server-mode.js'

type Item = wire.Batch['operations'][number]
type OnError = (error: unknown) => void
interface Result {
  status: number
  body: unknown
}

/** The routes whose calls a batch takes. */
const BATCHABLE: Record<wire.BatchOperation, Route> = { ...envelopeModeRoutes, ...serverModeRoutes }

export const batchRoutes = bindRoutes({
  batch: {
    summary: 'Make many calls in one request',
    bodyLimit: MAX_BATCH_BODY_BYTES,
    countOperations: ({ operations }) => operations.length,
    operation: ({ body, onError }) => batch(body.operations, onError),
  },
})

function batch(items: readonly Item[], onError: OnError): Operation<wire.BatchResults> {
  return async (context) => {
    const decisions = await decideAll(items, context, onError)
    return {
      entries: decisions.flatMap(({ entries }) => entries),
      release: async () => ({ results: await mapInStretches(decisions, ({ release }) => release({})) }),
      secrets: decisions.flatMap(({ secrets = [] }) => secrets),
      unrecorded: decisions.flatMap(({ unrecorded = [] }) => unrecorded),
    }
  }
}

// When one fails with something else than a refusal, no decision is made, so the secrets of those before it are zeroed here.
async function decideAll(items: readonly Item[], context: Context, onError: OnError): Promise<Decision<Result>[]> {
  let { quotaLeft } = context
  const decisions: Decision<Result>[] = []
  const pause = createStretches() // also while it holds the lock of the head: other tenants' calls do not wait for that lock
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
  const row = BATCHABLE[item.op]
  try {
    if (context.caller.apiKey) assertPermissions(context.caller.apiKey, row.permissions)
    const made = await itemOperation(row, { item, onError }, context)(context)
    const { entries, release, secrets = [], unrecorded = [] } = made
    return { entries, release: () => settle(row.status, () => release({})), secrets, unrecorded }
  } catch (error) {
    if (error instanceof Refusal) {
      return { entries: [], release: () => refused(error), unrecorded: unrecordedRefusal(error) }
    }
    // A tampered key fails only the items that use it. Any other error fails the batch.
    if (!failsOneItem(error)) throw error
    onError(error)
    const { code, detail } = describeTampering(error)
    return { entries: [], release: () => refused(new Refusal(code, detail)) }
  }
}

// As for the single call: a closed server mode is refused before the body is validated.
function itemOperation(
  row: Route,
  { item, onError }: { item: Item; onError: OnError },
  { state }: Context,
): Operation<unknown> {
  const call = row.serverMode && { operation: row.operationId, body: item }
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
