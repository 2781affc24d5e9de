// Inserts, what they return, and reads of the rows.
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import { leadOf, type Orm, postOf, sampleOf, userOf } from '../scene.js'
import { type Case, listCases, plain, refused, rowsIn, sorted, stored, valuesIn } from './cases.js'

const { cases, area } = listCases()

const create = area('create')
create('stores envelopes and indexes, and no plaintext', ['insert'], async (scene) => {
  const user = userOf({ email: 'Ada@example.org', nick: 'countess', prefs: { theme: 'dark' } })
  await scene.orm.insert(user)
  expect(await stored(scene)).not.toMatch(/Ada@|countess|theme|1815-12/i) // nothing that base64 or hexadecimal may have by chance
  const { email_index } = await scene.models.users.index({ email: 'ada@example.org' })
  const [row] = await scene.sql`select email_index, nick_index is not null as nick, email from users`
  const email = scene.format === 'text' ? expect.stringMatching(/^eaas\.2\./) : { envelope_version: 2 }
  expect(row).toMatchObject({ email_index, nick: true, email })
})
create('is read back as it was written', ['insert', 'byId'], async ({ orm }) => {
  const user = userOf({ prefs: { theme: 'dark' } })
  await orm.insert(user)
  expect(plain(await orm.byId(user.id))).toEqual(user)
})
create('is read by the model alone, without the ORM', ['insert'], async ({ orm, sql, models }) => {
  const user = userOf()
  await orm.insert(user)
  const [row] = await sql`select id, email, nick, born, email_index, nick_index from users`
  expect(await models.users.decryptPartial(row as never)).toMatchObject({
    email: user.email,
    nick: 'nick',
    born: user.born,
  })
})
create('tells null and empty apart', ['insert', 'byId'], async ({ orm, sql }) => {
  const [none, empty] = [userOf({ nick: null, born: null }), userOf({ nick: '' })]
  await orm.insert(none)
  await orm.insert(empty)
  expect([(await orm.byId(none.id))?.nick, (await orm.byId(empty.id))?.nick]).toEqual([null, ''])
  expect(await sql`select count(*)::int as n from users where nick is null and nick_index is null`).toMatchObject([
    { n: 1 },
  ])
})
create('refuses a value of another type before the database is reached', ['insert'], async (scene) => {
  await refused(
    scene.orm.insert({ ...userOf(), email: 7 } as never),
    /^users, record 0, field "email": expected text, got number/,
  )
  expect(await stored(scene)).toBe('null')
})
create('stores what a field holds, also a quote and emoji', ['insert', 'byId'], async ({ orm }) => {
  const user = userOf({ nick: `O'Hara "\\ 😀 ${'x'.repeat(5_000)}` })
  await orm.insert(user)
  expect((await orm.byId(user.id))?.nick).toBe(user.nick)
})

const many = area('create many')
many('seals all rows, each bound to its own id', ['insertMany', 'all'], async ({ orm }) => {
  const users = Array.from({ length: 25 }, (_, at) => userOf({ nick: at % 2 ? null : `nick ${at}` }))
  await orm.insertMany(users)
  expect(sorted(await orm.all())).toEqual(sorted(users))
})
many('stores none where one value is wrong', ['insertMany'], async (scene) => {
  await refused(scene.orm.insertMany([userOf(), { ...userOf(), nick: 7 } as never]), /record 1, field "nick"/)
  expect(await stored(scene)).toBe('null')
})

