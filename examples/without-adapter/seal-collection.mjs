// Mongoose without an adapter: `sealCollection(Customer, customers)` encrypts what Mongoose 9 writes, searches by the indexes, and decrypts
// what it reads. It replaces the methods of the collection, below the casts, hooks and queries of Mongoose, so that none of them gets
// around it. What it does not know, it refuses.
import { createSealedTable, refuseCall, refuseField, refuseOperator, refuseOrder } from '@eaas/sdk/adapter'
import mongoose from 'mongoose'

/** @typedef {any} Any what Mongoose passes to the driver */

/** These neither write a document nor read one. */
const UNCHANGED = /^(constructor|createIndex(es)?|drop|dropIndex(es)?|estimatedDocumentCount|indexes|listIndexes)$/
const HINT = 'Use another call, or the driver together with `encrypt` and `decrypt` of the model.'

/**
 * Call it once for a model, before its first query.
 *
 * @param {mongoose.Model<Any>} documents with the types that the application sees
 * @param {import('@eaas/sdk/adapter').AnyModel} model
 */
export function sealCollection(documents, model) {
  /** @type {Any} */
  const collection = documents.collection
  const native = Object.getPrototypeOf(collection)
  if (Object.hasOwn(collection, 'find')) throw new TypeError(`${collection.name} is sealed already`)
  const table = createSealedTable(model)
  const id = table.bind.join()
  const headOf = (/** @type {string} */ path) => path.split('.')[0] ?? ''
  const isStored = (/** @type {string} */ path) => table.stored.some(({ column }) => column === headOf(path))
  const isOurs = (/** @type {string} */ path) => table.columns.includes(headOf(path))
  const indexes = table.stored.filter(({ holds }) => holds === 'index' || holds === 'parts')
  const isOperators = (/** @type {Any} */ value) => Object.keys(Object(value)).some((name) => name.startsWith('$'))
  // Before it is connected, Mongoose keeps a call, and makes it again on `this`: on its own method, so that nothing is sealed twice.
  const call = (/** @type {string} */ name, /** @type {Any[]} */ ...given) =>
    Object.create(collection, { [name]: { value: native[name] } })[name](...given)

  /** Puts indexes in place of encrypted fields. @returns {Promise<Any>} */
  async function where(/** @type {Any} */ filter = {}) {
    const found = Object.entries(filter).map(async ([path, value]) => {
      if (['$and', '$or', '$nor'].includes(path)) return [path, await Promise.all(value.map(where))]
      if (path.startsWith('$')) refuseCall(`a filter with ${path}`, 'Compare fields with values.')
      if (!isStored(path) || (value === null && !path.includes('.'))) return [path, value]
      const [operator = '', given, ...others] = isOperators(value) ? Object.entries(value).flat() : ['$eq', value]
      if (!['$eq', '$in'].includes(operator) || others.length > 0) refuseOperator(table.name, path, operator)
      const { column, values } = await table.findEqual(path, 'in', operator === '$in' ? given : [given])
      return [column, { $in: values }]
    })
    return Object.fromEntries(await Promise.all(found))
  }

  /** Seals what an update sets. */
  async function change(/** @type {Any} */ filter, /** @type {Any} */ update, /** @type {Any} */ options) {
    if (Array.isArray(update)) refuseCall('an update by a pipeline', 'Set values by $set.')
    if (options?.upsert) refuseCall('an upsert', 'Find the document, then update or create it.')
    for (const [operator, changes] of Object.entries(update)) {
      const ours = Object.keys(changes).find((path) => isOurs(path) && (operator !== '$set' || path.includes('.')))
      if (ours) refuseField(table.name, ours, `${operator} cannot change it`, 'Set its whole value by $set.')
      if (operator === '$rename' || operator[0] !== '$') refuseCall(`an update by ${operator}`, 'Set values by $set.')
    }
    const { $set = {}, ...others } = update
    const known = Object.fromEntries(
      table.bind.map((path) => [path, isOperators(filter[path]) ? undefined : filter[path]]),
    )
    if (table.needsRow($set, known)) refuseCall(`an update without ${id}`, `Name ${id} in the filter.`)
    return update.$set ? { ...others, $set: await table.sealChanges($set, known) } : others
  }

  async function open(/** @type {Any[]} */ stored) {
    const rows = await table.openRows(stored)
    for (const row of rows) for (const { column } of indexes) delete row[column]
    return rows
  }
  const openOne = async (/** @type {Any} */ stored) => (stored ? (await open([stored]))[0] : stored)

  function unsorted(/** @type {Any} */ options) {
    const sort = JSON.stringify(options?.sort instanceof Map ? [...options.sort] : (options?.sort ?? ''))
    for (const [, path = ''] of sort.matchAll(/"([^"]+)"/g)) if (isStored(path)) refuseOrder(table.name, path)
    return options
  }

  /** @type {Record<string, (...given: Any[]) => unknown>} */
  const sealing = {
    insertOne: async (row, options) => call('insertOne', (await table.sealRows([row]))[0], options),
    insertMany: async (rows, options) => call('insertMany', await table.sealRows(rows), options),
    async findOneAndUpdate(filter, update, options) {
      const changes = await change(filter, update, options)
      const found = await call('findOneAndUpdate', await where(filter), changes, unsorted(options))
      return options?.includeResultMetadata ? { ...found, value: await openOne(found.value) } : openOne(found)
    },
    findOne: async (filter, options) => openOne(await call('findOne', await where(filter), unsorted(options))),
    find(filter, options) {
      /** @type {Promise<Any> | undefined} */
      let cursor
      const start = () => (cursor ??= where(filter).then((found) => call('find', found, unsorted(options))))
      return {
        toArray: async () => open(await (await start()).toArray()),
        next: async () => openOne(await (await start()).next()),
        close: async () => (await start()).close(),
      }
    },
  }
  for (const name of ['updateOne', 'updateMany'])
    sealing[name] = async (filter, update, options) =>
      call(name, await where(filter), await change(filter, update, options), unsorted(options))
  for (const name of ['deleteOne', 'deleteMany', 'countDocuments'])
    sealing[name] = async (filter, options) => call(name, await where(filter), options)
  for (const name of Object.getOwnPropertyNames(mongoose.mongo.Collection.prototype))
    if (typeof native[name] === 'function' && !UNCHANGED.test(name))
      collection[name] = sealing[name] ?? (() => refuseCall(`collection.${name}`, HINT))
  documents.db.bulkWrite = () => refuseCall('connection.bulkWrite', HINT)
}
