/**
 * Searches of the log that read more of it than they answer with: those of one tenant run one after another, so
 * that no caller occupies the database with them.
 */
import { OverloadError } from '../audit/append-errors.js'
import { Refusal } from './refusal.js'

/** Searches of one tenant that may wait in a process; more are refused. */
const WAITING_OF_TENANT = 7

/**
 * Runs `search` when the tenant's earlier ones are done.
 *
 * @throws OverloadError when too many wait, and Refusal E_UNAVAILABLE once the caller's signal is aborted
 */
export type InSearchPlace = <Result>(
  caller: { tenant_id: string; signal: AbortSignal | undefined },
  search: () => Promise<Result>,
) => Promise<Result>

/** Creates the places; once per process. */
export function createSearchPlaces(): InSearchPlace {
  /** by tenant: the searches that wait while one runs */
  const places = new Map<string, (() => void)[]>()
  return async ({ tenant_id, signal }, search) => {
    assertWaitedFor(signal)
    const waiting = places.get(tenant_id)
    if (waiting) await takeTurn(waiting, signal)
    else places.set(tenant_id, [])
    try {
      return await search()
    } finally {
      const next = places.get(tenant_id)?.shift()
      if (next) next()
      else places.delete(tenant_id)
    }
  }
}

/** @throws Refusal E_UNAVAILABLE if the caller is gone */
export function assertWaitedFor(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new Refusal('E_UNAVAILABLE', 'the caller stopped waiting for the search')
}

async function takeTurn(waiting: (() => void)[], signal: AbortSignal | undefined): Promise<void> {
  if (waiting.length >= WAITING_OF_TENANT) throw new OverloadError('other searches of the log are waiting')
  await new Promise<void>((resolve, reject) => {
    const begin = () => {
      signal?.removeEventListener('abort', leave)
      resolve()
    }
    const leave = () => {
      waiting.splice(waiting.indexOf(begin), 1)
      reject(new Refusal('E_UNAVAILABLE', 'the caller stopped waiting for the search'))
    }
    waiting.push(begin)
    signal?.addEventListener('abort', leave, { once: true })
  })
}
