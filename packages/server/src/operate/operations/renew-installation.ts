/** Replaces the secrets of the whole installation, in a rotation of the store key. */
import { encodePublicKey, signKeyChange } from '@eaas/audit/formats'
import { signingKeyOf } from '@eaas/audit/node'
import { INSTALLATION_ID } from '@eaas/protocol'
import { appendToLocked } from '../../core/audit/append/send-appends.js'
import { extendLocked } from '../../core/audit/append/tenant-log.js'
import { openAuditKey, renewAuditKey, resealAuditKey } from '../../core/audit/audit-key.js'
import { extendChain } from '../../core/audit/formats/chain.js'
import {
  deriveRowKey,
  openSecret,
  resealSecret,
  type StoreKeys,
  sealedUnder,
  sealNewSecret,
} from '../../core/crypto/key-hierarchy.js'
import { draftEntry } from '../../core/runner/entry-drafts.js'
import { followInstallation, InstallationKey } from '../../core/runner/installation-key.js'
import type { EntryNote, Services } from '../../core/runner/operation.js'
import { pepperBinding } from '../../core/runner/peppers.js'
import { systemCaller } from '../../core/runner/perform.js'
import { findInstallationKey, findInstance } from '../../core/store/instance.js'
import { getPeppers } from '../../core/store/peppers.js'
import { assertRecordable } from '../../guard/installation-log.js'
import { type InstanceSecrets, resealInstance } from '../store/sealed-rows.js'
import { ChangedMeanwhileError, renewApiKeys } from './renew-tenant.js'

/**
 * In one transaction, creates a new signing key, pepper and key of the installation's log. Its entry states the new signing
 * key and is the first under the log's new key (chain.md 14). With `isKept`, seals the same secrets again. Returns the
 * number of written rows; 0 if that store key already seals the secrets. @throws OpenError, Refusal, ChangedMeanwhileError
 */
export async function renewInstallation(services: Services, number: number, isKept: boolean): Promise<number> {
  const { sql, storeKeys, committer, installationKey, peppers } = services
  await peppers.deleteFormer(services.now())
  const row = await findInstance(sql)
  const wrapped_audit_key = await findInstallationKey(sql)
  if (!row || !wrapped_audit_key) throw new Error("the installation's row is incomplete")
  const { pepper, wrapped_pepper, wrapped_former_pepper } = await getPeppers(sql)
  const { wrapped_signing_key } = row
  if (sealedUnder(wrapped_signing_key) >= number) return 0
  const was = { pepper, wrapped_pepper, wrapped_former_pepper, wrapped_signing_key, wrapped_audit_key }
  const next = {
    ...renewPepper(storeKeys, was, isKept),
    wrapped_signing_key: isKept
      ? resealSecret(storeKeys, { purpose: 'signing-key' }, wrapped_signing_key)
      : sealNewSecret(storeKeys, { purpose: 'signing-key' }),
  }
  if (isKept) {
    const resealed = resealAuditKey(storeKeys, INSTALLATION_ID, wrapped_audit_key)
    const isWritten = await resealInstance(sql, was, { ...next, wrapped_audit_key: resealed })
    await followInstallation(services)
    if (!isWritten) throw new ChangedMeanwhileError(INSTALLATION_ID)
    return 1
  }
  const note = await recordKeyChange(services, was, next)
  const log = { tenant_id: INSTALLATION_ID, auditKey: installationKey }
  const head = await extendLocked(services, log, async (transaction, previous) => {
    assertRecordable(services)
    const known = openAuditKey(storeKeys, { tenant_id: INSTALLATION_ID, wrapped_audit_key })
    const renewed = renewAuditKey(known, { after_id: previous.last_id, purged_through: 0 })
    if (!(await resealInstance(transaction, was, { ...next, wrapped_audit_key: renewed }))) return undefined
    const auditKey = openAuditKey(storeKeys, { tenant_id: INSTALLATION_ID, wrapped_audit_key: renewed })
    await renewApiKeys(transaction, INSTALLATION_ID, {
      from: deriveRowKey(known.current),
      to: deriveRowKey(auditKey.current),
    })
    const time = committer.clock.read(previous)
    const draft = draftEntry(note, systemCaller(services))
    const policy_version = previous.policy_version + 1 // so that other processes read the operators' API keys again
    const { entries, head } = extendChain(previous, [draft], { auditKey, now: time, policy_version })
    await appendToLocked(transaction, committer.clock, { previous, next: head, entries, time })
    return head
  })
  services.states.forget(INSTALLATION_ID)
  await followInstallation(services)
  if (head === undefined) throw new ChangedMeanwhileError(INSTALLATION_ID)
  return 1
}

// While API keys still need the former pepper, no third one is created: both stay.
function renewPepper(
  storeKeys: StoreKeys,
  { pepper, wrapped_pepper, wrapped_former_pepper: former }: InstanceSecrets,
  isKept: boolean,
): Pick<InstanceSecrets, 'pepper' | 'wrapped_pepper' | 'wrapped_former_pepper'> {
  const resealed = resealSecret(storeKeys, pepperBinding(pepper), wrapped_pepper)
  if (!isKept && !former) {
    const wrapped_pepper = sealNewSecret(storeKeys, pepperBinding(pepper + 1))
    return { pepper: pepper + 1, wrapped_pepper, wrapped_former_pepper: resealed }
  }
  const wrapped_former_pepper = former && resealSecret(storeKeys, pepperBinding(pepper - 1), former)
  return { pepper, wrapped_pepper: resealed, wrapped_former_pepper }
}

async function recordKeyChange(
  { sql, storeKeys, now }: Services,
  was: Pick<InstanceSecrets, 'wrapped_signing_key'>,
  { pepper, wrapped_signing_key }: Pick<InstanceSecrets, 'pepper' | 'wrapped_signing_key'>,
): Promise<EntryNote> {
  const from = await InstallationKey.open(sql, storeKeys, was)
  const to = signingKeyOf(openSecret(storeKeys, { purpose: 'signing-key' }, wrapped_signing_key))
  const key_change = signKeyChange(from, to, new Date(now()).toISOString())
  return { action: 'installation.secrets_rotate', metadata: { key_change, public_key: encodePublicKey(to), pepper } }
}
