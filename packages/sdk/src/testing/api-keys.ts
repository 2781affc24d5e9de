/**
 * /v1/api-keys in memory. Permissions, expiry and revocation are enforced; address lists and budgets are
 * stored but not enforced.
 */
import {
  DETAILS,
  encodeHex,
  encodeUtf8,
  findFolderOutside,
  findMissingPermission,
  folderOf,
  isWithin,
  type KeyList,
  loosens,
  MAX_API_KEYS,
  MAX_LISTED_API_KEYS,
  type Permission,
  parseRfc3339,
  partsOf,
  readAddressRange,
  readBudgets,
  recordGrant,
  recordGrantBefore,
  type wire,
  writeBudgets,
} from '@eaas/protocol'
import { sha256 } from '../engines/noble-primitives.js'
import { type Call, maySee, note, Refusal, randomId, randomKey, type State, type TestApiKey, timeNow } from './state.js'

/** The calls that this file answers. */
export const apiKeyFakes = { listApiKeys, createApiKey, updateApiKey, revokeApiKey }

const SECRET_CHARACTERS = 43
const SHOWN_CHARACTERS = 4

/** Makes an API key with a secret of its own. */
export function makeApiKey(state: State, name: string, permissions: readonly Permission[]): TestApiKey {
  const tenant = state.tenant.tenant_id.replaceAll('-', '')
  const characters = encodeHex(randomKey()).slice(0, SECRET_CHARACTERS)
  return {
    id: randomId(),
    name,
    secret: `eaas_sk_${tenant}_${characters}`,
    permissions: [...new Set(permissions)],
    created_at: timeNow(state),
    expires_at: null,
    allowed_ips: [],
    keys: null,
    budgets: null,
    revoked: false,
  }
}

/** Finds the API key with this secret, which may be expired or revoked. */
export function findApiKey(state: State, secret: string): TestApiKey | undefined {
  return state.apiKeys.find((apiKey) => apiKey.secret === secret)
}

/** @throws Refusal E_MISSING_PERMISSION naming the first permission that is missing */
export function assertPermissions({ permissions }: TestApiKey, needed: readonly Permission[]): void {
  const missing = findMissingPermission(permissions, needed)
  if (missing) throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.call(missing))
}

function listApiKeys(
  { state, apiKey: caller }: Call,
  { limit = MAX_LISTED_API_KEYS, offset = 0 }: { limit?: number | undefined; offset?: number | undefined },
): wire.ApiKeyList {
  const listed = state.apiKeys.filter((apiKey) => mayManage(state, caller, apiKey))
  const api_keys = listed.slice(offset, offset + limit).map((apiKey) => viewApiKey(state, apiKey))
  return { api_keys, count: api_keys.length }
}

function createApiKey(call: Call, { name, permissions, ...rest }: wire.CreateApiKey): wire.NewApiKey {
  const { state } = call
  const given = {
    expires_at: readExpiry(state, rest.expires_at ?? null),
    allowed_ips: readAddresses(rest.allowed_ips ?? null),
    budgets: rest.budgets ? writeBudgets(rest.budgets) : null,
  }
  assertBudgetHolds({ ...given, permissions })
  assertGrantable(call, permissions)
  const keys = readKeyList(call, rest.keys ?? null)
  assertRoomForOne(state)
  const apiKey = { ...makeApiKey(state, name, permissions), ...given, keys }
  state.apiKeys.push(apiKey)
  note(call, { action: 'api_key.create', metadata: { api_key_id: apiKey.id, ...recordGrant(apiKey, hashText) } })
  return { ...viewApiKey(state, apiKey), secret: apiKey.secret }
}

function assertRoomForOne(state: State): void {
  const usable = state.apiKeys.filter((apiKey) => statusOf(state, apiKey) === 'active')
  if (usable.length >= MAX_API_KEYS) throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.apiKeys)
}

function updateApiKey(call: Call, changes: wire.UpdateApiKey): wire.ApiKey {
  const { state } = call
  const { name, permissions, expires_at, allowed_ips, budgets } = changes
  const wanted: Partial<TestApiKey> = {
    ...(name === undefined ? {} : { name }),
    ...(permissions === undefined ? {} : { permissions: [...new Set(permissions)] }),
    ...(expires_at === undefined ? {} : { expires_at: readExpiry(state, expires_at) }),
    ...(allowed_ips === undefined ? {} : { allowed_ips: readAddresses(allowed_ips) }),
    ...(budgets === undefined ? {} : { budgets: budgets && writeBudgets(budgets) }),
  }
  const apiKey = getApiKey(call)
  if (apiKey.revoked) throw new Refusal('E_STATE', DETAILS.E_STATE.apiKey)
  const held = wanted.permissions ?? apiKey.permissions
  assertBudgetHolds({ ...apiKey, ...wanted })
  assertGrantable(
    call,
    held.filter((permission) => !apiKey.permissions.includes(permission)),
  )
  if (loosens(apiKey, { ...apiKey, ...wanted })) assertGrantable(call, held)
  if (changes.keys !== undefined) {
    wanted.keys = readKeyList(call, changes.keys)
    if (!isWithin(apiKey.keys, wanted.keys, folders(state))) assertGrantable(call, held)
  }
  if (expires_at !== undefined && statusOf(state, apiKey) === 'expired') assertRoomForOne(state)
  note(call, noteOfChange(apiKey, wanted))
  return viewApiKey(state, Object.assign(apiKey, wanted))
}

