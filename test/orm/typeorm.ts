// TypeORM, as an application would use it: the contract's operations.
import { DataSource, EntitySchema, Equal, In, IsNull, Like, MoreThan, Not } from 'typeorm'
import { encrypted } from '../../packages/sdk/src/typeorm.js'
import type { Models, Orm, Post, User } from './scene.js'

interface UserRow extends User {
  email_index?: string | null
  nick_index?: string | null
  posts?: PostRow[]
}

interface PostRow extends Post {
  user?: UserRow
}

export const users = new EntitySchema<UserRow>({
  name: 'User',
  tableName: 'users',
  columns: {
    id: { type: 'uuid', primary: true },
    email: { type: 'jsonb' },
    email_index: { type: 'text', nullable: true },
    nick: { type: 'jsonb', nullable: true },
    nick_index: { type: 'text', nullable: true },
    born: { type: 'jsonb', nullable: true },
    prefs: { type: 'jsonb', nullable: true },
    city: { type: 'text' },
  },
  relations: { posts: { type: 'one-to-many', target: 'Post', inverseSide: 'user', cascade: true } },
})

export const posts = new EntitySchema<PostRow>({
  name: 'Post',
  tableName: 'posts',
  columns: {
    id: { type: 'uuid', primary: true },
    user_id: { type: 'uuid' },
    title: { type: 'text' },
    likes: { type: 'int' },
  },
  relations: {
    user: { type: 'many-to-one', target: 'User', inverseSide: 'posts', joinColumn: { name: 'user_id' } },
  },
})

export async function connectTypeorm(url: string, models: Models): Promise<Orm> {
  const source = new DataSource({ type: 'postgres', url, entities: [users, posts], poolSize: 3 })
  const db = encrypted(source, [
    [users, models.users],
    [posts, models.posts],
  ])
  await db.initialize()
  return { ...ormOf(db.manager), close: () => db.destroy() }
}

type Manager = DataSource['manager']

function ormOf(db: Manager): Omit<Orm, 'close'> {
  const find = (where: object) => db.find(users, { where })
  return {
    insert: (user) => db.save(users, { ...user }),
    insertMany: (list) => db.insert(users, list.map((user) => ({ ...user })) as never),
    insertReturning: async (user) => {
      const { raw } = await db
        .createQueryBuilder()
        .insert()
        .into(users)
        .values({ ...user } as never)
        .returning('*')
        .execute()
      return one(raw as User[])
    },
    insertWithPosts: (user, list) => db.save(users, { ...user, posts: list.map((post) => ({ ...post })) }),
    insertPosts: (list) =>
      db.save(
        posts,
        list.map((post) => ({ ...post })),
      ),
    all: () => find({}),
    byId: async (id) => (await db.findOneBy(users, { id })) ?? undefined,
    nickOf: async (id) => (await db.findOne(users, { select: { id: true, nick: true }, where: { id } })) ?? undefined,
    nickAlone: (id) => db.createQueryBuilder(users, 'user').select('user.nick').where({ id }).getRawMany(),
    byEmail: (email) => find({ email }),
    byNotEmail: (email) => find({ email: Not(email) }),
    byEmails: (emails) => find({ email: In(emails) }),
    byCityAndEmail: (city, email) => find({ city, email }),
    byCityOrEmail: (city, email) => find([{ city }, { email }]),
    withoutNick: () => find({ nick: IsNull() }),
    countByEmail: (email) => db.countBy(users, { email }),
    update: (id, changes) => db.update(users, id, changes as never),
    updateReturning: async (id, changes) => {
      const update = db
        .createQueryBuilder()
        .update(users)
        .set(changes as never)
      const { raw } = await update.where({ id }).returning('*').execute()
      return one(raw as User[])
    },
    updateByEmail: (email, changes) => db.update(users, { email }, changes as never),
    updateByCity: (city, changes) => db.update(users, { city }, changes as never),
    upsert: async (user, changes) => {
      const found = await db.findOneBy(users, { id: user.id })
      return db.save(users, found ? { ...found, ...changes } : { ...user })
    },
    upsertMany: (list) => db.upsert(users, list.map((user) => ({ ...user })) as never, ['id']),
    // By the index of the email, which is unique.
    upsertByEmail: (user, changes) => db.upsert(users, { ...user, ...changes } as never, ['email_index']),
    deleteByEmail: (email) => db.delete(users, { email }),
    transaction: (run) => db.transaction((inner) => run({ ...ormOf(inner), close: async () => undefined })),
    userWithPosts: async (id) => {
      const found = await db.findOne(users, { where: { id }, relations: { posts: true } })
      return found ? { ...found, posts: found.posts ?? [] } : undefined
    },
    postsWithUser: async () => (await db.find(posts, { relations: { user: true } })) as (Post & { user: User })[],
    joined: async () => {
      const found = await db.createQueryBuilder(users, 'user').leftJoinAndSelect('user.posts', 'post').getMany()
      return found.flatMap(({ posts: own = [], ...user }) => {
        const all: (Post | null)[] = own.length > 0 ? own : [null]
        return all.map((post) => ({ user, post }))
      })
    },
    postsByUsersEmail: (email) => db.find(posts, { where: { user: { email } } }),
    byLowerEmail: (email) =>
      db.createQueryBuilder(users, 'user').where('lower(user.email) = :email', { email }).getMany(),
    orderedByEmail: () => db.find(users, { order: { email: 'DESC' } }),
    groupedByEmail: () =>
      db.createQueryBuilder(users, 'user').select('count(*)', 'n').groupBy('user.email').getRawMany(),
    afterEmail: (email) => find({ email: MoreThan(email) }),
    likeEmail: (email) => find({ email: Like(email) }),
    byBorn: (born) => find({ born: Equal(born) }),
    byNoEmail: () => find({ email: Equal(null) }),
  }
}

function one<T>(rows: readonly T[]): T {
  const [row] = rows
  if (!row) throw new Error('no row was returned')
  return row
}
