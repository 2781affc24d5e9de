/** Loads parts of the SDK when they are first used. Bundlers make each a file of its own. */
import { NetworkError } from '../errors.js'
import type { Soon } from './is-promise.js'
import { requestsAreIsolated } from './isolated-requests.js'

/**
 * Loads a part. @throws NetworkError when that fails; the next call tries again, where the platform allows it
 */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch {
    throw new NetworkError(
      'a part of the SDK could not be loaded',
      'Try again, or reload the page: a newer build may have replaced its file.',
      true,
    )
  }
}

/**
 * Makes a function that loads once, and returns what was loaded without a promise from then on. All callers
 * share one load: in a page, each `import()` settles in a turn of its own, so the calls of one turn would
 * become many requests. Isolated requests cannot share a promise. A load that failed is tried again at the
 * next call.
 */
export function loadOnce<T extends object>(load: () => Promise<T>): () => Soon<T> {
  let loaded: T | undefined
  let loading: Promise<T> | undefined
  const keep = (value: T) => {
    loaded ??= value
    return loaded
  }
  const forget = (error: unknown) => {
    loading = undefined
    throw error
  }
  return () => {
    if (loaded) return loaded
    if (requestsAreIsolated()) return load().then(keep)
    loading ??= load().then(keep, forget)
    return loading
  }
}
