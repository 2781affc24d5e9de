// Nested writes, reads through relations, and transactions.
import { expect } from 'vitest'
import { postOf, type Scene, userOf } from '../scene.js'
import { byId, type Case, listCases, plain, plainPost, refused, sorted, stored } from './cases.js'

const { cases, area } = listCases()

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

export const relationCases: readonly Case[] = cases
