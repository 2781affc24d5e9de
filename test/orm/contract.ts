// The contract of the adapters: the same cases for each ORM. `area` is a row of the table in the docs.
import { randomUUID } from 'node:crypto'
import { expect, vi } from 'vitest'
import { fromText } from '../../packages/sdk/src/index.js'
import { failure } from '../../packages/sdk/src/test-support/clients.js'
import {
  type Lead,
  type LogSearch,
  leadOf,
  logOf,
  type Orm,
  type Person,
  type Post,
  personOf,
  postOf,
  type Scene,
  sampleOf,
  type User,
  userOf,
} from './scene.js'

export interface Case {
  area: string
  title: string
  /** What the ORM must have. */
  needs: readonly (keyof Orm)[]
  run(scene: Scene): Promise<void>
}

const cases: Case[] = []

function area(name: string) {
  return (title: string, needs: readonly (keyof Orm)[], run: Case['run']) => {
    cases.push({ area: name, title, needs, run })
  }
}

/** What is read has the columns of indexes too. */
function plain(user: User | undefined): User | undefined {
  if (!user) return undefined
  const { id, email, nick, born, prefs = null, city } = user
  return { id, email, nick, born, prefs, city }
}

function plainPost({ id, user_id, title, likes }: Post): Post {
  return { id, user_id, title, likes }
}

/** The rows of a result, which is a row, a list of them, or what TypeORM returns of a write. */
function rowsIn(result: unknown): unknown[] {
  return [(result as { raw?: unknown } | null)?.raw ?? result].flat()
}

/** All values in rows, also in those that are nested. */
function valuesIn(result: unknown): unknown[] {
  if (typeof result !== 'object' || result === null) return [result]
  return Object.values(result).flatMap(valuesIn)
}

const byId = (one: { id: string }, other: { id: string }) => (one.id < other.id ? -1 : 1)
const sorted = (users: User[]) => users.map(plain).sort((a, b) => byId(a as User, b as User))

/** What a call returns, or `refused`, where it is refused as input. */
async function orRefused<T>(call: Promise<T>): Promise<T | 'refused'> {
  return call.catch((error: { code?: unknown }) => {
    expect(error.code).toBe('E_INVALID_INPUT')
    return 'refused'
  })
}

/** Everything that the two tables hold, as text. */
async function stored({ sql }: Scene): Promise<string> {
  const [row] =
    await sql`select (select json_agg(users) from users)::text || coalesce((select json_agg(posts) from posts)::text, '') as all`
  return String(row?.all)
}

async function refused(call: Promise<unknown>, message: RegExp): Promise<void> {
  const error = await failure(call)
  expect(error.code).toBe('E_INVALID_INPUT')
  expect(error.message).toMatch(message)
}

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

