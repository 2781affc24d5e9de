// The root key and the store key are replaced while servers run; afterwards nothing of before opens what is left.
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { RootKeySetting } from '../../packages/server/src/core/config.js'
import {
  openSecret,
  RootKeyError,
  type RootKeyProvider,
  type StoreKeys,
  sealedUnder,
  UnknownStoreKeyError,
} from '../../packages/server/src/core/crypto/key-hierarchy.js'
import { makeStoreKey, openStoreKeys, refreshStoreKeys } from '../../packages/server/src/core/runner/store-keys.js'
import { findInstallationKey, findInstance } from '../../packages/server/src/core/store/instance.js'
import { insertStoreKey, listStoreKeys, refuseStoreKeysAfter } from '../../packages/server/src/core/store/store-keys.js'
import { writeAlarm } from '../../packages/server/src/guard/store/alarms.js'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { rotateRootKey } from '../../packages/server/src/operate/operations/rotate-root-key.js'
import { rotateStoreKey } from '../../packages/server/src/operate/operations/rotate-store-key.js'
import { SEALED_TABLES } from '../../packages/server/src/operate/store/sealed-rows.js'
import { openProvider } from '../../packages/server/src/root-keys/open-provider.js'
import { ageStoreKeys, rotateAged } from '../support/custody/rotation.js'
import { backend } from '../support/database/database.js'
import { runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

let folder: string
let provider: RootKeyProvider
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-custody-'))
  provider = await providerOf({ kind: 'variable', value: ROOT_KEY })
})
afterAll(() => rm(folder, { recursive: true }))

function providerOf(setting: Pick<RootKeySetting, 'kind' | 'value'>): Promise<RootKeyProvider> {
  return openProvider({ ...setting, login: { tokenFile: undefined, appRoleFile: undefined } })
}

async function newRootKey(): Promise<{ file: string; to: RootKeyProvider }> {
  const file = join(folder, randomBytes(8).toString('hex'))
  await writeFile(file, randomBytes(32).toString('base64'), { mode: 0o600 })
  return { file, to: await providerOf({ kind: 'file', value: file }) }
}

/** A tenant with a key and a wrapped DEK, and whether that still opens. */
async function use(service: Service) {
  const caller = await service.createTenant()
  const { body: key } = await caller.call('POST', '/v1/keys', { name: 'users' })
  await caller.call('POST', `/v1/keys/${key.id}/rotate`)
  const dek = randomBytes(32).toString('base64')
  const { body } = await caller.call('POST', `/v1/keys/${key.id}/wrap`, { dek })
  const opens = async (by: Service) => {
    const answer = await by
      .caller(caller.secret)
      .call('POST', `/v1/keys/${key.id}/unwrap`, { wrapped_key: body.wrapped_key })
    return answer.body.dek === dek
  }
  return { caller, key_id: key.id as string, opens }
}

/** Everything loaded again, as by a server that starts. */
async function expectWhole(service: Service, { caller }: { caller: Caller }): Promise<void> {
  const { call } = service.caller(caller.secret)
  expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  expect(service.alarms).toEqual([])
}

/** A service in which something happens before a transaction, once it may. */
function beforeTransaction(service: Service, happen: () => Promise<boolean>): Service {
  let isOver = false
  const sql = new Proxy(service.services.sql, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (name !== 'begin') return value
      return async (...args: unknown[]) => {
        if (!isOver) isOver = await happen()
        return Reflect.apply(value as never, target, args)
      }
    },
  })
  return { ...service, services: { ...service.services, sql } }
}

it('a rotation seals again what a server seals under the old store key between the last count and its deletion', async () => {
  const service = await startService()
  const used = await use(service)
  const { sql } = service.services
  const versions = await sql<{ version: number; wrapped_kek: Uint8Array }[]>`
    select version, wrapped_kek from key_versions where key_id = ${used.key_id}`
  let written = 0
  const late = beforeTransaction(service, async () => {
    const [left] = await sql`
      select from key_versions where store_key = 1 union all select from keys where store_key = 1
      union all select from tenants where store_key = 1 union all select from instance where store_key = 1`
    if (left) return false
    for (const { version, wrapped_kek } of versions) {
      const { count } = await sql`
        update key_versions set wrapped_kek = ${wrapped_kek} where key_id = ${used.key_id} and version = ${version}`
      written += count
    }
    return true
  })
  expect(await rotateAged(late)).toMatchObject({ number: 2 })
  expect(written).toBe(2)
  expect((await listStoreKeys(sql)).map(({ number }) => number)).toEqual([2])
  expect(await used.opens(service)).toBe(true)
  await expectWhole(service, used)
  await service.close()
})

