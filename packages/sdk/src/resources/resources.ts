/** The resources of the API, loaded at the first call to one of them: a page that only seals and opens does not pay for them. */
import type { Http } from '../http/calls.js'
import { loadPart } from '../load-part.js'
import type { ApiKeys } from './api-keys.js'
import type { Audit } from './audit.js'
import type { Keys } from './keys.js'
import type { ServerMode } from './server-mode.js'

export interface Resources {
  keys: Keys
  apiKeys: ApiKeys
  audit: Audit
  server: ServerMode
}

/** Makes the resources over one client's HTTP. */
export function createResources(http: Http): Resources {
  const parts = () => loadPart(() => import('../parts.js'))
  const keys = async () => (await parts()).createKeys(http)
  const apiKeys = async () => (await parts()).createApiKeys(http)
  const audit = async () => (await parts()).createAudit(http)
  const server = async () => (await parts()).createServerMode(http)
  return {
    keys: Object.freeze<Keys>({
      create: async (...args) => (await keys()).create(...args),
      list: async (...args) => (await keys()).list(...args),
      get: async (...args) => (await keys()).get(...args),
      rotate: async (...args) => (await keys()).rotate(...args),
      setRotation: async (...args) => (await keys()).setRotation(...args),
      disable: async (...args) => (await keys()).disable(...args),
      enable: async (...args) => (await keys()).enable(...args),
      destroy: async (...args) => (await keys()).destroy(...args),
      cancelDestruction: async (...args) => (await keys()).cancelDestruction(...args),
      export: async (...args) => (await keys()).export(...args),
    }),
    apiKeys: Object.freeze<ApiKeys>({
      create: async (...args) => (await apiKeys()).create(...args),
      list: async (...args) => (await apiKeys()).list(...args),
      update: async (...args) => (await apiKeys()).update(...args),
      revoke: async (...args) => (await apiKeys()).revoke(...args),
    }),
    audit: Object.freeze<Audit>({
      list: async (...args) => (await audit()).list(...args),
      async *entries(...args) {
        yield* (await audit()).entries(...args)
      },
      verify: async (...args) => (await audit()).verify(...args),
    }),
    server: Object.freeze<ServerMode>({
      encrypt: async (...args) => (await server()).encrypt(...args),
      decrypt: async (...args) => (await server()).decrypt(...args),
      decryptText: async (...args) => (await server()).decryptText(...args),
    }),
  }
}
