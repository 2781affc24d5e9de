/** Loads parts of the SDK when they are first used. Bundlers make each a file of its own. */
import { NetworkError } from './errors.js'

/** Loads a part. @throws NetworkError when that fails; the next call tries again, where the platform allows it */
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
