/**
 * Decides whether a call is admitted: every reason to refuse a caller except those of the operation itself, in the
 * order of the checks.
 *
 * Before the body is read, by `admitCall`:
 * 1. the API key is well formed, which names its tenant;
 * 2. it is an API key of that tenant, neither revoked nor expired; each of these failures gives the same refusal after
 *    the same time;
 * 3. the address is on the API key's list;
 * 4. the tenant is neither suspended nor moved elsewhere;
 * 5. the API key has the permissions of the call;
 * 6. the end user, if the caller names one, has a valid name;
 * 7. there is room for the operations of a batch (work-gate.ts).
 * While the body arrives, and while a long answer is read: 8. there is room for it (work-gate.ts).
 *
 * With the body, by `performAdmitted`:
 * 9. there is time for the operations of a batch (work-gate.ts), or a turn for blind hashes (blind-hashing.ts);
 * 10. 2 to 5 hold on the state that the operation decides on: only a refusal on the current state counts;
 * 11. server mode is open to the tenant; a refusal of it is committed as an entry before the caller gets it.
 *
 * The committer decides the rest, because it alone knows the head of the log: that the tenant has no alarm
 * (`#assertWatched` in audit/append/tenant-log.ts), that the log's queue has room (append-queue.ts), and what the
 * tenant's quota leaves, on which `encrypt` decides.
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
 * How long it takes to refuse an API key, in milliseconds: longer than the look-ups, which differ between an unknown
 * tenant, an unknown API key and a revoked one. So the time of a refusal does not tell a caller which it is.
 */
const REFUSAL_MS = 20

/** Who calls, and from where. */
export interface Credentials {
  tenant_id: string
  /** HMACs of the API key under the peppers, in the order to search for them */
  digests: readonly Digest[]
  ip_address: string
  /** the end user that the caller says it acts for, which requires a permission of its own */
  on_behalf_of: string | undefined
  correlation?: Correlation | undefined
}

/** A caller, and the permissions that its call needs. */
interface Access {
  credentials: Credentials
  permissions: readonly HeldPermission[]
}

/** What a call needs before its body is read. */
interface CallNeeds {
  permissions: readonly HeldPermission[]
  /** whether it has many operations, for which there must be room */
  isBatch: boolean
}

/** What is known of a call once its caller is admitted. */
export interface Admitted {
  api_key_id: string
  /** whether the tenant was envelope-only when its state was last read; that may have changed since */
  envelope_only: boolean
}

/**
 * Admits a call before its body is read. `identify` reads the caller's credentials.
 *
 * @throws Refusal E_UNAUTHORIZED, E_IP_NOT_ALLOWED, E_TENANT_SUSPENDED, E_TENANT_MOVED, E_UNAVAILABLE,
 * E_MISSING_PERMISSION, E_VALIDATION; OverloadError
 */
export async function admitCall(
  services: Services,
  { permissions, isBatch }: CallNeeds,
  identify: () => Credentials,
): Promise<Admitted & { holding: Holding }> {
  const credentials = identify()
  const admitted = await admitCaller(services, { credentials, permissions })
  assertOnBehalfOf(credentials, admitted)
  if (isBatch) services.gate.assertRoom(credentials.tenant_id) // before a large body is read for nothing
  const { api_key_id, envelope_only } = admitted
  return { api_key_id, envelope_only, holding: services.hold(credentials.tenant_id, api_key_id) }
}

/** An admitted call with its body. */
interface AdmittedCall extends Access {
  /** how many operations it has, if it is a batch */
  operations?: number | undefined
  /** whose turn the call waits for, if it evaluates blind hashes */
  hashing?: { cost: number; api_key_id: string; signal: AbortSignal | undefined } | undefined
  /** of a call of server mode */
  serverMode?: ServerModeCall | undefined
}

/**
 * Runs the operation of an admitted call; answers once its entries are committed. @throws Refusal, AuditWriteError,
 * OverloadError
 */
export function performAdmitted<Answer>(
  services: Services,
  { credentials, permissions, operations, hashing, serverMode }: AdmittedCall,
  operation: Operation<Answer>,
): Promise<Answer> {
  const { tenant_id } = credentials
  const access = { credentials, permissions }
  const now = () => services.committer.clock.latest()
  const work = serverMode ? inServerMode(serverMode, operation) : operation
  const findCaller = (state: TenantState) => admitOn(services, state, { access, now: now() })
  const perform = () => carryOut(services, { tenant_id, findCaller }, work)
  if (hashing) return services.blindHashing.inTurn({ tenant_id, ...hashing }, hashing.cost, perform)
  return operations === undefined ? perform() : whenAdmitted(services.gate, { tenant_id, operations }, perform)
}

/** Whose API key a call needs: a tenant's, or an operator's, which belongs to the installation. */
export type ApiKeyOwner = 'tenant' | 'operator'

/** Reads the credentials of a call. @throws Refusal E_UNAUTHORIZED if the text is not an API key of this kind */
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

