// Upserts.
import { expect } from 'vitest'
import { leadOf, userOf } from '../scene.js'
import { type Case, listCases, plain, readLead, refused, sorted } from './cases.js'

const { cases, area } = listCases()

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
  await orm.upsertMany?.([{ ...ada, email: 'new@x.org', nick: 'new' }, bob], 'id')
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
upsert('by a unique index takes the later of two rows of one statement', ['upsertMany', 'all'], async ({ orm }) => {
  const user = userOf({ email: 'ada@x.org', nick: 'first' })
  await orm.upsertMany?.([user, { ...userOf({ email: 'ada@x.org' }), nick: 'second' }], 'email')
  expect((await orm.all()).map(({ nick }) => nick)).toEqual(['second'])
})
upsert(
  'of the same rows at once, in opposite orders, waits without a deadlock',
  ['upsertMany', 'all'],
  async ({ orm }) => {
    const users = Array.from({ length: 8 }, (_, at) => userOf({ email: `at${at}@x.org` }))
    await orm.upsertMany?.(users, 'email')
    const changes = Array.from({ length: 8 }, (_, at) => {
      const list = users.map((user) => ({ ...user, nick: `by ${at}` }))
      return orm.upsertMany?.(at % 2 === 0 ? list : list.reverse(), 'email')
    })
    await Promise.all(changes)
    const nicks = (await orm.all()).map(({ nick }) => nick)
    expect(nicks).toEqual(Array(8).fill(expect.stringMatching(/^by \d$/)))
    expect(new Set(nicks).size).toBe(1)
  },
)
upsert(
  'of several rows that fails stores none of them in a transaction that goes on',
  ['insert', 'upsertMany', 'update', 'transaction', 'all'],
  async ({ orm }) => {
    const kept = userOf()
    await orm.transaction(async (inner) => {
      await inner.insert(kept)
      const list = [userOf(), { ...userOf(), nick: 7 } as never]
      await refused(Promise.resolve(inner.upsertMany?.(list, 'email')), /expected text/)
      await inner.update(kept.id, { nick: 'on' })
    })
    expect((await orm.all()).map(plain)).toEqual([{ ...kept, nick: 'on' }])
  },
)
upsert('stores null with a null index', ['insert', 'upsert', 'byId'], async ({ orm, sql }) => {
  const user = userOf()
  await orm.insert(user)
  await orm.upsert(user, { nick: null })
  expect((await orm.byId(user.id))?.nick).toBeNull()
  expect((await sql`select nick_index from users`)[0]).toEqual({ nick_index: null })
})

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

export const upsertCases: readonly Case[] = cases
