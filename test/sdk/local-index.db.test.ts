// A model's local index (local-index.md) on a real server: who gets its secret, and that searching then needs no server. And an
// oblivious one (oblivious-index.md): who may take part, what the server counts, and that an export computes the same.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Client, createClient, type IndexBy, type Permission, text } from '../../packages/sdk/src/index.js'
import { failure } from '../../packages/sdk/src/test-support/clients.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let tenant: Caller
let keyId: string
const clients: Client[] = []

const connect = (apiKey = tenant.secret, baseUrl = service.url) => {
  const client = createClient({ baseUrl, apiKey, retries: 0 })
  clients.push(client)
  return client
}
const connectWith = async (permissions: readonly Permission[], more: object = {}) => {
  const { body } = await tenant.call('POST', '/v1/api-keys', { name: 'limited', permissions, ...more })
  return connect(body.secret)
}
const membersOf = (eaas: Client, index: IndexBy = {}) =>
  eaas.model({
    name: 'members',
    keyId,
    bind: false,
    index,
    fields: {
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
      name: text({ normalize: ['lowercase'] }),
    },
    indexes: { name_begins: { prefix: 'name', length: 3 } },
  })
const MEMBERS = [
  { id: 1, email: 'ada@example.org', name: 'Ada Lovelace' },
  { id: 2, email: 'grace@example.org', name: 'Grace Hopper' },
]

beforeAll(async () => {
  service = await startService()
  tenant = await service.createTenant()
  keyId = (await connect().keys.create({ name: 'members' })).id
})
afterEach(() => {
  for (const client of clients.splice(0)) client.close()
})
afterAll(() => service?.close())

describe('an index secret of a real server', () => {
  it('gives each client the same indexes, also after a rotation, and the server none of the values', async () => {
    const [writer, reader] = [connect(), connect()]
    const rows = await membersOf(writer).encryptMany(MEMBERS)
    const find = async (client: Client) => {
      const { email_index } = await membersOf(client).index({ email: ' ADA@example.org' })
      return rows.filter((row) => row.email_index === email_index).map(({ id }) => id)
    }
    expect(await find(reader)).toEqual([1])
    await writer.keys.rotate(keyId)
    expect(await find(connect())).toEqual([1])
    const hashed = (await tenant.call('GET', '/v1/usage')).body.unrecorded
    expect(hashed.filter(({ kind }: { kind: string }) => kind === 'hash')).toEqual([])
  })

  it('is asked for once while it is cached, and the audit log has that, with the name of the model', async () => {
    const secrets = async () =>
      (await tenant.call('GET', `/v1/audit?action=key.index_secret&key_id=${keyId}&limit=1`)).body
    const before = (await secrets()).total
    const members = membersOf(connect())
    for (const { email } of MEMBERS) await members.index({ email })
    expect(await members.index({ name: { startsWith: 'gra' } })).toHaveProperty('name_begins')
    const { total, logs } = await secrets()
    expect(total).toBe(before + 1)
    expect(logs[0].metadata.name).toBe('members')
  })

  it.each<[string, Permission[]]>([
    ['encrypt alone', ['encrypt']],
    ['hash alone', ['hash']],
  ])('is refused to an API key with %s, which is told what it lacks', async (_, permissions) => {
    const error = await failure(membersOf(await connectWith(permissions)).index({ email: 'ada@example.org' }))
    expect(error).toMatchObject({ code: 'E_API', httpStatus: 403, problem: 'E_MISSING_PERMISSION' })
    expect(error.message).toContain('missing permission: unwrap')
    expect(error.hint).toContain('permissions')
  })

  it('is refused to another tenant, and to an API key that is limited to other keys, as if the key did not exist', async () => {
    const stranger = await service.createTenant()
    for (const client of [connect(stranger.secret), await connectWith(['unwrap'], { keys: ['staff/*'] })]) {
      const error = await failure(membersOf(client).index({ email: 'ada@example.org' }))
      expect(error).toMatchObject({ code: 'E_API', httpStatus: 404, problem: 'E_NOT_FOUND' })
    }
  })
})

describe('an oblivious index of a real server', () => {
  const byAda = { email: ' ADA@example.org', name: { startsWith: 'ada' } }
  const named = async () => {
    const { blind_hash_public_key } = await connect().keys.get(keyId)
    return { by: 'oblivious', publicKey: blind_hash_public_key ?? '' } as const
  }

  it('is the same for each client, also after a rotation, and for one that may only hash', async () => {
    const rows = await membersOf(connect(), { by: 'oblivious' }).encryptMany(MEMBERS)
    const index = await named()
    await connect().keys.rotate(keyId)
    expect(await named()).toEqual(index)
    const found = await membersOf(await connectWith(['hash']), index).index(byAda)
    expect(found).toEqual({ email_index: rows[0]?.email_index, name_begins: rows[0]?.name_begins })
    const [local] = await membersOf(connect()).encryptMany(MEMBERS)
    expect(local?.email_index).not.toBe(rows[0]?.email_index)
  })

  it('is refused to an API key without `hash` or without the key, and to another tenant', async () => {
    const index = await named()
    const stranger = await service.createTenant()
    for (const [client, problem] of [
      [await connectWith(['wrap', 'unwrap']), 'E_MISSING_PERMISSION'],
      [await connectWith(['hash'], { keys: ['staff/*'] }), 'E_NOT_FOUND'],
      [connect(stranger.secret), 'E_NOT_FOUND'],
    ] as const) {
      expect(await failure(membersOf(client, index).index(byAda))).toMatchObject({ code: 'E_API', problem })
    }
  })

  it('counts each value as a hash, takes it from the budget, and writes no entry', async () => {
    const index = await named()
    const entries = async () => (await tenant.call('GET', '/v1/audit?limit=1')).body.total
    const limited = membersOf(await connectWith(['hash'], { budgets: { hash: { per_day: 3 } } }), index)
    const before = await entries()
    await limited.index(byAda) // two values
    expect(await entries()).toBe(before)
    expect(await failure(limited.index(byAda))).toMatchObject({ code: 'E_API', problem: 'E_BUDGET' })
  })
})

describe('a server that is away', () => {
  it('is not missed by searches of a client that has the secret, and by those of no other', async () => {
    const short = await startService()
    const owner = await short.createTenant()
    const eaas = connect(owner.secret, short.url)
    keyId = (await eaas.keys.create({ name: 'members' })).id
    const members = membersOf(eaas)
    const rows = await members.encryptMany(MEMBERS)
    const late = membersOf(connect(owner.secret, short.url))
    await short.close()
    const { email_index } = await members.index({ email: 'grace@example.org' })
    expect(rows.filter((row) => row.email_index === email_index).map(({ id }) => id)).toEqual([2])
    expect(await members.encrypt({ id: 3, email: 'new@example.org', name: 'New' })).toHaveProperty('email_index') // its DEK is at hand
    expect(await failure(late.index({ email: 'grace@example.org' }))).toMatchObject({ code: 'E_NETWORK' })
  })
})
