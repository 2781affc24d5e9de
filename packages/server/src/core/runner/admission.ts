/**
 * Decides whether a call is admitted. The checks in order, before those of the operation itself:
 *
 * Before the body is read, `admitCall` checks that
 * 1. the API key, which names its tenant, is well formed;
 * 2. it belongs to that tenant and is neither revoked nor expired; every failure gets one refusal, after the same time;
 * 3. the address is on the API key's list;
 * 4. the tenant is neither suspended nor moved elsewhere;
 * 5. the API key has the permissions of the call;
 * 6. the end user, if the caller names one, has a valid name;
 * 7. there is room for the operations of a batch (work-gate.ts).
 * While the body arrives, and while a long answer is read: 8. there is room for it (work-gate.ts).
 *
 * With the body, `performAdmitted` checks that
 * 9. there is time for the operations of a batch (work-gate.ts), or a turn for blind hashes (blind-hashing.ts);
 * 10. 2 to 5 hold on the state on which the operation decides: only a refusal on the current state counts;
 * 11. server mode is open to the tenant; a refusal of it is committed as an entry before the caller gets it.
 *
 * The committer checks that the tenant has no alarm, and that the queue and the tenant's quota have room.
 */
import { BlockList, isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  DETAILS,
  findMissingPermission,
  foldUuid,
  type HeldPermission,
  type Holding,
  INSTALLATION_ID,
  isOnBehalfOf,
} from '@eaas/protocol'
import { apiKeyTenant } from '../crypto/api-key.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { TamperedRowError } from '../store/tampered-row.js'
import type { FoundApiKey } from './opened-keys.js'
import type { Caller, Correlation, EntryNote, Operation, Services } from './operation.js'
import type { Digest } from './peppers.js'
import { carryOut } from './perform.js'
import { Refusal, unauthorized } from './refusal.js'
import type { TenantState } from './tenant-state.js'
import { whenAdmitted } from './work-gate.js'

/**
 * How long the refusal of an API key takes, in milliseconds. Longer than the look-ups, so that the time does not
 * distinguish an unknown tenant, an unknown API key and a revoked one.
 */
const REFUSAL_MS = 20

export interface Credentials {
  tenant_id: string
  /** HMACs of the API key under the peppers, in the order in which to search for them */
  digests: readonly Digest[]
  ip_address: string
  /** the end user for whom the caller says it acts, which requires a permission of its own */
  on_behalf_of: string | undefined
  correlation?: Correlation | undefined
}

type Access = { credentials: Credentials; permissions: readonly HeldPermission[] }

export interface Admitted {
  api_key_id: string
  /** whether the tenant was envelope-only when its state was last read; may be outdated */
  envelope_only: boolean
}

/**
 * @throws Refusal E_UNAUTHORIZED, E_IP_NOT_ALLOWED, E_TENANT_SUSPENDED, E_TENANT_MOVED, E_UNAVAILABLE,
 * E_MISSING_PERMISSION, E_VALIDATION; OverloadError
 */
export async function admitCall(
  services: Services,
  { permissions, isBatch }: { permissions: readonly HeldPermission[]; isBatch: boolean },
  identify: () => Credentials,
): Promise<Admitted & { holding: Holding }> {
  const credentials = identify()
  const admitted = await admitCaller(services, { credentials, permissions })
  const { api_key_id } = admitted
  const { tenant_id, on_behalf_of } = credentials
  if (on_behalf_of !== undefined && !isOnBehalfOf(on_behalf_of))
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.onBehalfOf, { api_key_id })
  if (isBatch) services.gate.assertRoom(tenant_id) // before a large body is read in vain
  return { ...admitted, holding: services.hold(tenant_id, api_key_id) }
}

interface AdmittedCall extends Access {
  operations?: number | undefined
  /** for a call that evaluates blind hashes: whose turn it waits for */
  hashing?: { cost: number; api_key_id: string; signal: AbortSignal | undefined } | undefined
  serverMode?: ServerModeCall | undefined
}

