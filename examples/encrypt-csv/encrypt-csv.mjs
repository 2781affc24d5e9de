// How an application uses the SDK on a table: encrypt columns, find a row without decrypting any, decrypt.
import { text } from '@eaas/sdk'

/** @import { Client, Progress } from '@eaas/sdk' */
/** @import { Table } from '../lib/csv.mjs' */

/**
 * @typedef {object} Options
 * @property {AbortSignal} signal
 * @property {(progress: Progress) => void} onProgress
 */

/** @typedef {ReturnType<typeof defineTable>} TableModel */

/**
 * Says which columns of a table are encrypted, and by which one a row can be found. A cell holds its envelope as text. Each is bound to its column
 * and, where the table has a plain column `id`, to its row: moved elsewhere, it does not decrypt. Empty cells are encrypted like any other,
 * so that they come back as they were; their envelope is the shortest one, which shows that they are empty.
 *
 * @param {Client} eaas
 * @param {Table} table
 * @param {{ keyId: string, columns: string[], index: Record<string, string> }} options `index`: for each column that is to be
 *   searched, the name of the column that is added for its index, which is made in this process
 */
export function defineTable(eaas, { rows }, { keyId, columns, index }) {
  const hasId = !columns.includes('id') && rows.every(({ id }) => id)
  const fields = Object.fromEntries(
    columns.map((name) => [name, text(index[name] === undefined ? {} : { index: index[name] })]),
  )
  const bind = hasId ? ['id'] : false
  return eaas.model({ name: 'table', keyId, format: 'text', bind, fields, warn: false })
}

/**
 * Encrypts the columns of a table.
 *
 * @param {TableModel} model
 * @param {Table} table
 * @param {Options & { indexColumns: string[] }} options
 * @returns {Promise<Table>}
 */
export async function encryptTable(model, table, { indexColumns, signal, onProgress }) {
  const rows = await model.encryptMany(table.rows, { signal, onProgress })
  return { columns: [...table.columns, ...indexColumns], rows: /** @type {Table['rows']} */ (rows) }
}

/**
 * Finds the positions of the rows that hold a value in an encrypted table. Sends nothing, and decrypts no row.
 *
 * @param {TableModel} model
 * @param {Table} encrypted
 * @param {{ column: string, indexColumn: string, value: string, signal: AbortSignal }} options
 * @returns {Promise<number[]>}
 */
export async function findRows(model, encrypted, { column, indexColumn, value, signal }) {
  /** @type {Record<string, unknown>} */
  const wanted = await model.index(/** @type {Record<string, any>} */ ({ [column]: value }), { signal })
  return encrypted.rows.flatMap((row, at) => (row[indexColumn] === wanted[indexColumn] ? [at] : []))
}

/**
 * Decrypts the columns of a table that `encryptTable` made, and removes the columns that it added.
 *
 * @param {TableModel} model
 * @param {Table} encrypted
 * @param {Options & { indexColumns: string[] }} options
 * @returns {Promise<Table>}
 */
export async function decryptTable(model, encrypted, { indexColumns, signal, onProgress }) {
  const { ok, failed } = await model.decryptMany(encrypted.rows, { signal, onProgress })
  if (failed[0]) throw failed[0].error
  const kept = encrypted.columns.filter((name) => !indexColumns.includes(name))
  const rows = ok.map((/** @type {Record<string, unknown>} */ row) =>
    Object.fromEntries(kept.map((name) => [name, row[name]])),
  )
  return { columns: kept, rows: /** @type {Table['rows']} */ (rows) }
}
