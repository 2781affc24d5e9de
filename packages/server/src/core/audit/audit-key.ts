/**
 * The keys that authenticate a log, its heads and its rows (key-hierarchy.md 8), opened from the tenant's row. Another
 * process may renew them: on a head under a key that this process lacks, it reads them again.
 */
import { concatBytes, INSTALLATION_ID, OpenError } from '@eaas/protocol'
import {
  moveSecret,
  openSecret,
  resealSecret,
  SEALED_BYTES,
  type SecretBinding,
  type StoreKeys,
  sealNewSecret,
  UnknownStoreKeyError,
} from '../crypto/key-hierarchy.js'
import type { Queryable } from '../store/db.js'
import { TamperedRowError } from '../store/tampered-row.js'
import { findWrappedAuditKey, listWrappedAuditKeys, MOST_AUDIT_KEY_BYTES, type TenantRow } from '../store/tenants.js'
import { type AuditKey, type AuditKeys, type Head, isHeadAuthentic } from './formats/chain.js'

const ID_BYTES = 8

/** Plain data, because each thread gets a copy. */
type OpenAuditKey = AuditKeys & { tenant_id: string; storeKeys: StoreKeys; sealed: Uint8Array }

/** `through` is the last id for which a key of a log holds; undefined for the current key. */
type SealedKey = { through: number | undefined; sealed: Uint8Array }

/** @throws TamperedRowError if the server did not write these keys for this tenant; UnknownStoreKeyError */
export function openAuditKey(
  storeKeys: StoreKeys,
  { tenant_id, wrapped_audit_key: sealed }: Pick<TenantRow, 'tenant_id' | 'wrapped_audit_key'>,
): OpenAuditKey {
  const open = ({ through, sealed }: SealedKey) => openSecret(storeKeys, bindingOf(tenant_id, through), sealed)
  try {
    const [current, ...former] = splitKeys(sealed)
    const keys = former.map((each) => ({ through: each.through ?? 0, key: open(each) }))
    return { tenant_id, storeKeys, sealed, current: open(current), former: keys }
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    throw new TamperedRowError(`the audit key of tenant ${tenant_id} was changed outside the server`)
  }
}

export function opensAuditKey(storeKeys: StoreKeys, tenant: Parameters<typeof openAuditKey>[1]): boolean {
  try {
    openAuditKey(storeKeys, tenant)
    return true
  } catch (error) {
    if (error instanceof TamperedRowError) return false
    throw error
  }
}

/** Leaves out keys that the database lacks, and keys that do not open. */
export async function readAuditKeys(
  sql: Queryable,
  storeKeys: StoreKeys,
  tenants: readonly string[],
): Promise<Map<string, OpenAuditKey>> {
  const keys = new Map<string, OpenAuditKey>()
  for (const row of await listWrappedAuditKeys(sql, tenants)) {
    try {
      keys.set(row.tenant_id, openAuditKey(storeKeys, row))
    } catch (error) {
      if (!isUnopened(error)) throw error
    }
  }
  return keys
}

/** Whether `openAuditKey` threw this about the row of one tenant, which must not stop the others. */
export function isUnopened(error: unknown): error is TamperedRowError | UnknownStoreKeyError {
  return error instanceof TamperedRowError || error instanceof UnknownStoreKeyError
}

/** Seals the keys again under the current store key. @throws OpenError, UnknownStoreKeyError */
export function resealAuditKey(storeKeys: StoreKeys, tenant_id: string, sealed: Uint8Array): Uint8Array {
  return moveAuditKey({ from: storeKeys, to: storeKeys }, tenant_id, sealed)
}

/** Seals the keys under the store key of another installation. @throws OpenError, UnknownStoreKeyError */
export function moveAuditKey(
  storeKeys: Record<'from' | 'to', StoreKeys>,
  tenant_id: string,
  sealed: Uint8Array,
): Uint8Array {
  const move = ({ through, sealed }: SealedKey) => ({
    through,
    sealed: moveSecret(storeKeys, bindingOf(tenant_id, through), sealed),
  })
  return joinKeys(splitKeys(sealed).map(move))
}

/**
 * Adds the log's next key, which holds after an id, and drops earlier keys that hold for purged entries only.
 * @throws TamperedRowError, OpenError, UnknownStoreKeyError
 */
