// Sequelize without an adapter: `sealTables(sequelize, [[Customer, customers]])` encrypts what Sequelize 6 writes, searches by the indexes,
// and decrypts what it reads. It replaces the methods of the query interface, through which all calls of models go: hooks do not see
// `upsert`, `increment`, and what has `hooks: false`. What it does not know, it refuses. `sequelize.query` is SQL of your own.
import { createSealedTable, refuseCall, refuseExpression, refuseOperator } from '@eaas/sdk/adapter'
import { Op, Utils } from 'sequelize'

/** @typedef {any} Any what Sequelize passes to its query interface */

/** The methods that get the table second, after an instance or a class. The others get it first. */
const SECOND = /^(insert|update|select|increment|decrement)$/
const HINT = 'Find the rows, and save each.'
const isPlain = (/** @type {Any} */ value) =>
  value !== null && typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value))
const nameOf = (/** @type {Any} */ table) => `${table.tableName ?? table}` // the table is sealed in other schemas too

/**
 * Call it once, before the first query.
 *
 * @param {import('sequelize').Sequelize} sequelize
 * @param {[import('sequelize').ModelStatic<Any>, import('@eaas/sdk/adapter').AnyModel][]} models with attributes named as columns
 */
export function sealTables(sequelize, models) {
  /** @type {Any} */
  const queries = sequelize.getQueryInterface()
  if (Object.hasOwn(queries, 'insert')) throw new TypeError('call sealTables once, with all models')
  const tables = new Map(models.map(([of, model]) => [nameOf(of.getTableName()), createSealedTable(model)]))
  for (const [of] of models)
    for (const column of tables.get(nameOf(of.getTableName()))?.columns ?? [])
      if (of.getAttributes()[column]?.field !== column)
        throw new TypeError(`${of.name} needs the attribute ${column}, of that column`)

  /** Refuses SQL, and lists of names, that an encrypted column is in. */
  function assertFree(/** @type {Any} */ table, /** @type {Any} */ part, hasNames = false) {
    if (typeof part === 'string' && hasNames)
      for (const word of part.match(/\w+/g) ?? []) if (table.isSealed(word)) refuseExpression(table.name, word)
    const isSql = part instanceof Utils.SequelizeMethod
    if (isSql || isPlain(part) || Array.isArray(part))
      for (const key of Reflect.ownKeys(part))
        for (const inside of [key, Reflect.get(part, key)]) assertFree(table, inside, hasNames || isSql)
  }

  /** Puts indexes in place of encrypted columns. @returns {Promise<Any>} */
  async function where(/** @type {Any} */ table, /** @type {Any} */ given) {
    assertFree(table, given)
    if (Array.isArray(given)) return Promise.all(given.map((one) => where(table, one)))
    if (given && !isPlain(given) && !(given instanceof Utils.SequelizeMethod))
      refuseCall('such a condition', 'Pass a plain object.')
    if (!isPlain(given)) return given
    const found = Reflect.ownKeys(given).map(async (key) => {
      const value = given[key]
      if (typeof key === 'symbol') return { [key]: await where(table, value) }
      const column = key.split(/\W/).find((part) => table.isSealed(part))
      if (!column || value === null) return { [key]: value }
      const [operator, ...others] = isPlain(value) ? Reflect.ownKeys(value) : [Array.isArray(value) ? Op.in : Op.eq]
      const isEqual = column === key && others.length === 0 && (operator === Op.eq || operator === Op.in)
      if (!isEqual) return refuseOperator(table.name, column, Object(operator).description)
      const searched = isPlain(value) ? value[operator] : value
      const index = await table.findEqual(key, 'in', operator === Op.in ? searched : [searched])
      return { [index.column]: index.values }
    })
    return { [Op.and]: await Promise.all(found) }
  }

  async function read(/** @type {Any} */ table, /** @type {Any} */ options) {
    const { attributes = [], order, group, having } = options
    for (const names of [order, group, having, attributes.filter(Array.isArray)]) assertFree(table, names, true)
    return { ...options, where: await where(table, options.where) }
  }
  function assertNotJoined(/** @type {Any} */ options) {
    for (const one of options.include ?? []) {
      if (!one.separate && tables.has(nameOf(one.model.getTableName())))
        refuseCall(`include of ${one.model.name}`, 'Find its rows themselves, or set separate: true.')
      assertNotJoined(one)
    }
  }
  function assertOthers(/** @type {Any} */ table, /** @type {object} */ values, /** @type {Any} */ options) {
    const column = Object.keys(values).find((name) => table.columns.includes(name))
    if (column) refuseCall(`a change of ${column} without its row`, HINT)
    if (options?.returning) refuseCall('returning', HINT)
  }
  async function open(/** @type {Any} */ table, /** @type {Any} */ found) {
    const rows = [found]
      .flat()
      .filter(Boolean)
      .map((row) => row.dataValues ?? row)
    for (const [at, row] of (await table.openRows(rows)).entries()) Object.assign(rows[at], row)
    return found
  }

  /** @type {Record<string, (table: Any, native: (...given: Any[]) => Promise<Any>, ...given: Any[]) => Promise<Any>>} */
  const sealing = {
    async insert(table, native, row, name, values, options) {
      const result = await native(row, name, (await table.sealRows([values]))[0], options)
      for (const name of row ? table.columns : []) if (name in values) row.dataValues[name] = values[name] // not what it returned
      return result
    },
    async bulkInsert(table, native, name, rows, options, attributes) {
      if (options?.updateOnDuplicate) refuseCall('updateOnDuplicate', HINT)
      const stored = await native(name, await table.sealRows(rows), options, attributes)
      return Array.isArray(stored) ? open(table, stored) : stored
    },
    async update(table, native, row, name, values, condition, options) {
      assertOthers(table, {}, options)
      return native(row, name, await table.sealChanges(values, condition), condition, options)
    },
    async bulkUpdate(table, native, name, values, condition, options, attributes) {
      assertOthers(table, values, options)
      return native(name, values, await where(table, condition), options, attributes)
    },
    bulkDelete: async (table, native, name, condition, ...rest) => native(name, await where(table, condition), ...rest),
    async select(table, native, model, name, options) {
      const attributes = options.attributes && [...options.attributes, ...table.readsToo(options.attributes)]
      return open(table, await native(model, name, { ...(await read(table, options)), attributes }))
    },
    rawSelect: async (table, native, name, options, ...rest) => native(name, await read(table, options), ...rest),
    upsert: async () => refuseCall('upsert', HINT),
    async increment(table, native, model, name, condition, amounts, others, options) {
      assertOthers(table, amounts, options)
      return native(model, name, await where(table, condition), amounts, others, options)
    },
  }
  Object.assign(sealing, { decrement: sealing.increment })
  for (const [method, run] of Object.entries(sealing)) {
    const native = queries[method].bind(queries)
    const at = SECOND.test(method) ? 1 : 0
    queries[method] = async (/** @type {Any[]} */ ...given) => {
      if (method.endsWith('elect')) assertNotJoined(given[at + 1])
      const table = tables.get(nameOf(given[at]))
      return table ? run(table, native, ...given) : native(...given)
    }
  }
}
