// A rotation that is ended between any two of its statements, or within one: nothing is lost, and the next command finishes it.
import { randomBytes } from 'node:crypto'
import type postgres from 'postgres'
import { describe, expect, it } from 'vitest'
import { encodePublicKey, followKeyChanges } from '../../packages/audit/src/index.js'
import type { RootKeyProvider } from '../../packages/server/src/core/crypto/key-hierarchy.js'
import type { Services } from '../../packages/server/src/core/runner/operation.js'
import { listStoreKeys } from '../../packages/server/src/core/store/store-keys.js'
import { rotateRootKey } from '../../packages/server/src/operate/operations/rotate-root-key.js'
import { rotateStoreKey } from '../../packages/server/src/operate/operations/rotate-store-key.js'
import { ageStoreKeys, providerOf } from '../support/custody/rotation.js'
import { rounds } from '../support/run/rounds.js'
import { ROOT_KEY, type Service, startService } from '../support/service/service.js'

/** Services whose statements fail from the `last` one on, as those of a process do that was killed: what it had begun is rolled back. */
function killedAfter(services: Services, last: number) {
  let count = 0
  const step = () => {
    count += 1
    if (count > last) throw new Error('killed')
  }
  const guard = <S extends object>(sql: S): S =>
    new Proxy(sql, {
      apply(target, self, args) {
        const [first] = args
        // A call with a template is a statement; one with a name or a list is a part of one.
        if (Array.isArray(first) && 'raw' in first) step()
        return Reflect.apply(target as never, self, args)
      },
      get(target, name) {
        const value = Reflect.get(target, name) as (...given: unknown[]) => unknown
        if (name !== 'begin') return value
        return (...args: unknown[]) => {
          step()
          const work = args.at(-1) as (transaction: object) => Promise<unknown>
          return value.call(target, ...args.slice(0, -1), async (transaction: object) => {
            const result = await work(guard(transaction))
            step() // before the commit
            return result
          })
        }
      },
    })
  return { services: { ...services, sql: guard(services.sql as unknown as postgres.Sql) as never }, steps: () => count }
}

/** Two tenants with keys in each state, and a check that everything opens still, also for a server that starts now. */
async function fill(service: Service) {
  const kept: { secret: string; key_id: string; wrapped_key: string; dek: string }[] = []
  for (const name of ['a', 'b']) {
    const { call, secret } = await service.createTenant({ name })
    const { body: key } = await call('POST', '/v1/keys', { name: 'users' })
    const dek = randomBytes(32).toString('base64')
    const { body } = await call('POST', `/v1/keys/${key.id}/wrap`, { dek })
    await call('POST', `/v1/keys/${key.id}/rotate`)
    kept.push({ secret, key_id: key.id, wrapped_key: body.wrapped_key, dek })
  }
  return async (by: Service) => {
    for (const { secret, key_id, wrapped_key, dek } of kept) {
      const { call } = by.caller(secret)
      expect((await call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })).body).toMatchObject({ dek })
      expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    }
  }
}

/** Ends the work after each number of statements, or each `stride`th, until it is done. */
async function killAfterEach(
  service: Service,
  work: (services: Services) => Promise<unknown>,
  check: (isDone: boolean) => Promise<void>,
  stride = 1,
): Promise<number> {
  for (let last = 0; ; last += stride) {
    const killed = killedAfter(service.services, last)
    const isDone = await work(killed.services).then(
      () => true,
      (error: Error) => {
        if (error.message !== 'killed') throw error
        return false
      },
    )
    await check(isDone)
    if (isDone) return killed.steps()
  }
}

describe('a rotation that is killed after each of its statements', () => {
  it('of the root key: either the old one opens the database, or the new one', async () => {
    const service = await startService()
    const expectWhole = await fill(service)
    const [from, to] = [providerOf(ROOT_KEY), providerOf(randomBytes(32).toString('base64'))]
    const opens = async (provider: RootKeyProvider) => {
      const [row] = await listStoreKeys(service.services.sql)
      return provider.unwrap(row?.wrapped ?? new Uint8Array()).then(
        () => true,
        () => false,
      )
    }
    const steps = await killAfterEach(
      service,
      (services) => rotateRootKey(services, { from, to }),
      async (isDone) => {
        expect([await opens(from), await opens(to)]).toEqual([!isDone, isDone])
        await expectWhole(service)
      },
    )
    expect(steps).toBeGreaterThan(4)
    await service.close()
  })

  it('of the store key: everything opens at any moment, and one store key is left', async () => {
    const service = await startService()
    const { sql } = service.services
    const expectWhole = await fill(service)
    const end = ageStoreKeys(service)
    const first = encodePublicKey(service.services.signingKey)
    const numbers = async () => (await listStoreKeys(sql)).map(({ number }) => number)
    const seen = new Set<string>()
    const steps = await killAfterEach(
      service,
      (services) => rotateStoreKey(services, { provider: providerOf(ROOT_KEY) }),
      async (isDone) => {
        seen.add((await numbers()).join())
        if (!isDone) await service.refreshStoreKeys()
        await expectWhole(service)
      },
      rounds(5, 1),
    ).finally(end)
    expect([...seen].slice(0, 3)).toEqual(['1', '1,2', '1,2,3']) // each begins with a store key of its own
    expect(await numbers()).toHaveLength(1)
    expect(steps).toBeGreaterThan(8)
    // Whichever made a new signing key before it was killed, the statements lead from the first to the last.
    const { signingKey } = service.services
    const changes = followKeyChanges(signingKey.changes)
    expect([changes[0]?.from, changes.at(-1)?.to]).toEqual([first, encodePublicKey(signingKey)])
    const { database } = service
    await service.close()
    const started = await startService({ database })
    await expectWhole(started)
    await started.close()
  })
})
