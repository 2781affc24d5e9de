/**
 * How every operation runs: decide on the tenant's state, have the entries committed, only then release the answer. Where
 * the state turns out not to be the current one, decide again.
 */
import { SYSTEM_ACTOR } from '@eaas/protocol'
import { ChainAlarmError } from '../audit/append-errors.js'
import type { EntryDraft } from '../audit/chain.js'
import type { Outcome } from '../audit/committer.js'
import { apiKeyDigest, apiKeyTenant } from '../crypto/api-key.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import { type Access, admit, type Credentials, unauthorized } from './admit.js'
import type { Caller, Context, Decision, EntryNote, Operation, Services } from './operation.js'
import { Refusal } from './refusal.js'
import type { TenantState } from './tenant-state.js'

/** How often a call decides again before it gives up: each time, somebody else had changed the tenant meanwhile. */
const MAX_DECISIONS = 50

/** The server itself, or its operator. */
export const SYSTEM: Caller = { actor: SYSTEM_ACTOR, ip_address: null, on_behalf_of: undefined, apiKey: undefined }

/** Reads the credentials of a call. @throws Refusal E_UNAUTHORIZED when the text is no API key */
export function readCredentials(
  services: Services,
  { apiKey, ip_address, on_behalf_of }: { apiKey: string; ip_address: string; on_behalf_of: string | undefined },
): Credentials {
  const tenant_id = apiKeyTenant(apiKey)
  if (tenant_id === undefined) throw unauthorized()
  return { tenant_id, digest: apiKeyDigest(services.pepper, apiKey), ip_address, on_behalf_of }
}

/**
 * Lets a caller in before its body is read; tells whether its tenant was envelope-only when it was last read. That may have
 * changed since.
 *
 * @throws Refusal E_UNAUTHORIZED, E_IP_NOT_ALLOWED, E_MISSING_PERMISSION
 */
export function demandAdmission(services: Services, access: Access): Promise<{ envelope_only: boolean }> {
  return carryOut(services, access.credentials.tenant_id, access, ({ state }) => ({
    entries: [],
    preliminary: true, // `perform` looks again
    release: () => ({ envelope_only: state.tenant.envelope_only }),
  }))
}

/** Runs an operation for a caller; answers once its entries are committed. @throws Refusal, AuditWriteError, OverloadError */
export function perform<Answer>(services: Services, access: Access, operation: Operation<Answer>): Promise<Answer> {
  return carryOut(services, access.credentials.tenant_id, access, operation)
}

/** Runs an operation that the server does by itself or its operator asks for. @throws Refusal, AuditWriteError, OverloadError */
export function performAsSystem<Answer>(
  services: Services,
  tenant_id: string,
  operation: Operation<Answer>,
): Promise<Answer> {
  return carryOut(services, tenant_id, undefined, operation)
}

// A refusal counts only when the state that it was made on is the current one: a key that another process has just made or
// enabled must not be refused here. A release is never tried again: its entries are committed.
async function carryOut<Answer>(
  services: Services,
  tenant_id: string,
  access: Access | undefined,
  operation: Operation<Answer>,
): Promise<Answer> {
  let quotaLeft = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < MAX_DECISIONS; tries++) {
    const state = await services.states.find(tenant_id)
    if (!state) throw unauthorized()
    let decision: Decision<Answer> | undefined
    let outcome: Outcome
    try {
      const caller = access ? callerOf(access, await state.findApiKey(access.credentials.digest), services) : SYSTEM
      const context = { state, caller, services, quotaLeft }
      decision = await operation(context)
      outcome = await record(context, decision)
    } catch (error) {
      wipe(decision)
      if (!(error instanceof Refusal) || (await isCurrent(services, state))) throw error
      outcome = 'stale'
    }
    if (decision && outcome === 'committed') {
      if (decision.change) services.states.drop(state)
      try {
        return await decision.release()
      } finally {
        wipe(decision)
      }
    }
    wipe(decision)
    if (outcome === 'stale') services.states.drop(state)
    else if (outcome !== 'committed') quotaLeft = outcome.quotaLeft
  }
  throw new Refusal('E_UNAVAILABLE', 'the keys of this tenant change too fast; try again')
}

function callerOf(access: Access, found: ApiKeyRow | undefined, { now }: Services): Caller {
  const apiKey = admit(found, access, now())
  const { ip_address, on_behalf_of } = access.credentials
  return { actor: apiKey.api_key_id, ip_address, on_behalf_of, apiKey }
}

/** Zeroes the secrets of a decision that is over, whatever came of it. */
export function wipe(decision: Decision<unknown> | undefined): void {
  for (const secret of decision?.secrets ?? []) secret.fill(0)
}

/** Has a decision's entries committed, under the state that it was made on. */
function record(
  { state, services, caller }: Context,
  { entries, change, evidence = false, preliminary = false }: Decision<unknown>,
): Outcome | Promise<Outcome> {
  if (preliminary) return 'committed'
  if (evidence) return compare(services, state).catch(committedIfAlarmed)
  if (state.fault) throw state.fault
  if (entries.length === 0) return compare(services, state)
  return services.committer.append({
    tenant_id: state.tenant.tenant_id,
    auditKey: state.auditKey,
    policy_version: state.policy_version,
    entries: entries.map((note) => draftEntry(note, caller)),
    change,
    encryptQuota: state.tenant.monthly_encrypt_quota,
  })
}

async function isCurrent({ committer }: Services, { tenant, auditKey, policy_version }: TenantState): Promise<boolean> {
  return (await committer.currentPolicyVersion({ tenant_id: tenant.tenant_id, auditKey })) === policy_version
}

async function compare(services: Services, state: TenantState): Promise<Outcome> {
  return (await isCurrent(services, state)) ? 'committed' : 'stale'
}

// Where the chain itself is wrong nothing tells what is current any more, and verification has to say what is wrong.
function committedIfAlarmed(error: unknown): Outcome {
  if (error instanceof ChainAlarmError) return 'committed'
  throw error
}

/** An entry as it is chained: with who acts and from where, its metadata as canonical JSON. */
export function draftEntry({ action, key_id, key_version, metadata }: EntryNote, caller: Caller): EntryDraft {
  const { actor, ip_address, on_behalf_of } = caller
  const all = on_behalf_of === undefined ? metadata : { ...metadata, on_behalf_of }
  return {
    action,
    key_id: key_id ?? null,
    key_version: key_version ?? null,
    actor,
    ip_address,
    metadata: all === undefined ? null : canonicalJson(all),
  }
}

/** RFC 8785 for flat objects: members sorted by name, no white space. */
function canonicalJson(metadata: NonNullable<EntryNote['metadata']>): string {
  return JSON.stringify(Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1))))
}
