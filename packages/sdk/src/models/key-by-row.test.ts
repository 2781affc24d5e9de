// A model whose rows each have a key of their own: destroying one makes exactly its rows unreadable.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type Client, type ClientOptions, createClient, type EaasError, text } from '../index.js'
import { failure } from '../test-support/clients.js'
import { createTestService, type TestService } from '../testing.js'

let service: TestService
let eaas: Client
/** How many requests were sent since a test set it to 0. */
let requests = 0
const clients: Client[] = []

const connect = (options: Partial<ClientOptions> = {}): Client => {
  const fetch: TestService['fetch'] = (input, init) => {
    requests += 1
    return service.fetch(input, init)
  }
  const client = createClient({ ...service, ...options, fetch })
  clients.push(client)
  return client
}
beforeEach(() => {
  service = createTestService({ destroyWindowDays: 0 })
  eaas = connect()
})
afterEach(() => {
  for (const client of clients.splice(0)) client.close()
})

const makeKeys = async (count: number, prefix = 'person') => {
  const names = Array.from({ length: count }, (_, at) => ({ name: `${prefix} ${at}` }))
  const ids: string[] = []
  for (let at = 0; at < count; at += 1_000) {
    const { ok } = await eaas.keys.createMany(names.slice(at, at + 1_000))
    ids.push(...ok.map(({ id }) => id))
  }
  return ids
}
const peopleOf = (client: Client, options: { dek?: 'shared' | 'call' | 'record'; format?: 'full' | 'compact' } = {}) =>
  client.model({
    name: 'people',
    keyId: (row) => row.key_id,
    bind: ['id'],
    fields: { name: text(), phone: text().optional() },
    ...options,
  })
const rowsOf = (ids: readonly string[]) => ids.map((key_id, id) => ({ id, key_id, name: `name ${id}` }))
const destroy = async (keyId: string) => {
  const { name } = await eaas.keys.get(keyId)
  await eaas.keys.disable(keyId)
  await eaas.keys.destroy(keyId, name)
}
const count = (wanted: string) => service.entries().filter(({ action }) => action === wanted).length
const wraps = () => count('key.wrap')
const unwraps = () => count('key.unwrap')
const problemOf = (error: EaasError) => ('problem' in error ? error.problem : error.code)