/**
 * Admits by the cached state of the caller's tenant; undefined if it is not loaded or would refuse: the current state
 * then decides.
 */
function admitOnCached({ states, committer }: Services, access: Access): Admitted | undefined {
  const state = states.find(access.credentials.tenant_id)
  if (!state || state instanceof Promise) return undefined
  // An API key whose digest is under the other pepper is found on the current state.
  const found = state.findApiKey(access.credentials.digests[0]?.digest ?? '')
  if (!found || found instanceof Promise) return undefined
  try {
    const { api_key_id } = assertAdmitted(found.row, { state, access, now: committer.clock.latest() })
    return { api_key_id, envelope_only: state.tenant.envelope_only }
  } catch (error) {
    if (error instanceof Refusal) return undefined // refused only on the current state
    throw error
  }
}

/** Finds the caller of a decision, and any fault in its rows. `now` is in milliseconds since 1970. */
async function admitOn(
  { peppers }: Pick<Services, 'peppers'>,
  state: TenantState,
  { access, now }: { access: Access; now: number },
): Promise<{ caller: Caller; fault: TamperedRowError | undefined }> {
  const { digests, ip_address, on_behalf_of, correlation } = access.credentials
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

/** Steps 2 to 5. @throws Refusal as `admitCall`, without E_VALIDATION */
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

/** The status of an API key at a time, in milliseconds since 1970. */
export function apiKeyStatus(apiKey: ApiKeyRow, now: number): 'active' | 'expired' | 'revoked' {
  if (apiKey.revoked_at !== null) return 'revoked'
  return apiKey.expires_at !== null && Date.parse(apiKey.expires_at) <= now ? 'expired' : 'active'
}

// The status in a tampered row is ignored; the call then fails with the fault itself.
function assertServed({ tenant: { status }, fault, moved_to }: TenantState, api_key_id: string): void {
  if (fault || status === 'active') return
  if (status === 'moving') throw new Refusal('E_UNAVAILABLE', DETAILS.E_UNAVAILABLE.moving, { api_key_id })
  if (status === 'moved') throw new Refusal('E_TENANT_MOVED', DETAILS.E_TENANT_MOVED.tenant(moved_to), { api_key_id })
  throw new Refusal('E_TENANT_SUSPENDED', DETAILS.E_TENANT_SUSPENDED.tenant, { api_key_id })
}

/** @throws Refusal E_MISSING_PERMISSION naming the first of the permissions that the API key lacks */
export function assertPermissions(apiKey: ApiKeyRow, permissions: readonly HeldPermission[]): void {
  const missing = findMissingPermission(apiKey.permissions, permissions)
  if (!missing) return
  const { api_key_id } = apiKey
  throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.call(missing), { api_key_id })
}

/** @throws Refusal E_VALIDATION if the name of the end user is not 1 to 255 visible ASCII characters */
function assertOnBehalfOf({ on_behalf_of }: Credentials, { api_key_id }: Admitted): void {
  if (on_behalf_of === undefined || isOnBehalfOf(on_behalf_of)) return
  throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.onBehalfOf, { api_key_id })
}

/**
 * Whether an address is on an allow-list, by Node's BlockList. `::ffff:10.0.0.1` counts as 10.0.0.1, also in a list. An
 * IPv4 address matches IPv4 ranges only: BlockList alone would also find it in `::/0`, by which a user means IPv6.
 */
export function isAllowed(list: readonly string[], address: string): boolean {
  if (isIP(address) === 0) return false
  const { ipv4, ipv6 } = parseList(list)
  return (isIPv4(address) ? ipv4 : ipv6).check(address, familyOf(address))
}

interface Ranges {
  ipv4: BlockList
  ipv6: BlockList
}

// An allow-list is parsed once while its API key is cached.
const parsed = new WeakMap<readonly string[], Ranges>()

function parseList(list: readonly string[]): Ranges {
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

/** A call of server mode: its name, and its body, which is not validated yet. */
interface ServerModeCall {
  operation: string
  body: unknown
}

/** Runs an operation of server mode for tenants whose server mode is open; refuses it on record for others. */
export function inServerMode<Answer>(call: ServerModeCall, operation: Operation<Answer>): Operation<Answer> {
  return (context) => (context.state.tenant.envelope_only ? refuseServerMode(call)(context) : operation(context))
}

/**
 * Refuses a call on record, with the key that its body names. @throws Refusal E_ENVELOPE_ONLY once the entry is
 * committed
 */
export function refuseServerMode({ operation, body }: ServerModeCall): Operation<never> {
  return async ({ state }) => ({
    entries: [{ action: 'envelope_only.refused', ...(await findNamedKey(state, body)), metadata: { operation } }],
    release: () => {
      throw new Refusal('E_ENVELOPE_ONLY', DETAILS.E_ENVELOPE_ONLY.call)
    },
  })
}

// The version is the one that the body names, if the key has it, as on decrypt; otherwise the current one,
// which would have been used.
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