const update = area('update')
update(
  'changes one field, its index, and nothing else',
  ['insert', 'update', 'byId', 'byEmail'],
  async ({ orm, sql }) => {
    const user = userOf({ email: 'old@x.org' })
    await orm.insert(user)
    const [before] = await sql`select nick, born from users`
    await orm.update(user.id, { email: 'New@x.org' })
    expect(plain(await orm.byId(user.id))).toEqual({ ...user, email: 'New@x.org' })
    expect((await sql`select nick, born from users`)[0]).toEqual(before)
    expect([(await orm.byEmail('new@x.org')).length, (await orm.byEmail('old@x.org')).length]).toEqual([1, 0])
  },
)
update('changes a column that is not encrypted', ['insert', 'update', 'byId'], async ({ orm }) => {
  const user = userOf()
  await orm.insert(user)
  await orm.update(user.id, { city: 'Paris' })
  expect(plain(await orm.byId(user.id))).toEqual({ ...user, city: 'Paris' })
})
update(
  'stores null with a null index, and leaves undefined alone',
  ['insert', 'update', 'byId'],
  async ({ orm, sql }) => {
    const user = userOf({ nick: 'ada' })
    await orm.insert(user)
    await orm.update(user.id, { nick: null, email: undefined as never, city: 'Rome' })
    expect(plain(await orm.byId(user.id))).toEqual({ ...user, nick: null, city: 'Rome' })
    expect((await sql`select nick_index from users`)[0]).toEqual({ nick_index: null })
  },
)
update('clears an optional field by null', ['insert', 'update', 'byId'], async ({ orm }) => {
  const user = userOf({ prefs: { theme: 'dark' } })
  await orm.insert(user)
  await orm.update(user.id, { prefs: null })
  expect((await orm.byId(user.id))?.prefs).toBeNull()
})
update('finds the rows by an encrypted field', ['insertMany', 'updateByEmail', 'all'], async ({ orm }) => {
  const [ada, bob] = [userOf({ email: 'ada@x.org' }), userOf()]
  await orm.insertMany([ada, bob])
  await orm.updateByEmail(' ADA@x.org', { city: 'Turin' })
  expect(sorted(await orm.all())).toEqual(sorted([{ ...ada, city: 'Turin' }, bob]))
})
update(
  'changes what is not encrypted, or to null, in many rows',
  ['insertMany', 'updateByCity', 'all'],
  async ({ orm }) => {
    const users = [userOf(), userOf()]
    await orm.insertMany(users)
    await orm.updateByCity('London', { city: 'York', nick: null })
    expect(sorted(await orm.all())).toEqual(sorted(users.map((user) => ({ ...user, city: 'York', nick: null }))))
  },
)
update('seals a value for each of many rows by itself', ['insertMany', 'updateByCity', 'all'], async (scene) => {
  const users = [userOf(), userOf(), userOf({ city: 'Oslo' })]
  await scene.orm.insertMany(users)
  await scene.orm.updateByCity('London', { nick: 'all', city: 'Rome' })
  const changed = users.map((user) => (user.city === 'Oslo' ? user : { ...user, nick: 'all', city: 'Rome' }))
  expect(sorted(await scene.orm.all())).toEqual(sorted(changed))
  const [row] = await scene.sql`select count(distinct nick::text)::int as n from users`
  expect(row).toEqual({ n: 3 })
})
update('changes none of many rows where it fails for one', ['insertMany', 'updateByCity', 'all'], async ({ orm }) => {
  const users = [userOf(), userOf()]
  await orm.insertMany(users)
  await expect(orm.updateByCity('London', { email: 'same@x.org' })).rejects.toThrow()
  expect(sorted(await orm.all())).toEqual(sorted(users))
})
update(
  'of the same rows at once leaves each with a value of one',
  ['insertMany', 'updateByCity', 'all'],
  async ({ orm }) => {
    const users = Array.from({ length: 8 }, () => userOf())
    await orm.insertMany(users)
    const calls = ['one', 'other', 'third'].map((nick) => orm.updateByCity('London', { nick }))
    const done = (await Promise.allSettled(calls)).filter(({ status }) => status === 'fulfilled')
    expect(done.length).toBeGreaterThan(0)
    expect(new Set((await orm.all()).map(({ nick }) => nick)).size).toBe(1)
  },
)
update(
  'leaves a row that another transaction takes out of the condition meanwhile',
  ['insertMany', 'updateByCity', 'all'],
  async ({ orm, sql }) => {
    const [ada, bob, eve] = [userOf(), userOf(), userOf()]
    await orm.insertMany([ada, bob, eve])
    const isWaiting = async () => (await sql`select 1 from pg_locks where not granted`).length > 0
    const moved = await sql.begin(async (other) => {
      await other`update users set city = 'Paris' where id = ${bob.id}`
      const change = (async () => orm.updateByCity('London', { nick: 'all' }))() // some start when they are awaited
      await vi.waitUntil(isWaiting, { timeout: 20_000 })
      return { change }
    })
    await moved.change
    const changed = [
      { ...ada, nick: 'all' },
      { ...bob, city: 'Paris' },
      { ...eve, nick: 'all' },
    ]
    expect(sorted(await orm.all())).toEqual(sorted(changed))
  },
)
update(
  'of many rows sets each field with its index, beside what is not encrypted',
  ['insertMany', 'updateByCity', 'all'],
  async ({ orm, sql, models }) => {
    const users = Array.from({ length: 5 }, () => userOf())
    await orm.insertMany(users)
    const changes = { nick: `O'Hara "\\ 😀`, born: null, prefs: { theme: 'dark' } as const, city: "L'Aquila" }
    await orm.updateByCity('London', changes)
    expect(sorted(await orm.all())).toEqual(sorted(users.map((user) => ({ ...user, ...changes }))))
    const { nick_index } = await models.users.index({ nick: changes.nick })
    const [row] =
      await sql`select count(*)::int as n from users where nick_index = ${nick_index ?? ''} and born is null`
    expect(row).toEqual({ n: 5 })
  },
)
update('of many rows is one statement', ['insertMany', 'updateAtOnce'], async ({ orm, sql }) => {
  await orm.insertMany(Array.from({ length: 30 }, () => userOf()))
  await sql.unsafe(`
    create table if not exists statements (n integer);
    create or replace function note() returns trigger language plpgsql
      as $$ begin insert into statements values (1); return null; end $$;
    create or replace trigger note after update on users for each statement execute function note()`)
  await orm.updateAtOnce?.('London', { nick: 'all' })
  await sql`drop trigger note on users`
  expect(await sql`delete from statements returning n`).toHaveLength(1)
})
update('of no row changes nothing', ['insert', 'updateByCity', 'updateByEmail', 'all'], async ({ orm }) => {
  const user = userOf()
  await orm.insert(user)
  await orm.updateByCity('Nowhere', { nick: 'all' })
  await orm.updateByEmail('nobody@x.org', { nick: 'all' })
  expect((await orm.all()).map(plain)).toEqual([user])
})
update(
  'seals for the row that is found by an encrypted field, in a transaction too',
  ['insertMany', 'updateByEmail', 'transaction', 'byId'],
  async ({ orm }) => {
    const [ada, bob] = [userOf({ email: 'ada@x.org' }), userOf()]
    await orm.insertMany([ada, bob])
    await orm.updateByEmail('ADA@x.org', { nick: 'countess', email: 'countess@x.org' })
    expect(plain(await orm.byId(ada.id))).toEqual({ ...ada, nick: 'countess', email: 'countess@x.org' })
    const call = orm.transaction(async (inner) => {
      await inner.updateByEmail('countess@x.org', { nick: 'lost' })
      expect((await inner.byId(ada.id))?.nick).toBe('lost')
      throw new Error('changed my mind')
    })
    await expect(call).rejects.toThrow('changed my mind')
    expect((await orm.byId(ada.id))?.nick).toBe('countess')
  },
)
update(
  'refuses a text or a list where an encrypted field is inside of an object',
  ['insertPlace', 'updatePlace', 'placeById'],
  async ({ orm, sql }) => {
    const place = { id: randomUUID(), address: { street: 'Secret Lane', town: 'London' } }
    await orm.insertPlace(place)
    const { address } = place
    for (const other of [JSON.stringify(address), [address]]) {
      await refused(orm.updatePlace(place.id, other), /address must be an object, got (string|an array)/)
    }
    expect((await orm.placeById(place.id))?.address).toEqual(address)
    await orm.updatePlace(place.id, { ...address, street: 'Hidden Road' })
    expect(JSON.stringify(await sql`select * from places`)).not.toMatch(/Secret|Hidden/)
    expect((await orm.placeById(place.id))?.address).toEqual({ street: 'Hidden Road', town: 'London' })
  },
)
update(
  'leaves no index of an encrypted field inside of an object that is replaced',
  ['insertPlace', 'updatePlace', 'placeById'],
  async ({ orm, sql }) => {
    for (const address of [{ town: 'Paris' }, null]) {
      const place = { id: randomUUID(), address: { street: 'Secret Lane', town: 'London' } }
      await orm.insertPlace(place)
      await orm.updatePlace(place.id, address)
      expect((await orm.placeById(place.id))?.address).toEqual(address)
      expect([...(await sql`select street_index from places where id = ${place.id}`)]).toEqual([{ street_index: null }])
    }
  },
)
update('refuses to change what values are bound to', ['insert', 'update'], async ({ orm }) => {
  const user = userOf()
  await orm.insert(user)
  await refused(orm.update(user.id, { id: randomUUID() }), /users\.id must not change/)
})