describe('a model with a key for each row', () => {
  it.each(['shared', 'call', 'record'] as const)('seals each row under its own key: %s', async (dek) => {
    const ids = await makeKeys(3)
    const rows = await peopleOf(eaas, { dek }).encryptMany(rowsOf([...ids, ...ids]))
    expect(rows).toMatchObject([...ids, ...ids].map((key_id) => ({ name: { key_id } })))
    expect(wraps()).toBe(dek === 'record' ? 6 : 3)
    expect((await peopleOf(connect()).decryptMany(rows)).ok).toEqual(rowsOf([...ids, ...ids]))
  })

  it.each(['full', 'compact'] as const)(
    'loses exactly the rows of a destroyed key, and says so of each: %s',
    async (format) => {
      const ids = await makeKeys(4)
      const people = peopleOf(eaas, { format })
      const rows = await people.encryptMany(rowsOf([...ids, ...ids]))
      await destroy(ids[1] ?? '')
      const { ok, failed } = await peopleOf(connect(), { format }).decryptMany(rows)
      expect(ok).toEqual(rowsOf([...ids, ...ids]).filter(({ key_id }) => key_id !== ids[1]))
      expect(failed.map(({ index, error }) => [index, error.code, problemOf(error)])).toEqual([
        [1, 'E_API', 'E_KEY_DESTROYED'],
        [5, 'E_API', 'E_KEY_DESTROYED'],
      ])
      expect(failed[0]?.error.hint).toContain('deleted')
    },
  )

  it('still reads a destroyed key in a client that holds its DEKs, until they expire', async () => {
    const [keyId = ''] = await makeKeys(1)
    const row = await peopleOf(eaas).encrypt({ id: 1, key_id: keyId, name: 'Ada' })
    const reader = connect({ deks: { cacheMaxAgeMs: 60_000 } })
    await peopleOf(reader).decrypt(row)
    await destroy(keyId)
    const now = vi.spyOn(performance, 'now')
    try {
      const start = performance.now()
      now.mockImplementation(() => start + 30_000)
      expect((await peopleOf(reader).decrypt(row)).name).toBe('Ada')
      now.mockImplementation(() => start + 61_000)
      expect(await failure(peopleOf(reader).decrypt(row))).toMatchObject({ problem: 'E_KEY_DESTROYED' })
    } finally {
      now.mockRestore()
    }
  })

  it('refuses a row under the key of another row, and sends nothing for it', async () => {
    const [one = '', other = ''] = await makeKeys(2)
    const row = await peopleOf(eaas).encrypt({ id: 1, key_id: one, name: 'Ada' })
    requests = 0
    const error = await failure(peopleOf(connect()).decrypt({ ...row, key_id: other }))
    expect(error).toMatchObject({ code: 'E_DECRYPTION', place: { index: 0, field: 'name' } })
    expect(error.message).toContain(one)
    expect(requests).toBe(0)
  })

  it('gives its function what is stored in plain, the same for a row and for its stored form', async () => {
    const [keyId = ''] = await makeKeys(1)
    const given: unknown[] = []
    const people = eaas.model({
      name: 'people',
      keyId: (row) => {
        given.push(row)
        return keyId
      },
      bind: false,
      index: { key: 'index' },
      format: 'compact',
      fields: { 'home.street': text(), name: text({ index: 'name_index' }) },
    })
    const row = { id: 1, home: { street: 'Lane 1', floor: 2 }, name: 'Ada' }
    expect(await people.decrypt(await people.encrypt(row))).toEqual(row)
    expect(given).toEqual([
      { id: 1, home: { floor: 2 } },
      { id: 1, home: { floor: 2 } },
    ])
    const { name_index } = await people.index({ name: 'Ada' })
    expect((await people.encrypt(row)).name_index).toBe(name_index)
  })

  it.each([
    ['returns no id', () => undefined, 'got undefined'],
    ['returns a name', () => 'person 1', 'got string'],
    ['returns a promise', async () => 'x', 'got an object'],
    [
      'throws',
      (row: Readonly<Record<string, unknown>>) => {
        throw new Error(`no key for ${JSON.stringify(row)}`)
      },
      'got an error',
    ],
  ])('refuses a row for which its function %s, without telling a value', async (_, keyId, message) => {
    const people = eaas.model({ name: 'people', keyId, bind: false, fields: { name: text() } })
    const error = await failure(people.encryptMany([{ name: 'secret 1' }]))
    expect(error).toMatchObject({ code: 'E_INVALID_INPUT', place: { index: 0, field: 'keyId' } })
    expect(error.message).toContain(message)
    expect(JSON.stringify(error)).not.toContain('secret 1')
  })

  it('has no index without a key that all rows share, under which equal values match', () => {
    expect(() =>
      eaas.model({
        name: 'people',
        keyId: (row) => row.key_id,
        bind: false,
        fields: { name: text({ index: 'name_index' }) },
      }),
    ).toThrow('needs a key: each row has another key')
  })

  it('reseals all rows but those of a key that cannot be used, by one request', async () => {
    const ids = await makeKeys(3)
    const people = peopleOf(eaas)
    const rows = await people.encryptMany(rowsOf([...ids, ...ids]))
    expect((await people.decryptMany(rows)).failed).toEqual([]) // so that its DEKs are at hand
    await eaas.keys.disable(ids[1] ?? '')
    requests = 0
    const batches = []
    for await (const one of people.reseal(rows)) batches.push(one)
    const [batch] = batches
    expect(requests).toBe(1)
    expect(batch?.progress).toEqual({ done: 6, changed: 4, current: 0, failed: 2 })
    const failed = batch?.items.flatMap((item) =>
      item.status === 'failed' ? [[item.index, problemOf(item.error)]] : [],
    )
    expect(failed).toEqual([
      [1, 'E_STATE'],
      [4, 'E_STATE'],
    ])
    const changed = batch?.items.flatMap((item) => (item.status === 'changed' ? [item.row] : [])) ?? []
    expect((await peopleOf(connect()).decryptMany(changed)).ok).toEqual(
      rowsOf([...ids, ...ids]).filter(({ key_id }) => key_id !== ids[1]),
    )
  })

  it('rewraps and reseals each row under its own key, and opens those of a former key of all', async () => {
    const ids = await makeKeys(2)
    const { id: shared } = await eaas.keys.create({ name: 'before' })
    const fields = { name: text() }
    const before = eaas.model({ name: 'people', keyId: shared, bind: ['id'], fields })
    const old = await before.encryptMany(rowsOf(ids))
    const people = eaas.model({
      name: 'people',
      keyId: (row) => row.key_id,
      formerKeyIds: [shared],
      bind: ['id'],
      fields,
    })
    const moved: object[] = []
    for await (const { items } of people.reseal(old)) {
      for (const item of items) if (item.status === 'changed') moved.push(item.row)
    }
    expect(moved).toMatchObject(ids.map((key_id) => ({ name: { key_id } })))
    await eaas.keys.rotate(ids[0] ?? '')
    const statuses: string[] = []
    for await (const { items } of people.rewrap(moved as typeof old))
      statuses.push(...items.map(({ status }) => status))
    expect(statuses).toEqual(['changed', 'current'])
  })
})