export function renewAuditKey(
  { tenant_id, storeKeys, sealed }: Pick<OpenAuditKey, 'tenant_id' | 'storeKeys' | 'sealed'>,
  { after_id, purged_through }: { after_id: number; purged_through: number },
): Uint8Array {
  const [current, ...earlier] = splitKeys(sealed)
  if (earlier.some(({ through = 0 }) => through > after_id))
    throw new TamperedRowError(`tenant ${tenant_id} has a former audit key for entries that its log does not have yet`)
  const reseal = ({ through, sealed }: SealedKey) => {
    const last = through ?? after_id
    const [from, to] = [bindingOf(tenant_id, through), bindingOf(tenant_id, last)]
    return { through: last, sealed: resealSecret(storeKeys, from, sealed, to) }
  }
  const former = [...earlier, current].filter(({ through = after_id }) => through > purged_through).map(reseal)
  const fresh = { through: undefined, sealed: sealNewSecret(storeKeys, bindingOf(tenant_id, undefined)) }
  const joined = joinKeys([fresh, ...former])
  if (joined.length <= MOST_AUDIT_KEY_BYTES) return joined
  throw new TamperedRowError(
    tenant_id === INSTALLATION_ID
      ? "the installation's log has had too many audit keys: rotate the store key with --keep-secrets, which makes none"
      : `the log of tenant ${tenant_id} has had too many audit keys: purge its oldest entries`,
  )
}

/**
 * Reads a log's keys again into the same object, so that every holder of it gets them.
 * @throws UnknownStoreKeyError if this process has not read their store key yet
 */
export async function followAuditKey(sql: Queryable, auditKey: AuditKey): Promise<void> {
  if (!('sealed' in auditKey)) return
  const known = auditKey as OpenAuditKey
  const { tenant_id, storeKeys } = known
  const wrapped_audit_key = await findWrappedAuditKey(sql, tenant_id)
  if (!wrapped_audit_key || Buffer.from(wrapped_audit_key).equals(known.sealed)) return
  try {
    Object.assign(known, openAuditKey(storeKeys, { tenant_id, wrapped_audit_key }))
  } catch (error) {
    if (!(error instanceof TamperedRowError)) throw error // the old keys stay, and refuse what others authenticated
  }
}

/**
 * If a log's keys do not authenticate something, reads them again and checks once more, even if this call found no new
 * keys: another call may have put them into the same object.
 */
export async function isAuthenticByNewest(
  sql: Queryable,
  auditKey: AuditKey,
  isAuthentic: () => boolean,
): Promise<boolean> {
  if (isAuthentic()) return true
  await followAuditKey(sql, auditKey)
  return isAuthentic()
}

export function isHeadGenuine(sql: Queryable, auditKey: AuditKey, head: Head): Promise<boolean> {
  return isAuthenticByNewest(sql, auditKey, () => isHeadAuthentic(auditKey, head))
}

function bindingOf(tenant_id: string, through: number | undefined): SecretBinding {
  return { purpose: 'audit-key', tenant_id, ...(through !== undefined && { version: through }) }
}

// With any other length, the last part is not a sealed secret, and fails to open.
function splitKeys(sealed: Uint8Array): [SealedKey, ...SealedKey[]] {
  const keys: [SealedKey, ...SealedKey[]] = [{ through: undefined, sealed: sealed.subarray(0, SEALED_BYTES) }]
  for (let at = SEALED_BYTES; at < sealed.length; at += ID_BYTES + SEALED_BYTES) {
    if (at + ID_BYTES > sealed.length) throw new OpenError()
    const through = Number(new DataView(sealed.buffer, sealed.byteOffset).getBigUint64(at))
    const begin = at + ID_BYTES
    keys.push({ through, sealed: sealed.subarray(begin, begin + SEALED_BYTES) })
  }
  return keys
}

function joinKeys(keys: readonly SealedKey[]): Uint8Array {
  return concatBytes(
    ...keys.flatMap(({ through, sealed }) => {
      if (through === undefined) return [sealed]
      const id = new Uint8Array(ID_BYTES)
      new DataView(id.buffer).setBigUint64(0, BigInt(through))
      return [id, sealed]
    }),
  )
}
