/** Writes a tenant to the installation to which it moves, in one transaction there: step 4 of `move-tenant.ts`. */
import {
  type ChainedEntry,
  CheckpointError,
  encodePublicKey,
  followKeyChanges,
  signKeyChange,
} from '@eaas/audit/formats'
import { encodeHex } from '@eaas/protocol'
import { appendToLocked } from '../../../core/audit/append/send-appends.js'
import { moveAuditKey, openAuditKey, renewAuditKey } from '../../../core/audit/audit-key.js'
import {
  type AuditKey,
  currentKey,
  equalBytes,
  extendChain,
  type Head,
  NO_MARK_MAC,
  type PurgeMark,
  purgeMarkMac,
} from '../../../core/audit/formats/chain.js'
import { apiKeyMac, authentic, keyMac, keyVersionMac, tenantMac, withMac } from '../../../core/audit/formats/row-mac.js'
import { deriveRowKey, moveSecret, type SecretBinding } from '../../../core/crypto/key-hierarchy.js'
import { draftEntry, recordChanges } from '../../../core/runner/entry-drafts.js'
import { listKeyChangesOf } from '../../../core/runner/installation-key.js'
import type { EntryNote, Services } from '../../../core/runner/operation.js'
import { systemCaller } from '../../../core/runner/perform.js'
import { Refusal } from '../../../core/runner/refusal.js'
import { listApiKeys } from '../../../core/store/api-keys.js'
import { findHead, insertHead } from '../../../core/store/audit.js'
import type { Queryable, Transaction } from '../../../core/store/db.js'
import { withoutDeadlines } from '../../../core/store/deadline.js'
import { listKeys, listTenantKeyVersions } from '../../../core/store/keys.js'
import { findTenant, findTenantByName, insertTenant, type TenantRow } from '../../../core/store/tenants.js'
import { lockInstallationHead, recordForInstallation } from '../../../guard/installation-log.js'
import { isLossAccepted } from '../../../guard/named-entries.js'
import { authenticTenant } from '../../../operators/tenants.js'
import { COPIED_TABLES, copyRows, countEntries, insertRows, withoutTimeouts } from '../../store/moved-rows.js'
import { copyEntries, findCopied, findStart, type Move, type Position } from './copy-log.js'
import { assertStaged, type StagedPeppers } from './stage-peppers.js'

/** As many statements about signing keys, of about 400 bytes each, as fit into an entry. */
const STATEMENTS_OF_ENTRY = 25

export interface Arriving {
  /** the transaction here that has locked the head of the log */
  lock: Transaction
  head: Head
  tenant: TenantRow
  auditKey: AuditKey
  address?: string | undefined
  peppers?: StagedPeppers | undefined
  copied?: Position
  onProgress?: ((step: string) => void) | undefined
}

/** Writes everything in one transaction there; returns the entry `moved`. */
export async function arrive(move: Move, arriving: Arriving): Promise<ChainedEntry> {
  const { to, tenant_id } = move
  const { lock, head, auditKey, onProgress } = arriving
  const at = arriving.copied ?? (await findCopied(move, { on: lock, auditKey }))
  const { last_id: through_id } = head
  const end = await copyEntries(move, { on: lock, auditKey, at, through_id, onProgress, pauses: 0 })
  if (end.id !== through_id || !equalBytes(end.hash, head.hash)) throw notTheLog()
  const { moved, own, installation } = await withoutDeadlines(to.sql).begin((there) => writeAll(move, there, arriving))
  to.states.forget(tenant_id)
  to.committer.guard.committed(own)
  to.committer.guard.committed(installation)
  return moved
}

export function notTheLog(): Refusal {
  return new Refusal(
    'E_STATE',
    'the entries in the other installation do not end as the log does: undo the move (--undo), and begin again',
  )
}

