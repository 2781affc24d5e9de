/**
 * Gets a key for an operation, refuses it in a state that does not allow the call (protocol/call-rules.ts), and
 * opens wrapped keys with it.
 */
import { DETAILS, findStateRefusal, type KeyCall, OpenError } from '@eaas/protocol'
import { unwrapDek, wrappedKeyVersion } from '../../crypto/wrapped-key.js'
import type { OpenKey, OpenKeyVersion } from '../../runner/load-key.js'
import type { Decision } from '../../runner/operation.js'
import { Refusal } from '../../runner/refusal.js'
import type { TenantState } from '../../runner/tenant-state.js'

/**
 * Gets a key whatever its state. @throws Refusal E_NOT_FOUND, identical for another tenant's key and for a
 * malformed id, so existence never leaks
 */
export async function getKey(state: TenantState, key_id: string): Promise<OpenKey> {
  return existing(await state.findKey(key_id))
}

function existing(key: OpenKey | undefined): OpenKey {
  if (!key) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.key)
  return key
}

/** Gets a key whose state allows the call. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED */
export async function getKeyInState(state: TenantState, key_id: string, call: KeyCall): Promise<OpenKey> {
  return inState(await state.findKey(key_id), call)
}

/**
 * Decides with a key whose state allows the call: at once if the key is loaded, because a promise for each of
 * them is a tenth of what an item of a batch costs. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED
 */
export function decideWithKey<Answer>(
  { state, key_id, call }: { state: TenantState; key_id: string; call: KeyCall },
  decide: (key: OpenKey) => Decision<Answer>,
): Decision<Answer> | Promise<Decision<Answer>> {
  const found = state.findKey(key_id)
  return found instanceof Promise ? found.then((key) => decide(inState(key, call))) : decide(inState(found, call))
}

function inState(found: OpenKey | undefined, call: KeyCall): OpenKey {
  const key = existing(found)
  const refusal = findStateRefusal(call, key.row.status)
  if (refusal) throw new Refusal(refusal.code, refusal.detail)
  return key
}

/** The current version of a key, with its KEK. */
export function currentVersion(key: OpenKey): OpenKeyVersion & { kek: NonNullable<OpenKeyVersion['kek']> } {
  const version = key.versions.get(key.row.current_version)
  if (!version?.kek) throw new Error(`key ${key.row.key_id} has no KEK for its current version`)
  return { ...version, kek: version.kek }
}

/**
 * Opens a wrapped key with the version that it names. The caller zeroes the DEK. @throws Refusal
 * E_WRAPPED_KEY, E_VERSION_TOO_OLD
 */
export function openWrappedKey(key: OpenKey, wrapped_key: string): { dek: Uint8Array; version: number } {
  const opened = tryWrappedKey(key, wrapped_key)
  if (!opened) throw new Refusal('E_WRAPPED_KEY', DETAILS.E_WRAPPED_KEY.wrappedKey)
  return opened
}

/**
 * Opens a wrapped key with the version that it names; undefined if it is not authentic for this key. The
 * caller zeroes the DEK. @throws Refusal E_VERSION_TOO_OLD, before anything is opened
 */
export function tryWrappedKey(key: OpenKey, wrapped_key: string): { dek: Uint8Array; version: number } | undefined {
  try {
    const wrapped = Buffer.from(wrapped_key, 'base64') // no secret, so it may be in memory that Buffers share
    const version = wrappedKeyVersion(wrapped)
    if (wrapped.toString('base64') !== wrapped_key) throw new OpenError() // not canonical
    const { kek, aad } = key.versions.get(version) ?? {}
    const { min_unwrap_version: least } = key.row
    if (aad && version < least) {
      throw new Refusal('E_VERSION_TOO_OLD', DETAILS.E_VERSION_TOO_OLD.wrappedKey(version, least))
    }
    return kek && aad && { dek: unwrapDek(kek, aad, wrapped), version }
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    return undefined
  }
}
