// What TypeORM's entities may be, how models are given to a data source, and what of either is refused.
import { randomUUID } from 'node:crypto'
import {
  BaseEntity,
  ChildEntity,
  Column,
  type DataSource,
  DeleteDateColumn,
  Entity,
  EntitySchema,
  ManyToOne,
  PrimaryGeneratedColumn,
  TableInheritance,
} from 'typeorm'
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, onTestFinished } from 'vitest'
import { bytes, createClient, date, json, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { encrypted } from '../../packages/typeorm/src/index.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { modelsOf, tables, userOf } from './scene.js'
import { posts, users } from './typeorm.js'
import { sourcesOn } from './typeorm-source.js'

const SECRET = 'ada@secret.example'
const ID = randomUUID()

const postgres = await openCreatedCluster(inject('runDir'))
const sent: string[] = []
const { open } = sourcesOn(postgres, sent)
const eaas = createClient(createTestService())
const { id: keyId } = await eaas.keys.create({ name: 'users' })
const models = modelsOf(eaas, keyId, 'full')

beforeAll(() => postgres.exec(tables('full')))
beforeEach(async () => {
  await postgres.exec('truncate users, posts')
  sent.length = 0
})
afterAll(() => postgres.close())

/** An entity of a class. The decorators are called as functions, since this repository compiles none. */
class Note extends BaseEntity {
  declare id: string
  declare body: string
  declare deletedAt: Date | null
  declare parent: Promise<Note | null>
}
Entity('notes')(Note)
PrimaryGeneratedColumn('uuid')(Note.prototype, 'id')
Column('text', { name: 'body_text' })(Note.prototype, 'body')
DeleteDateColumn({ type: 'timestamptz' })(Note.prototype, 'deletedAt')
ManyToOne(() => Note, { lazy: true, nullable: true })(Note.prototype, 'parent')

describe('values of columns of text', () => {
  interface Sample {
    id: string
    day: Date | null
    data: unknown
    file: Uint8Array
    version: number
  }
  it('are left alone where they are equal to those that are stored', async () => {
    const type = 'text'
    const samples = new EntitySchema<Sample>({
      name: 'Sample',
      tableName: 'text_samples',
      columns: {
        id: { type: 'uuid', primary: true },
        day: { type, nullable: true },
        data: { type },
        file: { type },
        version: { type: 'int', version: true },
      },
    })
    const fields = { day: date().nullable(), data: json(), file: bytes() }
    const model = eaas.model({ name: 'samples', keyId, bind: ['id'], format: 'text', fields })
    const own = encrypted(open([samples], { synchronize: true }), [[samples, model]])
    await own.initialize()
    onTestFinished(() => own.destroy())
    const repository = own.getRepository(samples)
    const load = () => repository.findOneByOrFail({ id: ID })
    await repository.save({ id: ID, day: new Date(0), data: { a: [1, null], b: 'x' }, file: new Uint8Array([1]) })
    sent.length = 0
    await repository.save(await load())
    await repository.save({ ...(await load()), data: { b: 'x', a: [1, null] } })
    expect((await load()).version).toBe(1)
    expect(sent.filter((one) => one.includes('UPDATE'))).toEqual([])
    for (const changes of [
      { day: new Date(1) },
      { data: { a: [1], b: 'x' } },
      { day: null },
      { data: { a: [1], c: 1 } },
    ]) {
      await repository.save({ ...(await load()), ...changes })
      expect(await load()).toMatchObject(changes)
    }
    await repository.save({ ...(await load()), data: { a: [1], b: undefined } })
    expect(await load()).toMatchObject({ version: 6, data: { a: [1] } })
  })
})

describe('an entity of a class', () => {
  let notes: DataSource
  beforeAll(async () => {
    const model = eaas.model({ name: 'notes', keyId, bind: ['id'], format: 'text', fields: { body: text() } })
    notes = encrypted(open([Note], { synchronize: true, cache: true }), [[Note, model]])
    await notes.initialize()
  })
  afterAll(() => notes.destroy())

  it('keeps its decorators, with lazy relations, soft deletes, ids that are made for it, and other names of columns', async () => {
    await notes.synchronize() // reads the tables that are there now
    const parent = await Note.create({ body: SECRET }).save()
    const child = Note.create({ body: SECRET })
    child.parent = Promise.resolve(parent)
    await child.save()
    const found = await Note.findOneByOrFail({ id: child.id })
    expect([found.body, (await found.parent)?.body]).toEqual([SECRET, SECRET])
    expect(await notes.createQueryBuilder().relation(Note, 'parent').of(found).loadOne()).toMatchObject({
      body: SECRET,
    })
    await notes.createQueryBuilder().relation(Note, 'parent').of(found).set(null)
    await found.softRemove()
    expect(await Note.findOneBy({ id: child.id })).toBeNull()
    await Note.getRepository().restore(child.id)
    expect(await Note.find({ select: { body: true } })).toMatchObject([{ body: SECRET }, { body: SECRET }])
    expect(sent.join()).not.toContain(SECRET)
    const remove = () => notes.createQueryBuilder().delete().from(Note).where({ id: child.id })
    expect((await remove().returning('body').execute()).raw).toEqual([{ body_text: SECRET }])
    const other = notes.createQueryBuilder().delete().from(Note).returning(['id', 'body'])
    expect((await other.execute()).raw).toEqual([{ id: expect.any(String), body_text: SECRET }])
  })
  it('is cached as it is stored', async () => {
    const { id } = await Note.create({ body: SECRET }).save()
    for (const _ of [1, 2]) expect((await Note.findOneOrFail({ where: { id }, cache: true })).body).toBe(SECRET)
    const { rows } = await postgres.query('select * from "query-result-cache"')
    expect([rows.length, JSON.stringify(rows).includes(SECRET)]).toEqual([1, false])
  })
})

describe('entities that share a table', () => {
  class Item {
    declare id: string
    declare title: string
  }
  class Book extends Item {
    declare pages: number
  }
  class Film extends Item {
    declare secret: string
  }
  Entity('items')(Item)
  TableInheritance({ column: { type: 'text', name: 'kind' } })(Item)
  PrimaryGeneratedColumn('uuid')(Item.prototype, 'id')
  Column('text')(Item.prototype, 'title')
  ChildEntity()(Book)
  Column('int', { nullable: true })(Book.prototype, 'pages')
  ChildEntity()(Film)
  Column('text', { nullable: true })(Film.prototype, 'secret')
  const of = (fields: Record<string, ReturnType<typeof text>>) =>
    eaas.model({ name: 'items', keyId, bind: ['id'], format: 'text', fields })
  const openItems = (entity: typeof Item, model: object) =>
    encrypted(open([Item, Book, Film], { synchronize: true }), [[entity, model as never]])

  it('encrypt what all of them have', async () => {
    const items = openItems(Item, of({ title: text() }))
    await items.initialize()
    await items.manager.save(Book, { title: SECRET, pages: 7 })
    await items.manager.save(Film, { title: SECRET, secret: 'plain' })
    expect((await items.manager.find(Item)).map(({ title }) => title)).toEqual([SECRET, SECRET])
    expect(await items.manager.findOneBy(Book, { pages: 7 })).toMatchObject({ title: SECRET })
    expect(sent.join()).not.toContain(SECRET)
    await items.destroy()
  })
  it('are refused where one of them lacks an encrypted column', async () => {
    await expect(openItems(Film, of({ title: text(), secret: text() })).initialize()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(/the entity (Item|Book) has no column "secret"/),
      hint: expect.stringContaining('share a table'),
    })
  })
})

