// The root key and the store key are replaced while servers run; afterwards nothing of before opens what is left.
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RootKeySetting } from '../../packages/server/src/config.js'
import { openSecret, UnknownStoreKeyError } from '../../packages/server/src/crypto/key-hierarchy.js'
import { rotateRootKey } from '../../packages/server/src/operations/rotate-root-key.js'
import { rotateStoreKey } from '../../packages/server/src/operations/rotate-store-key.js'
import { openProvider } from '../../packages/server/src/root-key/open-provider.js'
import type { RootKeyProvider } from '../../packages/server/src/root-key/provider.js'
import { openStoreKeys, refreshStoreKeys } from '../../packages/server/src/runner/store-keys.js'
import { listStoreKeys } from '../../packages/server/src/store/store-keys.js'
import { backend } from '../support/database/database.js'
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

/** Has a new store key be as old as one that every process has read. */
const age = async ({ services: { sql } }: Service) =>
  void (await sql`update store_keys set created_at = created_at - interval '1 minute'`)

async function rotateAged(service: Service, options: Partial<Parameters<typeof rotateStoreKey>[1]> = {}) {
  const aging = setInterval(() => void age(service), 100)
  return rotateStoreKey(service.services, { provider, ...options }).finally(() => clearInterval(aging))
}

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
    expect(await rotateAged(service)).toMatchObject({ number: 2 }) // the same one, not a third
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
        expect(done).toMatchObject({ number: 2 })
        break
      }
    }
    await service.close()
  })

  it('is kept while a secret does not open, and the refusal says what to do', async () => {
    const service = await startService()
    const { key_id } = await use(service)
    const { sql } = service.services
    await sql`update keys set wrapped_hash_key = set_byte(wrapped_hash_key, 60, get_byte(wrapped_hash_key, 60) # 1) where key_id = ${key_id}`
    await expect(rotateAged(service)).rejects.toThrow(
      /1 rows have a secret that could not be sealed again.*verify every log/,
    )
    expect((await listStoreKeys(sql)).map(({ number }) => number)).toEqual([1, 2])
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
      // It seals under the old one still.
      const { call } = other.caller(used.caller.secret)
      expect((await call('POST', '/v1/keys', { name: 'between' })).status).toBe(201)
      await read()
      expect(other.services.storeKeys.current).toBe(2)
      await rotateAged(service)
      expect((await call('POST', `/v1/keys/${used.key_id}/rotate`)).status).toBe(200)
      expect(await used.opens(other)).toBe(true)
      await read()
      expect([...other.services.storeKeys.keys.keys()]).toEqual([2])
      expect((await call('POST', '/v1/keys', { name: 'after' })).status).toBe(201)
      await expectWhole(other, used)
      await other.close()
      await service.close()
    },
  )
})