many('tells null, absent and empty apart', ['insertMany', 'byId', 'withoutNick'], async ({ orm }) => {
  const users = [userOf({ nick: null }), userOf({ nick: '' }), userOf({ nick: 'ada' }), userOf()]
  const [, , , absent] = users
  await orm.insertMany(users.map((user) => (user === absent ? { ...user, nick: undefined as never } : user)))
  const nicks = await Promise.all(users.map(async ({ id }) => (await orm.byId(id))?.nick))
  expect(nicks).toEqual([null, '', 'ada', null])
  expect((await orm.withoutNick()).map(({ id }) => id).sort()).toEqual([users[0]?.id, absent?.id].sort())
})
many(
  'leaves out rows that are there, and seals the others',
  ['insertMany', 'insertIgnoring', 'all'],
  async ({ orm }) => {
    const [ada, bob] = [userOf({ nick: 'first' }), userOf()]
    await orm.insertMany([ada])
    await orm.insertIgnoring([{ ...ada, nick: 'second' }, bob])
    expect(sorted(await orm.all())).toEqual(sorted([ada, bob]))
  },
)
many('stores none where the database refuses one', ['insertMany', 'all'], async ({ orm }) => {
  const user = userOf({ email: 'ada@x.org' })
  await expect(orm.insertMany([user, userOf({ email: 'ADA@x.org' })])).rejects.toThrow()
  expect(await orm.all()).toEqual([])
})

const returning = area('`returning`')
returning('returns an inserted row opened', ['insertReturning'], async ({ orm }) => {
  const user = userOf()
  expect(plain(await orm.insertReturning?.(user))).toEqual(user)
})
returning('returns a changed row opened', ['insert', 'updateReturning'], async ({ orm }) => {
  const user = userOf()
  await orm.insert(user)
  expect(plain(await orm.updateReturning?.(user.id, { nick: 'new' }))).toEqual({ ...user, nick: 'new' })
})

const unread = {
  retryable: false,
  message: expect.stringMatching(/^the rows were written, but could not be decrypted: /),
}
returning(
  'is never called retryable once it has written and the service is down',
  ['insertMany', 'updateReturning', 'deleteReturning', 'transaction', 'byId', 'all'],
  async ({ orm, restarted }) => {
    const [ada, bob] = [userOf(), userOf()]
    await orm.insertMany([ada, bob])
    const cut = await restarted({ retries: 0, fetch: () => Promise.reject(new TypeError('fetch failed')) })
    const move = async (on: Orm, city: string) => void (await on.updateReturning?.(ada.id, { city }))
    const remove = async () => cut.deleteReturning?.(bob.id)
    for (const run of [() => move(cut, 'Paris'), () => cut.transaction((inner) => move(inner, 'Rome')), remove])
      expect(await failure(run())).toMatchObject({ ...unread, code: 'E_NETWORK' })
    expect(await failure(cut.byId(ada.id))).toMatchObject({ code: 'E_NETWORK', retryable: true })
    expect(sorted(await orm.all())).toEqual([{ ...ada, city: 'Paris' }])
  },
)
returning('tells a damaged field from a failed write', ['insert', 'updateReturning'], async ({ orm, sql }) => {
  const user = userOf()
  await orm.insert(user)
  await sql`update users set nick = email`
  const error = await failure(orm.updateReturning?.(user.id, { city: 'Oslo' }) as Promise<unknown>)
  expect(error).toMatchObject({ ...unread, code: 'E_DECRYPTION', place: { field: 'nick' } })
  expect(await sql`select city from users`).toMatchObject([{ city: 'Oslo' }])
})
returning('returns a deleted row opened', ['insert', 'deleteReturning', 'all'], async ({ orm }) => {
  const user = userOf()
  await orm.insert(user)
  expect(plain(await orm.deleteReturning?.(user.id))).toEqual(user)
  expect(await orm.all()).toEqual([])
})
returning(
  'opens a field without what it is bound to, and returns no more',
  ['insert', 'updateReturningNick'],
  async ({ orm }) => {
    const user = userOf()
    await orm.insert(user)
    expect(rowsIn(await orm.updateReturningNick?.(user.id, { nick: 'new' }))).toEqual([{ nick: 'new' }])
  },
)