describe('a model with a key for each row', () => {
  it('is told the whole row', async () => {
    const keyOf = (row: { city?: unknown }) => (row.city === 'London' ? keyId : 'none')
    const bound = { name: 'users', bind: ['id'], warn: false } as const
    const fields = { email: text({ index: 'email_index' }), nick: text({ index: 'nick_index' }).nullable() }
    const model = eaas.model({ ...bound, keyId: keyOf, index: { keyId }, fields })
    const own = encrypted(open([users, posts]), [[users, model]])
    await own.initialize()
    await own.manager.insert(users, userOf({ email: SECRET }) as never)
    expect(await own.manager.findBy(users, { city: 'London', email: SECRET })).toMatchObject([{ email: SECRET }])
    await own.destroy()
  })
})

describe('synchronize', () => {
  const openLegacy = (type: 'text' | 'jsonb', options: object = { synchronize: true }) => {
    const columns = {
      id: { type: 'uuid', primary: true },
      born: { type, name: 'born_at', nullable: true },
      city: { type: 'text', nullable: true },
    } as const
    const entity = new EntitySchema<{ id: string; born: Date | null; city: string | null }>({
      name: 'Legacy',
      tableName: 'legacy',
      columns,
    })
    const format = type === 'text' ? 'text' : 'full'
    const model = eaas.model({
      name: 'legacy',
      keyId,
      bind: ['id'],
      format,
      acceptPlaintext: true,
      fields: { born: date().nullable() },
    })
    return encrypted(open([entity], options), [[entity, model]])
  }
  const fill = () =>
    postgres.exec(`drop table if exists legacy; create table legacy (id uuid primary key, born_at timestamp, town text);
      insert into legacy values ('${ID}', '1990-01-02', 'Oslo')`)
  const born = async () => (await postgres.query('select born_at::text from legacy')).rows

  it.each(['text', 'jsonb'] as const)(
    'is refused where TypeORM would drop a column to encrypt, to make %s of it',
    async (type) => {
      await fill()
      const before = await born()
      await expect(openLegacy(type).initialize()).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message: 'synchronize would drop the column legacy.born_at with its values, and add it with another type',
        hint: expect.stringContaining('synchronize: false'),
      })
      expect(await born()).toEqual(before)
      const open = openLegacy(type, {})
      await open.initialize()
      await expect(open.synchronize()).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      expect(await born()).toEqual(before)
      await open.destroy()
    },
  )
  it('changes the other columns, makes the table, and drops all where it is told to', async () => {
    await fill()
    await postgres.exec("alter table legacy alter born_at type text using born_at || 'Z'")
    const before = await born()
    const open = openLegacy('text')
    await open.initialize()
    expect(await born()).toEqual(before)
    expect((await postgres.query('select city from legacy')).rows).toEqual([{ city: 'Oslo' }]) // TypeORM takes it for renamed
    await open.synchronize(true)
    expect(await born()).toEqual([])
    await open.destroy()
    await postgres.exec(tables('full'))
  })
})

