// Prisma, as an application would use it: the contract's operations. `prisma/README.md` says how its client is generated.
import { randomUUID } from 'node:crypto'
import { PrismaPg } from '@prisma/adapter-pg'
import { encrypted } from '../../packages/prisma/src/index.js'
import { Prisma, PrismaClient } from './prisma/client.js'
import { expectRefused, NO_OR } from './refused.js'
import type { Lead, LogSearch, Models, Orm, Place, Post, Sample, User } from './scene.js'

export async function connectPrisma(url: string, models: Models): Promise<Orm> {
  const db = connect(url, models)
  return { ...ormOf(db), close: () => db.$disconnect() }
}

function connect(url: string, models: Models) {
  const client = new PrismaClient({
    adapter: new PrismaPg({ connectionString: url, max: 3 }),
    transactionOptions: { maxWait: 30_000, timeout: 30_000 }, // eight transactions share three connections
  })
  return client.$extends(
    encrypted({
      User: models.users,
      Post: models.posts,
      Sample: models.samples,
      Person: models.people,
      Lead: models.leads,
      Vault: models.vaults,
      Pair: models.pairs,
      Place: models.places,
      Ticket: models.tickets,
      Draft: models.drafts,
      Local: models.locals,
      Log: models.logs,
    }),
  )
}

type Inner = Pick<
  ReturnType<typeof connect>,
  | 'user'
  | 'post'
  | 'sample'
  | 'person'
  | 'lead'
  | 'pair'
  | 'vault'
  | 'place'
  | 'ticket'
  | 'draft'
  | 'local'
  | 'log'
  | '$transaction'
  | '$queryRawUnsafe'
>

/** Prisma has a null of its own for JSON. */
function changesOf({ born, prefs, ...others }: Partial<User>) {
  return {
    ...others,
    ...(born === undefined ? {} : { born: born ?? Prisma.DbNull }),
    ...(prefs === undefined ? {} : { prefs: prefs === null ? Prisma.DbNull : { ...prefs } }),
  }
}

const rowOf = ({ born, prefs, ...others }: User) => ({ ...others, ...changesOf({ born, prefs }) })
/** In Prisma's types a null of JSON is its own, and a `Buffer` is JSON while other bytes are not. */
function sampleOf({ data, amount, taken, good, tree }: Partial<Sample>) {
  return {
    ...(data === undefined ? {} : { data: data === null ? Prisma.DbNull : Buffer.from(data) }),
    ...(amount === undefined ? {} : { amount: amount ?? Prisma.DbNull }),
    ...(taken === undefined ? {} : { taken: taken ?? Prisma.DbNull }),
    ...(good === undefined ? {} : { good: good ?? Prisma.DbNull }),
    ...(tree === undefined ? {} : { tree: tree === null ? Prisma.DbNull : { ...tree } }),
  }
}

/** Prisma types JSON, of which these are values of the model. */
function whereOf({ starts, contains, due, since, amount, sent = {} }: LogSearch): Prisma.LogWhereInput {
  const fault = { startsWith: starts, contains }
  return {
    ...((starts ?? contains) ? { fault } : {}),
    ...(due ? { AND: [due[0], since ?? []].flat().map((gte) => ({ due: { gte, lt: due[1] } })) } : {}),
    ...(amount ? { amount: { gte: amount[0], lte: amount[1] } } : {}),
    ...Object.fromEntries(Object.entries(sent).map(([field, equals]) => [field, { equals }])),
  } as never
}

const leadOf = ({ note, ...lead }: Lead) => ({ ...lead, note: note ?? Prisma.DbNull })

const withoutUser = ({ user_id: _, ...post }: Post) => post