async function writeAll(
  move: Move,
  there: Transaction,
  { lock, head, tenant, auditKey, address, peppers }: Arriving,
): Promise<{ moved: ChainedEntry; own: Head; installation: Head }> {
  const { from, to, tenant_id } = move
  await withoutTimeouts(there)
  await assertStaged(tenant_id, { lock, there, peppers })
  await assertAbsent(move, there, { tenant, head })
  const { marks, id: purged_through } = await findStart(move, lock, auditKey)
  const { key_change, key_changes } = await signMove(move, lock)
  const log = endLog(move, { head, tenant, auditKey, address, purged_through, key_change })
  const macs = { from: rowKeyOf(auditKey), to: rowKeyOf(log.theirs) }
  await moveKeys(move, there, { lock, macs, peppers })
  await insertRows(there, 'purge_marks', { tenant_id, rows: underKey(marks, log.theirs) })
  for (const table of COPIED_TABLES) await copyRows(lock, there, table, tenant_id)
  await lockInstallationHead(to, there) // so that no other tenant gets the name, and nobody deletes what was copied
  await assertNameIsFree(move, there, tenant.name)
  const { last_id: through_id } = head
  // Whatever happened there after the copying: once the tenant has arrived, a log with a gap could not be used anywhere.
  if ((await countEntries(there, tenant_id, { after_id: purged_through, through_id })) !== through_id - purged_through)
    throw new Refusal(
      'E_STATE',
      'the other installation does not have every entry of the log: undo the move (--undo), and begin again',
    )
  await insertTenant(
    there,
    withMac(
      { ...tenant, status: 'active', wrapped_audit_key: log.wrapped_audit_key, entry_id: log.opened.id },
      tenantMac,
      macs.to,
    ),
  )
  await insertHead(there, head)
  const { entries, next, time } = log
  await appendToLocked(there, to.committer.clock, { previous: head, next, entries, time })
  const { name, envelope_only } = tenant
  const named = { entry_id: log.opened.id, entry_hash: encodeHex(log.opened.hash) }
  const told = { tenant_id, name, envelope_only, status: 'active', ...named, from: keyOf(from) }
  const notes: EntryNote[] = []
  for (let at = 0; at < key_changes.length; at += STATEMENTS_OF_ENTRY) {
    const part = JSON.stringify(key_changes.slice(at, at + STATEMENTS_OF_ENTRY))
    notes.push({ action: 'installation.tenant_arrive', metadata: { ...told, key_changes: part } })
  }
  const installation = await recordForInstallation(to, there, systemCaller(to), notes)
  return { moved: log.moved, own: next, installation }
}

/** The last entries under the former audit key, the first under the new one, and the rest that moves with the log. */
function endLog(
  move: Move,
  {
    head,
    tenant,
    auditKey,
    address,
    purged_through,
    key_change,
  }: Pick<Arriving, 'head' | 'tenant' | 'auditKey' | 'address'> & { purged_through: number; key_change: string },
) {
  const { from, to, tenant_id } = move
  const storeKeys = { from: from.storeKeys, to: to.storeKeys }
  const time = to.committer.clock.read(head)
  const metadata = { ...describeStatus(tenant, 'moved'), from: keyOf(from), to: keyOf(to), key_change }
  const note: EntryNote = {
    action: 'tenant.update',
    metadata: { ...metadata, ...(address !== undefined && { moved_to: address }) },
  }
  const policy_version = head.policy_version + 1
  const ended = extendChain(head, [draftEntry(note, systemCaller(from))], { auditKey, now: time, policy_version })
  const [moved] = ended.entries
  if (!moved) throw new Error('a change has no entry')
  // From the next entry on, the log has an audit key that the former installation does not know.
  const sealed = moveAuditKey(storeKeys, tenant_id, tenant.wrapped_audit_key)
  const wrapped_audit_key = renewAuditKey(
    { tenant_id, storeKeys: to.storeKeys, sealed },
    { after_id: moved.id, purged_through },
  )
  const theirs = openAuditKey(to.storeKeys, { tenant_id, wrapped_audit_key })
  const active = describeStatus({ ...tenant, status: 'moved', entry_id: moved.id }, 'active')
  const begun = extendChain(
    ended.head,
    [
      draftEntry({ action: 'audit.key_renew' }, systemCaller(to)),
      draftEntry({ action: 'tenant.update', metadata: active }, systemCaller(to)),
    ],
    { auditKey: theirs, now: time, policy_version: policy_version + 2 },
  )
  const [, opened] = begun.entries
  if (!opened) throw new Error('a change has no entry')
  return {
    entries: [...ended.entries, ...begun.entries],
    moved,
    opened,
    next: begun.head,
    time,
    theirs,
    wrapped_audit_key,
  }
}

type RowKey = ReturnType<typeof rowKeyOf>

export function rowKeyOf(auditKey: AuditKey) {
  return deriveRowKey(currentKey(auditKey))
}