update('seals a value for each of several ids', ['insertMany', 'updateByIds', 'all'], async ({ orm }) => {
  const [ada, bob, eve] = [userOf(), userOf(), userOf()]
  await orm.insertMany([ada, bob, eve])
  await orm.updateByIds([ada.id, bob.id, randomUUID()], { nick: 'some' })
  expect(sorted(await orm.all())).toEqual(sorted([{ ...ada, nick: 'some' }, { ...bob, nick: 'some' }, eve]))
})
update(
  'finds rows by another table, for what is not encrypted',
  ['insertMany', 'insertPosts', 'updateByLikes', 'all'],
  async ({ orm }) => {
    const [ada, bob] = [userOf(), userOf()]
    await orm.insertMany([ada, bob])
    await orm.insertPosts([postOf(ada, { likes: 7 }), postOf(bob, { likes: 1 })])
    await orm.updateByLikes(7, { city: 'Lima', nick: null })
    expect(sorted(await orm.all())).toEqual(sorted([{ ...ada, city: 'Lima', nick: null }, bob]))
  },
)
update(
  'seals a value for each row that another table finds',
  ['insertMany', 'insertPosts', 'updateByLikes', 'all'],
  async ({ orm }) => {
    const [ada, bob] = [userOf(), userOf()]
    await orm.insertMany([ada, bob])
    await orm.insertPosts([postOf(ada, { likes: 7 }), postOf(bob, { likes: 1 })])
    await orm.updateByLikes(7, { nick: 'some' })
    expect(sorted(await orm.all())).toEqual(sorted([{ ...ada, nick: 'some' }, bob]))
  },
)
update(
  'stores an empty text as one, which is not null',
  ['insert', 'update', 'byId', 'withoutNick'],
  async ({ orm }) => {
    const user = userOf({ nick: null })
    await orm.insert(user)
    await orm.update(user.id, { nick: '' })
    expect([(await orm.byId(user.id))?.nick, await orm.withoutNick()]).toEqual(['', []])
  },
)
update('never stores an index that is written by hand', ['insert', 'update', 'byEmail'], async ({ orm, models }) => {
  const user = userOf({ email: 'ada@x.org' })
  await orm.insert(user)
  const other = await models.users.index({ email: 'ben@x.org' })
  await orRefused(orm.update(user.id, { ...other, city: 'Rome' } as never))
  await orRefused(orm.update(user.id, { ...other, nick: 'new' } as never))
  await orRefused(orm.update(user.id, { email_index: null } as never))
  expect([(await orm.byEmail('ada@x.org')).length, await orm.byEmail('ben@x.org')]).toEqual([1, []])
})

const spelled = area('ids in another spelling')
spelled('are refused in a new row, or its row opens', ['insert', 'all'], async ({ orm }) => {
  const user = userOf()
  const outcome = await orRefused(orm.insert({ ...user, id: user.id.toUpperCase() }))
  expect((await orm.all()).map(plain)).toEqual(outcome === 'refused' ? [] : [user])
})
spelled('find a row, and open it', ['insert', 'byId'], async ({ orm }) => {
  const user = userOf()
  await orm.insert(user)
  expect(plain(await orm.byId(user.id.toUpperCase()))).toEqual(user)
})
spelled('are refused in an update, or its row opens', ['insert', 'update', 'byId'], async ({ orm }) => {
  const user = userOf({ nick: 'first' })
  await orm.insert(user)
  const outcome = await orRefused(orm.update(user.id.toUpperCase(), { nick: 'second' }))
  expect((await orm.byId(user.id))?.nick).toBe(outcome === 'refused' ? 'first' : 'second')
})
spelled('are refused in an upsert, or its row opens', ['insert', 'upsert', 'byId'], async ({ orm }) => {
  const user = userOf({ nick: 'first' })
  await orm.insert(user)
  const outcome = await orRefused(orm.upsert({ ...user, id: user.id.toUpperCase() }, { nick: 'second' }))
  expect((await orm.byId(user.id))?.nick).toBe(outcome === 'refused' ? 'first' : 'second')
})

const keyed = area('a key for each row')
const writePeople = async ({ orm, newKey }: Scene) => {
  const people = [personOf(await newKey(), { name: 'Ada' }), personOf(await newKey(), { name: 'Ben' })]
  for (const person of people) await orm.insertPerson(person)
  return people as [Person, Person]
}
const byName = (one: Person, other: Person) => (one.name < other.name ? -1 : 1)
keyed('seals each under its own, and opens all', ['insertPerson', 'people'], async (scene) => {
  const people = await writePeople(scene)
  expect((await scene.orm.people()).sort(byName)).toEqual(people)
  const rows = await scene.sql`select key_id, name from people`
  expect(rows.map(({ key_id, name }) => fromText(String(name)).key_id === key_id)).toEqual([true, true])
})
keyed('opens some columns with the one that tells the key', ['insertPerson', 'namesOfPeople'], async (scene) => {
  const people = await writePeople(scene)
  const names = people.map(({ id, key_id, name }) => ({ id, key_id, name }))
  expect((await scene.orm.namesOfPeople()).sort((one, other) => (one.name < other.name ? -1 : 1))).toEqual(names)
})
keyed('returns a changed row opened', ['insertPerson', 'updatePersonReturning'], async (scene) => {
  const [, ben] = await writePeople(scene)
  expect(await scene.orm.updatePersonReturning?.(ben.id, ben.key_id, { name: 'Benjamin' })).toEqual({
    ...ben,
    name: 'Benjamin',
  })
})
keyed('refuses a key that is computed', ['insertPerson', 'computePerson', 'people'], async (scene) => {
  const people = await writePeople(scene)
  await refused(scene.orm.computePerson(people[0].id, 'key_id'), /people\.key_id must not change/)
  expect((await scene.orm.people()).sort(byName)).toEqual(people)
})
keyed(
  'seals a change where the condition names the key',
  ['insertPerson', 'updatePersonOfKey', 'people'],
  async (scene) => {
    const [ada, ben] = await writePeople(scene)
    await scene.orm.updatePersonOfKey(ada.id, ada.key_id, { name: 'Countess' })
    expect((await scene.orm.people()).sort(byName)).toEqual([ben, { ...ada, name: 'Countess' }])
  },
)
keyed(
  'seals a change under the key of the row that it finds',
  ['insertPerson', 'updatePerson', 'people'],
  async (scene) => {
    const people = await writePeople(scene)
    await scene.orm.updatePerson(people[0].id, { name: 'Aden' })
    people[0].name = 'Aden'
    expect((await scene.orm.people()).sort(byName)).toEqual(people)
    await scene.orm.updatePerson(people[0].id, { city: 'Rome' })
    expect((await scene.orm.people()).sort(byName)).toEqual([{ ...people[0], city: 'Rome' }, people[1]])
  },
)
keyed(
  'refuses to give a row another key',
  ['insertPerson', 'updatePerson', 'updatePersonOfKey', 'people'],
  async (scene) => {
    const people = await writePeople(scene)
    const [{ id, key_id }, other] = people
    for (const given of [other.key_id, other.key_id.toUpperCase(), null]) {
      for (const more of [{}, { name: 'x' }]) {
        const changes = { key_id: given as string, ...more }
        await refused(scene.orm.updatePerson(id, changes), /people\.key_id must not change/)
        await refused(scene.orm.updatePersonOfKey(id, key_id, changes), /people\.key_id must not change/)
      }
    }
    await scene.orm.updatePersonOfKey(id, key_id, { key_id, name: 'Ada' })
    expect((await scene.orm.people()).sort(byName)).toEqual(people)
  },
)
keyed(
  'keeps the key of a row whose column is missing in the condition',
  ['insertPerson', 'updatePerson', 'computePerson', 'people'],
  async (scene) => {
    const [here, elsewhere] = [await scene.newKey(), await scene.newKey()]
    const orm = await scene.keyedBy(({ city }) => (city === 'London' ? here : elsewhere))
    const person = personOf(here)
    await orm.insertPerson(person)
    for (const changes of [{ city: 'Rome' }, { city: 'Rome', name: 'x' }]) {
      await refused(orm.updatePerson(person.id, changes), /people\.city must not change/)
    }
    await refused(orm.computePerson(person.id, 'city'), /people\.city must not change/)
    await orm.updatePerson(person.id, { name: 'Aden' })
    expect(await orm.people()).toEqual([{ ...person, name: 'Aden' }])
  },
)
keyed(
  'seals an upsert under the key of the row that it finds',
  ['insertPerson', 'upsertPerson', 'people'],
  async (scene) => {
    const people = await writePeople(scene)
    const [ada, ben] = people
    await scene.orm.upsertPerson({ ...ada, key_id: ben.key_id, name: 'Aden' })
    expect((await scene.orm.people()).sort(byName)).toEqual([{ ...ada, name: 'Aden' }, ben])
  },
)
keyed('does not open a row under the key of another', ['insertPerson', 'people'], async (scene) => {
  const [ada, ben] = await writePeople(scene)
  await scene.sql`update people set key_id = ${ben.key_id} where id = ${ada.id}`
  expect((await failure(scene.orm.people())).code).toBe('E_DECRYPTION')
})