describe('a thief of the root key', () => {
  /** Whether a store key of the thief opens what the database holds of the installation. */
  const opensWith = async ({ services: { sql } }: Service, keys: StoreKeys) => {
    const wrapped = [(await findInstance(sql))?.wrapped_signing_key, await findInstallationKey(sql)]
    return wrapped.map((sealed) => keys.keys.has(sealedUnder(sealed as Uint8Array)))
  }
  const plant = async ({ services: { sql } }: Service, number: number): Promise<StoreKeys> => {
    const { row, keys } = await makeStoreKey(provider, number)
    await sql`insert into store_keys (number, wrapped, created_at) values (${number}, ${row.wrapped}, now() - interval '1 hour')`
    return keys
  }

  it.each([
    ['after that of now', 2],
    ['before that of now', 1],
  ])('cannot have a rotation use a store key that he put %s', async (_, number) => {
    const service = await startService()
    const used = await use(service)
    if (number === 1) await rotateAged(service)
    const known = await plant(service, number)
    const { to } = await newRootKey()
    await rotateRootKey(service.services, { from: provider, to })
    await service.refreshStoreKeys().catch(() => undefined)
    expect(await rotateAged(service, { provider: to, rotatesKeys: true })).toMatchObject({ number: 3, rotated_keys: 1 })
    expect(await opensWith(service, known)).toEqual([false, false])
    expect((await listStoreKeys(service.services.sql)).map((row) => row.number)).toEqual([3])
    expect(await used.opens(service)).toBe(true)
    await expectWhole(service, used)
    await service.close()
  })

  it('cannot use the store key of a rotation that was interrupted while he could read', async () => {
    const service = await startService()
    const used = await use(service)
    const signal = AbortSignal.timeout(300)
    await expect(rotateStoreKey(service.services, { provider, signal })).rejects.toThrow()
    const known = await openStoreKeys(service.services.sql, provider)
    expect([...known.keys.keys()]).toEqual([1, 2])
    const { to } = await newRootKey()
    await rotateRootKey(service.services, { from: provider, to })
    expect(await rotateAged(service, { provider: to })).toMatchObject({ number: 3 })
    expect(await opensWith(service, known)).toEqual([false, false])
    await expectWhole(service, used)
    await service.close()
  })
})

describe('a root key that is rotated', () => {
  it('is needed by the next start, while who runs goes on, and is on record', async () => {
    const service = await startService()
    const used = await use(service)
    const { file, to } = await newRootKey()
    expect(await rotateRootKey(service.services, { from: provider, to })).toBe(1)
    expect(await used.opens(service)).toBe(true)
    await expectWhole(service, used)
    const { sql } = service.services
    const [entry] = await sql<
      { metadata: string }[]
    >`select metadata from audit_log where action = 'installation.root_key_rotate'`
    expect(JSON.parse(entry?.metadata ?? '')).toEqual({ from: 'variable', to: 'file' })
    const { database } = service
    if (backend() === 'embedded') await service.close()
    await expect(startService({ database })).rejects.toThrow('does not belong to this database')
    const started = await startService({ database, environment: { EAAS_ROOT_KEY: await readFile(file, 'utf8') } })
    expect(await used.opens(started)).toBe(true)
    await expectWhole(started, used)
    await started.close()
    if (backend() !== 'embedded') await service.close()
  })

  it('is not rotated to itself: the advice to destroy the earlier one would cost the database', async () => {
    const service = await startService()
    await expect(rotateRootKey(service.services, { from: provider, to: provider })).rejects.toThrow(
      'that is the root key of this database already',
    )
    await service.close()
  })

  it('is not rotated to one that wraps and opens nothing, or something else', async () => {
    const service = await startService()
    const [row] = await listStoreKeys(service.services.sql)
    const { to } = await newRootKey()
    const wrapOnly = { ...to, unwrap: () => Promise.reject(new RootKeyError('no permission to unwrap')) }
    const other = { ...to, unwrap: async (wrapped: Uint8Array) => (await to.unwrap(wrapped)).fill(7, 4) }
    for (const wrong of [wrapOnly, other])
      await expect(rotateRootKey(service.services, { from: provider, to: wrong })).rejects.toThrow(RootKeyError)
    expect((await listStoreKeys(service.services.sql))[0]?.wrapped).toEqual(row?.wrapped)
    await service.close()
  })

  it('leaves no store key behind that another command made under it meanwhile', async () => {
    const service = await startService()
    const used = await use(service)
    const { to } = await newRootKey()
    const begun = beforeTransaction(service, async () => {
      const { row } = await makeStoreKey(provider, 2)
      await service.services.sql.begin((sql) => insertStoreKey(sql, row))
      return true
    })
    const rotated = rotateRootKey(begun.services, { from: provider, to })
    await expect(rotated).rejects.toThrow('the store keys were changed meanwhile, and nothing was rotated')
    expect(await rotateRootKey(service.services, { from: provider, to })).toBe(2)
    // The other way round: the store key's rotation began before the root key was replaced.
    const { to: next } = await newRootKey()
    const late = beforeTransaction(service, async () => {
      await rotateRootKey(service.services, { from: to, to: next })
      return true
    })
    await expect(rotateAged(late, { provider: to })).rejects.toThrow('the store keys were changed meanwhile')
    await expect(rotateAged(service, { provider: to })).rejects.toThrow('does not belong to this database')
    expect(await rotateAged(service, { provider: next })).toMatchObject({ number: 3 })
    await openStoreKeys(service.services.sql, next)
    await expectWhole(service, used)
    await service.close()
  })

  it('is not rotated by one that does not belong to the database', async () => {
    const service = await startService()
    const [before] = await listStoreKeys(service.services.sql)
    const [{ to: from }, { to }] = [await newRootKey(), await newRootKey()]
    await expect(rotateRootKey(service.services, { from, to })).rejects.toThrow('does not belong to this database')
    expect((await listStoreKeys(service.services.sql))[0]?.wrapped).toEqual(before?.wrapped)
    await service.close()
  })
})

