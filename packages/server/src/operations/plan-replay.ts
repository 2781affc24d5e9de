/**
 * Finds the lost entries of a tenant's log that took rights away, to repeat them: revocations of API keys, disablings
 * and destructions of keys. Entries that gave rights are left to the operator. Only reads.
 */
import { type ExportedEntry, readMetadata } from '@eaas/audit'
import { encodeHex } from '@eaas/protocol'
import { readAuthenticEntry } from '../audit/read-entry.js'
import { RECOVERY_PAGE } from '../recovery-page.js'
import type { Operation, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { listAcceptanceIds } from '../store/alarms.js'
import { readEvidence } from '../store/audit-evidence.js'
import type { KeyRow } from '../store/keys.js'
import { destroyKey } from './destroy-key.js'
import { diffAudit } from './diff-audit.js'
import { disableKey } from './disable-key.js'
import { revokeApiKey } from './update-api-key.js'

/** One change to repeat. */
export interface Step {
  /** the lost entry that asks for it */
  entry_id: number
  change: 'api_key.revoke' | 'key.disable' | 'key.destroy'
  /** the API key or the key */
  id: string
  name: string
  /** undefined for a destruction that nothing could cancel, which is left to the operator */
  operation: Operation<unknown> | undefined
}

export interface Replay {
  steps: Step[]
  /** lost entries that ask for something else, which `eaas audit diff` names */
  others: number
}

/** The states of a key, by how far it is from use; a replay only moves a key forward in this order. */
const ORDER = ['active', 'disabled', 'pending_destruction', 'destroyed'] as const
type Status = (typeof ORDER)[number]

/**
 * Plans the replay of an export that verifies. @throws Refusal E_NOT_FOUND; E_STATE if no loss of these entries was
 * accepted, since they may be of a copy of the database, or of one that may still come back; E_STATE if the log has a
 * fault, so that it does not say which entries it lost
 */
export async function planReplay(
  services: Services,
  tenant_id: string,
  exported: AsyncIterable<ExportedEntry>,
): Promise<Replay> {
  const diff = await diffAudit(services, tenant_id, { checkpoints: [], exported })
  const { lost, undone } = diff
  const fault = diff.entry_fault ?? diff.head_fault
  if (fault)
    throw new Refusal(
      'E_STATE',
      `${fault.detail} (${fault.reason}), so nothing is repeated: eaas audit diff names what was lost. ${RECOVERY_PAGE}.`,
    )
  if (!lost || lost.length === 0) return { steps: [], others: 0 }
  await assertAccepted(services, tenant_id, lost)
  const { rows } = await readEvidence(services.sql, tenant_id, { withRows: true })
  const apiKeys = new Map(rows.apiKeys.map((row) => [row.api_key_id, row]))
  const keys = new Map(rows.keys.map((row) => [row.key_id, row]))
  const steps: Step[] = []
  const wanted = new Map<string, { status: Status; entry_id: number }>()
  for (const entry of lost) {
    const api_key_id = String(readMetadata(entry).api_key_id)
    const apiKey = entry.action === 'api_key.revoke' ? apiKeys.get(api_key_id) : undefined
    if (apiKey && apiKey.revoked_at === null && !steps.some(({ id }) => id === api_key_id)) {
      const operation = revokeApiKey({ api_key_id })
      steps.push({ entry_id: entry.id, change: 'api_key.revoke', id: api_key_id, name: apiKey.name, operation })
    }
    const status = statusAfter(entry)
    if (status && entry.key_id !== null) wanted.set(entry.key_id, { status, entry_id: entry.id })
  }
  for (const [key_id, { status, entry_id }] of wanted) {
    const key = keys.get(key_id)
    if (key) steps.push(...stepsTo(status, key, { entry_id, isCancellable: services.destroyWindowDays > 0 }))
  }
  const replayed = new Set(steps.map(({ entry_id }) => entry_id))
  const others = undone.filter((each) => !replayed.has(each.entry_id) && !each.remedy.startsWith('nothing')).length
  return { steps, others }
}

// The last of several changes of a key counts: a key that was disabled and enabled again stays as it is.
function statusAfter(entry: ExportedEntry): Status | undefined {
  if (entry.action === 'key.disable') return 'disabled'
  if (entry.action === 'key.enable') return 'active'
  if (entry.action !== 'key.destroy') return undefined
  const { step } = readMetadata(entry)
  if (step === 'scheduled') return 'pending_destruction'
  if (step === 'completed') return 'destroyed'
  return step === 'cancelled' ? 'disabled' : undefined // a version was destroyed, which needs another change first
}

function stepsTo(
  status: Status,
  { key_id, name, status: now }: KeyRow,
  { entry_id, isCancellable }: { entry_id: number; isCancellable: boolean },
): Step[] {
  if (ORDER.indexOf(now as Status) >= ORDER.indexOf(status)) return []
  const step = { entry_id, id: key_id, name }
  const disable: Step = { ...step, change: 'key.disable', operation: disableKey({ key_id }) }
  // A key that was destroyed waits again: the waiting period is for callers who still need it.
  const operation = isCancellable ? destroyKey({ key_id, confirm: name }) : undefined
  const destroy: Step = { ...step, change: 'key.destroy', operation }
  return [
    ...(now === 'active' ? [disable] : []),
    ...(status !== 'disabled' && now !== 'pending_destruction' ? [destroy] : []),
  ]
}

// An acceptance names the last entry that was lost by its hash, which another copy of the database does not have. An
// export that ends before must differ from the acceptance on: then the log had nothing of its own before.
async function assertAccepted(
  { sql, states }: Services,
  tenant_id: string,
  lost: readonly ExportedEntry[],
): Promise<void> {
  const state = await states.find(tenant_id)
  const hashes = new Map(lost.map(({ id, hash }) => [id, encodeHex(hash)]))
  const [first, last] = [lost[0]?.id ?? 0, lost.at(-1)?.id ?? 0]
  for (const id of state ? await listAcceptanceIds(sql, tenant_id) : []) {
    const entry = state && (await readAuthenticEntry(sql, { tenant_id, id, auditKey: state.auditKey }))
    // The column by which it was found proves nothing.
    if (entry?.action !== 'audit.rollback_accepted') continue
    const { witnessed_id, witnessed_hash } = readMetadata(entry)
    if (typeof witnessed_hash === 'string' && hashes.get(Number(witnessed_id)) === witnessed_hash) return
    if (id === first && Number(witnessed_id) > last) return
  }
  throw new Refusal(
    'E_STATE',
    'the log never had these entries, or their loss is not accepted: no entry audit.rollback_accepted names one of them by witnessed_id and witnessed_hash. ' +
      'An export that ends before the witnessed entry counts only if the acceptance is the first entry that differs from it',
  )
}
