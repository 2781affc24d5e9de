/** The sentences of the error codes, without secrets. Separate from problem.ts, since pages and brokers lack them. */
import { ON_BEHALF_OF_HEADER } from './entry-names.js'
import {
  FREE_KEY_VERSIONS,
  MAX_API_KEYS,
  MAX_KEY_VERSIONS,
  MAX_KEY_VERSIONS_PER_HOUR,
  MAX_KEYS,
  MAX_SCANNED_ENTRIES,
  MAX_SERVER_MODE_BYTES,
} from './limits.js'
import type { ProblemCode } from './problem.js'

type Sentence = string | ((...about: never[]) => string)

export const DETAILS = {
  E_VALIDATION: {
    body: 'the body must be a JSON object',
    query: 'the query is not valid',
    item: 'must be an object',
    itemKey: 'key_id: must be a string',
    confirm: "confirm: must be the key's name",
    scan: (entries: number, most = MAX_SCANNED_ENTRIES) =>
      `a filter by actor, end user, purpose or context reads every entry of its range, which has ${entries}; name date_from and date_to, or after_id, so that it has at most ${most}`,
    searchedKey: 'key_id: this API key is limited to keys: to search by a context, name one of its keys',
    minUnwrapVersion: (current: number) => `min_unwrap_version: must be at most the current version, ${current}`,
    destroyedThrough: (destroyed: number) =>
      `min_unwrap_version: must be at least ${destroyed + 1}: older versions were destroyed`,
    element: (at: number) =>
      `elements.${at}: must be the canonical encoding of an element of ristretto255 that is not the identity`,
    plaintext: 'plaintext: must be canonical standard base64, because `encoding` or the tenant sets it',
    expiresAt: 'expires_at: must be an RFC 3339 time with an offset',
    expired: 'expires_at: must be in the future',
    allowedIp: (at: number) => `allowed_ips.${at}: must be an IPv4 or IPv6 address, or a CIDR range`,
    budgets: 'budgets: not for an API key that holds api_keys:manage or keys:export, which would lead around them',
    onBehalfOf: `${ON_BEHALF_OF_HEADER}: must be 1 to 255 visible ASCII characters, without spaces or commas`,
  },
  E_MALFORMED_REQUEST: {
    json: 'the body is not valid JSON in UTF-8',
    repeated: 'an object in the body has a member twice: send each member once',
  },
  E_PLAINTEXT_TOO_LARGE: {
    plaintext: (length: number) =>
      `plaintext must be at most ${MAX_SERVER_MODE_BYTES} bytes, got ${length}; encrypt it locally with the SDK`,
  },
  E_UNAUTHORIZED: { apiKey: 'a valid API key is required: Authorization: Bearer eaas_sk_…' },
  E_IP_NOT_ALLOWED: {
    address: (address: string) => `ip_not_allowed: ${address} is not on the allow-list of this API key`,
  },
  E_TENANT_SUSPENDED: { tenant: 'the operator has suspended this tenant: all of its calls are refused' },
  E_MISSING_PERMISSION: {
    call: (missing: string) => `missing permission: ${missing}`,
    grant: (missing: string) => `missing permission: ${missing}; an API key can only grant what it holds`,
    grantKeys: 'keys: this API key is limited to keys, and can only grant these; name keys or folders of its own list',
    createKey: 'this API key is limited to keys: it creates only keys whose names are in a folder of its list',
  },
  E_ENVELOPE_ONLY: {
    call: 'E_ENVELOPE_ONLY: this tenant encrypts on the client only. Use wrap and unwrap, or ask the operator to open server mode.',
  },
  E_WRAPPED_KEY: { wrappedKey: 'wrapped_key is not authentic for this key' },
  E_NOT_FOUND: {
    key: 'key not found',
    version: 'the key has no such version',
    apiKey: 'API key not found',
    tenant: 'tenant not found',
  },
  E_ROUTE_NOT_FOUND: { path: 'there is nothing at this path' },
  E_METHOD_NOT_ALLOWED: { method: 'this path does not support this method' },
  E_REQUEST_TIMEOUT: { request: 'the request did not arrive in time' },
  E_NAME_TAKEN: { key: 'a key with this name already exists; names are never reused' },
  E_STATE: {
    key: (status: string, to: string, states: readonly string[]) =>
      `the key is ${status}: to ${to} it must be ${states.join(' or ')}`,
    versionOpens: (version: number) =>
      `version ${version} still opens: raise min_unwrap_version above it, and destroy it after the waiting period`,
    versionOrder: (next: number) => `versions are destroyed in their order: destroy version ${next} first`,
    versionWaits: (until: string) =>
      `the version can be destroyed from ${until} on, if min_unwrap_version is left as it is until then`,
    apiKey: 'the API key is revoked, and that is final',
  },
  E_KEY_DESTROYED: { key: 'the key was destroyed: what it protected can never be opened again' },
  E_VERSION_DESTROYED: {
    wrappedKey: (version: number) =>
      `wrapped_key is of version ${version} of the key, which was destroyed: it can never be opened again`,
  },
  E_VERSION_TOO_OLD: {
    wrappedKey: (version: number, least: number) =>
      `wrapped_key is of version ${version} of the key, whose min_unwrap_version is ${least}: older versions no longer open`,
  },
  E_LIMIT: {
    keys: (most = MAX_KEYS) => `a tenant may have at most ${most} keys, including destroyed ones`,
    wraps: 'the current version of the key has wrapped as many DEKs as it may: rotate the key, or use another one',
    versionsPerHour: (until: string) =>
      `the key got ${MAX_KEY_VERSIONS_PER_HOUR} versions within an hour, the most from version ${FREE_KEY_VERSIONS + 1} on: rotate it from ${until} on`,
    versions: `a key may have at most ${MAX_KEY_VERSIONS} versions: create another key`,
    apiKeys: `a tenant may have at most ${MAX_API_KEYS} API keys that are neither revoked nor expired`,
  },
  E_BODY_TOO_LARGE: { body: 'the body is larger than this call accepts' },
  E_URI_TOO_LONG: { path: 'the path is too long' },
  E_MEDIA_TYPE: { body: 'the body must be application/json in UTF-8' },
  E_TENANT_MOVED: {
    tenant: (address?: string) =>
      `the tenant was moved to another installation: send its calls ${address === undefined ? 'to the address that the operator names' : `to ${address}`}`,
  },
  E_DECRYPTION_FAILED: {
    ciphertext: 'the ciphertext is not authentic: altered, or encrypted under another key',
    text: 'the plaintext is not UTF-8 text; ask for its bytes with encoding: base64',
  },
  E_QUOTA_EXCEEDED: { encrypt: (quota: number | null) => `the quota of encrypt calls, ${quota} a month, is used up` },
  E_BUDGET: {
    call: (kind: string, window: string, limit: number, expires: boolean) =>
      `the budget of this API key for ${kind === 'hash' ? 'hashes' : 'unwraps and decrypts'}, ${limit} a ${window}, is used up; ${expires ? 'the API key expires with it' : `the next ${window} of UTC renews it`}`,
  },
  E_HEADERS_TOO_LARGE: { headers: 'the headers are too large' },
  E_INTERNAL: {
    unexpected:
      'unexpected error; the server logged it under this request id, or under that of an earlier request that failed alike',
  },
  E_AUDIT_NOT_WRITTEN: { entry: 'the audit entry could not be written, so the call was not carried out' },
  E_TAMPERED: {
    row: 'a row that this call depends on is not as the server wrote it last: the operator must verify the log',
    entry: (id: number) =>
      `entry ${id} of the audit log is missing or not as the server wrote it: the operator must verify the log`,
  },
  E_UNAVAILABLE: {
    busy: 'too many calls are waiting; try again later',
    moving: 'the tenant is being moved to another installation; try again in a moment',
  },
} as const satisfies Record<ProblemCode, Record<string, Sentence>>
