/**
 * /v1/batch: many calls in one request. Each gets the status and the body that it would get alone, is checked for its
 * own permissions and has its own entry. All entries are committed together, before any answer is made.
 */
import { DETAILS, MAX_BATCH_BODY_BYTES, problemDocument, type UnrecordedKind, wire } from '@eaas/protocol'
import { createStretches, mapInStretches } from '../event-loop.js'
import { assertPermissions, inServerMode, refuseServerMode } from '../runner/admission.js'
import { COST_OF_TURN, costOfElements } from '../runner/blind-hashing.js'
import { type Allowances, spend } from '../runner/budgets.js'
import type { Context, Decision, EntryNote, Operation } from '../runner/operation.js'
import { describeTampering, Refusal } from '../runner/refusal.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { envelopeModeRoutes } from './envelope.js'
import { bindRoutes, type Perform, parse, type Route } from './route.js'
import { serverModeRoutes } from './server-mode.js'

/** How many keys are loaded at a time. This leaves database connections to other calls. */
const KEYS_AHEAD = 16

type Item = wire.Batch['operations'][number]
type Request = Pick<Parameters<Route['operation']>[0], 'onError'>
type Result = { status: number; body: unknown }

/** The outcome of one call of a batch: a decision and the status of its success, or a refusal. */
type Decided = { made: Decision<unknown>; status: number } | { refusal: Refusal }

export const batchRoutes = bindRoutes({
  batch: {
    summary: 'Make many calls in one request',
    bodyLimit: MAX_BATCH_BODY_BYTES,
    countOperations: ({ operations }) => operations.length,
    operation: ({ body, onError }) => batch(body.operations, { onError }),
    inParts: ({ body, onError }, perform) => performInParts(body.operations, { onError }, perform),
  },
})

const BATCHABLE = { ...envelopeModeRoutes, ...serverModeRoutes }

interface Part {
  items: Item[]
  places: number[]
  hashingCost: number
}

/**
 * Performs the other operations of a batch first, then its blind hashes, which count against a bound of their own. Each
 * part has as many blind hashes as one turn of the thread evaluates; its refusal refuses each of its operations.
 */
async function performInParts(items: readonly Item[], request: Request, perform: Perform): Promise<wire.BatchResults> {
  const { others, turns } = divide(items)
  if (turns.length === 0) return perform(batch(items, request), { operations: items.length })
  const results: Result[] = []
  const place = ({ places }: Part, resultOf: (at: number) => Result) => {
    for (const [at, position] of places.entries()) results[position] = resultOf(at)
  }
  const performPart = async (part: Part, room: Parameters<Perform>[1]) => {
    const made = await perform(batch(part.items, request), room)
    place(part, (at) => made.results[at] as Result)
  }
  if (others.items.length > 0) await performPart(others, { operations: others.items.length })
  // All at once, so that all count against the bound of the API key before any is evaluated.
  const performTurn = (part: Part) =>
    performPart(part, { hashingCost: part.hashingCost }).catch((error: unknown) => {
      const result = refusedBy(error)
      place(part, () => result)
    })
  await Promise.all(turns.map(performTurn))
  return { results } as wire.BatchResults
}

function divide(items: readonly Item[]): { others: Part; turns: Part[] } {
  const others: Part = { items: [], places: [], hashingCost: 0 }
  const turns: Part[] = []
  for (const [at, item] of items.entries()) {
    const isHashed = item.op === 'blind_hash'
    const cost = isHashed ? costOfElements(Array.isArray(item.elements) ? item.elements.length : 0) : 0
    let part = isHashed ? turns.at(-1) : others
    if (!part || part.hashingCost + cost > COST_OF_TURN) {
      part = { items: [], places: [], hashingCost: 0 }
      turns.push(part)
    }
    part.items.push(item)
    part.places.push(at)
    part.hashingCost += cost
  }
  return { others, turns }
}

function batch(items: readonly Item[], request: Request): Operation<wire.BatchResults> {
  return async (context) => {
    const secrets: Uint8Array[] = []
    try {
      const { unwrap, hash } = context.allowances
      const allowances = { unwrap: { ...unwrap }, hash: { ...hash } }
      return await decideAll(items, { ...context, allowances }, { request, secrets })
    } catch (error) {
      for (const secret of secrets) secret.fill(0)
      throw error
    }
  }
}

