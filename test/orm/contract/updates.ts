// Updates, also of rows whose ids a condition spells otherwise.
import { randomUUID } from 'node:crypto'
import { expect, vi } from 'vitest'
import { leadOf, postOf, userOf } from '../scene.js'
import { type Case, listCases, orRefused, plain, readLead, refused, sorted } from './cases.js'

const { cases, area } = listCases()

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
  'of the same rows at once waits without a deadlock, and leaves each with a value of one',
  ['insertMany', 'updateByCity', 'all'],
  async ({ orm }) => {
    const users = Array.from({ length: 40 }, () => userOf())
    await orm.insertMany(users)
    for (const round of ['a', 'b', 'c']) {
      const nicks = Array.from({ length: 9 }, (_, at) => `${round}${at}`)
      await Promise.all(nicks.map((nick) => orm.updateByCity('London', { nick })))
      expect(new Set((await orm.all()).map(({ nick }) => nick)).size).toBe(1)
    }
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

export const updateCases: readonly Case[] = cases