describe('a data source', () => {
  interface Sealed {
    id: string
    title: string
  }
  const schema = (title: object, tableName = 'sealed') =>
    new EntitySchema<Sealed>({
      name: 'Sealed',
      tableName,
      columns: { id: { type: 'uuid', primary: true }, title: { type: 'text', ...title } },
    })
  const initialize = async (entity: EntitySchema<Sealed>, ...others: EntitySchema<Sealed>[]) => {
    const refused = encrypted(open([entity, ...others]), [[entity, models.posts]])
    return refused.initialize().finally(() => refused.isInitialized && refused.destroy())
  }

  it.each([
    ['a transformer', { transformer: { from: String, to: String } }],
    ['that the database fills', { default: 'none' }],
    ['that is not updated', { update: false }],
    ['that is not inserted', { insert: false }],
    ['of another type', { type: 'int' }],
    ['of another type', { array: true }],
  ])('is not initialized where an encrypted column is one %s', async (what, title) => {
    await expect(initialize(schema(title))).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringMatching(`the entity Sealed has a column "title" .*${what}`),
    })
  })
  it('is not initialized where an entity, or another one of its table, lacks a column', async () => {
    const columns = { id: { type: 'uuid', primary: true } as const }
    const other = new EntitySchema<Sealed>({ name: 'Other', tableName: 'sealed', columns } as never)
    await expect(initialize(other)).rejects.toThrow('the entity Other has no column "title"')
    await expect(initialize(schema({}), other)).rejects.toThrow('the entity Other has no column "title"')
  })
  it('is not initialized where values would be bound to what the database spells in its own way', async () => {
    const columns = { id: { type: 'timestamptz', primary: true } as const, title: { type: 'text' } as const }
    const timed = new EntitySchema<Sealed>({ name: 'Timed', columns } as never)
    await expect(initialize(timed)).rejects.toThrow('has a column "id" of a type whose values')
  })
  it('is not initialized where an encrypted column is in an embedded entity', async () => {
    class Name {
      declare title: string
    }
    class Book {
      declare id: string
      declare title: string
      declare name: Name
    }
    Column('text')(Name.prototype, 'title')
    Entity('books')(Book)
    PrimaryGeneratedColumn('uuid')(Book.prototype, 'id')
    Column(() => Name)(Book.prototype, 'name')
    const model = eaas.model({ name: 'books', keyId, bind: ['id'], format: 'text', fields: { 'name.title': text() } })
    const books = encrypted(open([Book as never]), [[Book, model as never]])
    await expect(books.initialize()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('the entity Book'),
    })
  })
  it('writes and reads on what its replicas are', async () => {
    const both = encrypted(open([users, posts], { replication: { master: {}, slaves: [{}] } }), [
      [users, models.users],
      [posts, models.posts],
    ])
    await both.initialize()
    const id = randomUUID()
    await both.manager.insert(users, userOf({ id, email: SECRET }) as never)
    expect(await both.manager.findOneBy(users, { id })).toMatchObject({ email: SECRET })
    expect(sent.join()).not.toContain(SECRET)
    await both.destroy()
  })
  it('takes its models once, before it is initialized, and is one of PostgreSQL', () => {
    const given = encrypted(open([]), [])
    expect(() => encrypted(given, [])).toThrow('has its models already')
    const initialized = Object.assign(open([]), { isInitialized: true })
    expect(() => encrypted(initialized, [])).toThrow('is initialized already')
    const other = Object.assign(open([]), { options: { type: 'mysql' } })
    expect(() => encrypted(other, [])).toThrow('a database of the type mysql')
  })
  it('of another version of TypeORM is left as it is, and refused for the same reason at the next try', () => {
    const own = open([users, posts])
    Object.assign(own.driver, { createQueryRunner: undefined })
    const before = [own, own.driver].flatMap((object) => Object.entries(Object.getOwnPropertyDescriptors(object)))
    for (const _ of [1, 2]) expect(() => encrypted(own, [])).toThrow('this version of TypeORM has no createQueryRunner')
    expect([own, own.driver].flatMap((object) => Object.entries(Object.getOwnPropertyDescriptors(object)))).toEqual(
      before,
    )
    Reflect.deleteProperty(own.driver, 'createQueryRunner')
    expect(encrypted(own, [])).toBe(own)
  })
  it('changes none of the rows that it finds where it cannot open what it returns, and says nothing else', async () => {
    const own = open([users, posts])
    await encrypted(own, [[users, models.users]]).initialize()
    onTestFinished(() => own.destroy())
    await own.manager.insert(users, userOf({ id: ID, email: SECRET }) as never)
    await postgres.exec('update users set nick = email')
    const update = own.createQueryBuilder().update(users).set({ city: 'Rome', email: 'new@x.org' })
    const message = expect.not.stringContaining('written')
    const call = update.where({ city: 'London' }).returning(['nick']).execute()
    await expect(call).rejects.toMatchObject({ code: 'E_DECRYPTION', message })
    expect((await postgres.query('select city from users')).rows).toEqual([{ city: 'London' }])
  })
  it('refuses a result that has no list of its rows, of which nothing would be decrypted', async () => {
    const own = open([users, posts])
    const create = own.driver.createQueryRunner.bind(own.driver)
    let hasRecords = true
    own.driver.createQueryRunner = (mode) => {
      const runner = create(mode)
      const query = runner.query.bind(runner) as (...args: unknown[]) => Promise<{ raw: unknown }>
      const answer = async (...args: unknown[]) => {
        const result = await query(...args)
        return hasRecords ? result : { raw: result.raw }
      }
      return Object.assign(runner, { query: answer })
    }
    await encrypted(own, [[users, models.users]]).initialize()
    onTestFinished(() => own.destroy())
    await own.manager.insert(users, userOf({ id: ID, email: SECRET }) as never)
    const update = () =>
      own
        .createQueryBuilder()
        .update(users)
        .set({ city: 'Rome' })
        .where({ id: ID })
        .returning(['id', 'email'])
        .execute()
    expect((await update()).raw).toEqual([{ id: ID, email: SECRET }])
    hasRecords = false
    await expect(update()).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: expect.stringContaining('no list of its rows'),
    })
  })
  it('compiles where the fields of a model have the types of the entity', () => {
    const numbers = new EntitySchema<{ id: string; title: number }>({ name: 'Numbers', columns: {} })
    // @ts-expect-error: the model's title is text
    encrypted(open([]), [[numbers, models.posts]])
    // @ts-expect-error: that is no model
    encrypted(open([]), [[posts, 7]])
    const places = eaas.model({ name: 'places', keyId, bind: ['id'], fields: { 'address.street': text() } })
    const of = <Address>() => new EntitySchema<{ id: string; address: Address }>({ name: 'Places', columns: {} })
    encrypted(open([]), [[of<{ street: string; city: string }>(), places]])
    // @ts-expect-error: the model's street is text
    encrypted(open([]), [[of<{ street: number; city: string }>(), places]])
  })
})
