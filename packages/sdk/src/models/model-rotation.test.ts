// Bringing the rows of a model to new wrapped keys, and to new DEKs.
import { encodeBase64 } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { createClient, type Envelope, type EnvelopeV2, fromText, text } from '../index.js'
import { keyId, useClients } from '../test-support/clients.js'
import { itemsOf } from '../test-support/items-of.js'
import { problem, send } from '../test-support/service.js'
import { ada, usersOf } from '../test-support/users.js'
import { createTestService } from '../testing.js'

const { service, connect } = useClients()

const operations = () => service.requests.map(({ operation }) => operation)

describe('rewrap', () => {
  async function* stream<T>(list: readonly T[]): AsyncGenerator<T> {
    for (const row of list) yield row
  }

  it.each(['full', 'compact', 'compact-text'] as const)(
    'gives old rows new wrapped keys and the same ciphertext, format %s',
    async (format) => {
      const users = usersOf(keyId, connect(), format)
      const old = await users.encryptMany(Array.from({ length: 30 }, () => ada))
      await connect().keys.rotate(keyId)
      const fresh = await usersOf(keyId, connect(), format).encrypt(ada)
      service.requests.length = 0
      const batches = []
      for await (const batch of users.rewrap(stream([...old, fresh]), { batchSize: 10 })) batches.push(batch)
      expect(batches.map(({ progress }) => progress.done)).toEqual([10, 20, 30, 31])
      expect(batches.at(-1)?.progress).toEqual({ done: 31, changed: 30, current: 1, failed: 0 })
      expect(operations()).toEqual(['get', 'rewrap'])
      const items = batches.flatMap(({ items }) => items)
      expect(items.map(({ index }) => index)).toEqual(Array.from({ length: 31 }, (_, at) => at))
      const rows = items.flatMap((item) => (item.status === 'failed' ? [] : [item.row]))
      expect(rows[30]).toBe(fresh)
      const strip = (row: (typeof rows)[number] | undefined) =>
        JSON.parse(JSON.stringify(row && users.unpack(row)), (name, value) =>
          /^(wrapped_key|key_version)$/.test(name) ? undefined : value,
        )
      expect(strip(rows[0])).toEqual(strip(old[0]))
      const now = JSON.stringify(rows[0] && users.unpack(rows[0]))
      expect(now).toContain('"key_version":2')
      expect(now).not.toContain('"key_version":1')
      expect((await usersOf(keyId, connect(), format).decryptMany(rows)).ok).toEqual(
        Array.from({ length: 31 }, () => ada),
      )
    },
  )

  it('says of each row what failed, and goes on with the others', async () => {
    const notes = connect().model({ name: 'users', keyId, bind: false, dek: 'record', fields: { a: text() } })
    const [one, two, three] = await notes.encryptMany([{ a: '1' }, { a: '2' }, { a: '3' }])
    await connect().keys.rotate(keyId)
    const list = [one, { a: { ...two?.a, wrapped_key: 'AAAA' } }, { a: { ciphertext: 'x' } }, three]
    const items = await itemsOf(notes.rewrap(list as never[]))
    expect(items.map(({ status }) => status)).toEqual(['changed', 'failed', 'failed', 'changed'])
    expect(items[1]).toMatchObject({ error: { code: 'E_DECRYPTION', place: { index: 1, field: 'a' } } })
    expect(items[2]).toMatchObject({ error: { code: 'E_INVALID_INPUT', place: { index: 2, field: 'a' } } })
  })

  it('asks again for the version of the key in the next batch when it could not be had', async () => {
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const rows = await notes.encryptMany([{ a: '1' }, { a: '2' }])
    await connect().keys.rotate(keyId)
    service.intercept = ({ operation }, response) => {
      if (operation !== 'get') return false
      service.intercept = undefined
      send(response, problem(403, 'Forbidden', 'E_MISSING_PERMISSION'))
      return true
    }
    const statuses = []
    for await (const { items } of notes.rewrap(rows, { batchSize: 1 })) statuses.push(items[0]?.status)
    expect(statuses).toEqual(['failed', 'changed'])
  })

  it('takes rows of an old version whose key_version says another, and no others', async () => {
    const inMemory = createTestService() // its wrapped keys are those of wrapped-key.md
    const eaas = createClient(inMemory)
    const { id } = await eaas.keys.create({ name: 'users' })
    const notes = eaas.model({ name: 'users', keyId: id, bind: false, fields: { a: text() } })
    const old = await notes.encrypt({ a: '1' })
    await eaas.keys.rotate(id)
    const fresh = await eaas
      .model({ name: 'users', keyId: id, bind: false, dek: 'call', fields: { a: text() } })
      .encrypt({ a: '2' })
    const forged = { ...old, a: { ...old.a, key_version: 2 ** 31 - 1 } }
    for (const list of [
      [forged, old, fresh],
      [fresh, old, forged],
    ]) {
      const items = await itemsOf(notes.rewrap(list))
      expect(items.map(({ status }) => status).toSorted()).toEqual(['changed', 'changed', 'current'])
      for (const item of items) expect(item).toMatchObject({ row: { a: { key_version: 2 } } })
    }
    eaas.close()
  })

  it.each(['full', 'compact', 'text'] as const)(
    'fails a row alone whose wrapped key has text behind it, and gives the others what the service answered: format %s',
    async (format) => {
      const inMemory = createTestService()
      for (const verify of [false, true]) {
        const eaas = createClient({ ...inMemory, deks: { verify } })
        const { id } = await eaas.keys.ensure({ name: `users ${verify}` })
        const notes = eaas.model({ name: 'users', keyId: id, bind: false, format, fields: { a: text() } })
        const rows: Record<string, unknown>[] = await notes.encryptMany(['1', '2', '3'].map((a) => ({ a })))
        const { current_version } = await eaas.keys.rotate(id)
        const column = format === 'compact' ? 'envelope' : 'a'
        const stored = rows[2]?.[column]
        const envelope = typeof stored === 'string' ? fromText(stored) : (stored as Envelope)
        const wrapped_key = `${envelope.wrapped_key}/["data",{"model":"users"}]`
        const forged = { ...envelope, wrapped_key, key_version: current_version }
        const bad = { ...rows[2], [column]: format === 'text' ? JSON.stringify(forged) : forged }
        const items = await itemsOf(notes.rewrap([rows[0], bad, rows[1]] as never[]))
        expect(items).toMatchObject([
          { status: 'changed' },
          { status: 'failed', error: { code: 'E_INVALID_INPUT', place: { index: 1, field: 'a' } } },
          { status: 'changed' },
        ])
        const changed = items.flatMap((item) => (item.status === 'changed' ? [item.row] : []))
        const fresh = createClient(inMemory).model({ name: 'users', keyId: id, bind: false, fields: { a: text() } })
        expect((await fresh.decryptMany(changed as never[])).ok).toEqual([{ a: '1' }, { a: '2' }])
      }
    },
  )

  it('takes an altered version or flag of one row for that row alone', async () => {
    const plain = connect().model({ name: 'users', keyId, envelope: 1, fields: { a: text() } }) // its wrapped keys state no version
    const secret = new Uint8Array(32).fill(7)
    const careful = connect({ secret, deks: { verify: true } })
    const sealed = careful.model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const [old, flagged] = [await plain.encrypt({ a: '1' }), await sealed.encrypt({ a: '1' })]
    await connect().keys.rotate(keyId)
    const newer = { a: { ...old.a, key_version: 2 } }
    const { application_secret: _, ...unflagged } = flagged.a as EnvelopeV2
    expect(await itemsOf(plain.rewrap([old, newer]))).toMatchObject([{ status: 'changed' }, { status: 'current' }])
    const items = await itemsOf(sealed.rewrap([flagged, { a: unflagged }]))
    expect(items).toMatchObject([{ status: 'changed' }, { status: 'failed' }])
  })

  it('stops when the signal is aborted, and refuses a size of batch that cannot be', async () => {
    const notes = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const rows = await notes.encryptMany([{ a: '1' }, { a: '2' }])
    const controller = new AbortController()
    const batches = notes.rewrap(rows, { batchSize: 1, signal: controller.signal })
    await batches.next()
    controller.abort()
    await expect(batches.next()).rejects.toMatchObject({ code: 'E_ABORTED' })
    await expect(notes.rewrap(rows, { batchSize: 0 }).next()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
  })
})

describe('reseal', () => {
  it('gives rows new DEKs, ciphertexts and indexes, and loses none of what does not open', async () => {
    const users = usersOf(keyId, connect())
    const [one, two] = await users.encryptMany([ada, ada])
    if (!one || !two) return expect.unreachable()
    const bad = { ...two, email: { ...two.email, iv: encodeBase64(new Uint8Array(12)) } }
    const items = await itemsOf(users.reseal([one, bad, two]))
    expect(items.map(({ status }) => status)).toEqual(['changed', 'failed', 'changed'])
    const [first] = items
    if (first?.status !== 'changed') return expect.unreachable()
    const { row } = first
    expect(row.email.wrapped_key).not.toBe(one.email.wrapped_key)
    expect(row.email.ciphertext).not.toBe(one.email.ciphertext)
    expect(row.email_index).toBe(one.email_index)
    expect(await users.decrypt(row)).toEqual(ada)
  })
})

describe('reseal of rows that cannot be sealed', () => {
  /** Longer than what an index is made of. */
  const LONG = 'x'.repeat(1_000_001)

  it('says which, by their places among all rows, and goes on with the others', async () => {
    const plain = connect().model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const rows = await plain.encryptMany(['1', '2', LONG, '4', '5'].map((a) => ({ a })))
    const indexed = connect().model({ name: 'users', keyId, bind: false, fields: { a: text({ index: 'a_index' }) } })
    const list = rows.map((row, at) => (at === 4 ? { a: { ...row.a, iv: encodeBase64(new Uint8Array(12)) } } : row))
    const items = await itemsOf(indexed.reseal(list, { batchSize: 2 }))
    expect(items.map((item) => [item.index, item.status])).toEqual([
      [0, 'changed'],
      [1, 'changed'],
      [2, 'failed'],
      [3, 'changed'],
      [4, 'failed'],
    ])
    expect(items[2]).toMatchObject({ error: { code: 'E_INVALID_INPUT', place: { index: 2, field: 'a' } } })
    expect(items[4]).toMatchObject({ error: { code: 'E_DECRYPTION', place: { index: 4, field: 'a' } } })
  })

  it('says of each row that the service could not be asked', async () => {
    const notes = connect({ retries: 0 }).model({ name: 'users', keyId, bind: false, fields: { a: text() } })
    const rows = await notes.encryptMany([{ a: '1' }, { a: '2' }])
    service.intercept = ({ operation }, response) => operation === 'wrap' && !!response.destroy()
    const items = await itemsOf(notes.reseal(rows))
    expect(items.map((item) => item.status === 'failed' && item.error.code)).toEqual(['E_NETWORK', 'E_NETWORK'])
  })
})