const upsert = area('upsert')
upsert('inserts where there is no row', ['upsert', 'byId'], async ({ orm }) => {
  const user = userOf()
  await orm.upsert(user, { nick: 'changed' })
  expect(plain(await orm.byId(user.id))).toEqual(user)
})
upsert('changes the row that is there', ['upsert', 'byId'], async ({ orm }) => {
  const user = userOf()
  await orm.upsert(user, {})
  await orm.upsert(user, { nick: 'changed', city: 'Oslo' })
  expect(plain(await orm.byId(user.id))).toEqual({ ...user, nick: 'changed', city: 'Oslo' })
})
upsert('of many rows takes each row’s own values', ['insertMany', 'upsertMany', 'all', 'byEmail'], async ({ orm }) => {
  const [ada, bob] = [userOf({ email: 'ada@x.org' }), userOf()]
  await orm.insertMany([ada])
  await orm.upsertMany?.([{ ...ada, email: 'new@x.org', nick: 'new' }, bob])
  expect(sorted(await orm.all())).toEqual(sorted([{ ...ada, email: 'new@x.org', nick: 'new' }, bob]))
  expect(await orm.byEmail('new@x.org')).toHaveLength(1)
})
upsert('seals for the row of a unique index that is there', ['insert', 'upsertByEmail', 'all'], async ({ orm }) => {
  const [user, other] = [userOf({ email: 'ada@x.org', nick: 'first' }), userOf({ email: 'new@x.org' })]
  await orm.insert(user)
  await orm.upsertByEmail(userOf({ email: 'ADA@x.org' }), { nick: 'second' })
  await orm.upsertByEmail(other, { nick: 'second' })
  const all = (await orm.all()).map((one) => ({ id: one.id, nick: one.nick }))
  const inserted = all.find(({ id }) => id === other.id)
  expect(all).toHaveLength(2)
  expect(all.find(({ id }) => id === user.id)?.nick).toBe('second')
  expect(inserted).toBeDefined()
})
upsert('by a unique index makes one row of calls at once', ['upsertMade', 'made'], async ({ orm }) => {
  const all = await Promise.allSettled([1, 2, 3].map(() => orm.upsertMade('tickets', 'one', 'one')))
  expect(all.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThan(0)
  expect((await orm.made('tickets')).map(({ label }) => label)).toEqual(['one'])
})
upsert('stores null with a null index', ['insert', 'upsert', 'byId'], async ({ orm, sql }) => {
  const user = userOf()
  await orm.insert(user)
  await orm.upsert(user, { nick: null })
  expect((await orm.byId(user.id))?.nick).toBeNull()
  expect((await sql`select nick_index from users`)[0]).toEqual({ nick_index: null })
})

/** The lead as the models alone open it, and whether its index is the one of its fields. */
async function readLead({ sql, models }: Scene, table: 'leads' | 'pairs', { id }: Lead) {
  const [row] = await sql.unsafe(`select * from ${table} where id = $1`, [id])
  if (table === 'leads') return models.leads.decrypt(row as never)
  const { mail, note } = (await models.pairs.decrypt(row as never)) as unknown as Lead
  const made = note === null ? { pair_index: null } : await models.pairs.index({ mail, note })
  expect(row).toMatchObject(made)
  return { id, mail, note }
}
for (const [table, title, why] of [
  ['leads', 'a compact row', /note"?: a compact row is sealed as a whole/],
  ['pairs', 'an index of several fields', /note"?: the index "pair_index" needs it too/],
] as const) {
  upsert(`keeps ${title} whole, by a client with another DEK`, ['insertLead', 'upsertLead'], async (scene) => {
    const [old, others] = [leadOf({ note: 'precious' }), { mail: 'new@x.org', note: 'new' }]
    await scene.orm.insertLead(table, old)
    const later = await scene.restarted()
    for (const changes of [others, { ...others, note: null }]) {
      await later.upsertLead(table, { ...old, ...changes }, ['mail', 'note'])
      expect(await readLead(scene, table, old)).toMatchObject({ id: old.id, ...changes })
    }
  })
  upsert(`refuses a part of ${title}, and stores nothing`, ['insertLead', 'upsertLead'], async (scene) => {
    const old = leadOf({ note: 'precious' })
    await scene.orm.insertLead(table, old)
    const later = await scene.restarted()
    await refused(later.upsertLead(table, { ...old, mail: 'new@x.org', note: 'x' }, ['mail']), why)
    expect(await readLead(scene, table, old)).toMatchObject({ ...old })
  })
}

update('seals a compact row as a whole', ['insertLead', 'updateLead'], async (scene) => {
  const old = leadOf({ note: 'precious' })
  await scene.orm.insertLead('leads', old)
  const later = await scene.restarted()
  await refused(later.updateLead(old.id, { mail: 'new@x.org' }), /note"?: a compact row is sealed as a whole/)
  await orRefused(later.updateLead(old.id, { envelope: null })) // TypeORM leaves it as it is
  expect(await readLead(scene, 'leads', old)).toMatchObject({ ...old })
  for (const changes of [
    { mail: 'new@x.org', note: 'new' },
    { mail: 'last@x.org', note: null },
  ]) {
    await later.updateLead(old.id, changes)
    expect(await readLead(scene, 'leads', old)).toMatchObject(changes)
  }
})

const ids = area('ids that the database or the client makes')
const tablesOf = ['tickets', 'drafts', 'locals'] as const
for (const table of tablesOf) {
  ids(`seals new ${table} to them, and never stores one unsealed`, ['insertMade', 'made'], async ({ orm }) => {
    const made = await orm.insertMade(table, ['one', 'two', 'three'])
    expect(new Set(made.map(({ id }) => id)).size).toBe(3)
    expect(made.map(({ label }) => label)).toEqual(['one', 'two', 'three'])
    const [more] = await orm.insertMade(table, ['four'])
    const all = [...made, more].map((row) => ({ id: row?.id, label: row?.label }))
    const stored = (await orm.made(table)).map(({ id, label }) => ({ id, label }))
    expect(stored).toHaveLength(4)
    expect(stored).toEqual(expect.arrayContaining(all))
  })
  ids(`inserts or changes ${table} by another unique field`, ['upsertMade', 'made'], async ({ orm }) => {
    await orm.upsertMade(table, 'first', 'unused')
    const [before] = await orm.made(table)
    await orm.upsertMade(table, 'first', 'second')
    await orm.upsertMade(table, 'first', 'unused')
    const after = await orm.made(table)
    expect(after.map(({ label }) => label).sort()).toEqual(['first', 'second'])
    expect(after.find(({ label }) => label === 'second')?.id).toEqual(before?.id)
  })
}

const search = area('search by equality and `in`')
search('finds a value in any spelling that its index ignores', ['insertMany', 'byEmail'], async ({ orm }) => {
  const ada = userOf({ email: 'Ada@x.org' })
  await orm.insertMany([ada, userOf()])
  expect((await orm.byEmail(' ADA@X.ORG')).map(plain)).toEqual([ada])
  expect(await orm.byEmail('nobody@x.org')).toEqual([])
})
search('finds several values', ['insertMany', 'byEmails'], async ({ orm }) => {
  const users = ['a@x.org', 'b@x.org', 'c@x.org'].map((email) => userOf({ email }))
  await orm.insertMany(users)
  expect(sorted(await orm.byEmails(['A@x.org', 'c@x.org']))).toEqual(sorted([users[0], users[2]] as User[]))
})
search('finds nothing in an empty list', ['insert', 'byEmails'], async ({ orm }) => {
  await orm.insert(userOf())
  expect(await orm.byEmails([])).toEqual([])
})
search('finds all other values', ['insertMany', 'byNotEmail'], async ({ orm }) => {
  const users = [userOf({ email: 'a@x.org' }), userOf()]
  await orm.insertMany(users)
  expect((await orm.byNotEmail('A@x.org')).map(plain)).toEqual([users[1]])
})
search('together with other conditions', ['insertMany', 'byCityAndEmail', 'byCityOrEmail'], async ({ orm }) => {
  const [ada, bob] = [userOf({ email: 'a@x.org', city: 'Rome' }), userOf({ city: 'Oslo' })]
  await orm.insertMany([ada, bob])
  expect((await orm.byCityAndEmail('Rome', 'a@x.org')).map(plain)).toEqual([ada])
  expect(await orm.byCityAndEmail('Oslo', 'a@x.org')).toEqual([])
  expect(sorted(await orm.byCityOrEmail('Oslo', 'a@x.org'))).toEqual(sorted([ada, bob]))
})
search('finds rows without a value', ['insertMany', 'withoutNick'], async ({ orm }) => {
  const users = [userOf({ nick: null }), userOf({ nick: '' })]
  await orm.insertMany(users)
  expect((await orm.withoutNick()).map(plain)).toEqual([users[0]])
})
search('counts', ['insertMany', 'countByEmail'], async ({ orm }) => {
  await orm.insertMany([userOf({ email: 'a@x.org' }), userOf()])
  expect([await orm.countByEmail('A@x.org'), await orm.countByEmail('b@x.org')]).toEqual([1, 0])
})
search('deletes', ['insertMany', 'deleteByEmail', 'all'], async ({ orm }) => {
  const users = [userOf({ email: 'a@x.org' }), userOf()]
  await orm.insertMany(users)
  await orm.deleteByEmail('A@x.org')
  expect((await orm.all()).map(plain)).toEqual([users[1]])
})

search('by a subquery in a condition', ['insertMany', 'insertPosts', 'postsByInnerEmail'], async ({ orm }) => {
  const [ada, bob] = [userOf({ email: 'ada@x.org' }), userOf()]
  const posts = [postOf(ada), postOf(bob)]
  await orm.insertMany([ada, bob])
  await orm.insertPosts(posts)
  expect((await orm.postsByInnerEmail('Ada@x.org')).map(plainPost)).toEqual([posts[0]])
})
search('tells whether there is a row', ['insert', 'existsByEmail'], async ({ orm }) => {
  await orm.insert(userOf({ email: 'ada@x.org' }))
  expect([await orm.existsByEmail('ADA@x.org'), await orm.existsByEmail('ben@x.org')]).toEqual([true, false])
})

const approximate = area('search by parts and ranges')
const FAULTS = ['Pump blocked', 'pump leaks', 'Fan too loud', 'Fan blocked', 'Pumice in filter']
const writeLogs = async ({ orm }: Scene, count = FAULTS.length) => {
  const logs = Array.from({ length: count }, (_, at) =>
    logOf({
      fault: FAULTS[at % FAULTS.length] as string,
      due: new Date(Date.UTC(2026, 0, 5 + at * 10)),
      amount: at * 50,
    }),
  )
  await orm.insertLogs?.(logs.map((log, number) => ({ ...log, number })))
  return logs.map(({ id: _, ...log }) => log)
}
const needs = ['insertLogs', 'findLogs', 'countLogs'] as const
approximate('finds by the beginning of a text, and no others', needs, async (scene) => {
  const logs = await writeLogs(scene)
  expect(await scene.orm.findLogs?.({ starts: 'PUMP' })).toEqual([logs[0], logs[1]])
  expect(await scene.orm.findLogs?.({ starts: 'pum' })).toEqual([logs[0], logs[1], logs[4]])
})
approximate('finds by a part of a text', needs, async (scene) => {
  const logs = await writeLogs(scene)
  expect(await scene.orm.findLogs?.({ contains: 'block' })).toEqual([logs[0], logs[3]])
  expect(await scene.orm.findLogs?.({ contains: 'block', starts: 'fan' })).toEqual([logs[3]])
})
approximate('takes wildcards in a part for themselves, where they are escaped', needs, async ({ orm }) => {
  const faults = ['pump_1', 'pump%1', 'pump\\1', 'pumpx1']
  await orm.insertLogs?.(faults.map((fault, number) => ({ ...logOf({ fault }), number })))
  for (const part of ['pump_', 'pump%', 'pump\\']) {
    const found = await orm.findLogs?.({ starts: part, contains: part })
    expect(found?.map(({ fault }) => fault)).toEqual([`${part}1`])
  }
})
approximate('finds by a range of dates and of numbers, with its bounds', needs, async (scene) => {
  const logs = await writeLogs(scene)
  const due = [logs[1]?.due, logs[3]?.due] as [Date, Date]
  expect(await scene.orm.findLogs?.({ due })).toEqual([logs[1], logs[2]])
  expect(await scene.orm.findLogs?.({ amount: [50, 150] })).toEqual([logs[1], logs[2], logs[3]])
  expect(await scene.orm.findLogs?.({ amount: [50, 150], contains: 'blocked', due })).toEqual([])
})
approximate('goes by each of two lower bounds', needs, async (scene) => {
  const logs = await writeLogs(scene)
  const [early, late, end] = [logs[0]?.due, logs[2]?.due, logs[4]?.due] as [Date, Date, Date]
  expect(await scene.orm.findLogs?.({ due: [early, end], since: late })).toEqual([logs[2], logs[3]])
  expect(await scene.orm.findLogs?.({ due: [late, end], since: early })).toEqual([logs[2], logs[3]])
})
approximate('fills a page, and counts, by what is right alone', needs, async (scene) => {
  const logs = await writeLogs(scene, 300)
  const right = logs.filter(({ fault }) => fault.toLowerCase().startsWith('pump'))
  expect(await scene.orm.countLogs?.({ starts: 'pump' })).toBe(right.length)
  expect(await scene.orm.findLogs?.({ starts: 'pump' }, { take: 110 })).toEqual(right.slice(0, 110))
  expect(await scene.orm.findLogs?.({ starts: 'pump' }, { skip: 100, take: 30 })).toEqual(right.slice(100))
})
approximate('refuses what no index answers, and says which would', needs, async (scene) => {
  const error = await failure((async () => scene.orm.findLogs?.({ due: [new Date(0), undefined as never] }))())
  expect(error.message).toMatch(/due"?: a range has one lower and one upper bound/)
})

approximate('takes no object in place of a value for a part or a range', ['insertLogs', 'findLogs'], async (scene) => {
  const [log] = await writeLogs(scene)
  const sent: NonNullable<LogSearch['sent']>[] = [
    { fault: { startsWith: log?.fault } },
    { fault: { contains: log?.fault } },
    { amount: { gte: 0, lt: 1_000 } },
    { amount: { gt: -1, lte: 1_000 } },
    { due: { gte: new Date(0), lt: new Date(4e12) } },
    { fault: ['pump'] },
  ]
  for (const one of sent) {
    const error = await failure((async () => scene.orm.findLogs?.({ sent: one }))())
    expect(error.message).toMatch(/is encrypted: it (can only be equal to a value of its own type|has no index)/)
  }
})

const others = area('what is not encrypted')
others('is counted and summed', ['insertMany', 'insertPosts', 'countByCity', 'sumOfLikes'], async ({ orm }) => {
  const [ada, bob] = [userOf({ city: 'Rome' }), userOf({ city: 'Oslo' })]
  await orm.insertMany([ada, bob])
  await orm.insertPosts([postOf(ada, { likes: 2 }), postOf(bob, { likes: 5 })])
  expect([await orm.countByCity('Rome'), await orm.countByCity('Bonn'), await orm.sumOfLikes()]).toEqual([1, 0, 7])
})
others('is compared and sorted, beside opened fields', ['insert', 'insertPosts', 'postsAbove'], async ({ orm }) => {
  const user = userOf()
  const posts = [1, 9, 5].map((likes) => postOf(user, { likes, title: `Title ${likes}` }))
  await orm.insert(user)
  await orm.insertPosts(posts)
  expect((await orm.postsAbove(5)).map(plainPost)).toEqual([posts[1], posts[2]])
})
others('sorts the rows of a page', ['insertMany', 'pageByCity'], async ({ orm }) => {
  const users = ['D', 'B', 'A', 'C'].map((city) => userOf({ city, nick: `in ${city}` }))
  await orm.insertMany(users)
  expect((await orm.pageByCity(1, 2)).map(plain)).toEqual([users[1], users[3]])
})

const nested = area('nested writes')
nested('seals the rows of both tables', ['insertWithPosts', 'byId', 'postsByUsersEmail'], async (scene) => {
  const user = userOf({ email: 'a@x.org' })
  const posts = [postOf(user, { title: 'One secret' }), postOf(user, { title: 'Two secrets' })]
  await scene.orm.insertWithPosts?.(user, posts)
  expect(await stored(scene)).not.toMatch(/secret/)
  expect((await scene.orm.postsByUsersEmail('a@x.org')).map(plainPost).sort(byId)).toEqual(posts.sort(byId))
})

nested(
  'changes rows of both tables, each sealed for itself',
  ['insert', 'insertPosts', 'updateWithPosts', 'byId', 'postsAbove'],
  async ({ orm, sql }) => {
    const [user, other] = [userOf(), userOf()]
    const posts = [postOf(user, { likes: 5 }), postOf(user, { likes: 4 }), postOf(other, { likes: 3 })]
    for (const one of [user, other]) await orm.insert(one)
    await orm.insertPosts(posts)
    await orm.updateWithPosts?.(user.id, 'new', 'One title')
    expect((await orm.byId(user.id))?.nick).toBe('new')
    const changed = posts.map((post) => (post.user_id === user.id ? { ...post, title: 'One title' } : post))
    expect((await orm.postsAbove(0)).map(plainPost)).toEqual(changed)
    expect(await sql`select distinct title from posts`).toHaveLength(3)
  },
)

const relations = area('reads through relations')
const write = async ({ orm }: Scene) => {
  const [ada, bob] = [userOf({ email: 'ada@x.org', nick: 'ada' }), userOf({ nick: null })]
  const posts = [postOf(ada, { title: 'One' }), postOf(ada, { title: 'Two' })].sort(byId)
  await orm.insertMany([ada, bob])
  await orm.insertPosts(posts)
  return { ada, bob, posts }
}
relations('opens a row and the rows that belong to it', ['userWithPosts'], async (scene) => {
  const { ada, bob, posts } = await write(scene)
  const found = await scene.orm.userWithPosts?.(ada.id)
  expect(plain(found)).toEqual(ada)
  expect(found?.posts.map(plainPost).sort(byId)).toEqual(posts)
  expect((await scene.orm.userWithPosts?.(bob.id))?.posts).toEqual([])
})
relations('opens rows and the row to which they belong', ['postsWithUser'], async (scene) => {
  const { ada, posts } = await write(scene)
  const found = (await scene.orm.postsWithUser?.()) ?? []
  expect(found.map(plainPost).sort(byId)).toEqual(posts)
  expect(found.map(({ user }) => plain(user))).toEqual([ada, ada])
})
relations('opens both sides of an outer join', ['joined'], async (scene) => {
  const { ada, bob, posts } = await write(scene)
  const found = (await scene.orm.joined?.()) ?? []
  expect(found.map(({ user, post }) => [user.id, user.email, post?.title ?? null]).sort()).toEqual(
    [...posts.map(({ title }) => [ada.id, ada.email, title]), [bob.id, bob.email, null]].sort(),
  )
})
relations('searches by a field of another table', ['postsByUsersEmail'], async (scene) => {
  const { posts } = await write(scene)
  expect((await scene.orm.postsByUsersEmail('ADA@x.org')).map(plainPost).sort(byId)).toEqual(posts)
  expect(await scene.orm.postsByUsersEmail('bob@x.org')).toEqual([])
})

relations('opens rows two levels deep', ['postsWithUsersPosts'], async (scene) => {
  const { ada, posts } = await write(scene)
  const found = (await scene.orm.postsWithUsersPosts?.()) ?? []
  expect(found.map(plainPost).sort(byId)).toEqual(posts)
  for (const { user } of found) {
    expect(plain(user)).toEqual(ada)
    expect(user.posts.map(plainPost).sort(byId)).toEqual(posts)
  }
})
relations(
  'gives each of many reads at once its own rows',
  ['insertMany', 'byId', 'byEmail', 'nickOf'],
  async ({ orm }) => {
    const users = Array.from({ length: 12 }, (_, at) => userOf({ email: `${at}@x.org`, nick: `nick ${at}` }))
    await orm.insertMany(users)
    const found = await Promise.all(
      users.map(async ({ id, email }) => [
        plain(await orm.byId(id)),
        (await orm.byEmail(email)).map(plain),
        (await orm.nickOf(id))?.nick,
      ]),
    )
    expect(found).toEqual(users.map((user) => [user, [user], user.nick]))
  },
)

const transactions = area('transactions')
transactions('encrypts, and reads its own writes', ['transaction', 'byId'], async ({ orm }) => {
  const user = userOf({ nick: 'ada' })
  await orm.transaction(async (inner) => {
    await inner.insert(user)
    await inner.update(user.id, { nick: 'new' })
    expect((await inner.byId(user.id))?.nick).toBe('new')
  })
  expect(plain(await orm.byId(user.id))).toEqual({ ...user, nick: 'new' })
})
transactions('leaves nothing where it is rolled back, also by a refusal', ['transaction', 'all'], async ({ orm }) => {
  await refused(
    orm.transaction(async (inner) => {
      await inner.insert(userOf())
      await inner.insert({ ...userOf(), email: 7 } as never)
    }),
    /expected text/,
  )
  expect(await orm.all()).toEqual([])
})

transactions('leaves the rows as they were where it fails', ['insert', 'transaction', 'all'], async ({ orm }) => {
  const user = userOf()
  await orm.insert(user)
  const call = orm.transaction(async (inner) => {
    await inner.update(user.id, { nick: 'new' })
    await inner.insert(userOf())
    expect((await inner.byId(user.id))?.nick).toBe('new')
    throw new Error('changed my mind')
  })
  await expect(call).rejects.toThrow('changed my mind')
  expect((await orm.all()).map(plain)).toEqual([user])
})
transactions('run beside one another', ['transaction', 'all'], async ({ orm }) => {
  const users = [userOf({ nick: 'one' }), userOf({ nick: 'two' })]
  await Promise.all(users.map((user) => orm.transaction(async (inner) => void (await inner.insert(user)))))
  expect(sorted(await orm.all())).toEqual(sorted(users))
})

const refusals = area('refuses what the database cannot do')
refusals('to sort by an encrypted field', ['orderedByEmail'], ({ orm }) =>
  refused(orm.orderedByEmail(), /users\.email is encrypted: the database cannot sort or group by it/),
)
refusals('to group by one', ['groupedByEmail'], async ({ orm }) =>
  refused(
    Promise.resolve(orm.groupedByEmail?.()),
    /users\.email is encrypted: the database cannot sort or group by it/,
  ),
)
refusals('a range', ['afterEmail'], ({ orm }) =>
  refused(orm.afterEmail('a'), /users\.email is encrypted: the database cannot compare it by ">|gt|MoreThan"/),
)
refusals('a pattern', ['likeEmail'], ({ orm }) =>
  refused(
    orm.likeEmail('a%'),
    /users\.email is encrypted: the database cannot compare it by "(i?like|contains|startsWith)"/i,
  ),
)
refusals('a function of one', ['byLowerEmail'], async ({ orm }) =>
  refused(Promise.resolve(orm.byLowerEmail?.('a')), /users\.email is encrypted: it cannot be part of an expression/),
)
refusals('to search by one without an index', ['byBorn'], ({ orm }) =>
  refused(orm.byBorn(new Date(0)), /users\.born is encrypted: it has no index/),
)
refusals(
  'to search for null by equality, where that is not the same as being null',
  ['byNoEmail', 'withoutNick'],
  async ({ orm }) => {
    const outcome = await Promise.resolve(orm.byNoEmail?.()).then(
      (rows) => rows,
      (error: Error) => error.message,
    )
    if (typeof outcome === 'string') expect(outcome).toMatch(/null is equal to nothing/)
    else expect(outcome).toEqual([])
  },
)

for (const [title, sql] of [
  ['SQL as text that writes the table', "insert into users (id, email, city) values (gen_random_uuid(), 'x', 'y')"],
  ['SQL as text that searches by an encrypted field', "select id from users where email::text = 'x'"],
  ['SQL as text that selects all of the table', 'select * from users'],
  [
    'SQL as text that does so inside of a definition',
    "create rule r as on insert to posts do also update users set email = 'x'",
  ],
] as const) {
  refusals(title, ['raw'], ({ orm }) => refused(orm.raw(sql), /SQL as text that names the table users/))
}
refusals('to join by an encrypted field, and says to join by its index', ['insertMany', 'sameBy'], async ({ orm }) => {
  await orm.insertMany([userOf(), userOf()])
  const error = await failure((async () => orm.sameBy?.('email'))())
  expect(error.code).toBe('E_INVALID_INPUT')
  expect(error.hint).toMatch(/To join by it, compare the columns of its indexes/)
  expect(await orm.sameBy?.('email_index')).toHaveLength(2)
})
refusals(
  'in errors whose stack leads to the caller, with as many frames as Node keeps',
  ['insert', 'update', 'raw', 'orderedByEmail', 'likeEmail', 'byId', 'all', 'userWithPosts', 'countByEmail'],
  async ({ orm, sql }) => {
    const user = userOf()
    await orm.insert(user)
    const calls: (() => Promise<unknown> | undefined)[] = [
      () => orm.orderedByEmail(),
      () => orm.likeEmail('a%'),
      () => orm.raw('select * from users'),
      () => orm.insert({ ...userOf(), email: 7 } as never),
      () => orm.update(user.id, { id: randomUUID() }),
      () => orm.countByEmail(7 as never),
      () => orm.transaction(async (inner) => void (await inner.likeEmail('a%'))),
    ]
    await expectTraced(calls)
    await sql`update users set nick = email`
    await expectTraced([() => orm.byId(user.id), () => orm.all(), () => orm.userWithPosts?.(user.id)])
  },
)
async function expectTraced(calls: readonly (() => Promise<unknown> | undefined)[]): Promise<void> {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 10 // Node's own; test runners raise it
  try {
    for (const call of calls) {
      const application = async () => {
        await call()
      }
      expect((await failure(application())).stack).toContain('/test/orm/')
    }
  } finally {
    Error.stackTraceLimit = limit
  }
}
refusals('but no SQL as text that names nothing encrypted', ['insert', 'raw'], async ({ orm }) => {
  await orm.insert(userOf())
  expect(JSON.stringify(await orm.raw('select count(*)::int as n from users'))).toContain('"n":1')
})

const whole = area('rows that are sealed as a whole')
const notSealedSo = { code: 'E_DECRYPTION', place: { field: 'row_seal' } }
whole('are read back as they were written, and changed', ['insertVault', 'vaultById', 'updateVault'], async (scene) => {
  const { orm, sql, models } = scene
  const [vault, other] = [leadOf(), leadOf({ note: null })]
  for (const one of [vault, other]) {
    await orm.insertVault(one)
    expect(await orm.vaultById(one.id)).toMatchObject(one)
  }
  const changed = { ...vault, mail: 'countess@x.org', note: null }
  await orm.updateVault(vault.id, { mail: changed.mail, note: changed.note })
  expect(await orm.vaultById(vault.id)).toMatchObject(changed)
  const [row] = await sql`select * from vaults where id = ${vault.id}`
  expect(await models.vaults.decrypt(row as never)).toEqual(changed)
})
for (const [title, tamper] of [
  ['a cell that was set to null', ({ sql }, { id }) => sql`update vaults set note = null where id = ${id}`],
  ['an older cell', ({ sql }, { id, older }) => sql`update vaults set mail = ${sql.json(older)} where id = ${id}`],
  [
    'an index that was exchanged',
    ({ sql }, { id, other }) =>
      sql`update vaults set mail_index = (select mail_index from vaults where id = ${other}) where id = ${id}`,
  ],
  ['a seal that was taken away', ({ sql }, { id }) => sql`update vaults set row_seal = null where id = ${id}`],
] as [string, (scene: Scene, rows: { id: string; other: string; older: never }) => Promise<unknown>][]) {
  whole(`are refused with ${title}`, ['insertVault', 'vaultById', 'updateVault'], async (scene) => {
    const { orm, sql } = scene
    const [vault, other] = [leadOf(), leadOf({ mail: 'grace@x.org' })]
    await orm.insertVault(vault)
    await orm.insertVault(other)
    const [before] = await sql`select mail from vaults where id = ${vault.id}`
    await orm.updateVault(vault.id, { mail: 'countess@x.org', note: 'later' })
    await tamper(scene, { id: vault.id, other: other.id, older: before?.mail as never })
    expect(await failure(orm.vaultById(vault.id))).toMatchObject(notSealedSo)
    expect(await orm.vaultById(other.id)).toMatchObject(other)
  })
}
whole('refuse a change of some fields alone', ['insertVault', 'vaultById', 'updateVault'], async ({ orm }) => {
  const vault = leadOf()
  await orm.insertVault(vault)
  expect(await orRefused(orm.updateVault(vault.id, { mail: 'other@x.org' }))).toBe('refused')
  expect(await orm.vaultById(vault.id)).toMatchObject(vault)
})

export const CASES: readonly Case[] = cases
