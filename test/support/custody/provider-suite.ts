// Tests for each provider of a root key: an installation moves to it and back, and what happens in its absence.
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { listStoreKeys } from '../../../packages/server/src/core/store/store-keys.js'
import { rotateRootKey } from '../../../packages/server/src/operate/operations/rotate-root-key.js'
import { rotateStoreKey } from '../../../packages/server/src/operate/operations/rotate-store-key.js'
import { providerOf } from '../../../packages/server/src/root-keys/open-provider.js'
import { guardedDir } from '../run/guarded-dir.js'
import { ROOT_KEY, type Service, startService } from '../service/service.js'
import { rotateAged } from './rotation.js'

export interface ProviderUnderTest {
  /** the kind, as /health names it; none if the server's process holds the key */
  health: string
  /** the variables that name it */
  environment: Record<string, string>
  /** Stops it from answering, and lets it answer again. */
  takeAway(): Promise<unknown>
  bringBack(): Promise<unknown>
  remove(): Promise<unknown>
}

const open = (environment: Record<string, string>) =>
  providerOf(readConfig({ EAAS_DATABASE_URL: 'postgres://nobody@localhost/none', ...environment }))

/** Starts with these variables and no other root key. */
const start = (database: Service['database'], environment: Record<string, string>) =>
  startService({ database, environment: { EAAS_ROOT_KEY: undefined, ...environment } })

const hsmOf = async ({ url }: Service) => ((await (await fetch(`${url}/health`)).json()) as { hsm: string }).hsm

/** A tenant with a wrapped DEK, and what a server answers for it. */
async function use(service: Service) {
  const caller = await service.createTenant()
  const { body: key } = await caller.call('POST', '/v1/keys', { name: 'users' })
  const dek = randomBytes(32).toString('base64')
  const { body: wrapped } = await caller.call('POST', `/v1/keys/${key.id}/wrap`, { dek })
  return async (by: Service) => {
    const { call } = by.caller(caller.secret)
    const { body } = await call('POST', `/v1/keys/${key.id}/unwrap`, { wrapped_key: wrapped.wrapped_key })
    expect(body).toMatchObject({ dek })
    expect((await call('POST', `/v1/keys/${key.id}/rotate`)).status).toBe(200)
    expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  }
}

/** Declares the tests of a provider. */
export function testProvider(make: () => Promise<ProviderUnderTest>): void {
  let tested: ProviderUnderTest
  let file: string
  beforeAll(async () => {
    tested = await make()
    file = join(guardedDir('eaas-provider').path, 'root.key')
    await writeFile(file, randomBytes(32).toString('base64'), { mode: 0o600 })
  })
  afterAll(() => tested?.remove())

  it('opens what it wrapped, unless one bit of it was altered', async () => {
    const provider = await open(tested.environment)
    const bytes = randomBytes(36)
    const wrapped = await provider.wrap(bytes)
    expect(wrapped.length).toBeLessThan(1_000)
    expect(Buffer.from(wrapped).includes(bytes.subarray(0, 8))).toBe(false)
    expect(Buffer.from(await provider.unwrap(wrapped))).toEqual(bytes)
    const altered = Buffer.from(wrapped)
    const middle = altered.length >> 1
    altered[middle] = (altered[middle] ?? 0) ^ 2
    await expect(provider.unwrap(altered)).rejects.toMatchObject({ name: 'RootKeyError' })
  })

  it('takes an installation over from a file, serves it, seals everything anew, and hands it back', async () => {
    const service = await startService()
    const { database } = service
    const expectServed = await use(service)
    const [from, to] = [await open({ EAAS_ROOT_KEY: ROOT_KEY }), await open(tested.environment)]
    await rotateRootKey(service.services, { from, to })
    await expectServed(service)
    await service.close()
    await expect(startService({ database })).rejects.toThrow(/root key/i)

    const moved = await start(database, tested.environment)
    await expectServed(moved)
    expect(await hsmOf(moved)).toBe(tested.health)
    await rotateAged(moved, { provider: to })
    await expectServed(moved)
    const back = { EAAS_ROOT_KEY_FILE: file }
    await rotateRootKey(moved.services, { from: to, to: await open(back) })
    await moved.close()
    await expect(start(database, tested.environment)).rejects.toMatchObject({ name: 'RootKeyError' })

    const returned = await start(database, back)
    await expectServed(returned)
    await returned.close()
  })

  it('is needed by a start and by a rotation alone: while it is away, calls are answered', async () => {
    const service = await startService({
      environment: { EAAS_ROOT_KEY: undefined, ...tested.environment },
    })
    const { database } = service
    const expectServed = await use(service)
    const { sql } = service.services
    const before = await listStoreKeys(sql)
    const from = await open(tested.environment)
    await tested.takeAway()
    await expectServed(service)
    const to = await open({ EAAS_ROOT_KEY_FILE: file })
    if (tested.health !== 'none') {
      await expect(rotateRootKey(service.services, { from, to })).rejects.toMatchObject({ name: 'RootKeyError' })
      await expect(rotateStoreKey(service.services, { provider: from })).rejects.toMatchObject({ name: 'RootKeyError' })
    }
    expect(await listStoreKeys(sql)).toEqual(before)
    // Another process begins a rotation, whose store key this server cannot open; it continues under the one it has.
    await sql`insert into store_keys select number + 1, wrapped, created_at from store_keys`
    await expect(service.refreshStoreKeys()).rejects.toMatchObject({ name: 'RootKeyError' })
    await expectServed(service)
    expect(await hsmOf(service)).toBe(tested.health === 'none' ? 'none' : `${tested.health} failing`)
    await sql`delete from store_keys where number = 2`
    await service.close()
    await expect(start(database, tested.environment)).rejects.toMatchObject({ name: 'RootKeyError' })

    await tested.bringBack()
    const again = await start(database, tested.environment)
    await expectServed(again)
    expect(await hsmOf(again)).toBe(tested.health)
    await again.close()
  })
}
