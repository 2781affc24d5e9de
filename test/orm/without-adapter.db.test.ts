// Sequelize with `examples/without-adapter/seal-tables.mjs`, and Knex with the functions of a model, on a real PostgreSQL: the pages run, what
// is stored is sealed, and each way to write plaintext is refused, by the methods or by the constraints of the database.
import { randomUUID } from 'node:crypto'
import knex from 'knex'
import postgres from 'postgres'
import { DataTypes, type Model, type ModelStatic, Op, Sequelize, type WhereOptions } from 'sequelize'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { sealTables } from '../../examples/without-adapter/seal-tables.mjs'
import { sealedChecks } from '../../packages/cli/src/backfill.js'
import { type Client, createClient, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { runPage } from '../examples/run-page.js'
import { backend, freshDatabase, isPooled } from '../support/database/database.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { readPage } from '../support/sources/snippets.js'

const SECRET = 'ada@secret.example'

// Their drivers need a PostgreSQL with a URL.
describe.runIf(backend() === 'postgres' && !isPooled())('without an adapter', () => {
  let url: string
  let sql: postgres.Sql
  let dir: GuardedDir
  let eaas: Client
  const makeModel = () =>
    eaas.model({
      name: 'customers',
      key: 'customers',
      bind: ['id'],
      format: 'text',
      warn: false,
      fields: { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), notes: text().nullable() },
    })
  const constrain = async () => {
    for (const { definition } of sealedChecks(makeModel(), { dialect: 'postgresql', table: 'customers' }))
      await sql.unsafe(`alter table customers add ${definition}`)
  }
  const stored = async () => JSON.stringify(await sql`select * from customers order by id`)
  const urlOfNew = async (name: string) => {
    const database = await freshDatabase(name)
    return database.backend === 'postgres' ? database.directUrl : ''
  }

  beforeAll(async () => {
    dir = guardedDir('eaas-test-without-adapter')
    eaas = createClient(createTestService())
    url = await urlOfNew('shop')
    sql = postgres(url, { max: 1, onnotice: () => undefined })
    await sql`create table customers (id uuid primary key, email text not null, email_index text unique, notes text, city text, visits int default 0)`
    await sql`create table orders (id uuid primary key, of uuid references customers, total int)`
    await constrain()
  })
  afterAll(async () => {
    eaas?.close()
    await sql?.end()
    await dir?.remove()
  })
  beforeEach(() => sql`truncate customers, orders`)

  it.each(['sequelize', 'knex'])('the program of the page on %s runs', async (name) => {
    vi.stubEnv('DATABASE_URL', await urlOfNew(name))
    await runPage(readPage(`packages/sdk/docs/${name}.md`), createTestService(), dir.path)
  })

  describe('Sequelize', () => {
    let sequelize: Sequelize
    /** The statements, with their parameters, since the last test. */
    const sent: string[] = []
    let Customers: ModelStatic<Model>
    let Orders: ModelStatic<Model>
    const ID = randomUUID()
    const ada = () => Customers.findByPk(ID, { rejectOnEmpty: true })

    beforeAll(() => {
      sequelize = new Sequelize(url, { logging: (text) => void sent.push(text), logQueryParameters: true })
      const id = { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4, primaryKey: true }
      const texts = Object.fromEntries(['email', 'email_index', 'notes', 'city'].map((name) => [name, DataTypes.TEXT]))
      const options = { timestamps: false }
      Customers = sequelize.define(
        'Customer',
        { id, ...texts, visits: DataTypes.INTEGER },
        { ...options, tableName: 'customers' },
      )
      Orders = sequelize.define(
        'Order',
        { id, of: DataTypes.UUID, total: DataTypes.INTEGER },
        { ...options, tableName: 'orders' },
      )
      Orders.belongsTo(Customers, { foreignKey: 'of', as: 'customer' })
      Customers.hasMany(Orders, { foreignKey: 'of', as: 'orders' })
      sealTables(sequelize, [[Customers, makeModel()]])
    })
    afterAll(() => sequelize?.close())
    afterEach(() => expect(sent.splice(0).filter((text) => /@/.test(text))).toEqual([]))
    beforeEach(async () => {
      await Customers.create({ id: ID, email: 'ada@example.org', notes: 'x', city: 'London' })
      await Customers.create({ email: 'grace@example.org', city: 'New York' })
    })

    it('seals each value in the store, and opens it', async () => {
      const [row] = await sql`select * from customers where id = ${ID}`
      expect(row).toMatchObject({
        email: expect.stringMatching(/^eaas\.2\./),
        notes: expect.stringMatching(/^eaas\.2\./),
      })
      expect(row).toMatchObject({ email_index: expect.stringMatching(/^[0-9a-f]{64}$/), city: 'London' })
      expect((await ada()).get()).toMatchObject({ email: 'ada@example.org', notes: 'x', city: 'London' })
    })

    it('searches by the index, wherever a condition is', async () => {
      const emails = async (where: WhereOptions) =>
        (await Customers.findAll({ where, attributes: ['email'], raw: true }))
          .map((row) => Reflect.get(row, 'email'))
          .sort()
      expect(await emails({ email: ' ADA@example.org' })).toEqual(['ada@example.org'])
      expect(await emails({ email: ['ada@example.org', 'grace@example.org', 'x'] })).toHaveLength(2)
      expect(await emails({ email: { [Op.in]: ['ada@example.org'] }, city: 'Paris' })).toEqual([])
      expect(await emails({ [Op.or]: [{ email: { [Op.eq]: 'ada@example.org' } }, { city: 'New York' }] })).toHaveLength(
        2,
      )
      expect(await emails({ [Op.not]: { email: 'ada@example.org' } })).toEqual(['grace@example.org'])
      expect(await emails({ notes: null })).toEqual(['grace@example.org'])
      expect(await Customers.count({ where: { email: 'ada@example.org' } })).toBe(1)
      expect((await Customers.findAndCountAll({ where: { email: 'ada@example.org' } })).count).toBe(1)
      const [found, isNew] = await Customers.findOrCreate({
        where: { email: 'ada@example.org' },
        defaults: { city: 'x' },
      })
      expect([found.get('id'), isNew]).toEqual([ID, false])
    })

    it('refuses a second row with the same index, and keeps the plaintext of the object to try again', async () => {
      const second = Customers.build({ email: 'ADA@example.org', city: 'x' })
      await expect(second.save()).rejects.toMatchObject({ name: 'SequelizeUniqueConstraintError' })
      expect(second.get('email')).toBe('ADA@example.org')
      await second.set({ email: 'other@example.org' }).save()
      expect((await second.reload()).get('email')).toBe('other@example.org')
    })

    it('joins what is not encrypted, and opens rows of an encrypted table that are read separately', async () => {
      await Orders.create({ of: ID, total: 7 })
      const found = await Customers.findOne({ where: { email: 'ada@example.org' }, include: 'orders' })
      expect(found?.toJSON()).toMatchObject({ email: 'ada@example.org', orders: [{ total: 7 }] })
      const order = await Orders.findOne({ rejectOnEmpty: true })
      expect((await (order as never as { getCustomer(): Promise<Model> }).getCustomer()).get('email')).toBe(
        'ada@example.org',
      )
    })

    const SEALED: [string, () => Promise<unknown>][] = [
      ['create', () => Customers.create({ email: SECRET })],
      ['create without hooks', () => Customers.create({ email: SECRET }, { hooks: false })],
      ['save', async () => (await ada()).set({ email: SECRET }).save()],
      ['update of an instance without hooks', async () => (await ada()).update({ email: SECRET }, { hooks: false })],
      ['bulkCreate', () => Customers.bulkCreate([{ email: SECRET }, { email: `2${SECRET}` }])],
      ['bulkCreate with individualHooks', () => Customers.bulkCreate([{ email: SECRET }], { individualHooks: true })],
      ['bulkCreate with ignoreDuplicates', () => Customers.bulkCreate([{ email: SECRET }], { ignoreDuplicates: true })],
      ['findOrCreate', () => Customers.findOrCreate({ where: { email: SECRET }, defaults: { city: 'x' } })],
      ['findCreateFind', () => Customers.findCreateFind({ where: { email: SECRET } })],
      ['create with its rows', () => Orders.create({ total: 1, customer: { email: SECRET } }, { include: 'customer' })],
      [
        'the query interface',
        () => sequelize.getQueryInterface().bulkInsert('customers', [{ id: randomUUID(), email: SECRET }]),
      ],
    ]
    it.each(SEALED)('seals what is written by %s', async (_, write) => {
      const written = await write()
      expect(JSON.stringify(written)).not.toContain('eaas.2.')
      expect(await stored()).not.toContain('secret')
      expect((await Customers.findOne({ where: { email: SECRET } }))?.get('email')).toBe(SECRET)
    })

    const REFUSED: [string, () => Promise<unknown>][] = [
      ['upsert', () => Customers.upsert({ id: ID, email: SECRET })],
      ['upsert without hooks', () => Customers.upsert({ id: ID, email: SECRET }, { hooks: false })],
      [
        'bulkCreate with updateOnDuplicate',
        () => Customers.bulkCreate([{ id: ID, email: SECRET }], { updateOnDuplicate: ['email'] }),
      ],
      ['Model.update', () => Customers.update({ email: SECRET }, { where: { id: ID } })],
      [
        'Model.update without hooks',
        () => Customers.update({ notes: SECRET }, { where: { city: 'London' }, hooks: false }),
      ],
      [
        'Model.update with individualHooks',
        () => Customers.update({ notes: SECRET }, { where: { id: ID }, individualHooks: true }),
      ],
      ['Model.update of the id', () => Customers.update({ id: randomUUID() }, { where: { id: ID } })],
      ['Model.update with returning', () => Customers.update({ city: 'x' }, { where: { id: ID }, returning: true })],
      ['SQL as a value', () => Customers.create({ email: sequelize.literal(`'${SECRET}'`) as never })],
      [
        'SQL as a value of an update',
        async () => (await ada()).update({ notes: sequelize.fn('lower', SECRET) as never }),
      ],
      ['increment', () => Customers.increment('notes', { where: { id: ID } })],
      ['decrement of an instance', async () => (await ada()).decrement('email_index')],
      ['an update of the index alone', async () => (await ada()).update({ email_index: SECRET })],
      ['a row without an id', () => Customers.create({ id: null as never, email: SECRET })],
      ['another operator', () => Customers.findAll({ where: { email: { [Op.like]: 'ada%' } } })],
      ['two operators', () => Customers.findAll({ where: { email: { [Op.eq]: 'a', [Op.ne]: 'b' } } })],
      ['a field without an index', () => Customers.findAll({ where: { notes: 'x' } })],
      ['a condition through an association', () => Customers.findAll({ where: { '$customer.email$': SECRET } })],
      ['a condition in SQL', () => Customers.findAll({ where: sequelize.literal('email is not null') })],
      [
        'a function in a condition',
        () => Customers.findAll({ where: sequelize.where(sequelize.fn('lower', sequelize.col('email')), 'x') }),
      ],
      ['destroy by another operator', () => Customers.destroy({ where: { email: { [Op.ne]: SECRET } } })],
      ['order', () => Customers.findAll({ order: [['email', 'DESC']] })],
      ['order in SQL', () => Customers.findAll({ order: sequelize.literal('lower(email)') })],
      ['group', () => Customers.findAll({ attributes: ['email'], group: 'email' })],
      [
        'a function of a column',
        () => Customers.findAll({ attributes: [[sequelize.fn('upper', sequelize.col('email')), 'e']] }),
      ],
      ['another name of a column', () => Customers.findAll({ attributes: [['email', 'e']] })],
      ['max', () => Customers.max('email')],
      ['count of a column', () => Customers.count({ distinct: true, col: 'email' })],
      ['include', () => Orders.findAll({ include: 'customer' })],
      ['count with include', () => Orders.count({ include: 'customer' })],
    ]
    it.each(REFUSED)('refuses %s, before the database sees it', async (_, run) => {
      const before = await stored()
      expect(await run().catch((error: unknown) => error)).toMatchObject({ code: 'E_INVALID_INPUT' })
      expect(await stored()).toBe(before)
    })

    const FORGOTTEN: [string, (of: ModelStatic<Model>) => Promise<unknown>][] = [
      ['create', (of) => of.create({ email: SECRET })],
      ['upsert', (of) => of.upsert({ id: ID, email: SECRET })],
      ['bulkCreate', (of) => of.bulkCreate([{ email: SECRET }])],
      ['updateOnDuplicate', (of) => of.bulkCreate([{ id: ID, email: SECRET }], { updateOnDuplicate: ['email'] })],
      ['Model.update', (of) => of.update({ notes: SECRET }, { where: { id: ID } })],
      [
        'update of an instance',
        async (of) => (await of.findByPk(ID, { rejectOnEmpty: true })).update({ email: SECRET }),
      ],
      ['query', (of) => of.sequelize?.query(`update customers set notes = '${SECRET}'`) ?? Promise.resolve()],
    ]
    it.each(FORGOTTEN)('leaves plaintext by %s to the constraints, where it was not called', async (_, write) => {
      const other = new Sequelize(url, { logging: false })
      const attributes = { id: Customers.getAttributes().id, email: DataTypes.TEXT, notes: DataTypes.TEXT }
      try {
        const written = write(
          other.define('Customer', attributes as never, { timestamps: false, tableName: 'customers' }),
        )
        await expect(written).rejects.toMatchObject({ original: { code: '23514' } })
      } finally {
        await other.close()
      }
      expect(await stored()).not.toContain('secret')
    })

    it('leaves alone what no encrypted column is in', async () => {
      expect(await Customers.update({ city: 'Paris' }, { where: { email: 'ada@example.org' } })).toEqual([1])
      await Customers.increment('visits', { where: { email: 'ada@example.org' } })
      await (await ada()).increment({ visits: 2 })
      expect((await ada()).get()).toMatchObject({ city: 'Paris', visits: 3, email: 'ada@example.org' })
      const order = await Customers.findAll({
        attributes: ['city', [sequelize.fn('count', sequelize.col('id')), 'n']],
        group: 'city',
        order: ['city'],
        raw: true,
      })
      expect(order).toEqual([
        { city: 'New York', n: '1' },
        { city: 'Paris', n: '1' },
      ])
      expect(await Customers.destroy({ where: { email: ['ada@example.org'] } })).toBe(1)
      await (await Customers.findOne({ rejectOnEmpty: true })).destroy()
      expect(await stored()).toBe('[]')
      await Orders.upsert({ id: ID, total: 1 })
    })

    it('replaces every method that has to do with rows, but for the one that deletes by the id', () => {
      const queries = sequelize.getQueryInterface()
      const names = Object.getOwnPropertyNames(Object.getPrototypeOf(Object.getPrototypeOf(queries)))
      const ofRows = names.filter((name) => /insert|update|upsert|delete|select|increment|decrement/i.test(name))
      expect(ofRows.filter((name) => !Object.hasOwn(queries, name))).toEqual(['delete'])
      expect(ofRows).toHaveLength(11)
    })

    it('refuses a second call, which would seal twice, and a model whose columns have other names', () => {
      expect(() => sealTables(sequelize, [[Customers, makeModel()]])).toThrow('call sealTables once, with all models')
      const other = new Sequelize(url, { logging: false })
      const Others = other.define('Other', {
        id: { type: DataTypes.UUID, primaryKey: true },
        email: { type: DataTypes.TEXT, field: 'mail' },
      })
      expect(() => sealTables(other, [[Others, makeModel()]])).toThrow(
        'Other needs the attribute email, of that column',
      )
    })
  })

  describe('Knex', () => {
    let db: knex.Knex
    beforeAll(() => {
      db = knex({ client: 'pg', connection: url })
    })
    afterAll(() => db?.destroy())

    it('stores what the model seals, finds it by the index, and opens it', async () => {
      const customers = makeModel()
      const rows = [1, 2, 3].map((at) => ({
        id: randomUUID(),
        email: `${at}@secret.example`,
        notes: null,
        city: 'Paris',
      }))
      await db('customers').insert(await customers.encryptMany(rows))
      await db.batchInsert('customers', [await customers.encrypt({ id: randomUUID(), email: SECRET, notes: SECRET })])
      expect(await stored()).not.toContain('secret')
      const found = await db('customers').where(await customers.index({ email: SECRET.toUpperCase() }))
      expect((await customers.decryptMany(found)).ok).toMatchObject([{ email: SECRET, notes: SECRET }])
      const changed = await customers.encrypt({ id: found[0].id, email: SECRET, notes: 'changed' })
      const [merged] = await db('customers').insert(changed).onConflict('id').merge().returning('*')
      expect(await customers.decrypt(merged)).toMatchObject({ notes: 'changed' })
      const indexes = await Promise.all(rows.slice(0, 2).map(({ email }) => customers.index({ email })))
      const several = await db('customers').whereIn(
        'email_index',
        indexes.map(({ email_index }) => email_index),
      )
      expect(several).toHaveLength(2)
      await db.transaction(async (trx) => {
        for (const { id } of await trx('customers').where({ city: 'Paris' }).select('id').forUpdate())
          await trx('customers')
            .where({ id })
            .update(await customers.encryptPartial({ id, notes: SECRET }))
      })
      const [first] = await db('customers').where({ city: 'Paris' }).select('id', 'notes')
      expect(await customers.decryptPartial(first)).toMatchObject({ notes: SECRET })
      expect(await stored()).not.toContain('secret')
    })

    const plain = () => ({ id: randomUUID(), email: SECRET })
    const REFUSED: [string, () => Promise<unknown>][] = [
      ['insert', () => db('customers').insert(plain()).then()],
      ['insert that returns', () => db('customers').insert(plain()).returning('*').then()],
      ['batchInsert', () => db.batchInsert('customers', [plain()]).then()],
      ['update', () => db('customers').update({ notes: SECRET }).then()],
      [
        'merge',
        async () =>
          db('customers')
            .insert(await sealed())
            .onConflict('id')
            .merge({ notes: SECRET })
            .then(),
      ],
      [
        'an update by raw',
        () =>
          db('customers')
            .update({ notes: db.raw('city') })
            .then(),
      ],
      ['raw', () => db.raw('update customers set notes = ?', [SECRET]).then()],
      [
        'insert from a select',
        () => db.raw('insert into customers (id, email) select gen_random_uuid(), city from customers').then(),
      ],
    ]
    const ID = randomUUID()
    const sealed = async () => ({
      ...(await makeModel().encrypt({ id: ID, email: 'ada@example.org', notes: 'x' })),
      city: 'London',
    })
    it.each(REFUSED)('has plaintext by %s refused by the constraints', async (_, run) => {
      await db('customers').insert(await sealed())
      expect(await run().catch((error: unknown) => error)).toMatchObject({ code: '23514' })
      expect(await stored()).not.toContain('secret')
    })

    it('neither finds nor sorts by plaintext, which nothing refuses, and cannot count in a ciphertext', async () => {
      await db('customers').insert(await sealed())
      expect(await db('customers').where({ email: 'ada@example.org' })).toEqual([])
      expect(await db('customers').orderBy('email')).toHaveLength(1)
      await expect(db('customers').increment('notes', 1)).rejects.toThrow('operator does not exist')
    })
  })
})