/** Moves the keys and API keys: checks them here, and writes them there under the other store key, with MACs under the new audit key. */
async function moveKeys(
  move: Move,
  there: Transaction,
  { lock, macs, peppers }: Pick<Arriving, 'lock' | 'peppers'> & { macs: { from: RowKey; to: RowKey } },
): Promise<void> {
  const { from, to, tenant_id } = move
  const storeKeys = { from: from.storeKeys, to: to.storeKeys }
  const sealThere = (binding: SecretBinding, secret: Uint8Array | null) =>
    secret && moveSecret(storeKeys, binding, secret)
  const keys = (await listKeys(lock, tenant_id, {})).map((row) => {
    const binding = { purpose: 'hash-key', tenant_id, id: row.key_id } as const
    return withMac(
      { ...authentic(row, keyMac, macs.from), wrapped_hash_key: sealThere(binding, row.wrapped_hash_key) },
      keyMac,
      macs.to,
    )
  })
  const versions = (await listTenantKeyVersions(lock, tenant_id)).map((row) => {
    const binding = { purpose: 'kek', tenant_id, id: row.key_id, version: row.version } as const
    return withMac(
      { ...authentic(row, keyVersionMac, macs.from), wrapped_kek: sealThere(binding, row.wrapped_kek) },
      keyVersionMac,
      macs.to,
    )
  })
  const apiKeys = (await listApiKeys(lock, tenant_id)).map((row) => {
    const pepper = -(peppers?.numbers.get(row.pepper) ?? 0) // 0 is no pepper's number: such an API key was already useless here
    return withMac({ ...authentic(row, apiKeyMac, macs.from), pepper }, apiKeyMac, macs.to)
  })
  await insertRows(there, 'keys', { tenant_id, rows: keys })
  await insertRows(there, 'key_versions', { tenant_id, rows: versions })
  await insertRows(there, 'api_keys', { tenant_id, rows: apiKeys })
}

function underKey(marks: readonly PurgeMark[], auditKey: AuditKey): PurgeMark[] {
  let previous_mac: Uint8Array = NO_MARK_MAC
  return marks.map((mark) => {
    const next = { ...mark, previous_mac, mac: purgeMarkMac(auditKey, { ...mark, previous_mac }) }
    previous_mac = next.mac
    return next
  })
}

/**
 * Returns the earlier statements and a new one, signed by both installations: from now on, the log is signed there.
 * @throws Refusal E_STATE if nobody could follow them
 */
export async function signMove(
  { from, to, tenant_id }: Move,
  on: Queryable,
): Promise<{ key_change: string; key_changes: readonly string[] }> {
  const key_change = signKeyChange(
    from.signingKey.current(),
    to.signingKey.current(),
    new Date(from.now()).toISOString(),
  )
  const key_changes = [...(await listKeyChangesOf(on, from, tenant_id)), key_change]
  try {
    followKeyChanges(key_changes)
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    throw new Refusal(
      'E_STATE',
      `${error.message}. If this tenant was there before: rotate the store key there first (eaas store-key rotate)`,
    )
  }
  return { key_change, key_changes }
}

export function keyOf({ signingKey }: Services): string {
  return encodePublicKey(signingKey)
}

export function describeStatus(tenant: TenantRow, status: TenantRow['status']): NonNullable<EntryNote['metadata']> {
  const { envelope_only, entry_id: replaces } = tenant
  return { envelope_only, replaces, status, ...recordChanges(tenant, { status }) }
}

export async function assertNameIsFree({ tenant_id }: Move, there: Queryable, name: string): Promise<void> {
  const named = await findTenantByName(there, name)
  if (named && named.tenant_id !== tenant_id)
    throw new Refusal(
      'E_NAME_TAKEN',
      `the other installation has another tenant named ${name}, perhaps as a deleted one`,
    )
}

/**
 * @throws Refusal E_STATE if the tenant is there, or what it left when it moved away, or if it arrived there and moved
 * on: then nothing of it may be there any more, and it must be served neither there nor here
 */
export async function assertAbsent(
  { to, tenant_id }: Move,
  there: Queryable,
  { tenant: { name }, head }: Pick<Arriving, 'tenant' | 'head'>,
): Promise<void> {
  const [row, left] = [await findTenant(there, tenant_id), await findHead(there, tenant_id)]
  const arrived = { ...head, last_id: head.last_id + 1 }
  const { installationKey } = to
  const hasMovedOn = await isLossAccepted(there, { installationKey, tenant_id, witness: arrived, isMoved: true })
  if (!row && !left && !hasMovedOn) return
  const status = row && authenticTenant(to, row).status
  const isLeft = status === 'moved' && left && left.last_id <= head.last_id
  const why =
    (status === 'moving' && 'is moving it: end or undo that') ||
    (isLeft && `still has what it left when it moved away: delete that first (there, eaas tenant delete ${name})`) ||
    'has it already, or had it, with another log or one that ends elsewhere'
  throw new Refusal('E_STATE', `tenant ${name}: the other installation ${why}; nothing was changed there`)
}
