// A model's local index (local-index.md) on a real server: who may open its key, and that searching then needs no server.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Client, createClient, type Permission, text } from '../../packages/sdk/src/index.js'
import { failure } from '../../packages/sdk/src/test-support/clients.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let tenant: Caller
let keyId: string
let indexKey: string
const clients: Client[] = []

const connect = (apiKey = tenant.secret, baseUrl = service.url) => {
  const client = createClient({ baseUrl, apiKey, retries: 0 })
  clients.push(client)
  return client
}
const connectWith = async (permissions: readonly Permission[]) => {
  const { body } = await tenant.call('POST', '/v1/api-keys', { name: 'limited', permissions })
  return connect(body.secret)
}
const membersOf = (eaas: Client) =>
  eaas.model({
    name: 'members',
    keyId,
    bind: false,
    indexKey,
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
  const owner = connect()
  keyId = (await owner.keys.create({ name: 'members' })).id
  indexKey = await owner.createIndexKey(keyId, { model: 'members' })
})
afterEach(() => {
  for (const client of clients.splice(0)) client.close()
})
afterAll(() => service?.close())

describe('an index key of a real server', () => {
  it('gives each client the same indexes, also after a rotation and a rewrap, and the server none of the values', async () => {
    const [writer, reader] = [connect(), connect()]
    const rows = await membersOf(writer).encryptMany(MEMBERS)
    const find = async (client: Client) => {
      const { email_index } = await membersOf(client).index({ email: ' ADA@example.org' })
      return rows.filter((row) => row.email_index === email_index).map(({ id }) => id)
    }
    expect(await find(reader)).toEqual([1])
    await writer.keys.rotate(keyId)
    expect(await find(connect())).toEqual([1])
    const before = indexKey
    indexKey = await writer.rewrapIndexKey(indexKey)
    expect(indexKey).not.toBe(before)
    expect(await find(connect())).toEqual([1])
    const hashed = (await tenant.call('GET', '/v1/usage')).body.unrecorded
    expect(hashed.filter(({ kind }: { kind: string }) => kind === 'hash')).toEqual([])
  })

  it('is opened by one unwrap for the life of a client, which the audit log has', async () => {
    const unwraps = async () =>
      (await tenant.call('GET', `/v1/audit?action=key.unwrap&key_id=${keyId}&limit=1`)).body.total
    const before = await unwraps()
    const members = membersOf(connect())
    for (const { email } of MEMBERS) await members.index({ email })
    expect(await members.index({ name: { startsWith: 'gra' } })).toHaveProperty('name_begins')
    expect(await unwraps()).toBe(before + 1)
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

  it('is not made by an API key that may not encrypt', async () => {
    const reader = await connectWith(['decrypt', 'keys:read'])
    const error = await failure(reader.createIndexKey(keyId, { model: 'members' }))
    expect(error).toMatchObject({ code: 'E_API', problem: 'E_MISSING_PERMISSION' })
    expect(error.message).toContain('missing permission: wrap')
  })

  it("is refused to another tenant, as if the key did not exist, and not made under another tenant's key", async () => {
    const stranger = await service.createTenant()
    const opened = await failure(membersOf(connect(stranger.secret)).index({ email: 'ada@example.org' }))
    expect(opened).toMatchObject({ code: 'E_DECRYPTION', cause: { code: 'E_DECRYPTION', cause: { httpStatus: 404 } } })
    const made = await failure(connect(stranger.secret).createIndexKey(keyId, { model: 'members' }))
    expect(made).toMatchObject({ code: 'E_API', httpStatus: 404, problem: 'E_NOT_FOUND' })
  })

  it('that another tenant planted opens nothing: its model refuses the text', async () => {
    const stranger = connect((await service.createTenant()).secret)
    const { id } = await stranger.keys.create({ name: 'members' })
    const planted = await stranger.createIndexKey(id, { model: 'members' })
    expect(() =>
      connect().model({
        name: 'members',
        keyId,
        bind: false,
        indexKey: planted,
        fields: { email: text({ index: 'email_index' }) },
      }),
    ).toThrow(`indexKey was made under the key ${id}`)
  })
})

describe('a server that is away', () => {
  it('is not missed by searches of a client that has opened its index key, and by those of no other', async () => {
    const short = await startService()
    const owner = await short.createTenant()
    const eaas = connect(owner.secret, short.url)
    keyId = (await eaas.keys.create({ name: 'members' })).id
    indexKey = await eaas.createIndexKey(keyId, { model: 'members' })
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
