// Prisma, as an application would use it: the contract's operations. `prisma/README.md` says how its client is generated.
import { PrismaPg } from '@prisma/adapter-pg'
import { encrypted } from '../../packages/sdk/src/prisma.js'
import { Prisma, PrismaClient } from './prisma/client.js'
import type { Models, Orm, Post, User } from './scene.js'

export async function connectPrisma(url: string, models: Models): Promise<Orm> {
  const db = connect(url, models)
  return { ...ormOf(db), close: () => db.$disconnect() }
}

function connect(url: string, models: Models) {
  const client = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 3 }) })
  return client.$extends(encrypted({ User: models.users, Post: models.posts }))
}

type Inner = Pick<ReturnType<typeof connect>, 'user' | 'post' | '$transaction'>

/** Prisma has a null of its own for JSON. */
function changesOf({ born, prefs, ...others }: Partial<User>) {
  return {
    ...others,
    ...(born === undefined ? {} : { born: born ?? Prisma.DbNull }),
    ...(prefs === undefined ? {} : { prefs: prefs === null ? Prisma.DbNull : { ...prefs } }),
  }
}

const rowOf = ({ born, prefs, ...others }: User) => ({ ...others, ...changesOf({ born, prefs }) })
const withoutUser = ({ user_id: _, ...post }: Post) => post

function ormOf(db: Inner): Omit<Orm, 'close'> {
  const find = (where: Prisma.UserWhereInput) => db.user.findMany({ where })
  return {
    insert: (user) => db.user.create({ data: rowOf(user) }),
    insertMany: (list) => db.user.createMany({ data: list.map(rowOf) }),
    insertReturning: (user) => db.user.create({ data: rowOf(user) }),
    insertWithPosts: (user, posts) =>
      db.user.create({ data: { ...rowOf(user), posts: { create: posts.map(withoutUser) } } }),
    insertPosts: (list) => db.post.createMany({ data: list }),
    all: () => db.user.findMany(),
    byId: async (id) => (await db.user.findUnique({ where: { id } })) ?? undefined,
    nickOf: async (id) => (await db.user.findUnique({ where: { id }, select: { id: true, nick: true } })) ?? undefined,
    nickAlone: (id) => db.user.findUnique({ where: { id }, select: { nick: true } }),
    byEmail: (email) => find({ email }),
    byNotEmail: (email) => find({ email: { not: email } }),
    byEmails: (emails) => find({ email: { in: emails } }),
    byCityAndEmail: (city, email) => find({ city, email }),
    byCityOrEmail: (city, email) => find({ OR: [{ city }, { email }] }),
    withoutNick: () => find({ nick: null }),
    countByEmail: (email) => db.user.count({ where: { email } }),
    update: (id, changes) => db.user.update({ where: { id }, data: changesOf(changes) }),
    updateReturning: (id, changes) => db.user.update({ where: { id }, data: changesOf(changes) }),
    updateByEmail: (email, changes) => db.user.updateMany({ where: { email }, data: changesOf(changes) }),
    updateByCity: (city, changes) => db.user.updateMany({ where: { city }, data: changesOf(changes) }),
    upsert: (user, changes) =>
      db.user.upsert({ where: { id: user.id }, create: rowOf(user), update: changesOf(changes) }),
    // The email stands for its index, which is unique.
    upsertByEmail: (user, changes) =>
      db.user.upsert({ where: { email: user.email } as never, create: rowOf(user), update: changesOf(changes) }),
    deleteByEmail: (email) => db.user.deleteMany({ where: { email } }),
    transaction: (run) => db.$transaction((inner) => run({ ...ormOf(inner as Inner), close: async () => undefined })),
    userWithPosts: async (id) => (await db.user.findUnique({ where: { id }, include: { posts: true } })) ?? undefined,
    postsWithUser: () => db.post.findMany({ include: { user: true } }),
    postsByUsersEmail: (email) => db.post.findMany({ where: { user: { email } } }),
    orderedByEmail: () => db.user.findMany({ orderBy: { email: 'desc' } }),
    groupedByEmail: () => db.user.groupBy({ by: ['email'], _count: true }),
    afterEmail: (email) => find({ email: { gt: email } }),
    likeEmail: (email) => find({ email: { contains: email } }),
    byBorn: (born) => find({ born: { equals: born } }),
  }
}
