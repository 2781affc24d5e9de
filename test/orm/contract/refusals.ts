// What the database cannot do with encrypted columns is refused.
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import { userOf } from '../scene.js'
import { type Case, listCases, refused } from './cases.js'

const { cases, area } = listCases()

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
  refused(orm.afterEmail('a'), /users\.email is encrypted: the database cannot compare it by "(>|gt|MoreThan)"/),
)
refusals('a pattern', ['likeEmail'], ({ orm }) =>
  refused(orm.likeEmail('a%'), /users\.email is encrypted: the database cannot compare it by "(i?like|contains)"/i),
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
  refusals(title, ['raw'], ({ orm }) => refused(orm.raw(sql), /SQL as text that writes the table users, or names/))
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

export const refusalCases: readonly Case[] = cases
