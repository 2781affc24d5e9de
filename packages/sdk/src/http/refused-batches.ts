/** What becomes of the operations of a batch that is refused: they fail, or are sent again in smaller parts. */
import { isEaasError } from '../errors.js'
import type { Queued } from './batcher.js'

/** Settles or requeues the operations of a failed part. Returns the most units of the next; 0 without batches. */
export function settleRefused(
  part: readonly Queued[],
  waiting: Set<Queued>,
  { error, maxUnits }: { error: unknown; maxUnits: number },
): number {
  const [first] = part
  if (part.length > 1 && first) {
    const isTooLarge = httpStatusOf(error) === 413
    if (isTooLarge || isNoSuchRoute(error)) {
      for (const one of part) waiting.add(one)
      return isTooLarge ? Math.min(maxUnits, part.reduce((sum, { units }) => sum + units, 0) / 2) : 0
    }
  }
  for (const one of part) one.settle({ error })
  if (part.length > 1 || !first) return maxUnits
  for (const other of waiting) {
    if (!holdsFor(error, first, other)) continue
    waiting.delete(other)
    other.settle({ error })
  }
  return maxUnits
}

/** What the service says of one value or version, and what it says of one key; all else holds for all keys. */
const OF_ONE = /^E_(?:VALIDATION|WRAPPED_KEY|VERSION_.*)$/
const OF_ONE_KEY = /^E_(?:NOT_FOUND|STATE|KEY_DESTROYED|LIMIT|TAMPERED)$/

/** Tells whether the error of one operation says that another would fail too. */
function holdsFor(error: unknown, { call, units }: Queued, other: Queued): boolean {
  if (call.operationId !== other.call.operationId || call.signal?.aborted) return false
  if (httpStatusOf(error) === 413) return other.units >= units
  const problem = isEaasError(error) && error.code === 'E_API' ? error.problem : ''
  if (OF_ONE_KEY.test(problem)) return call.about === other.call.about
  return !OF_ONE.test(problem)
}

/** The service refuses with E_API, and a proxy with a page, which is E_PROTOCOL. */
function httpStatusOf(error: unknown): number | undefined {
  return isEaasError(error) && 'httpStatus' in error ? error.httpStatus : undefined
}

// A service older than batches. A proxy's page does not count, since other routes would not answer either.
function isNoSuchRoute(error: unknown): boolean {
  return isEaasError(error) && error.code === 'E_API' && [404, 405].includes(error.httpStatus)
}
