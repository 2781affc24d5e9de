// Searches by the indexes of encrypted columns, and queries of columns that are not encrypted.
import { expect } from 'vitest'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import { type LogSearch, logOf, postOf, type Scene, type User, userOf } from '../scene.js'
import { type Case, listCases, plain, plainPost, sorted } from './cases.js'

const { cases, area } = listCases()

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

export const searchCases: readonly Case[] = cases
