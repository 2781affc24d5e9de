// Mongoose with `examples/without-adapter/seal-collection.mjs`, on a real FerretDB: the page runs, what is stored is sealed, and each way to
// write plaintext is refused. FerretDB has no validators, so that of the page is tried in a filter and by a validator of JSON Schema.
import { Ajv } from 'ajv'
import mongoose, { type Connection, type Model } from 'mongoose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { sealCollection } from '../../examples/without-adapter/seal-collection.mjs'
import { boolean, type Client, createClient, date, json, number, text } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { runPage } from '../examples/run-page.js'
import { findOrInstallFerretdb, startFerretdb } from '../support/database/ferretdb.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { readPage } from '../support/sources/snippets.js'

const PAGE = 'packages/sdk/docs/mongoose.md'
const SECRET = 'ada@secret.example'

const program = findOrInstallFerretdb()

interface Customer {
  _id: mongoose.Types.ObjectId
  email: string
  nick: string | null
  born: Date | null
  score: number | null
  good: boolean | null
  tree: unknown
  city: string
  visits: number
}

let ferretdb: Awaited<ReturnType<typeof startFerretdb>>
let dir: GuardedDir
let eaas: Client
beforeAll(async () => {
  if (program === undefined) return
  ferretdb = await startFerretdb(program)
  dir = guardedDir('eaas-test-mongoose')
  eaas = createClient(createTestService())
})
afterAll(async () => {
  eaas?.close()
  await dir?.remove()
  await ferretdb?.stop()
})

const schema = new mongoose.Schema<Customer>(
  {
    email: { type: String, required: true },
    nick: { type: String, default: null },
    born: { type: Date, default: null },
    score: { type: Number, default: null },
    good: { type: Boolean, default: null },
    tree: { type: mongoose.Schema.Types.Mixed, default: null },
    city: String,
    visits: { type: Number, default: 0 },
  },
  { timestamps: true },
)
schema.index({ email_index: 1 } as never, { unique: true })

const makeModel = (more: object = {}) =>
  eaas.model({
    ...more,
    name: 'customers',
    key: 'customers',
    bind: ['_id'],
    format: 'text',
    warn: false,
    fields: {
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
      nick: text().nullable(),
      born: date().nullable(),
      score: number().nullable(),
      good: boolean().nullable(),
      tree: json<unknown>().nullable(),
    },
  })