describe('a store key that is rotated', () => {
  it('seals nothing before every process has had the time to read it', async () => {
    const service = await startService()
    await use(service)
    const signal = AbortSignal.timeout(1_500)
    await expect(rotateStoreKey(service.services, { provider, signal })).rejects.toThrow()
    expect(service.services.storeKeys.current).toBe(1)
    expect([...service.services.storeKeys.keys.keys()]).toEqual([1, 2])
    expect(await rotateAged(service)).toMatchObject({ number: 3 })
    await service.close()
  })

  it('seals everything again; what was sealed before opens with nothing that is left', async () => {
    const service = await startService()
    const used = await use(service)
    const { sql, storeKeys } = service.services
    const sealed = await sql<{ tenant_id: string; key_id: string; version: number; wrapped_kek: Uint8Array }[]>`
      select tenant_id, key_id, version, wrapped_kek from key_versions`
    const [wrapped] = await listStoreKeys(sql)
    await rotateAged(service)
    expect(await used.opens(service)).toBe(true)
    await expectWhole(service, used)
    expect([...storeKeys.keys.keys()]).toEqual([2])
    for (const { tenant_id, key_id: id, version, wrapped_kek } of sealed) {
      const open = () => openSecret(storeKeys, { purpose: 'kek', tenant_id, id, version }, wrapped_kek)
      expect(open).toThrow(UnknownStoreKeyError)
    }
    // Of the dump of before, only the earlier root key opens the store key.
    const { to } = await newRootKey()
    await rotateRootKey(service.services, { from: provider, to })
    await expect(to.unwrap(wrapped?.wrapped ?? new Uint8Array())).rejects.toThrow('does not belong')
    expect((await openStoreKeys(sql, to)).current).toBe(2)
    // What the process has loaded is changed as before, though its rows were read with the old seals.
    const { call } = used.caller
    expect((await call('POST', `/v1/keys/${used.key_id}/rotate`)).status).toBe(200)
    expect((await call('DELETE', `/v1/keys/${used.key_id}`)).status).toBe(204)
    await expectWhole(service, used)
    await service.close()
  })

  it('that was interrupted anywhere is finished by the next command, and nothing is lost meanwhile', async () => {
    const service = await startService()
    const used = await use(service)
    for (let steps = 1; ; steps++) {
      let left = steps
      const stop = new AbortController()
      const onProgress = () => void (--left === 0 && stop.abort(new Error('killed')))
      const done = await rotateAged(service, { onProgress, signal: stop.signal }).catch((error: Error) => error.message)
      expect(await used.opens(service)).toBe(true)
      await expectWhole(service, used)
      if (done !== 'killed') {
        expect(done).toMatchObject({ number: steps + 1 })
        break
      }
    }
    await service.close()
  })

  it('gives each active key a new version if it is to, again where an earlier one was interrupted', async () => {
    const service = await startService()
    const used = await use(service)
    const { call } = used.caller
    const { body: disabled } = await call('POST', '/v1/keys', { name: 'disabled' })
    expect((await call('DELETE', `/v1/keys/${disabled.id}`)).status).toBe(204)
    const versionsOf = async () =>
      ((await call('GET', '/v1/keys')).body.keys as { current_version: number }[])
        .map(({ current_version }) => current_version)
        .sort()
    expect(await versionsOf()).toEqual([1, 2])
    const stop = new AbortController()
    const options = { rotatesKeys: true, signal: stop.signal, onProgress: () => stop.abort(new Error('killed')) }
    await expect(rotateAged(service, options)).rejects.toThrow('killed')
    expect(await versionsOf()).toEqual([1, 3])
    expect(await rotateAged(service, { rotatesKeys: true })).toMatchObject({ rotated_keys: 1, unrotated_keys: [] })
    expect(await versionsOf()).toEqual([1, 4])
    expect(await used.opens(service)).toBe(true)
    await expectWhole(service, used)
    const [entry] = await service.services.sql<{ actor: string; key_version: number }[]>`
      select actor, key_version from audit_log where key_id = ${used.key_id} and action = 'key.rotate' order by id desc`
    expect(entry).toEqual({ actor: 'system', key_version: 4 })
    await service.close()
  })

  it('names a key that could not be rotated, and rotates the others', async () => {
    const service = await startService()
    const { caller, key_id } = await use(service)
    await caller.call('POST', '/v1/keys', { name: 'other' })
    const { sql, states } = service.services
    await sql`update keys set name = 'forged' where key_id = ${key_id}`
    states.forget(caller.tenant.tenant_id)
    const rotation = rotateAged(service, { rotatesKeys: true })
    await expect(rotation).rejects.toThrow(new RegExp(`Key ${key_id}: .*changed outside the server`))
    const versions = await sql`select current_version as version from keys where key_id <> ${key_id}`
    expect(versions).toMatchObject([{ version: 2 }])
    await service.close()
  })

  it('names the keys of a tenant with an alarm, and rotates those of the others', async () => {
    const service = await startService()
    const { caller, key_id } = await use(service)
    const { tenant_id } = caller.tenant
    const other = await service.createTenant()
    await other.call('POST', '/v1/keys', { name: 'other' })
    const { sql, committer } = service.services
    watchesOf(committer).get(tenant_id).learn({ reason: 'the head is forged', witness: undefined })
    expect(await rotateAged(service, { rotatesKeys: true })).toMatchObject({
      rotated_keys: 1,
      unrotated_keys: [{ tenant_id, key_id, reason: 'the head is forged' }],
    })
    const versions = await sql`select current_version as version from keys where tenant_id = ${other.tenant.tenant_id}`
    expect(versions).toMatchObject([{ version: 2 }])
    await service.close()
  })

  it('ends the command with exit code 1 if a key got no new version, with --json too', async () => {
    const service = await startService()
    const { caller, key_id } = await use(service)
    const { tenant_id } = caller.tenant
    const raised_at = new Date().toISOString()
    const forged = { last_id: 0, hash: Buffer.alloc(32), policy_version: 0, mac: Buffer.alloc(32) }
    await writeAlarm(service.services.sql, { tenant_id, reason: 'forged', raised_at, ...forged })
    const end = ageStoreKeys(service)
    const command = ['store-key', 'rotate', '--rotate-keys']
    const { database } = service
    try {
      const { code, stdout } = await runCommand([...command, '--json'], { database, rootKey: ROOT_KEY })
      expect([code, JSON.parse(stdout)]).toMatchObject([1, { unrotated_keys: [{ tenant_id, key_id }] }])
      await service.refreshStoreKeys()
      const { code: again, stdout: text } = await runCommand(command, { database, rootKey: ROOT_KEY })
      expect([again, text]).toEqual([1, expect.stringContaining(`Key ${key_id} of tenant ${tenant_id} has none: `)])
    } finally {
      end()
      await service.close()
    }
  })

  it.each(['tenants', 'keys', 'key_versions'])(
    'is kept while a row of %s names a store key that does not exist, and the refusal names the row',
    async (table) => {
      const service = await startService()
      onTestFinished(service.close)
      const { caller } = await use(service)
      const other = await service.createTenant()
      const { sql } = service.services
      const { tenant_id } = caller.tenant
      const column = SEALED_TABLES.find((each) => each.table === table)?.column ?? ''
      const put = (number: number) =>
        sql.begin(async (transaction) => {
          await transaction`set local session_replication_role = replica` // or the foreign key refuses it
          await transaction`
            update ${sql(table)} set ${sql(column)} = set_byte(${sql(column)}, 3, ${number}) where tenant_id = ${tenant_id}`
        })
      await put(9) // the second lowest byte of the number
      await expect(rotateAged(service)).rejects.toThrow(new RegExp(`${table}: tenant ${tenant_id}`))
      expect((await listStoreKeys(sql)).map(({ number }) => number)).toEqual([1, 2])
      expect((await other.call('GET', '/v1/keys')).status).toBe(200)
      await put(0)
      await rotateAged(service)
      expect((await listStoreKeys(sql)).map(({ number }) => number)).toEqual([3])
      expect((await caller.call('GET', '/v1/keys')).status).toBe(200)
    },
  )

  it("is kept if somebody puts the installation's row back meanwhile", async () => {
    const service = await startService()
    onTestFinished(service.close)
    await use(service)
    const { sql } = service.services
    const [before] = await sql`
      select pepper, wrapped_pepper, wrapped_former_pepper, wrapped_signing_key, wrapped_audit_key from instance`
    const late = beforeTransaction(service, async () => {
      const { count } = await sql`update instance set ${sql(before ?? {})} where store_key = 2`
      return count === 1
    })
    await expect(rotateAged(late)).rejects.toThrow('one row has a secret that could not be sealed again')
    expect((await listStoreKeys(sql)).map(({ number }) => number)).toEqual([1, 2])
  })

  it('is kept while a secret does not open, and the refusal says what to do', async () => {
    const service = await startService()
    const { key_id } = await use(service)
    const { sql } = service.services
    await sql`update keys set wrapped_hash_key = set_byte(wrapped_hash_key, 60, get_byte(wrapped_hash_key, 60) # 1) where key_id = ${key_id}`
    await expect(rotateAged(service)).rejects.toThrow(
      /one row has a secret that could not be sealed again.*verify every log/,
    )
    expect((await listStoreKeys(sql)).map(({ number }) => number)).toEqual([1, 2])
    await service.close()
  })

  it('names a row of no tenant, which cannot be sealed again', async () => {
    const service = await startService()
    const { sql } = service.services
    const [row] = await sql<{ tenant_id: string; key_id: string }[]>`
      insert into key_versions (tenant_id, key_id, version, status, wrapped_kek, created_at, entry_id, mac)
      values (pg_catalog.gen_random_uuid(), pg_catalog.gen_random_uuid(), 1, 'active',
              decode('0200000001' || repeat('ab', 60), 'hex'), pg_catalog.now(), 1, '\\x00') returning tenant_id, key_id`
    await expect(rotateAged(service)).rejects.toThrow(
      `key_versions: tenant ${row?.tenant_id}, key ${row?.key_id}, version 1`,
    )
    await sql`delete from key_versions where key_id = ${row?.key_id ?? ''}`
    expect(await rotateAged(service)).toMatchObject({ number: 3 })
    await service.close()
  })

  it('cannot be deleted while it seals something, nor can anything be sealed under one that is gone', async () => {
    const service = await startService()
    await use(service)
    const { sql } = service.services
    await expect(sql`delete from store_keys`).rejects.toThrow('foreign key')
    const forged = Buffer.concat([Buffer.from('02000000ff', 'hex'), Buffer.alloc(60)])
    await expect(sql`update key_versions set wrapped_kek = ${forged}`).rejects.toThrow('foreign key')
    await service.close()
  })

  it('is given up where a server that runs cannot open the new one, and begun again once all can', async () => {
    const service = await startService()
    const used = await use(service)
    const { sql, storeKeys } = service.services
    // As by the command, after the root key was rotated: the settings of the server have the earlier one.
    const { to, file } = await newRootKey()
    await rotateRootKey(service.services, { from: provider, to })
    const command = { ...service.services, storeKeys: await openStoreKeys(sql, to) }
    const looking = setInterval(() => void service.refreshStoreKeys().catch(() => undefined), 50)
    await expect(rotateStoreKey(command, { provider: to })).rejects.toThrow(/could not open the new store key/)
    clearInterval(looking)
    expect(await used.opens(service)).toBe(true)
    expect((await used.caller.call('POST', `/v1/keys/${used.key_id}/rotate`)).status).toBe(200)
    expect([storeKeys.current, await listStoreKeys(sql)]).toMatchObject([
      1,
      [{ number: 1 }, { number: 2, is_refused: true, may_seal: false }],
    ])
    await sql`update store_keys set created_at = created_at - interval '1 minute'`
    expect((await listStoreKeys(sql)).map(({ may_seal }) => may_seal)).toEqual([true, false])
    const { database } = service
    await service.close()
    const started = await startService({ database, environment: { EAAS_ROOT_KEY: await readFile(file, 'utf8') } })
    expect(await rotateAged(started, { provider: to })).toMatchObject({ number: 3 })
    expect((await listStoreKeys(started.services.sql)).map(({ number }) => number)).toEqual([3])
    expect(await used.opens(started)).toBe(true)
    await expectWhole(started, used)
    await started.close()
  })

  it('that is the only one is refused by nobody, whatever a row says, and a refused one is no matter', async () => {
    const service = await startService()
    const used = await use(service)
    const { sql } = service.services
    await sql`update store_keys set refused_at = pg_catalog.now()`
    await sql`insert into store_keys (number, wrapped, created_at, refused_at) values (2, '\\x01ab', now() - interval '1 day', now())`
    expect((await openStoreKeys(sql, provider)).current).toBe(1)
    const { to } = await newRootKey()
    expect(await rotateRootKey(service.services, { from: provider, to })).toBe(1)
    expect(await rotateAged(service, { provider: to })).toMatchObject({ number: 3 })
    expect((await listStoreKeys(sql)).map(({ number }) => number)).toEqual([3])
    expect(await used.opens(service)).toBe(true)
    await service.close()
  })

  it('that somebody put back, wrapped with another root key, is named', async () => {
    const service = await startService()
    const { sql } = service.services
    const [before] = await listStoreKeys(sql)
    const { to } = await newRootKey()
    await rotateRootKey(service.services, { from: provider, to })
    await rotateAged(service, { provider: to })
    await sql`insert into store_keys (number, wrapped, created_at) values (1, ${before?.wrapped as Uint8Array}, now())`
    await expect(openStoreKeys(sql, to)).rejects.toThrow(
      /opens other store keys of this database, but not 1, .*Delete it there/,
    )
    await service.close()
  })

  it('is not refused any more once something may be sealed under it', async () => {
    const service = await startService()
    const { sql } = service.services
    await expect(rotateStoreKey(service.services, { provider, signal: AbortSignal.timeout(1_000) })).rejects.toThrow()
    await sql`update store_keys set created_at = created_at - interval '1 minute'`
    await refuseStoreKeysAfter(sql, 1)
    expect(await listStoreKeys(sql)).toMatchObject([{ number: 1 }, { number: 2, may_seal: true }])
    await service.close()
  })

  it.skipIf(backend() === 'embedded')(
    'is followed by another server, which changes keys before, between and after',
    async () => {
      const service = await startService()
      const { database } = service
      const other = await startService({ database })
      const used = await use(service)
      expect(await used.opens(other)).toBe(true)
      const stop = new AbortController()
      const read = () => refreshStoreKeys(other.services.sql, other.services.storeKeys, async () => provider)
      await expect(
        rotateAged(service, { signal: stop.signal, onProgress: () => stop.abort(new Error('killed')) }),
      ).rejects.toThrow('killed')
      // It seals under the old one still, and opens what is under the new one.
      await read()
      other.services.storeKeys.current = 1
      const { call } = other.caller(used.caller.secret)
      expect((await call('POST', '/v1/keys', { name: 'between' })).status).toBe(201)
      await read()
      expect(other.services.storeKeys.current).toBe(2)
      await rotateAged(service)
      await read()
      expect((await call('POST', `/v1/keys/${used.key_id}/rotate`)).status).toBe(200)
      expect(await used.opens(other)).toBe(true)
      // A server that was stopped for so long that it missed both is told so by the database; nothing is half written.
      await rotateAged(service)
      expect(await call('POST', '/v1/keys', { name: 'late' })).toMatchObject({
        status: 503,
        body: { code: 'E_UNAVAILABLE', detail: expect.stringContaining('the store key was rotated') },
      })
      await read()
      expect([...other.services.storeKeys.keys.keys()]).toEqual([4])
      expect((await call('POST', '/v1/keys', { name: 'late' })).status).toBe(201)
      expect((await call('POST', '/v1/keys', { name: 'after' })).status).toBe(201)
      await expectWhole(other, used)
      await other.close()
      await service.close()
    },
  )
})
