import { describe, expect, it } from 'vitest'
import { createClient, text } from '../index.js'
import { describeModel, maintain } from '../maintenance.js'
import { createTestService } from '../testing.js'

function scene() {
  const service = createTestService()
  const owner = createClient(service)
  const calls: string[] = []
  const fetch: typeof service.fetch = (input, init) => {
    calls.push(`${init?.method ?? 'GET'} ${new URL(String(input)).pathname}`)
    return service.fetch(input, init)
  }
  const connect = async () => createClient({ ...service, fetch })
  const refuse = (operation: 'listKeys' | 'createKey') => service.failNext({ operation, code: 'E_MISSING_PERMISSION' })
  return { owner, calls, connect, service, refuse }
}

const fields = { email: text({ index: 'email_index' }), note: text() }
const row = { id: 7, email: 'ada@example.org', note: 'called twice' }
const define = (eaas: ReturnType<typeof createClient>, more: object = {}) =>
  eaas.model({ name: 'users', key: 'users', bind: ['id'], warn: false, fields, ...more })

describe('a model whose key is declared by its name', () => {
  it('creates the key at its first use, once for all calls, and finds it from then on', async () => {
    const { owner, calls, connect } = scene()
    const users = define(await connect())
    expect(calls).toEqual([])
    const rows = await Promise.all(Array.from({ length: 20 }, (_, id) => users.encrypt({ ...row, id })))
    const [{ id: keyId } = { id: '' }] = (await owner.keys.list({ name: 'users' })).keys
    expect(new Set(rows.map(({ note }) => note.key_id))).toEqual(new Set([keyId]))
    expect(calls.filter((call) => call.endsWith('/v1/keys'))).toEqual(['GET /v1/keys', 'POST /v1/keys'])
    const again = define(await connect())
    expect(await again.decrypt(rows[7] as (typeof rows)[0])).toMatchObject({ note: 'called twice' })
    expect(await again.index({ email: row.email })).toEqual({ email_index: rows[0]?.email_index })
    expect((await owner.keys.list()).keys).toHaveLength(1)
  })

  it('is not waited for once the signal is aborted', async () => {
    const { connect, service } = scene()
    const fetch = () => new Promise<Response>(() => undefined)
    const users = define(createClient({ ...service, fetch }))
    const stored = await define(await connect()).encrypt(row)
    const calls: ((options: { signal: AbortSignal }) => Promise<unknown>)[] = [
      (options) => users.encrypt(row, options),
      (options) => users.encryptPartial(row, options),
      (options) => users.decrypt(stored, options),
      (options) => users.index({ email: row.email }, options),
    ]
    for (const call of calls) {
      await expect(call({ signal: AbortSignal.timeout(20) })).rejects.toMatchObject({ code: 'E_ABORTED' })
    }
  })

  it('opens rows under a disabled key, and seals none', async () => {
    const { owner, connect } = scene()
    const sealed = await define(owner).encrypt(row)
    await owner.keys.disable(sealed.note.key_id)
    const reader = define(await connect())
    expect(await reader.decrypt(sealed)).toEqual(row)
    expect(await reader.index({ email: row.email })).toEqual({ email_index: sealed.email_index })
    const { workOn } = await maintain(define(await connect()), { work: 'open' })
    expect(await workOn([sealed])).toMatchObject([{ status: 'changed', to: { note: row.note } }])
    for (const one of [reader, define(await connect())])
      await expect(one.encrypt(row)).rejects.toMatchObject({ code: 'E_API', problem: 'E_STATE' })
  })

  it.each([{}, { index: { key: 'search' } }])('is searched under a disabled key, first of all: %j', async (more) => {
    const { owner, connect } = scene()
    const sealed = await define(owner, more).encrypt(row)
    for (const { id } of (await owner.keys.list()).keys) await owner.keys.disable(id)
    expect(await define(await connect(), more).index({ email: row.email })).toEqual({ email_index: sealed.email_index })
  })

  it('creates no key to read, and finds the one that is created later', async () => {
    const { owner, calls, connect } = scene()
    const eaas = await connect()
    const users = define(eaas)
    const plain = define(eaas, { acceptPlaintext: true })
    expect((await users.decryptMany([])).failed).toEqual([])
    expect(await plain.decrypt({ id: 7, email: 'ada@example.org', note: 'x' } as never)).toMatchObject({ note: 'x' })
    expect(new Set(calls)).toEqual(new Set(['GET /v1/keys']))
    const sealed = await define(owner).encrypt(row)
    expect(await users.decrypt(sealed)).toEqual(row)
  })

  it('fails the rows that need the key while it cannot be looked up, and no other', async () => {
    const { owner, connect, service } = scene()
    const { id } = await owner.keys.create({ name: 'former' })
    const model = { name: 'users', bind: ['id'], warn: false, fields } as const
    const former = await owner.model({ ...model, keyId: id }).encrypt({ ...row, id: 8 })
    const sealed = await define(owner).encrypt(row)
    for (const [failure, code] of [
      [{ network: true }, 'E_NETWORK'],
      [{ status: 503 }, 'E_API'],
    ] as const) {
      const users = define(await connect(), { formerKeyIds: [id] })
      const whileAway = async <T>(run: () => Promise<T>) => {
        service.failNext({ operation: 'listKeys', times: 3, ...failure }) // the SDK tries three times
        return run()
      }
      const { ok, failed } = await whileAway(() => users.decryptMany([sealed, former]))
      expect(ok).toEqual([{ ...row, id: 8 }])
      expect(failed).toMatchObject([{ index: 0, error: { code } }])
      await expect(whileAway(() => users.decrypt(sealed))).rejects.toMatchObject({ code })
      const rewrapped = await whileAway(() => users.rewrap([sealed]).next())
      expect(rewrapped.value?.items).toMatchObject([{ status: 'failed', error: { code } }])
      const resealed = await whileAway(() => users.reseal([sealed]).next())
      expect(resealed.value?.items).toMatchObject([{ status: 'failed', error: { code } }])
      expect((await users.decryptMany([sealed])).ok).toEqual([row])
    }
  })

  it('opens no envelope of another key, but those of former keys', async () => {
    const { owner, connect } = scene()
    const { id: keyId } = await owner.keys.create({ name: 'other' })
    const sealed = await owner.model({ name: 'users', keyId, bind: ['id'], warn: false, fields }).encrypt(row)
    await expect(define(await connect()).decrypt(sealed)).rejects.toMatchObject({ code: 'E_DECRYPTION' })
    const former = define(await connect(), { formerKeyIds: [keyId] })
    expect(await former.decrypt(sealed)).toMatchObject({ note: 'called twice' })
  })

  it('needs keys:read, and keys:create where the key is missing', async () => {
    const { owner, connect, refuse } = scene()
    const refused = { code: 'E_API', problem: 'E_MISSING_PERMISSION', hint: expect.stringContaining('keys:read') }
    const users = define(await connect())
    for (const operation of ['listKeys', 'createKey'] as const) {
      refuse(operation)
      await expect(users.encrypt(row)).rejects.toMatchObject(refused)
    }
    await owner.keys.create({ name: 'users' })
    expect(await users.decrypt(await users.encrypt(row))).toEqual(row) // looked up again
  })

  it('has indexes by its key, or by another one that is named, which is created likewise', async () => {
    const { owner, connect } = scene()
    const own = define(await connect())
    const other = define(await connect(), { index: { key: 'search' } })
    const [one, two] = [await own.encrypt(row), await other.encrypt(row)]
    expect(one.email_index).not.toBe(two.email_index)
    expect(await other.index({ email: row.email })).toEqual({ email_index: two.email_index })
    const { keys } = await owner.keys.list()
    expect(keys.map(({ name }) => name).sort()).toEqual(['search', 'users'])
    const idOf = (wanted: string) => keys.find(({ name }) => name === wanted)?.id
    expect([one.note.key_id, two.note.key_id]).toEqual([idOf('users'), idOf('users')])
  })

  it('looks up the key of its indexes once for those that it makes and those of the service', async () => {
    const { owner, calls, connect } = scene()
    const { id: keyId } = await owner.keys.create({ name: 'rows' })
    await owner.keys.create({ name: 'search' })
    const both = { email: text({ index: 'email_index' }), note: text({ index: 'note_index', shared: true }) }
    const users = define(await connect(), { key: undefined, keyId, index: { key: 'search' }, fields: both })
    await users.index({ email: row.email, note: row.note } as never)
    expect(calls).toEqual(['GET /v1/keys', 'POST /v1/batch'])
  })

  it('is worked on, and described alike before its key is known and afterwards', async () => {
    const { connect } = scene()
    const eaas = await connect()
    const users = define(eaas)
    const before = describeModel(users)
    const sealed = await users.encrypt(row)
    await eaas.keys.rotate(sealed.note.key_id)
    const { workOn } = await maintain(define(eaas), { work: 'rewrap' })
    expect(await workOn([sealed])).toMatchObject([{ status: 'changed' }])
    expect([before.keys, describeModel(users)]).toEqual([['users'], before])
  })

  it.each([
    ['both', { keyId: '0c8f8f9e-6d1e-4c53-9c1f-3f4a0d1b2c3d' }],
    ['an empty name', { key: ' ' }],
    ['no text', { key: 5 }],
    ['a long name', { key: 'x'.repeat(256) }],
  ])('is refused with %s', async (_, wrong) => {
    const { connect } = scene()
    const eaas = await connect()
    expect(() => define(eaas, wrong)).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })
})
