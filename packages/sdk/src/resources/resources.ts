/** The resources of the API, loaded at the first call to one of them: a page that only seals and opens does not pay for them. */
import { traced } from '../caller.js'
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
  const audit = async () => (await parts()).createAudit(http)
  return {
    keys: lazily<Keys>(
      async () => (await parts()).createKeys(http),
      [
        'create',
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
    apiKeys: lazily<ApiKeys>(async () => (await parts()).createApiKeys(http), ['create', 'list', 'update', 'revoke']),
    audit: Object.freeze<Audit>({
      ...lazily<Omit<Audit, 'entries'>>(audit, ['list', 'verify']),
      async *entries(...args) {
        yield* (await audit()).entries(...args)
      },
    }),
    server: lazily<ServerMode>(
      async () => (await parts()).createServerMode(http),
      ['encrypt', 'decrypt', 'decryptText'],
    ),
  }
}

/** A resource whose calls load it. */
function lazily<R extends object>(load: () => Promise<R>, names: readonly (keyof R & string)[]): R {
  type Calls = Record<string, (...args: unknown[]) => Promise<unknown>>
  const callOf = (name: string) => traced(async (...args) => ((await load()) as Calls)[name]?.(...args))
  return Object.freeze(Object.fromEntries(names.map((name) => [name, callOf(name)]))) as R
}
