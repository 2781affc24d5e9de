// TypeORM, as an application would use it: the contract's operations.
import {
  And,
  Between,
  DataSource,
  EntitySchema,
  Equal,
  ILike,
  In,
  IsNull,
  LessThan,
  Like,
  MoreThan,
  MoreThanOrEqual,
  Not,
} from 'typeorm'
import { encrypted } from '../../packages/typeorm/src/index.js'
import { expectRefused, NO_COUNT, NO_OR } from './refused.js'
import {
  inPattern,
  type Lead,
  type Log,
  type Models,
  type Orm,
  type Person,
  type Place,
  type Post,
  type Sample,
  type User,
} from './scene.js'

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

const nullable = true
export const samples = new EntitySchema<Sample>({
  name: 'Sample',
  tableName: 'samples',
  columns: {
    id: { type: 'uuid', primary: true },
    data: { type: 'jsonb', nullable },
    amount: { type: 'jsonb', nullable },
    taken: { type: 'jsonb', nullable },
    good: { type: 'jsonb', nullable },
    tree: { type: 'jsonb', nullable },
  },
})

export const people = new EntitySchema<Person>({
  name: 'Person',
  tableName: 'people',
  columns: {
    id: { type: 'uuid', primary: true },
    key_id: { type: 'uuid' },
    name: { type: 'text' },
    city: { type: 'text' },
  },
})

export const leads = new EntitySchema<Lead & { envelope?: null }>({
  name: 'Lead',
  tableName: 'leads',
  columns: {
    id: { type: 'uuid', primary: true },
    mail: { type: 'jsonb' },
    note: { type: 'jsonb', nullable },
    envelope: { type: 'jsonb', nullable },
  },
})

export const pairs = new EntitySchema<Lead & { pair_index?: string | null }>({
  name: 'Pair',
  tableName: 'pairs',
  columns: {
    id: { type: 'uuid', primary: true },
    mail: { type: 'jsonb' },
    note: { type: 'jsonb', nullable },
    pair_index: { type: 'text', nullable },
  },
})
const LEADS = { leads, pairs }

export const vaults = new EntitySchema<Lead & { mail_index?: string; row_seal?: null }>({
  name: 'Vault',
  tableName: 'vaults',
  columns: {
    id: { type: 'uuid', primary: true },
    mail: { type: 'jsonb' },
    mail_index: { type: 'text', nullable },
    note: { type: 'jsonb', nullable },
    row_seal: { type: 'jsonb', nullable },
  },
})

export const places = new EntitySchema<Place & { street_index?: string | null }>({
  name: 'Place',
  tableName: 'places',
  columns: {
    id: { type: 'uuid', primary: true },
    address: { type: 'jsonb', nullable },
    street_index: { type: 'text', nullable },
  },
})

interface MadeRow {
  id: string | number
  label: string
  label_index?: string | null
}
const labeled = { label: { type: 'text' }, label_index: { type: 'text', nullable, unique: true } } as const
export const tickets = new EntitySchema<MadeRow>({
  name: 'Ticket',
  tableName: 'tickets',
  columns: { id: { type: 'int', primary: true, generated: 'increment' }, ...labeled },
})
export const drafts = new EntitySchema<MadeRow>({
  name: 'Draft',
  tableName: 'drafts',
  columns: { id: { type: 'uuid', primary: true, default: () => 'gen_random_uuid()' }, ...labeled },
})
export const locals = new EntitySchema<MadeRow>({
  name: 'Local',
  tableName: 'locals',
  columns: { id: { type: 'text', primary: true, generated: 'uuid' }, ...labeled },
})
const MADE = { tickets, drafts, locals }

interface LogRow extends Log {
  fault_start?: string | null
  fault_parts?: string[] | null
  due_month?: string | null
  amount_step?: string | null
  number?: number
}
export const logs = new EntitySchema<LogRow>({
  name: 'Log',
  tableName: 'logs',
  columns: {
    id: { type: 'uuid', primary: true },
    fault: { type: 'jsonb' },
    fault_start: { type: 'text', nullable },
    fault_parts: { type: 'text', array: true, nullable },
    due: { type: 'jsonb' },
    due_month: { type: 'text', nullable },
    amount: { type: 'jsonb' },
    amount_step: { type: 'text', nullable },
    number: { type: 'int', nullable },
  },
})

