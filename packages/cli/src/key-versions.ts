/**
 * The key version of encrypted data: what the wrapped key says, which nobody can change, and the unprotected number
 * beside it.
 */
import { findWrappedVersion, type WrappedKey } from '@eaas/protocol'
import { type Io, tell } from './io.js'

export interface KeyVersions {
  /**
   * The version that wrapped the data key (wrapped-key.md 1); left out if the wrapped key is of another format.
   */
  key_version?: number
  /** The number beside the wrapped key, if it differs. Anyone who stores the data can change it. */
  claimed_key_version?: number
}

export function readKeyVersions({ wrapped_key, key_version: claimed }: WrappedKey): KeyVersions {
  const key_version = findWrappedVersion(wrapped_key)
  if (key_version === claimed) return { key_version }
  return { ...(key_version !== undefined && { key_version }), claimed_key_version: claimed }
}

/** Says on standard error if the two differ. */
export function tellDifference(io: Io, { key_version, claimed_key_version }: KeyVersions): void {
  if (claimed_key_version === undefined) return
  tell(
    io,
    key_version === undefined
      ? `the wrapped key is of an unknown format: that its version is ${claimed_key_version} stands beside it only`
      : `version ${key_version} wrapped the data key, and not version ${claimed_key_version}, which stands beside it: that number was changed`,
  )
}
