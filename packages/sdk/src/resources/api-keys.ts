/** The API keys of a tenant: `/v1/api-keys`. */
import { type Budgets, MAX_LISTED_API_KEYS, type Permission, type wire } from '@eaas/protocol'
import { InvalidInputError, ProtocolError } from '../errors.js'
import { type Http, toCall } from '../http/calls.js'
import { assertArray, assertOptions, readSignal } from '../input.js'
import { assertId, assertName, type CallOptions, readTime } from './keys.js'

/** An API key as lists show it: without its secret. */
export type ApiKeyRecord = wire.ApiKey
export type ApiKeyList = wire.ApiKeyList
export type NewApiKey = wire.NewApiKey

/** The fields of an API key that can be set. An update keeps a field that is left out; `null` clears it. */
export interface ApiKeyChanges {
  /** 1 to 255 characters. */
  name?: string | undefined
  /** What it may do; see `NewApiKeyOptions`. */
  permissions?: readonly Permission[] | undefined
  /** When it expires: RFC 3339 with an offset, or a Date. */
  expires_at?: string | Date | null | undefined
  /** The only addresses from which it may be used: addresses or CIDR, v4 and v6. */
  allowed_ips?: readonly string[] | null | undefined
  /** The only keys that it may use and manage: ids, or folders of names, `customers/*`. `null` means all, `[]` none. */
  keys?: readonly string[] | null | undefined
  /**
   * How many values it may open (`unwrap`) and hash in a minute and in a day (UTC). Beyond that, calls are refused with
   * `E_API` of status 429 or, with `when_over: 'expire'`, it expires until `expires_at` is set. `null` means no limit.
   * Not for an API key with `api_keys:manage` or `keys:export`.
   */
  budgets?: Budgets | null | undefined
}

export interface NewApiKeyOptions extends ApiKeyChanges {
  /** Its purpose, as the log and the list show it. */
  name: string
  /** What it may do, such as `['wrap', 'unwrap']`: only what the calling API key itself may do. */
  permissions: readonly Permission[]
}

/** Each call except `list` is one request. All throw the errors that `Client` names. The client repeats no change. */
export interface ApiKeys {
  /** Creates an API key. Only this answer shows its `secret`. Needs `api_keys:manage`, and grants only what the calling API key has. */
  create(apiKey: NewApiKeyOptions, options?: CallOptions): Promise<NewApiKey>
  /** Lists all API keys, including revoked ones, without secrets: one request per 10,000. Needs `api_keys:read`. */
  list(options?: CallOptions): Promise<ApiKeyList>
  /** Changes an API key. Needs `api_keys:manage`. If it is revoked: `E_API` with status 409. */
  update(id: string, changes: ApiKeyChanges, options?: CallOptions): Promise<ApiKeyRecord>
  /** Revokes an API key for good. Needs `api_keys:manage`. */
  revoke(id: string, options?: CallOptions): Promise<void>
}

const FIELDS = ['name', 'permissions', 'expires_at', 'allowed_ips', 'keys', 'budgets'] satisfies (keyof ApiKeyChanges)[]
/** More than any tenant has: a service that answers with as many would never end. */
const MAX_API_KEYS = 1_000_000

export default function createApiKeys(http: Http): ApiKeys {
  return {
    async create(apiKey, options) {
      const signal = readSignal('apiKeys.create()', options)
      assertOptions('apiKeys.create()', apiKey, FIELDS)
      assertName(apiKey.name)
      assertArray('permissions', apiKey.permissions)
      return http(toCall('createApiKey', { body: bodyOf(apiKey), signal }))
    },
    async list(options) {
      const signal = readSignal('apiKeys.list()', options)
      const read = new Map<string, ApiKeyRecord>()
      for (;;) {
        const offset = read.size
        const { api_keys } = await http(toCall('listApiKeys', { query: { offset: offset || undefined }, signal }))
        for (const apiKey of api_keys) read.set(apiKey.id, apiKey)
        if (api_keys.length < MAX_LISTED_API_KEYS) return { api_keys: [...read.values()], count: read.size }
        if (read.size === offset || read.size >= MAX_API_KEYS)
          throw new ProtocolError('GET /v1/api-keys: its pages do not end', 200)
      }
    },
    async update(id, changes, options) {
      const signal = readSignal('apiKeys.update()', options)
      assertOptions('apiKeys.update()', changes, FIELDS)
      assertId(id)
      if (changes.name !== undefined) assertName(changes.name)
      return http(toCall('updateApiKey', { id, body: bodyOf(changes), signal }))
    },
    async revoke(id, options) {
      const signal = readSignal('apiKeys.revoke()', options)
      assertId(id)
      await http(toCall('revokeApiKey', { id, signal }))
    },
  }
}

// Members by name, so that nothing else of the caller's object is sent. JSON leaves out undefined ones.
function bodyOf({ name, permissions, expires_at, allowed_ips, keys, budgets }: ApiKeyChanges): object {
  if (allowed_ips?.length === 0) throw new InvalidInputError('allowed_ips is empty', 'Name addresses, or null for any.')
  const expires = expires_at === undefined || expires_at === null ? expires_at : readTime(expires_at, 'expires_at')
  return { name, permissions, expires_at: expires, allowed_ips, keys, budgets }
}