/** Answers once the entries of the operation are committed. @throws Refusal, AuditWriteError, OverloadError */
export function performAdmitted<Answer>(
  services: Services,
  call: AdmittedCall,
  operation: Operation<Answer>,
): Promise<Answer> {
  const { operations, hashing, serverMode } = call
  const { tenant_id } = call.credentials
  const work = serverMode ? inServerMode(serverMode, operation) : operation
  const findCaller = (state: TenantState) => admitOn(services, state, call)
  const perform = () => carryOut(services, { tenant_id, findCaller }, work)
  if (hashing) return services.blindHashing.inTurn({ tenant_id, ...hashing }, hashing.cost, perform)
  return operations === undefined ? perform() : whenAdmitted(services.gate, { tenant_id, operations }, perform)
}

export type ApiKeyOwner = 'tenant' | 'operator'

/** @throws Refusal E_UNAUTHORIZED if the text is not an API key of this owner */
export function readCredentials(
  { peppers }: Pick<Services, 'peppers'>,
  { apiKey, owner, ...rest }: Omit<Credentials, 'tenant_id' | 'digests'> & { apiKey: string; owner: ApiKeyOwner },
): Credentials {
  const tenant_id = apiKeyTenant(apiKey)
  if (tenant_id === undefined || (tenant_id === INSTALLATION_ID) !== (owner === 'operator'))
    throw unauthorized('malformed')
  return { tenant_id, digests: peppers.digests(apiKey), ...rest }
}

function admitCaller(services: Services, access: Access): Admitted | Promise<Admitted> {
  const admitted = admitOnCached(services, access)
  if (admitted) return admitted
  const earliest = sleep(REFUSAL_MS) // begins before the look-ups, so that it ends at the same time whatever they find
  return performAdmitted(services, access, whoCalls).catch(async (error: unknown) => {
    if (error instanceof Refusal && error.code === 'E_UNAUTHORIZED') await earliest
    throw error
  })
}

const whoCalls: Operation<Admitted> = ({ state, caller: { actor } }) => ({
  entries: [],
  freshness: 'cached', // the operation itself decides on the current state
  release: () => ({ api_key_id: actor, envelope_only: state.tenant.envelope_only }),
})