function ormOf(db: Inner): Omit<Orm, 'close'> {
  const find = (where: Prisma.UserWhereInput) => db.user.findMany({ where })
  return {
    insert: (user) => db.user.create({ data: rowOf(user) }),
    insertMany: (list) => db.user.createMany({ data: list.map(rowOf) }),
    insertReturning: (user) => db.user.create({ data: rowOf(user) }),
    insertWithPosts: (user, posts) =>
      db.user.create({ data: { ...rowOf(user), posts: { create: posts.map(withoutUser) } } }),
    updateWithPosts: (id, nick, title) =>
      db.user.update({ where: { id }, data: { nick, posts: { updateMany: { where: {}, data: { title } } } } }),
    insertPosts: (list) => db.post.createMany({ data: list }),
    insertIgnoring: (list) => db.user.createMany({ data: list.map(rowOf), skipDuplicates: true }),
    all: () => db.user.findMany(),
    byId: async (id) => (await db.user.findUnique({ where: { id } })) ?? undefined,
    nickOf: async (id) => (await db.user.findUnique({ where: { id }, select: { id: true, nick: true } })) ?? undefined,
    nickAlone: (id) => db.user.findUnique({ where: { id }, select: { nick: true } }),
    nicksWithPosts: () => db.post.findMany({ select: { id: true, user: { select: { nick: true } } } }),
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
    updateByIds: (ids, changes) => db.user.updateMany({ where: { id: { in: ids } }, data: changesOf(changes) }),
    updateByLikes: (likes, changes) =>
      db.user.updateMany({ where: { posts: { some: { likes } } }, data: changesOf(changes) }),
    updateReturningNick: (id, changes) =>
      db.user.update({ where: { id }, data: changesOf(changes), select: { nick: true } }),
    upsert: (user, changes) =>
      db.user.upsert({ where: { id: user.id }, create: rowOf(user), update: changesOf(changes) }),
    // The email stands for its index, which is unique.
    upsertByEmail: (user, changes) =>
      db.user.upsert({ where: { email: user.email } as never, create: rowOf(user), update: changesOf(changes) }),
    deleteByEmail: (email) => db.user.deleteMany({ where: { email } }),
    deleteReturning: (id) => db.user.delete({ where: { id } }),
    transaction: (run) => db.$transaction((inner) => run({ ...ormOf(inner as Inner), close: async () => undefined })),
    userWithPosts: async (id) => (await db.user.findUnique({ where: { id }, include: { posts: true } })) ?? undefined,
    postsWithUser: () => db.post.findMany({ include: { user: true } }),
    postsByUsersEmail: (email) => db.post.findMany({ where: { user: { email } } }),
    postsWithUsersPosts: () => db.post.findMany({ include: { user: { include: { posts: true } } } }),
    postsByInnerEmail: (email) => db.post.findMany({ where: { user: { is: { email } } } }),
    existsByEmail: async (email) => (await db.user.findFirst({ where: { email }, select: { id: true } })) !== null,
    countByCity: (city) => db.user.count({ where: { city } }),
    sumOfLikes: async () => (await db.post.aggregate({ _sum: { likes: true } }))._sum.likes ?? 0,
    postsAbove: (likes) => db.post.findMany({ where: { likes: { gte: likes } }, orderBy: { likes: 'desc' } }),
    pageByCity: (skip, take) => db.user.findMany({ orderBy: { city: 'asc' }, skip, take }),
    raw: (text) => db.$queryRawUnsafe(text),
    insertSample: (sample) => db.sample.create({ data: { id: sample.id, ...sampleOf(sample) } }),
    sampleById: async (id) => (await db.sample.findUnique({ where: { id } })) ?? undefined,
    updateSample: (id, changes) => db.sample.update({ where: { id }, data: sampleOf(changes) }),
    insertPerson: (person) => db.person.create({ data: person }),
    people: () => db.person.findMany(),
    updatePerson: (id, changes) => db.person.update({ where: { id }, data: changes }),
    updatePersonOfKey: (id, key_id, changes) => db.person.update({ where: { id, key_id }, data: changes }),
    namesOfPeople: () => db.person.findMany({ select: { id: true, key_id: true, name: true } }),
    updatePersonReturning: (id, key_id, changes) => db.person.update({ where: { id, key_id }, data: changes }),
    computePerson: (id, column) => db.person.update({ where: { id }, data: { [column]: { set: randomUUID() } } }),
    upsertPerson: (person) =>
      db.person.upsert({ where: { id: person.id }, create: person, update: { name: person.name } }),
    insertLead: (table, lead) =>
      table === 'leads' ? db.lead.create({ data: leadOf(lead) }) : db.pair.create({ data: leadOf(lead) }),
    insertLeadReturning: (lead) => db.lead.create({ data: leadOf(lead), select: { mail: true } }),
    mailAlone: (id) => db.lead.findUnique({ where: { id }, select: { mail: true } }),
    updateLead: (id, changes) => {
      const data = Object.entries(changes).map(([field, value]) => [field, value ?? Prisma.DbNull] as const)
      return db.lead.update({ where: { id }, data: Object.fromEntries(data) })
    },
    upsertLead: (table, lead, fields) => {
      const create = leadOf(lead)
      const args = {
        where: { id: lead.id },
        create,
        update: Object.fromEntries(fields.map((field) => [field, create[field]])),
      }
      return table === 'leads' ? db.lead.upsert(args) : db.pair.upsert(args)
    },
    insertVault: (vault) => db.vault.create({ data: leadOf(vault) }),
    vaultById: async (id) => ((await db.vault.findUnique({ where: { id } })) as Lead | null) ?? undefined,
    updateVault: (id, changes) => {
      const data = Object.entries(changes).map(([field, value]) => [field, value ?? Prisma.DbNull] as const)
      return db.vault.update({ where: { id }, data: Object.fromEntries(data) })
    },
    insertPlace: ({ id, address }) => db.place.create({ data: { id, address: address ?? Prisma.DbNull } }),
    placeById: async (id) => ((await db.place.findUnique({ where: { id } })) as Place | null) ?? undefined,
    updatePlace: (id, address) =>
      db.place.update({ where: { id }, data: { address: address === null ? Prisma.DbNull : (address as never) } }),
    insertMade: (table, labels) => {
      const data = labels.map((label) => ({ label }))
      if (table === 'tickets') return db.ticket.createManyAndReturn({ data })
      return table === 'drafts' ? db.draft.createManyAndReturn({ data }) : db.local.createManyAndReturn({ data })
    },
    made: (table) => {
      if (table === 'tickets') return db.ticket.findMany()
      return table === 'drafts' ? db.draft.findMany() : db.local.findMany()
    },
    upsertMade: (table, label, changed) => {
      const args = { where: { label } as never, create: { label }, update: { label: changed } }
      if (table === 'tickets') return db.ticket.upsert(args)
      return table === 'drafts' ? db.draft.upsert(args) : db.local.upsert(args)
    },
    insertLogs: (logs) => db.log.createMany({ data: logs as never }),
    findLogs: async (search, page) => {
      const select = { fault: true, due: true, amount: true }
      const found = await db.log.findMany({ where: whereOf(search), select, orderBy: { number: 'asc' }, ...page })
      return found as never
    },
    countLogs: async (search) => {
      const where = whereOf(search)
      await expectRefused(db.log.updateMany({ where, data: { number: 1 } }))
      await expectRefused(db.log.updateMany({ where, data: { fault: 'all' } }))
      await expectRefused(db.log.deleteMany({ where }))
      await expectRefused(db.log.findMany({ where: { OR: [where, { number: 1 }] } }), NO_OR)
      return db.log.count({ where })
    },
    orderedByEmail: () => db.user.findMany({ orderBy: { email: 'desc' } }),
    groupedByEmail: () => db.user.groupBy({ by: ['email'], _count: true }),
    afterEmail: (email) => find({ email: { gt: email } }),
    likeEmail: (email) => find({ email: { contains: email } }),
    byBorn: (born) => find({ born: { equals: born } }),
  }
}
