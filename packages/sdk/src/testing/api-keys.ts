/**
 * /v1/api-keys in memory. Permissions, expiry and revocation are enforced; address lists are stored but not
 * enforced.
 */
import {
  DETAILS,
  encodeHex,
  encodeUtf8,
  findMissingPermission,
  MAX_API_KEYS,
  MAX_LISTED_API_KEYS,
  type Permission,
  parseRfc3339,
  readAddressRange,
  recordGrant,
  recordGrantBefore,
  type wire,
} from '@eaas/protocol'
import { sha256 } from '../engines/noble-primitives.js'
import { Refusal } from './refusal.js'
import { type Call, note, randomId, randomKey, type State, type TestApiKey, timeNow } from './state.js'

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
  { state }: Call,
  { limit = MAX_LISTED_API_KEYS, offset = 0 }: { limit?: number | undefined; offset?: number | undefined },
): wire.ApiKeyList {
  const api_keys = state.apiKeys.slice(offset, offset + limit).map((apiKey) => viewApiKey(state, apiKey))
  return { api_keys, count: api_keys.length }
}

function createApiKey(call: Call, { name, permissions, ...rest }: wire.CreateApiKey): wire.NewApiKey {
  const { state } = call
  const given = {
    expires_at: readExpiry(state, rest.expires_at ?? null),
    allowed_ips: readAddresses(rest.allowed_ips ?? null),
  }
  assertGrantable(call, permissions)
  if (state.apiKeys.filter(({ revoked }) => !revoked).length >= MAX_API_KEYS) {
    throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.apiKeys)
  }
  const apiKey = { ...makeApiKey(state, name, permissions), ...given }
  state.apiKeys.push(apiKey)
  note(call, { action: 'api_key.create', metadata: { api_key_id: apiKey.id, ...recordGrant(apiKey, hashText) } })
  return { ...viewApiKey(state, apiKey), secret: apiKey.secret }
}

function updateApiKey(call: Call, changes: wire.UpdateApiKey): wire.ApiKey {
  const { state } = call
  const { name, permissions, expires_at, allowed_ips } = changes
  const wanted: Partial<TestApiKey> = {
    ...(name === undefined ? {} : { name }),
    ...(permissions === undefined ? {} : { permissions: [...new Set(permissions)] }),
    ...(expires_at === undefined ? {} : { expires_at: readExpiry(state, expires_at) }),
    ...(allowed_ips === undefined ? {} : { allowed_ips: readAddresses(allowed_ips) }),
  }
  const apiKey = getApiKey(call)
  if (apiKey.revoked) throw new Refusal('E_STATE', DETAILS.E_STATE.apiKey)
  assertGrantable(
    call,
    (wanted.permissions ?? []).filter((permission) => !apiKey.permissions.includes(permission)),
  )
  const changed = Object.keys(wanted).sort().join(' ')
  if (changed === '') return viewApiKey(state, apiKey)
  const after = { ...apiKey, ...wanted }
  const granted = { ...recordGrant(after, hashText), ...recordGrantBefore(apiKey, after, hashText) }
  note(call, { action: 'api_key.update', metadata: { api_key_id: apiKey.id, changed, ...granted } })
  return viewApiKey(state, Object.assign(apiKey, wanted))
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

function getApiKey({ state, id }: Call): TestApiKey {
  const apiKey = state.apiKeys.find((one) => one.id === id)
  if (!apiKey) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.apiKey)
  return apiKey
}

function assertGrantable({ apiKey }: Call, permissions: readonly Permission[]): void {
  const missing = findMissingPermission(apiKey.permissions, permissions)
  if (missing) throw new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.grant(missing))
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
  const { id, name, secret, permissions, created_at, expires_at, allowed_ips } = apiKey
  return {
    id,
    name,
    prefix: secret.slice(0, SHOWN_CHARACTERS - SECRET_CHARACTERS),
    permissions: [...permissions],
    status: statusOf(state, apiKey),
    created_at,
    ...(expires_at === null ? {} : { expires_at }),
    ...(allowed_ips.length === 0 ? {} : { allowed_ips }),
  }
}