export async function connectTypeorm(url: string, models: Models): Promise<Orm> {
  const entities = [users, posts, samples, people, leads, pairs, vaults, places, tickets, drafts, locals, logs]
  const source = new DataSource({ type: 'postgres', url, entities, poolSize: 3 })
  const db = encrypted(source, [
    [users, models.users],
    [posts, models.posts],
    [samples, models.samples],
    [people, models.people],
    [leads, models.leads],
    [vaults, models.vaults],
    [pairs, models.pairs],
    [places, models.places],
    [tickets, models.tickets],
    [drafts, models.drafts],
    [locals, models.locals],
    [logs, models.logs],
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
    async updateWithPosts(id, nick, title) {
      const user = await db.findOneOrFail(users, { where: { id }, relations: { posts: true } as never })
      const own = (user as unknown as { posts: Post[] }).posts.map((post) => ({ ...post, title }))
      return db.save(users, { ...user, nick, posts: own } as never)
    },
    insertPosts: (list) =>
      db.save(
        posts,
        list.map((post) => ({ ...post })),
      ),
    insertIgnoring: (list) =>
      db
        .createQueryBuilder()
        .insert()
        .into(users)
        .values(list.map((user) => ({ ...user })) as never)
        .orIgnore()
        .execute(),
    all: () => find({}),
    byId: async (id) => (await db.findOneBy(users, { id })) ?? undefined,
    nickOf: async (id) => (await db.findOne(users, { select: { id: true, nick: true }, where: { id } })) ?? undefined,
    nickAlone: (id) => db.createQueryBuilder(users, 'user').select('user.nick').where({ id }).getRawMany(),
    nicksWithPosts: () =>
      db
        .createQueryBuilder(posts, 'post')
        .innerJoin('post.user', 'author')
        .select('post.id')
        .addSelect('author.nick', 'name')
        .getRawMany(),
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
    updateAtOnce: (city, changes) => db.update(users, { city }, changes as never),
    updateByIds: (ids, changes) => db.update(users, { id: In(ids) }, changes as never),
    updateByLikes: (likes, changes) => {
      const found = db.createQueryBuilder().select('p.user_id').from(posts, 'p').where('p.likes = :likes', { likes })
      return db
        .createQueryBuilder()
        .update(users)
        .set(changes as never)
        .where(`id in (${found.getQuery()})`)
        .setParameters(found.getParameters())
        .execute()
    },
    updateReturningNick: (id, changes) =>
      db
        .createQueryBuilder()
        .update(users)
        .set(changes as never)
        .where({ id })
        .returning('nick')
        .execute(),
    upsert: async (user, changes) => {
      const found = await db.findOneBy(users, { id: user.id })
      return db.save(users, found ? { ...found, ...changes } : { ...user })
    },
    upsertMany: (list, by) => db.upsert(users, list.map((user) => ({ ...user })) as never, [by]),
    // By the index of the email, which is unique.
    upsertByEmail: (user, changes) => db.upsert(users, { ...user, ...changes } as never, ['email']),
    deleteByEmail: (email) => db.delete(users, { email }),
    deleteReturning: async (id) => {
      const { raw } = await db.createQueryBuilder().delete().from(users).where({ id }).returning('*').execute()
      return one(raw as User[])
    },
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
    sameBy: (column) =>
      db
        .createQueryBuilder(users, 'user')
        .innerJoin('User', 'same', `same.${column} = user.${column}`)
        .select('user.id')
        .addSelect('same.id', 'same')
        .getRawMany(),
    postsByUsersEmail: (email) => db.find(posts, { where: { user: { email } } }),
    postsWithUsersPosts: async () =>
      (await db.find(posts, { relations: { user: { posts: true } } })) as (Post & { user: User & { posts: Post[] } })[],
    postsByInnerEmail: (email) =>
      db
        .createQueryBuilder(posts, 'post')
        .where((qb) => {
          const found = qb.subQuery().select('u.id').from(users, 'u').where({ email })
          return `post.user_id in ${found.getQuery()}`
        })
        .getMany(),
    existsByEmail: (email) => db.existsBy(users, { email }),
    countByCity: (city) => db.countBy(users, { city }),
    sumOfLikes: async () => (await db.sum(posts, 'likes')) ?? 0,
    postsAbove: (likes) => db.find(posts, { where: { likes: MoreThanOrEqual(likes) }, order: { likes: 'DESC' } }),
    pageByCity: (skip, take) => db.find(users, { order: { city: 'ASC' }, skip, take }),
    raw: (text) => db.query(text),
    insertSample: (sample) => db.insert(samples, { ...sample } as never),
    sampleById: async (id) => (await db.findOneBy(samples, { id })) ?? undefined,
    updateSample: (id, changes) => db.update(samples, id, changes as never),
    insertPerson: (person) => db.save(people, { ...person }),
    people: () => db.find(people),
    updatePerson: (id, changes) => db.update(people, id, changes),
    updatePersonOfKey: (id, key_id, changes) => db.update(people, { id, key_id }, changes),
    namesOfPeople: async () => {
      const found = await db.find(people, { select: { id: true, key_id: true, name: true } })
      return found.map(({ id, key_id, name }) => ({ id, key_id, name }))
    },
    updatePersonReturning: async (id, key_id, changes) => {
      const update = db.createQueryBuilder().update(people).set(changes).where({ id, key_id })
      const { raw } = await update.returning('*').execute()
      return one(raw as Person[])
    },
    computePerson: (id, column) => db.update(people, id, { [column]: () => 'gen_random_uuid()' }),
    upsertPerson: (person) =>
      db
        .createQueryBuilder()
        .insert()
        .into(people)
        .values({ ...person })
        .orUpdate(['name'], ['id'])
        .execute(),
    insertLead: (table, lead) => db.insert(LEADS[table], { ...lead }),
    insertLeadReturning: (lead) =>
      db
        .createQueryBuilder()
        .insert()
        .into(leads)
        .values({ ...lead })
        .returning('mail')
        .execute(),
    mailAlone: (id) => db.createQueryBuilder(leads, 'lead').select('lead.mail').where({ id }).getRawMany(),
    updateLead: (id, changes) => db.update(leads, id, changes),
    upsertLead: (table, lead, fields) =>
      fields.length > 1
        ? db.upsert(LEADS[table], { ...lead }, ['id'])
        : db
            .createQueryBuilder()
            .insert()
            .into(LEADS[table])
            .values({ ...lead })
            .orUpdate([...fields], ['id'])
            .execute(),
    insertVault: (vault) => db.insert(vaults, { ...vault }),
    vaultById: async (id) => (await db.findOne(vaults, { where: { id } })) ?? undefined,
    updateVault: (id, changes) => db.update(vaults, id, changes),
    insertPlace: (place) => db.insert(places, { ...place }),
    placeById: async (id) => (await db.findOneBy(places, { id })) ?? undefined,
    updatePlace: (id, address) => db.update(places, id, { address: address as never }),
    insertMade: async (table, labels) => {
      const rows: MadeRow[] = labels.map((label) => ({ label }) as MadeRow)
      await db.insert(MADE[table], rows as never)
      return rows
    },
    made: (table) => db.find(MADE[table]),
    upsertMade: async (table, label, changed) => {
      const entity = MADE[table]
      const found = await db.findOneBy(entity, { label })
      if (found) return db.createQueryBuilder().update(entity).set({ label: changed }).where({ label }).execute()
      return db.upsert(entity, { label } as never, ['label_index'])
    },
    insertLogs: (list) => db.insert(logs, list.map((log) => ({ ...log })) as never),
    findLogs: async ({ starts, contains, due, since, amount, sent }, page = {}) => {
      const faults = [
        ...(starts === undefined ? [] : [{ fault: ILike(`${inPattern(starts)}%`) }]),
        ...(contains === undefined ? [] : [{ fault: Like(`%${inPattern(contains)}%`) }]),
      ]
      const query = db.createQueryBuilder(logs, 'log').select(['log.fault', 'log.due', 'log.amount'])
      for (const one of faults) query.andWhere(one)
      const lower = [due?.[0] ?? [], since ?? []].flat().map((one) => MoreThanOrEqual(one))
      if (due) query.andWhere({ due: And(...lower, LessThan(due[1])) })
      if (amount) query.andWhere({ amount: Between(...amount) })
      if (sent) query.andWhere(sent)
      const found = await query.orderBy('log.number').limit(page.take).offset(page.skip).getMany()
      return found.map(({ fault, due, amount }) => ({ fault, due, amount }))
    },
    // PostgreSQL counts before the rows are filtered, so that this is refused: the rows are counted.
    countLogs: async ({ starts }) => {
      const where = { fault: Like(`${starts}%`) }
      await expectRefused(db.countBy(logs, where), NO_COUNT)
      const beside = db.createQueryBuilder(logs, 'log').where(where).addSelect('count(*) over ()', 'n')
      await expectRefused(beside.getRawMany(), NO_COUNT)
      await expectRefused(db.findBy(logs, [where, { number: 1 }]), NO_OR)
      await expectRefused(db.findBy(logs, { fault: Not(Like(`${starts}%`)) }))
      await expectRefused(db.delete(logs, where))
      await expectRefused(db.update(logs, where, { number: 1 }))
      await expectRefused(db.update(logs, where, { fault: 'all' }))
      const [one] = await db.find(logs, { where, order: { number: 'ASC' }, take: 1, skip: 1 })
      if (one?.fault !== 'pump leaks') throw new Error('the page is not that of the rows that match')
      return (await db.findBy(logs, where)).length
    },
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
