/**
 * The resources of the API, loaded at the first call to one of them: a page that only seals and opens never
 * loads them.
 */

import type { Http } from '../http/calls.js'
import { type Soon, traced } from '../waiting.js'
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
  http: Http
  createKeys: typeof createKeys
  createApiKeys: typeof createApiKeys
  createAudit: typeof createAudit
  createServerMode: typeof createServerMode
  createService: typeof createService
}

/** Makes the resources of one client. */
export function createResources(load: () => Soon<Loaded>): Resources {
  return {
    keys: lazily<Keys>(load, 'createKeys', {
      create: 0,
      createMany: 0,
      ensure: 0,
      list: 0,
      get: 0,
      rotate: 0,
      setRotation: 0,
      update: 0,
      disable: 0,
      enable: 0,
      destroy: 0,
      cancelDestruction: 0,
      export: 0,
    }),
    apiKeys: lazily<ApiKeys>(load, 'createApiKeys', { create: 0, list: 0, update: 0, revoke: 0 }),
    audit: Object.freeze<Audit>({
      ...lazily<Omit<Audit, 'entries'>>(load, 'createAudit', { list: 0, verify: 0 }),
      async *entries(...args) {
        const { createAudit, http } = await load()
        yield* createAudit(http).entries(...args)
      },
    }),
    server: lazily<ServerMode>(load, 'createServerMode', { encrypt: 0, decrypt: 0, decryptText: 0 }),
    ...lazily<Service>(load, 'createService', { tenant: 0, usage: 0, health: 0 }),
  }
}

/**
 * Makes a resource that is loaded by its first call. `names` has each of its methods, or it does not compile.
 */
function lazily<R extends object>(
  load: () => Soon<Loaded>,
  create: Exclude<keyof Loaded, 'http'>,
  names: Readonly<Record<keyof R & string, 0>>,
): R {
  type Calls = Record<string, (...args: unknown[]) => Promise<unknown>>
  const callOf = (name: string) =>
    traced(async (...args) => {
      const loaded = await load()
      return (loaded[create](loaded.http) as object as Calls)[name]?.(...args)
    })
  return Object.freeze(Object.fromEntries(Object.keys(names).map((name) => [name, callOf(name)]))) as R
}