describe.skipIf(program === undefined)('Mongoose without an adapter', () => {
  let db: Connection
  let Customers: Model<Customer>
  /** The collection of the driver, beside Mongoose. */
  const raw = () => db.getClient().db().collection('customers')
  const isStored = async (plaintext: string) => JSON.stringify(await raw().find().toArray()).includes(plaintext)
  let ada: mongoose.HydratedDocument<Customer>

  beforeEach(async () => {
    db = mongoose.createConnection(ferretdb.url)
    Customers = db.model<Customer>('Customer', schema)
    sealCollection(Customers, makeModel())
    // Before it is connected, so that Mongoose keeps the call.
    ada = await Customers.create({
      email: 'ada@example.org',
      nick: 'ada',
      born: new Date('1815-12-10'),
      city: 'London',
    })
    await Customers.create({ email: 'grace@example.org', city: 'New York', score: 1.5, good: true, tree: { a: [1] } })
  })
  afterEach(async () => {
    await db.dropDatabase()
    await db.close()
  })

  it('runs the program of the page', async () => {
    vi.stubEnv('MONGODB_URL', `${ferretdb.url}-page`)
    try {
      await runPage(readPage(PAGE), createTestService(), dir.path)
    } finally {
      await mongoose.connection.close()
      mongoose.deleteModel(/./)
    }
  })

  it('seals each value in the store, and opens it with its type', async () => {
    const stored = await raw().findOne({ _id: ada._id })
    for (const name of ['email', 'nick', 'born']) expect(stored?.[name]).toMatch(/^eaas\.2\./)
    expect(stored).toMatchObject({ score: null, city: 'London', email_index: expect.stringMatching(/^[0-9a-f]{64}$/) })
    const found = await Customers.findById(ada._id).orFail()
    expect(found.toObject()).toEqual(ada.toObject())
    const grace = await Customers.findOne({ city: 'New York' }).lean().orFail()
    expect(grace).toMatchObject({ email: 'grace@example.org', score: 1.5, good: true, tree: { a: [1] }, born: null })
    expect(grace).not.toHaveProperty('email_index')
  })

  it('searches by the index, wherever a condition is', async () => {
    const emails = async (filter: object) =>
      (await Customers.find(filter as never).lean()).map(({ email }) => email).sort()
    expect(await emails({ email: ' ADA@example.org' })).toEqual(['ada@example.org'])
    expect(await emails({ email: { $in: ['ada@example.org', 'grace@example.org', 'x'] } })).toHaveLength(2)
    expect(await emails({ email: { $eq: 'ada@example.org' }, city: 'Paris' })).toEqual([])
    expect(await emails({ $or: [{ email: 'ada@example.org' }, { city: 'New York' }] })).toHaveLength(2)
    expect(await emails({ $nor: [{ $and: [{ email: 'ada@example.org' }] }] })).toEqual(['grace@example.org'])
    expect(await emails({ nick: null })).toEqual(['grace@example.org'])
    expect(await Customers.countDocuments({ email: 'ada@example.org' })).toBe(1)
    expect(await Customers.exists({ email: 'ada@example.org' })).toEqual({ _id: ada._id })
    expect(
      await Customers.find()
        .select('email -_id')
        .lean()
        .catch(({ code }) => code),
    ).toBe('E_INVALID_INPUT')
    expect(await Customers.findOne({ email: 'ada@example.org' }).select('nick').lean()).toEqual({
      _id: ada._id,
      nick: 'ada',
    })
    await expect(Customers.create({ email: 'ADA@example.org', city: 'x' })).rejects.toMatchObject({ code: 11000 })
  })

  it('opens what a cursor and a reference read', async () => {
    const seen: string[] = []
    for await (const { email } of Customers.find().sort({ city: 1 })) seen.push(email)
    expect(seen).toEqual(['ada@example.org', 'grace@example.org'])
    const Orders = db.model(
      'Order',
      new mongoose.Schema({ of: { type: mongoose.Schema.Types.ObjectId, ref: 'Customer' } }),
    )
    const order = await Orders.create({ of: ada._id })
    expect((await order.populate('of')).get('of.email')).toBe('ada@example.org')
  })

  const SEALED: [string, () => Promise<unknown>][] = [
    ['save', () => Object.assign(ada, { email: SECRET }).save()],
    ['insertMany', () => Customers.insertMany([{ email: SECRET }, { email: `2${SECRET}` }])],
    [
      'collection.insertOne',
      () => Customers.collection.insertOne({ _id: new mongoose.Types.ObjectId(), email: SECRET }),
    ],
    ['updateOne', () => Customers.updateOne({ _id: ada._id }, { email: SECRET, $inc: { visits: 1 } })],
    ['updateMany by the id', () => Customers.updateMany({ _id: ada._id }, { $set: { email: SECRET } })],
    ['updateOne of the document', () => ada.updateOne({ email: SECRET })],
    ['findByIdAndUpdate', () => Customers.findByIdAndUpdate(ada._id, { email: SECRET })],
    [
      'findOneAndUpdate',
      () => Customers.findOneAndUpdate({ _id: ada._id, email: 'ada@example.org' }, { email: SECRET }),
    ],
  ]
  it.each(SEALED)('seals what is written by %s', async (_, write) => {
    await write()
    expect(await isStored('secret')).toBe(false)
    const found = await Customers.findOne({ email: SECRET }).orFail()
    expect(found.email).toBe(SECRET)
    const old = await Customers.findOneAndUpdate(
      { _id: found._id },
      { nick: 'x' },
      { returnDocument: 'after', includeResultMetadata: true },
    )
    expect(old.value).toMatchObject({ email: SECRET, nick: 'x' })
  })

  const id = () => ({ _id: ada._id })
  const set = { $set: { email: SECRET } }
  const REFUSED: [string, () => unknown][] = [
    ['an update without the id', () => Customers.updateMany({ city: 'London' }, { email: SECRET })],
    ['an update of several ids', () => Customers.updateMany({ _id: { $in: [ada._id] } }, { email: SECRET })],
    ['a pipeline', () => Customers.updateOne(id(), [set] as never, { updatePipeline: true })],
    [
      'findOneAndUpdate by a pipeline',
      () => Customers.findOneAndUpdate(id(), [set] as never, { updatePipeline: true }),
    ],
    [
      'an upsert',
      () => Customers.updateOne({ _id: new mongoose.Types.ObjectId() }, { email: SECRET }, { upsert: true }),
    ],
    ['findOneAndUpdate with upsert', () => Customers.findOneAndUpdate(id(), { email: SECRET }, { upsert: true })],
    ['$setOnInsert', () => Customers.updateOne(id(), { $setOnInsert: { email: SECRET } })],
    ['$push', () => Customers.collection.updateOne(id(), { $push: { email: SECRET } } as never)],
    ['$addToSet', () => Customers.collection.updateOne(id(), { $addToSet: { nick: SECRET } } as never)],
    ['$inc', () => Customers.updateOne(id(), { $inc: { score: 1 } })],
    ['$min', () => Customers.updateOne(id(), { $min: { score: 1 } })],
    ['$unset', () => Customers.updateOne(id(), { $unset: { nick: 1 } })],
    ['$rename into a field', () => Customers.collection.updateOne(id(), { $rename: { city: 'nick' } })],
    ['a member of a field', () => Customers.updateOne(id(), { $set: { 'tree.secret': SECRET } })],
    ['the index alone', () => Customers.collection.updateOne(id(), { $set: { email_index: SECRET } })],
    ['bulkWrite', () => Customers.bulkWrite([{ insertOne: { document: { email: SECRET } as never } }])],
    ['bulkSave', () => Customers.bulkSave([Object.assign(ada, { email: SECRET })])],
    [
      'connection.bulkWrite',
      () => db.bulkWrite([{ model: 'Customer', name: 'insertOne', document: { email: SECRET } }]),
    ],
    ['replaceOne', () => Customers.replaceOne(id(), { email: SECRET })],
    ['findOneAndReplace', () => Customers.findOneAndReplace(id(), { email: SECRET })],
    ['aggregate', () => Customers.aggregate([{ $set: { email: SECRET } }, { $out: 'customers' }])],
    [
      'a cursor of aggregate',
      () =>
        Customers.aggregate([{ $match: { email: SECRET } }])
          .cursor()
          .next(),
    ],
    ['findOneAndDelete', () => Customers.findOneAndDelete(id())],
    ['distinct', () => Customers.distinct('email')],
    ['sort', () => Customers.find().sort({ email: 1 })],
    ['sort by a member', () => Customers.findOne().sort({ 'tree.a': -1 })],
    ['a regular expression', () => Customers.find({ email: /ada/ })],
    ['$gt', () => Customers.find({ email: { $gt: 'a' } })],
    ['two operators', () => Customers.find({ email: { $in: ['a'], $ne: 'b' } })],
    ['a field without an index', () => Customers.find({ nick: 'ada' })],
    ['the column of the index', () => Customers.find({ email_index: SECRET } as never)],
    ['$expr', () => Customers.find({ $expr: { $eq: ['$email', SECRET] } })],
    ['$where', () => Customers.find({ $where: 'this.email' })],
    ['null in a member of a field', () => Customers.deleteMany({ 'tree.a': null })],
    ['deleteMany by an operator', () => Customers.deleteMany({ email: { $ne: SECRET } })],
    ['countDocuments by an operator', () => Customers.countDocuments({ email: { $exists: true } })],
  ]
  it.each(REFUSED)('refuses %s, before the database sees it', async (_, run) => {
    const before = await raw().find().toArray()
    const refused = await Promise.resolve()
      .then(run)
      .catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'E_INVALID_INPUT' })
    expect(await raw().find().toArray()).toEqual(before)
  })

  it('refuses each other method of the collection, and leaves those without documents', async () => {
    const untouched = Object.getOwnPropertyNames(mongoose.mongo.Collection.prototype).filter((name) => {
      const method = Reflect.get(Customers.collection, name)
      return typeof method === 'function' && method === Reflect.get(Object.getPrototypeOf(Customers.collection), name)
    })
    expect(untouched.sort()).toEqual(
      'constructor createIndex createIndexes drop dropIndex dropIndexes estimatedDocumentCount indexes listIndexes'.split(
        ' ',
      ),
    )
    expect(() => sealCollection(Customers, makeModel())).toThrow('customers is sealed already')
    expect(() => Customers.collection.initializeOrderedBulkOp()).toThrow('not supported where fields are encrypted')
  })

  it('leaves alone what no field is in', async () => {
    expect(await Customers.updateMany({}, { $inc: { visits: 2 } })).toMatchObject({ modifiedCount: 2 })
    expect((await Customers.findOneAndUpdate({ email: 'ada@example.org' }, { city: 'Paris' }))?.email).toBe(
      'ada@example.org',
    )
    expect(await Customers.updateMany({ city: 'Paris' }, { nick: null })).toMatchObject({ modifiedCount: 1 })
    expect(await Customers.deleteOne({ email: 'grace@example.org' })).toMatchObject({ deletedCount: 1 })
    expect(await raw().countDocuments()).toBe(1)
  })

  it('reads documents that are in plaintext, if the model accepts them, and seals those that are set again', async () => {
    const other = mongoose.createConnection(ferretdb.url)
    try {
      const Mixed = other.model<Customer>('Customer', schema)
      sealCollection(Mixed, makeModel({ acceptPlaintext: true }))
      const { insertedId } = await raw().insertOne({ email: SECRET, nick: SECRET, city: 'Paris' })
      await expect(Customers.findById(insertedId)).rejects.toMatchObject({ code: 'E_INVALID_INPUT' })
      const old = await Mixed.findById(insertedId).orFail()
      expect(old).toMatchObject({ email: SECRET, nick: SECRET })
      expect(await Mixed.findOne({ email: SECRET })).toBeNull()
      await Mixed.updateOne({ _id: insertedId }, { email: old.email, nick: old.nick })
      expect(await isStored('secret')).toBe(false)
      expect(await Customers.findOne({ email: SECRET }).lean()).toMatchObject({ nick: SECRET, city: 'Paris' })
    } finally {
      await other.close()
    }
  })

  it('has a validator on its page that lets sealed documents pass, and refuses plaintext', async () => {
    const [, code = ''] = /^(const pattern = .*\nconst properties = .*\n)/m.exec(readPage(PAGE)) ?? []
    const { pattern, properties } = new Function(`${code}return { pattern, properties }`)() as {
      pattern: string
      properties: Record<string, { bsonType: unknown }>
    }
    const types = Object.entries(properties).map(([name, { bsonType, ...rest }]) => [name, { ...rest, type: bsonType }])
    const validate = new Ajv({ allowUnionTypes: true }).compile({
      type: 'object',
      required: ['email'],
      properties: Object.fromEntries(types),
    })
    for (const document of await raw()
      .find({}, { projection: { _id: 0 } })
      .toArray())
      expect(validate(document)).toBe(true)
    const sealed = (await raw().findOne(id()))?.email as string
    for (const email of [
      SECRET,
      '',
      null,
      undefined,
      7,
      [sealed, SECRET],
      [sealed],
      { email: sealed },
      ` ${sealed}`,
      `${sealed} ada`,
    ])
      expect([email, validate({ email })]).toEqual([email, false])
    expect(validate({ email: sealed, born: '1815-12-10' })).toBe(false)
    const inPlaintext = () => raw().countDocuments({ $nor: [{ email: { $regex: pattern } }] })
    expect(await inPlaintext()).toBe(0)
    await raw().insertOne({ email: SECRET })
    expect(await inPlaintext()).toBe(1)
  })
})
