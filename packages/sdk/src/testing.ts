/**
 * `@eaas/sdk/testing`: an EaaS service in memory, reached through its `fetch`, to test an application without
 * a network or an account. Wrapping and blind indexes are real; the state ends with the program.
 */
import { PERMISSIONS, type Permission, type wire } from '@eaas/protocol'
import { InvalidInputError } from './errors.js'
import { assertOptions, assertWhole } from './input.js'
import type { Entry } from './resources/audit.js'
import { makeApiKey } from './testing/api-keys.js'
import { createFailures, type TestFailure } from './testing/failures.js'
import { NoAnswer, serve } from './testing/serve.js'
import { createContents, noteAsSystem, randomId, type State } from './testing/state.js'

export type { Permission, ProblemCode } from '@eaas/protocol'
export type { Entry } from './resources/audit.js'
export type { TestFailure } from './testing/failures.js'
export type { TestOperation } from './testing/serve.js'

const BASE_URL = 'https://eaas.test'
const DESTROY_WINDOW_DAYS = 7
const OPTIONS: readonly (keyof TestServiceOptions)[] = [
  'envelopeOnly',
  'permissions',
  'monthlyEncryptQuota',
  'destroyWindowDays',
  'now',
]

/** Options of `createTestService`; the defaults are those of the service. */
export interface TestServiceOptions {
  /** Whether the tenant is envelope-only, which closes server mode; true by default, as for new tenants. */
  envelopeOnly?: boolean | undefined
  /** The permissions of the first API key; all by default. */
  permissions?: readonly Permission[] | undefined
  /** How many calls of server mode's `encrypt` are allowed in a month; unlimited by default. */
  monthlyEncryptQuota?: number | undefined
  /** Days between scheduling a key's destruction and the destruction itself, 0 for at once; 7 by default. */
  destroyWindowDays?: number | undefined
  /**
   * Returns the time in milliseconds since 1970; `Date.now` by default. The next call runs what has become
   * due.
   */
  now?: (() => number) | undefined
}

/** A service in memory. Its functions can be detached from it and used alone. */
export interface TestService {
  /** Answers as the service does; for `createClient`. Only addresses below `baseUrl` answer. */
  readonly fetch: typeof fetch
  readonly baseUrl: string
  /** The secret of the tenant's first API key. */
  readonly apiKey: string
  /**
   * Makes the next calls fail, in the order in which `failNext` was called.
   *
   * @throws InvalidInputError unless one of `status`, `code`, `network` and `timeout` is given
   * @example
   * ```ts
   * service.failNext({ operation: 'unwrap', code: 'E_STATE' })
   * ```
   */
  failNext(failure: TestFailure): void
  /** The audit log, oldest entry first, as a copy. */
  entries(): Entry[]
  /**
   * Deletes all keys, entries, pending failures and API keys except `apiKey`. Clients still hold DEKs of the
   * deleted keys, so create a new client.
   */
  reset(): void
}

/**
 * Creates a service in memory. Does not use the network. Lists of allowed addresses and budgets are
 * stored but not enforced; the log is not chained and always verifies as valid.
 *
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const service = createTestService()
 * const eaas = createClient(service)
 * ```
 */
export function createTestService(options: TestServiceOptions = {}): TestService {
  assertOptions('createTestService()', options, OPTIONS)
  const { envelopeOnly = true, permissions = PERMISSIONS, monthlyEncryptQuota, now = Date.now } = options
  const { destroyWindowDays = DESTROY_WINDOW_DAYS } = options
  assertWhole('destroyWindowDays', destroyWindowDays, 0, 3_650)
  if (monthlyEncryptQuota !== undefined) {
    assertWhole('monthlyEncryptQuota', monthlyEncryptQuota, 0, Number.MAX_SAFE_INTEGER)
  }
  const unknown = permissions.find((permission) => !PERMISSIONS.includes(permission))
  if (unknown !== undefined) throw new InvalidInputError(`permissions: there is no ${JSON.stringify(unknown)}`)

  const tenant: wire.Tenant = {
    tenant_id: randomId(),
    name: 'test',
    envelope_only: envelopeOnly,
    created_at: new Date(now()).toISOString(),
    monthly_encrypt_quota: monthlyEncryptQuota ?? null,
  }
  const state: State = { tenant, ...createContents(), now, destroyWindowDays }
  const first = makeApiKey(state, 'first key', permissions)
  const failures = createFailures()

  const reset = () => {
    const { id, name, secret } = first
    const apiKey = { ...makeApiKey(state, name, first.permissions), id, secret }
    Object.assign(state, createContents(), { apiKeys: [apiKey] })
    failures.clear()
    const permissions = [...first.permissions].sort().join(' ')
    const granted = { name, permissions, expires_at: null, allowed_ips: null }
    noteAsSystem(state, {
      action: 'api_key.create',
      metadata: { api_key_id: id, envelope_only: envelopeOnly, ...granted },
    })
    if (monthlyEncryptQuota !== undefined) {
      const metadata = { monthly_encrypt_quota: monthlyEncryptQuota, monthly_encrypt_quota_before: null }
      noteAsSystem(state, { action: 'tenant.update', metadata })
    }
  }
  reset()
  const connection: Pick<TestService, 'fetch' | 'baseUrl' | 'apiKey'> = {
    baseUrl: BASE_URL,
    apiKey: first.secret,
    async fetch(input, init) {
      const request = new Request(input, init)
      request.signal.throwIfAborted()
      if (new URL(request.url).origin !== BASE_URL) throw new TypeError('fetch failed')
      try {
        return await serve(state, failures, request)
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error
        if (error.failing === 'timeout') await untilAborted(request.signal)
        throw new TypeError('fetch failed')
      }
    },
  }
  const controls: Omit<TestService, keyof typeof connection> = {
    failNext: (failure) => failures.add(failure),
    entries: () => structuredClone(state.entries),
    reset,
  }
  // Not enumerable, so that `{ ...service, timeoutMs }` holds only options of a client.
  for (const [name, value] of Object.entries(controls)) Object.defineProperty(connection, name, { value })
  return Object.freeze(connection) as TestService
}

/** @throws the reason of the signal */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = () => reject(signal.reason)
    if (signal.aborted) giveUp()
    else signal.addEventListener('abort', giveUp, { once: true })
  })
}