/** Undefined if the tenant's state is not loaded or would refuse; the current state then decides. */
function admitOnCached({ states, committer }: Services, access: Access): Admitted | undefined {
  const state = states.find(access.credentials.tenant_id)
  if (!state || state instanceof Promise) return undefined
  // Misses an API key whose digest is under the other pepper; the current state finds it.
  const found = state.findApiKey(access.credentials.digests[0]?.digest ?? '')
  if (!found || found instanceof Promise) return undefined
  try {
    const { api_key_id } = assertAdmitted(found.row, { state, access, now: committer.clock.latest() })
    return { api_key_id, envelope_only: state.tenant.envelope_only }
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

async function admitOn(
  { peppers, committer }: Services,
  state: TenantState,
  access: Access,
): Promise<{ caller: Caller; fault: TamperedRowError | undefined }> {
  const { digests, ip_address, on_behalf_of, correlation } = access.credentials
  const now = committer.clock.latest()
  const found = await findByDigest(state, digests)
  const apiKey = assertAdmitted(found?.row, { state, access, now })
  if (!found?.fault) peppers.noteUse(apiKey, digests, state.rowKey)
  const caller = { actor: apiKey.api_key_id, ip_address, on_behalf_of, correlation, apiKey }
  return { caller, fault: state.fault ?? found?.fault }
}

async function findByDigest(state: TenantState, digests: readonly Digest[]): Promise<FoundApiKey | undefined> {
  for (const { digest } of digests) {
    const found = await state.findApiKey(digest)
    if (found) return found
  }
  return undefined
}

/** Checks 2 to 5. @throws Refusal as `admitCall`, except E_VALIDATION */
function assertAdmitted(
  apiKey: ApiKeyRow | undefined,
  { state, access, now }: { state: TenantState; access: Access; now: number },
): ApiKeyRow {
  const { ip_address, on_behalf_of } = access.credentials
  if (!apiKey) throw unauthorized('unknown')
  const { api_key_id } = apiKey
  const status = apiKeyStatus(apiKey, now)
  if (status !== 'active') throw unauthorized(status, api_key_id)
  if (apiKey.allowed_ips.length > 0 && !isAllowed(apiKey.allowed_ips, ip_address)) {
    throw new Refusal('E_IP_NOT_ALLOWED', DETAILS.E_IP_NOT_ALLOWED.address(ip_address), { api_key_id })
  }
  assertServed(state, api_key_id)
  const { permissions } = access
  assertPermissions(apiKey, on_behalf_of === undefined ? permissions : [...permissions, 'audit:on_behalf_of'])
  return apiKey
}

export function apiKeyStatus(apiKey: ApiKeyRow, now: number): 'active' | 'expired' | 'revoked' {
  if (apiKey.revoked_at !== null) return 'revoked'
  return apiKey.expires_at !== null && Date.parse(apiKey.expires_at) <= now ? 'expired' : 'active'
}

// The status in a tampered row is ignored; the call then fails with the fault itself.
function assertServed({ tenant: { status }, fault, moved_to }: TenantState, api_key_id: string): void {
  if (fault || status === 'active') return
  if (status === 'moving') throw new Refusal('E_UNAVAILABLE', DETAILS.E_UNAVAILABLE.moving, { api_key_id })
  if (status === 'moved')
    throw new Refusal('E_TENANT_MOVED', DETAILS.E_TENANT_MOVED.tenant(moved_to?.address), { api_key_id })
  throw new Refusal('E_TENANT_SUSPENDED', DETAILS.E_TENANT_SUSPENDED.tenant, { api_key_id })
}

export function assertPermissions(apiKey: ApiKeyRow, permissions: readonly HeldPermission[]): void {
  const missing = findMissingPermission(apiKey.permissions, permissions)
  if (!missing) return
  const { api_key_id } = apiKey
  throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.call(missing), { api_key_id })
}

/**
 * Whether an address is on an allow-list. `::ffff:10.0.0.1` counts as 10.0.0.1, also in a list. An IPv4 address matches
 * only IPv4 ranges: Node's BlockList alone would also find it in `::/0`, by which a user means IPv6.
 */
export function isAllowed(list: readonly string[], address: string): boolean {
  if (isIP(address) === 0) return false
  const { ipv4, ipv6 } = parseList(list)
  return (isIPv4(address) ? ipv4 : ipv6).check(address, familyOf(address))
}

// Parses an allow-list once while its API key is cached.
const parsed = new WeakMap<readonly string[], Record<'ipv4' | 'ipv6', BlockList>>()

function parseList(list: readonly string[]): Record<'ipv4' | 'ipv6', BlockList> {
  const known = parsed.get(list)
  if (known) return known
  const ranges = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const range of list) {
    const [address = '', prefix] = range.split('/')
    const blockList = isIPv4(address) ? ranges.ipv4 : ranges.ipv6
    if (prefix === undefined) blockList.addAddress(address, familyOf(address))
    else blockList.addSubnet(address, Number(prefix), familyOf(address))
  }
  parsed.set(list, ranges)
  return ranges
}

const MAPPED = new BlockList()
MAPPED.addSubnet('::ffff:0:0', 96, 'ipv6')

function isIPv4(address: string): boolean {
  return familyOf(address) === 'ipv4' || MAPPED.check(address, 'ipv6')
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6'
}

type ServerModeCall = { operation: string; body: unknown }

export function inServerMode<Answer>(call: ServerModeCall, operation: Operation<Answer>): Operation<Answer> {
  return (context) => (context.state.tenant.envelope_only ? refuseServerMode(call)(context) : operation(context))
}

/** Records the key that the body names. @throws Refusal E_ENVELOPE_ONLY once the entry is committed */
export function refuseServerMode({ operation, body }: ServerModeCall): Operation<never> {
  return async ({ state }) => ({
    entries: [{ action: 'envelope_only.refused', ...(await findNamedKey(state, body)), metadata: { operation } }],
    release: () => {
      throw new Refusal('E_ENVELOPE_ONLY', DETAILS.E_ENVELOPE_ONLY.call)
    },
  })
}

// Does not record a version that the key lacks, as the call would have used the current one.
async function findNamedKey(
  state: TenantState,
  body: unknown,
): Promise<Pick<EntryNote, 'key_id' | 'key_version'> | undefined> {
  const { key_id, key_version } = (body ?? {}) as { key_id?: unknown; key_version?: unknown }
  const key = typeof key_id === 'string' ? await state.findKey(foldUuid(key_id)) : undefined
  if (!key) return undefined
  const isNamed = typeof key_version === 'number' && key.versions.has(key_version)
  return { key_id: key.row.key_id, key_version: isNamed ? key_version : key.row.current_version }
}