// If an error fails the whole batch, `secrets` has those of the decisions so far. The context belongs to this batch.
async function decideAll(
  items: readonly Item[],
  context: Context & { allowances: Allowances },
  { secrets, request }: { secrets: Uint8Array[]; request: Request },
): Promise<Decision<wire.BatchResults>> {
  const decided: Decided[] = []
  const entries: EntryNote[] = []
  const unrecorded = new Map<UnrecordedKind, number>()
  const limited = Object.values(context.allowances).some(({ over }) => over)
  const loadAhead = createLoadAhead(items, context)
  const pause = createStretches() // also under the lock of the head, for which other tenants do not wait
  for (const [at, item] of items.entries()) {
    const due = pause()
    if (due) await due
    loadAhead(at)
    const deciding = decide(item, context, request)
    const one = deciding instanceof Promise ? await deciding : deciding
    decided.push(one)
    if ('refusal' in one) continue
    const { made } = one
    if (limited) spend(context.allowances, made)
    for (const note of made.entries) {
      if (note.action === 'encrypt') context.quotaLeft -= 1
      entries.push(note)
    }
    if (made.secrets) secrets.push(...made.secrets)
    for (const [kind, calls] of made.unrecorded ?? []) unrecorded.set(kind, (unrecorded.get(kind) ?? 0) + calls)
  }
  return { entries, release: async () => ({ results: await mapInStretches(decided, settle) }), secrets, unrecorded }
}

/**
 * Loads the keys of the next operations while one is decided. If each operation has an uncached key of its own, the
 * round trips to the database would otherwise add up to seconds.
 */
function createLoadAhead(items: readonly Item[], { state }: Context): (at: number) => void {
  let next = 0
  return (at) => {
    for (; next < Math.min(items.length, at + KEYS_AHEAD); next++) {
      const key_id = items[next]?.key_id
      if (typeof key_id !== 'string' || key_id === items[next - 1]?.key_id) continue
      const found = state.findKey(key_id)
      if (found instanceof Promise) found.catch(() => undefined) // the operation itself reports the error
    }
  }
}

function decide(item: Item, context: Context, request: Request): Decided | Promise<Decided> {
  const row: Route = BATCHABLE[wire.batchedCall(item.op)]
  const { status } = row
  try {
    if (context.caller.apiKey) assertPermissions(context.caller.apiKey, row.permissions)
    const made = itemOperation(row, { item, request }, context)(context)
    if (!(made instanceof Promise)) return { made, status }
    return made.then(
      (waited) => ({ made: waited, status }),
      (error) => refusedItem(error, request),
    )
  } catch (error) {
    return refusedItem(error, request)
  }
}

// A tampered key fails only the items that use it. Any other error fails the batch.
function refusedItem(error: unknown, { onError }: Request): Decided {
  if (error instanceof Refusal) return { refusal: error }
  if (!(error instanceof TamperedRowError)) throw error
  onError(error)
  const { code, detail } = describeTampering(error)
  return { refusal: new Refusal(code, detail) }
}

// As for a single call, a closed server mode is refused before the body is validated.
function itemOperation(
  row: Route,
  { item, request }: { item: Item; request: Request },
  { state }: Context,
): Operation<unknown> {
  const call = row.serverMode && { operation: row.operationId, body: item }
  if (call && state.tenant.envelope_only) return refuseServerMode(call)
  const { key_id } = item
  if (typeof key_id !== 'string') throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.itemKey)
  const body = row.body && parse(row.body, item, DETAILS.E_VALIDATION.item)
  const operation = row.operation({ id: key_id, version: '', body, query: {}, ...request })
  return call ? inServerMode(call, operation) : operation
}

function settle(decided: Decided): Result | Promise<Result> {
  if ('refusal' in decided) return refused(decided.refusal)
  const { made, status } = decided
  try {
    const body = made.release({})
    if (!(body instanceof Promise)) return { status, body }
    return body.then((waited) => ({ status, body: waited }), refusedBy)
  } catch (error) {
    return refusedBy(error)
  }
}

function refusedBy(error: unknown): Result {
  if (!(error instanceof Refusal)) throw error
  return refused(error)
}

function refused({ status, code, message, caller }: Refusal): Result {
  return { status, body: problemDocument(code, message, caller.retryAfterSeconds) }
}
