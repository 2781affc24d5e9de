/** Parts of the SDK that are loaded when they are first used: bundlers make files of their own of them. */
import { NetworkError } from './errors.js'

/** Loads a part. @throws NetworkError when it cannot be loaded; the next call tries again where the platform does */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch {
    throw new NetworkError(
      'a part of the SDK could not be loaded',
      'Try again, or reload the page: its file may be gone with an older build.',
      true,
    )
  }
}
