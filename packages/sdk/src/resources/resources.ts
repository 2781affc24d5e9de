/**
 * The resources of the API, loaded at the first call to one of them: a page that only seals and opens never
 * loads them.
 */
import type { Soon } from '../async/is-promise.js'
import { traced } from '../caller-stack.js'
import type { Http } from '../http/calls.js'
import type { ApiKeys, createApiKeys } from './api-keys.js'
import type { Audit, createAudit } from './audit.js'
import type { createKeys, Keys } from './keys.js'
import type { createServerMode, ServerMode } from './server-mode.js'
import type { createService, Service } from './service.js'

export interface Resources extends Service {
  keys: Keys
  apiKeys: ApiKeys
  audit: Audit
  server: ServerMode
}

/** What the first call loads. */
interface Loaded {
  createKeys: typeof createKeys
  createApiKeys: typeof createApiKeys
  createAudit: typeof createAudit
  createServerMode: typeof createServerMode
  createService: typeof createService
}

/** Makes the resources over one client's HTTP. */
export function createResources(http: Http, load: () => Soon<Loaded>): Resources {
  const audit = async () => (await load()).createAudit(http)
  return {
    keys: lazily<Keys>(async () => (await load()).createKeys(http), {
      create: 0,
      createMany: 0,
      ensure: 0,
      list: 0,
      get: 0,
      rotate: 0,
      setRotation: 0,
      disable: 0,
      enable: 0,
      destroy: 0,
      cancelDestruction: 0,
      export: 0,
    }),
    apiKeys: lazily<ApiKeys>(async () => (await load()).createApiKeys(http), {
      create: 0,
      list: 0,
      update: 0,
      revoke: 0,
    }),
    audit: Object.freeze<Audit>({
      ...lazily<Omit<Audit, 'entries'>>(audit, { list: 0, verify: 0 }),
      async *entries(...args) {
        yield* (await audit()).entries(...args)
      },
    }),
    server: lazily<ServerMode>(async () => (await load()).createServerMode(http), {
      encrypt: 0,
      decrypt: 0,
      decryptText: 0,
    }),
    ...lazily<Service>(async () => (await load()).createService(http), { tenant: 0, usage: 0, health: 0 }),
  }
}

/**
 * Makes a resource that is loaded by its first call. `names` has each of its methods, or it does not compile.
 */
function lazily<R extends object>(load: () => Promise<R>, names: Readonly<Record<keyof R & string, 0>>): R {
  type Calls = Record<string, (...args: unknown[]) => Promise<unknown>>
  const callOf = (name: string) => traced(async (...args) => ((await load()) as Calls)[name]?.(...args))
  return Object.freeze(Object.fromEntries(Object.keys(names).map((name) => [name, callOf(name)]))) as R
}
