/**
 * Gets a key for an operation, refuses a key whose state does not allow the call (protocol/call-rules.ts), and opens
 * wrapped keys.
 */
import {
  boundAad,
  DETAILS,
  findStateRefusal,
  type KeyCall,
  OpenError,
  readUse,
  type WrapContext,
  type WrapUse,
  type wire,
  wrappedKeyV2Head,
} from '@eaas/protocol'
import { type AuditKey, currentKey } from '../audit/formats/chain.js'
import { deriveContextKey, digestContext } from '../crypto/key-hierarchy.js'
import { unwrapDek, type Wrapping, wrappedKeyVersion } from '../crypto/wrapped-key.js'
import { nameVersion, type OpenKey, type OpenKeyVersion } from '../runner/load-key.js'
import type { Decision, EntryNote, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'

/** Gets a key in any state. @throws Refusal E_NOT_FOUND, also for another tenant's key, so existence never leaks */
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
 * Decides with a key whose state allows the call; synchronously if the key is loaded, because promises would add a
 * tenth to the cost of each item of a batch. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED
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

export function currentVersion(key: OpenKey): OpenKeyVersion & { kek: NonNullable<OpenKeyVersion['kek']> } {
  const version = key.versions.get(key.row.current_version)
  if (!version?.kek) throw new Error(`key ${key.row.key_id} has no KEK for its current version`)
  return { ...version, kek: version.kek }
}

/** The version of a key that wraps. @throws Refusal E_LIMIT if it has wrapped as many DEKs as a KEK may */
export function wrappingVersion(key: OpenKey, { spentVersions }: Services): ReturnType<typeof currentVersion> {
  if (spentVersions.size > 0 && spentVersions.has(nameVersion(key.row))) {
    throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.wraps)
  }
  return currentVersion(key)
}

export function wrappingFor({ row, aad }: Pick<OpenKeyVersion, 'row' | 'aad'>, use: WrapUse | undefined): Wrapping {
  if (!use) return { aad, isBound: false }
  const known = aads.get(row)
  if (known?.use === use) return known.wrapping
  const head = known?.head ?? wrappedKeyV2Head(row)
  const wrapping = { aad: boundAad(head, use), isBound: true }
  aads.set(row, { head, use, wrapping })
  return wrapping
}

/** While a version is in memory: the beginning of all its AADs of format 2, and its last AAD. */
const aads = new WeakMap<OpenKeyVersion['row'], { head: Uint8Array; use: WrapUse; wrapping: Wrapping }>()

/** The use of a wrapped key that a call states, and its record in the entry's metadata. */
type StatedUse = { use: WrapUse | undefined; recorded: EntryNote['metadata'] }

const UNSTATED: StatedUse = { use: undefined, recorded: undefined }

type Stated = Pick<wire.Wrap, 'purpose' | 'context' | 'record'>

/**
 * Reads the use that a call states (wrapped-key-v2.md 3 and 4). Calls of a batch often state the same use, and then get
 * the same object, so AAD and metadata are made once.
 */
export function readStatedUse({ auditKey }: Pick<TenantState, 'auditKey'>, stated: Stated): StatedUse {
  const { purpose, context, record } = stated
  if (purpose === undefined && context === undefined) return UNSTATED
  if (record === 'digests') return makeStatedUse(auditKey, stated) // under the current key, which may be renewed
  const last = lastStated.get(auditKey)
  if (last && last.purpose === purpose && isSameContext(last.context, context)) return last.read
  const read = makeStatedUse(auditKey, stated)
  lastStated.set(auditKey, { purpose, context, read })
  return read
}

/** The last stated use of each tenant, by its audit key, which is in memory as long as the tenant's state. */
const lastStated = new WeakMap<AuditKey, Omit<Stated, 'record'> & { read: StatedUse }>()

function isSameContext(one: WrapContext | undefined, other: WrapContext | undefined): boolean {
  if (!one || !other) return one === other
  let left = Object.keys(other).length
  for (const name in one) {
    if (one[name] !== other[name]) return false
    left -= 1
  }
  return left === 0
}

function makeStatedUse(auditKey: AuditKey, { record = 'values', ...stated }: Stated): StatedUse {
  const use = readUse(stated)
  if (!use) return UNSTATED
  const recorded: NonNullable<StatedUse['recorded']> = {}
  const contextKey = record === 'digests' ? deriveContextKey(currentKey(auditKey)) : undefined
  for (const name of Object.keys(use.context).sort()) {
    const value = use.context[name] ?? ''
    if (contextKey) recorded[`context_hmac.${name}`] = digestContext(contextKey, name, value)
    else recorded[memberName(name)] = value
  }
  recorded.purpose = use.purpose // last, to keep the members sorted
  return { use, recorded }
}

/** Few names of contexts exist, and a newly made string is slow as a member's name. */
const memberNames = new Map<string, string>()
const MOST_MEMBER_NAMES = 1_000

function memberName(name: string): string {
  const known = memberNames.get(name)
  if (known !== undefined) return known
  const made = `context.${name}`
  if (memberNames.size >= MOST_MEMBER_NAMES) memberNames.clear()
  memberNames.set(name, made)
  return made
}

type OpenedDek = { dek: Uint8Array; version: number }

/** As `tryWrappedKey`, but throws. @throws Refusal E_WRAPPED_KEY, E_VERSION_DESTROYED, E_VERSION_TOO_OLD */
export function openWrappedKey(key: OpenKey, wrapped_key: string, use?: WrapUse): OpenedDek {
  const opened = tryWrappedKey(key, wrapped_key, use)
  if (!opened) throw new Refusal('E_WRAPPED_KEY', DETAILS.E_WRAPPED_KEY.wrappedKey)
  return opened
}

/**
 * Opens a wrapped key with the version that it names; undefined if it is not authentic for this key. The caller zeroes
 * the DEK. Before opening: @throws Refusal E_VERSION_DESTROYED, E_VERSION_TOO_OLD
 */
export function tryWrappedKey(key: OpenKey, wrapped_key: string, use?: WrapUse): OpenedDek | undefined {
  try {
    const wrapped = Buffer.from(wrapped_key, 'base64') // not secret, so it may be in memory that Buffers share
    const version = wrappedKeyVersion(wrapped, use !== undefined)
    if (wrapped.toString('base64') !== wrapped_key) throw new OpenError() // not canonical
    const found = key.versions.get(version)
    const { min_unwrap_version: least, destroyed_through } = key.row
    if (found && version <= destroyed_through) {
      throw new Refusal('E_VERSION_DESTROYED', DETAILS.E_VERSION_DESTROYED.wrappedKey(version))
    }
    if (found && version < least) {
      throw new Refusal('E_VERSION_TOO_OLD', DETAILS.E_VERSION_TOO_OLD.wrappedKey(version, least))
    }
    return found?.kek && { dek: unwrapDek(found.kek, wrappingFor(found, use).aad, wrapped), version }
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    return undefined
  }
}