const kinds = area('dates, numbers, booleans, bytes, JSON')
const SAMPLE = {
  data: new Uint8Array([0, 1, 127, 128, 255]),
  amount: -1234.5678,
  taken: new Date('1815-12-10T09:08:07.006Z'),
  good: true,
  tree: { name: "O'Hara", parts: ['a', ''], deep: { n: null } },
}
kinds('are stored encrypted, and read in the types of the model', ['insertSample', 'sampleById'], async (scene) => {
  const sample = sampleOf(SAMPLE)
  await scene.orm.insertSample(sample)
  const found = await scene.orm.sampleById(sample.id)
  expect({ ...found, data: Array.from(found?.data ?? []) }).toEqual({ ...sample, data: Array.from(SAMPLE.data) })
  expect(found?.taken).toBeInstanceOf(Date)
  expect(found?.data).toBeInstanceOf(Uint8Array)
  const [row] = await scene.sql`select json_agg(samples)::text as all from samples`
  expect(String(row?.all)).not.toMatch(/1234\.|1815-12|'Hara|: ?true/)
})
kinds('are null, zero, false and empty, each as itself', ['insertSample', 'sampleById'], async ({ orm }) => {
  const none = sampleOf()
  const empty = sampleOf({
    data: new Uint8Array(0),
    amount: 0,
    taken: new Date(0),
    good: false,
    tree: { name: '', parts: [] },
  })
  for (const sample of [none, empty]) {
    await orm.insertSample(sample)
    const found = await orm.sampleById(sample.id)
    expect({ ...found, data: found?.data && Array.from(found.data) }).toEqual({
      ...sample,
      data: sample.data && Array.from(sample.data),
    })
  }
})
kinds(
  'are changed one by one, and cleared by null',
  ['insertSample', 'updateSample', 'sampleById'],
  async ({ orm }) => {
    const sample = sampleOf(SAMPLE)
    await orm.insertSample(sample)
    await orm.updateSample(sample.id, { amount: 0, tree: { name: 'new', parts: [] }, taken: null })
    await orm.updateSample(sample.id, { data: null, good: undefined as never })
    expect(await orm.sampleById(sample.id)).toEqual({
      ...sample,
      amount: 0,
      tree: { name: 'new', parts: [] },
      taken: null,
      data: null,
    })
  },
)

const read = area('read some columns')
read('opens a field that is selected with what it is bound to', ['insert', 'nickOf'], async ({ orm }) => {
  const user = userOf({ nick: 'ada' })
  await orm.insert(user)
  expect(await orm.nickOf(user.id)).toEqual({ id: user.id, nick: 'ada' })
})
read(
  'opens one that is selected without it, and returns no more than was asked for',
  ['insert', 'insertPosts', 'update', 'nickAlone', 'nicksWithPosts'],
  async ({ orm }) => {
    const user = userOf({ nick: null })
    const post = postOf(user)
    await orm.insert(user)
    await orm.insertPosts([post])
    for (const nick of [null, 'ada']) {
      await orm.update(user.id, { nick })
      expect(valuesIn(await orm.nickAlone(user.id))).toEqual([nick])
      expect(valuesIn(await orm.nicksWithPosts())).toEqual([post.id, nick])
    }
  },
)
read('opens a field of a compact row by itself', ['insertLeadReturning', 'mailAlone'], async ({ orm }) => {
  const lead = leadOf()
  expect(rowsIn(await orm.insertLeadReturning(lead))).toEqual([{ mail: lead.mail }])
  expect(valuesIn(await orm.mailAlone(lead.id))).toEqual([lead.mail])
})
read('returns nothing for a row that is not there', ['byId', 'all'], async ({ orm }) => {
  expect(await orm.byId(randomUUID())).toBeUndefined()
  expect(await orm.all()).toEqual([])
})
read(
  'refuses a value that was moved from another row, and names the table and the row',
  ['insertMany', 'byId', 'all'],
  async ({ orm, sql }) => {
    const [ada, bob] = [userOf({ nick: 'ada' }), userOf({ nick: 'bob' })]
    await orm.insertMany([ada, bob])
    await sql`update users set nick = (select nick from users where id = ${bob.id}) where id = ${ada.id}`
    for (const call of [() => orm.byId(ada.id), () => orm.all()]) {
      const error = await failure(call())
      expect(error).toMatchObject({
        code: 'E_DECRYPTION',
        place: { model: 'users', field: 'nick', row: { id: ada.id } },
      })
      expect(error.message).toMatch(`users, id "${ada.id}", field "nick": could not decrypt`)
    }
    expect((await orm.byId(bob.id))?.nick).toBe('bob')
  },
)

export const insertAndReadCases: readonly Case[] = cases