describe('a key that somebody changed in the table', () => {
  it("seals what is saved next under another key, which opening the row first refuses, and the key's name tells", async () => {
    const [ada = '', eve = ''] = await makeKeys(2)
    const people = peopleOf(eaas)
    const [row] = await people.encryptMany(rowsOf([ada]))
    const changed = { ...row, key_id: eve }
    // The guards.
    expect(await failure(people.decrypt(changed as never))).toMatchObject({ code: 'E_DECRYPTION' })
    const nameOf = async (one: { key_id: string }) => (await eaas.keys.get(one.key_id)).name
    expect([await nameOf({ key_id: ada }), await nameOf(changed)]).toEqual(['person 0', 'person 1'])
    // Without them: what was saved survives the destruction of the person's key, with `key_id` in `bind` too.
    for (const bind of [['id'], ['id', 'key_id']]) {
      const model = (client: Client) =>
        client.model({ name: 'people', keyId: (one) => one.key_id, bind, fields: { name: text() } })
      const saved = {
        ...changed,
        ...Object(await model(eaas).encryptPartial({ id: 0, key_id: eve, name: 'Ada' } as never)),
      }
      if (bind.length === 1) await destroy(ada)
      expect(await model(connect()).decrypt(saved as never)).toMatchObject({ name: 'Ada' })
      expect(problemOf(await failure(model(connect()).decrypt(row as never)))).toMatch(/E_KEY_DESTROYED|E_DECRYPTION/)
    }
  })
})

describe('a client of 2,500 keys', () => {
  const KEYS = 2_500
  const CACHED = 1_024

  it('holds no more DEKs than its cache is for, seals and opens all rows, and sends them in batches', async () => {
    const ids = await makeKeys(KEYS)
    const client = connect({ deks: { cacheSize: CACHED } })
    requests = 0
    const people = peopleOf(client)
    const rows = await people.encryptMany(rowsOf(ids))
    expect(wraps()).toBe(KEYS)
    expect(requests).toBeLessThanOrEqual(KEYS / 250)
    expect((await people.decryptMany(rows)).ok).toHaveLength(KEYS)

    // Both caches hold the newest keys, and only those.
    const counted = async (count: () => number, run: () => Promise<unknown>) => {
      const before = count()
      await run()
      return count() - before
    }
    const newest = rowsOf(ids).slice(-CACHED / 2)
    const oldest = rowsOf(ids).slice(0, 10)
    expect(await counted(wraps, () => people.encryptMany(newest))).toBe(0)
    expect(await counted(wraps, () => people.encryptMany(oldest))).toBe(10)
    expect(await counted(unwraps, () => people.decryptMany(rows.slice(-CACHED / 2)))).toBe(0)
    expect(await counted(unwraps, () => people.decryptMany(rows.slice(0, 10)))).toBe(10)
  })
})
