/** The resources of the API, loaded at their first call. A page that only seals and opens never loads them. */
import { type OperationId, ROUTES, type RouteRow } from '@eaas/protocol'
import type { Http } from '../http/calls.js'
import { type Soon, traced } from '../waiting.js'
import type { ApiKeys } from './api-keys.js'
import type { Audit } from './audit.js'
import type { Keys } from './keys.js'
import type { ServerMode, Service } from './service.js'

export interface Resources extends Service {
  keys: Keys
  apiKeys: ApiKeys
  audit: Audit
  server: ServerMode
}

interface Loaded {
  http: Http
  createKeys(http: Http): Keys
  createApiKeys(http: Http): ApiKeys
  createAudit(http: Http): Audit
  createServerMode(http: Http): ServerMode
  createService(http: Http): Service
}

export function createResources(load: () => Soon<Loaded>): Resources {
  return {
    keys: lazily(load, 'createKeys', 'keys', { ensure: 0 }),
    apiKeys: lazily(load, 'createApiKeys', 'apiKeys', {}),
    audit: Object.freeze<Audit>({
      ...lazily(load, 'createAudit', 'audit', {}),
      async *entries(...args) {
        const { createAudit, http } = await load()
        yield* createAudit(http).entries(...args)
      },
    }),
    server: lazily(load, 'createServerMode', 'server', { decryptText: 0 }),
    ...lazily(load, 'createService', 'client', {}),
  }
}

interface Lazy extends Omit<Resources, keyof Service | 'audit'> {
  audit: Omit<Audit, 'entries'>
  client: Service
}

type MethodOf<Name extends string> = {
  [Id in OperationId]: (typeof ROUTES)[Id] extends { sdk: `${Name}.${infer Method}` } ? Method : never
}[OperationId]

/** Loads at the first call. Does not compile unless `others` names each method that the table of calls lacks. */
function lazily<Name extends keyof Lazy>(
  load: () => Soon<Loaded>,
  create: Exclude<keyof Loaded, 'http'>,
  name: Name,
  others: Readonly<Record<Exclude<keyof Lazy[Name], MethodOf<Name>>, 0>>,
): Lazy[Name] {
  type Calls = Record<string, (...args: unknown[]) => Promise<unknown>>
  const callOf = (method: string) =>
    traced(async (...args) => {
      const loaded = await load()
      return (loaded[create](loaded.http) as object as Calls)[method]?.(...args)
    })
  const methods = Object.values<RouteRow>(ROUTES).flatMap(({ sdk }) => {
    const [resource, method = ''] = `${sdk}`.split('.')
    return resource === name ? [method] : []
  })
  return Object.freeze(
    Object.fromEntries([...methods, ...Object.keys(others)].map((method) => [method, callOf(method)])),
  ) as object as Lazy[Name]
}
