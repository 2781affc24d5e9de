/** The resources of the API, loaded at the first call to one of them: a page that only seals and opens never loads them. */
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
    keys: lazily<Keys>(
      async () => (await load()).createKeys(http),
      [
        'create',
        'createMany',
        'ensure',
        'list',
        'get',
        'rotate',
        'setRotation',
        'disable',
        'enable',
        'destroy',
        'cancelDestruction',
        'export',
      ],
    ),
    apiKeys: lazily<ApiKeys>(async () => (await load()).createApiKeys(http), ['create', 'list', 'update', 'revoke']),
    audit: Object.freeze<Audit>({
      ...lazily<Omit<Audit, 'entries'>>(audit, ['list', 'verify']),
      async *entries(...args) {
        yield* (await audit()).entries(...args)
      },
    }),
    server: lazily<ServerMode>(
      async () => (await load()).createServerMode(http),
      ['encrypt', 'decrypt', 'decryptText'],
    ),
    ...lazily<Service>(async () => (await load()).createService(http), ['tenant', 'usage', 'health']),
  }
}

/** Makes a resource that is loaded by its first call. */
function lazily<R extends object>(load: () => Promise<R>, names: readonly (keyof R & string)[]): R {
  type Calls = Record<string, (...args: unknown[]) => Promise<unknown>>
  const callOf = (name: string) => traced(async (...args) => ((await load()) as Calls)[name]?.(...args))
  return Object.freeze(Object.fromEntries(names.map((name) => [name, callOf(name)]))) as R
}