function noteOfChange(apiKey: TestApiKey, wanted: Partial<TestApiKey>) {
  const changed = Object.keys(wanted).sort().join(' ')
  const after = { ...apiKey, ...wanted }
  const granted = { ...recordGrant(after, hashText), ...recordGrantBefore(apiKey, after, hashText) }
  return { action: 'api_key.update' as const, metadata: { api_key_id: apiKey.id, changed, ...granted } }
}

function revokeApiKey(call: Call): void {
  const apiKey = getApiKey(call)
  if (apiKey.revoked) return
  note(call, { action: 'api_key.revoke', metadata: { api_key_id: apiKey.id } })
  apiKey.revoked = true
}

function hashText(text: string): string {
  return encodeHex(sha256(encodeUtf8(text)))
}

function getApiKey({ state, apiKey: caller, id }: Call): TestApiKey {
  const apiKey = state.apiKeys.find((one) => one.id === id && mayManage(state, caller, one))
  if (!apiKey) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.apiKey)
  return apiKey
}

/** A caller that is limited to keys manages only API keys that are limited to some of these. */
function mayManage(state: State, caller: TestApiKey, { keys }: TestApiKey): boolean {
  return caller.keys === null || (keys?.length !== 0 && isWithin(caller.keys, keys, folders(state)))
}

function assertGrantable({ apiKey }: Call, permissions: readonly Permission[]): void {
  const missing = findMissingPermission(apiKey.permissions, permissions)
  if (missing) throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.grant(missing))
}

/** @throws Refusal E_VALIDATION */
function assertBudgetHolds({ budgets, permissions }: Pick<TestApiKey, 'budgets' | 'permissions'>): void {
  const leadsAround = permissions.includes('api_keys:manage') || permissions.includes('keys:export')
  if (budgets !== null && leadsAround) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.budgets)
}

/** @throws Refusal E_MISSING_PERMISSION, E_NOT_FOUND */
function readKeyList({ state, apiKey }: Call, list: readonly string[] | null): KeyList {
  if (apiKey.keys !== null && (list === null || findFolderOutside(apiKey.keys, list) !== undefined)) {
    throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.grantKeys)
  }
  if (list === null) return null
  for (const id of partsOf(list).ids) {
    const key = state.keys.find(({ key_id }) => key_id === id)
    if (!key || !maySee(apiKey, key)) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.key)
  }
  return [...new Set(list)]
}

function folders({ keys }: State): (key_id: string) => string {
  return (id) => folderOf(keys.find(({ key_id }) => key_id === id)?.name ?? '')
}

function readExpiry(state: State, text: string | null): string | null {
  if (text === null) return null
  const time = parseRfc3339(text, 'down')
  if (time === undefined) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.expiresAt)
  if (Date.parse(time) <= state.now()) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.expired)
  return time
}

function readAddresses(list: readonly string[] | null): string[] {
  const ranges = (list ?? []).map((text, at) => {
    const range = readAddressRange(text)
    if (range !== undefined) return range
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.allowedIp(at))
  })
  return [...new Set(ranges)]
}

/** The status of an API key now. */
export function statusOf(state: State, { revoked, expires_at }: TestApiKey): wire.ApiKey['status'] {
  if (revoked) return 'revoked'
  return expires_at !== null && Date.parse(expires_at) <= state.now() ? 'expired' : 'active'
}

function viewApiKey(state: State, apiKey: TestApiKey): wire.ApiKey {
  const { id, name, secret, permissions, created_at, expires_at, allowed_ips, keys, budgets } = apiKey
  return {
    id,
    name,
    prefix: secret.slice(0, SHOWN_CHARACTERS - SECRET_CHARACTERS),
    permissions: [...permissions],
    status: statusOf(state, apiKey),
    created_at,
    ...(expires_at === null ? {} : { expires_at }),
    ...(allowed_ips.length === 0 ? {} : { allowed_ips }),
    ...(keys === null ? {} : { keys: [...keys] }),
    ...(budgets === null ? {} : { budgets: readBudgets(budgets) }),
  }
}
