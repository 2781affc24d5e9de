/** `@eaas/sdk/testing`: a service in memory, to test an application without a network or an account. */
import { encodeHex, type wire } from '@eaas/protocol'
import { random32 } from './deks/random.js'
import { assertOptions, assertWhole } from './input.js'
import type { Entry } from './resources/audit.js'
import { createFailures, type TestFailure } from './testing/failures.js'
import { NoAnswer, serve } from './testing/serve.js'
import { noteAsSystem, randomId, type State } from './testing/state.js'

export type { ProblemCode } from '@eaas/protocol'
export type { Entry } from './resources/audit.js'
export type { TestFailure } from './testing/failures.js'
export type { TestOperation } from './testing/serve.js'

const BASE_URL = 'https://eaas.test'
const DESTROY_WINDOW_DAYS = 7
const SECRET_CHARACTERS = 43

/** Options of `createTestService`; the defaults are those of the service. */
export interface TestServiceOptions {
  /** Whether the tenant is envelope-only, which closes server mode; true by default, as for new tenants. */
  envelopeOnly?: boolean | undefined
  /** Days between scheduling a key's destruction and the destruction; 7 by default, 0 destroys at once. */
  destroyWindowDays?: number | undefined
  /** Returns the time in milliseconds since 1970; `Date.now` by default. Each call first does what has become due. */
  now?: (() => number) | undefined
}

/** A service in memory. Its functions can be detached from it and used alone. */
export interface TestService {
  /** Answers as the service does. Pass it to `createClient`. Only addresses below `baseUrl` answer. */
  readonly fetch: typeof fetch
  readonly baseUrl: string
  /** The secret of the only API key, which may make every call. */
  readonly apiKey: string
  /**
   * Makes the next calls fail, in the order in which `failNext` was called.
   * @throws InvalidInputError unless one of `status`, `code`, `network` and `timeout` is given
   * @example
   * ```ts
   * service.failNext({ operation: 'unwrap', code: 'E_STATE' })
   * ```
   */
  failNext(failure: TestFailure): void
  /** A copy of the audit log, oldest entry first. */
  entries(): Entry[]
  /** Deletes keys, entries and pending failures. Then create new clients: old ones still have DEKs of deleted keys. */
  reset(): void
}

/**
 * Creates a service in memory. Does not use the network. It answers the calls on keys, `wrap`, `unwrap`, `rewrap`,
 * `hash` and batches, and those of server mode, as a real service does. Its one API key may make every call. It
 * refuses, with 405, calls on other API keys, and those that list, verify or count the audit log: test permissions,
 * addresses, budgets and quotas with a real service, such as `eaas dev`. `failNext` shows your application any refusal.
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const service = createTestService()
 * const eaas = createClient(service)
 * ```
 */
export function createTestService(options: TestServiceOptions = {}): TestService {
  assertOptions('createTestService()', options, ['envelopeOnly', 'destroyWindowDays', 'now'])
  const { envelopeOnly = true, destroyWindowDays = DESTROY_WINDOW_DAYS, now = Date.now } = options
  assertWhole('destroyWindowDays', destroyWindowDays, 0, 3_650)
  const tenant: wire.Tenant = {
    tenant_id: randomId(),
    name: 'test',
    envelope_only: envelopeOnly,
    created_at: new Date(now()).toISOString(),
    monthly_encrypt_quota: null,
  }
  const characters = encodeHex(random32()).slice(0, SECRET_CHARACTERS)
  const apiKey = { id: randomId(), secret: `eaas_sk_${tenant.tenant_id.replaceAll('-', '')}_${characters}` }
  const state: State = { tenant, apiKey, keys: [], entries: [], now, destroyWindowDays }
  const failures = createFailures()

  const reset = () => {
    Object.assign(state, { keys: [], entries: [] })
    failures.clear()
    noteAsSystem(state, { action: 'api_key.create', metadata: { api_key_id: apiKey.id } })
  }
  reset()
  const connection: Pick<TestService, 'fetch' | 'baseUrl' | 'apiKey'> = {
    baseUrl: BASE_URL,
    apiKey: apiKey.secret,
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
  // Not enumerable, so that `{ ...service, timeoutMs }` has only options of a client.
  for (const [name, value] of Object.entries(controls)) Object.defineProperty(connection, name, { value })
  return Object.freeze(connection) as TestService
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const giveUp = () => reject(signal.reason)
    if (signal.aborted) giveUp()
    else signal.addEventListener('abort', giveUp, { once: true })
  })
}
