// How an application uses the SDK on a table: encrypt columns, find a row without decrypting any, decrypt.

/** @import { Client, Envelope, Progress } from '@eaas/sdk' */
/** @import { Table } from '../lib/csv.mjs' */

/**
 * @typedef {object} Options
 * @property {AbortSignal} signal
 * @property {(progress: Progress) => void} onProgress
 */

/**
 * Encrypts columns of a table. An envelope is stored as JSON text in the cell of its value. Empty cells are encrypted like
 * any other, so that they come back as they were; their envelope is the shortest one, which shows that they are empty.
 *
 * @param {Client} eaas
 * @param {Table} table
 * @param {Options & { keyId: string, columns: string[], index: Record<string, string> }} options `index`: for each column
 *   that is to be searched, the name of the column that is added for its blind index
 * @returns {Promise<Table>}
 */
export async function encryptTable(eaas, table, { keyId, columns, index, signal, onProgress }) {
  const context = bindTo(columns)
  const sealed = await eaas.encryptMany(table.rows, { keyId, fields: columns, context, index, signal, onProgress })
  const rows = sealed.map((row) => replaceCells(row, columns, JSON.stringify))
  return { columns: [...table.columns, ...Object.values(index)], rows }
}

/**
 * The rows of an encrypted table that hold a value: their places. Only the value is sent, to be hashed; the server doesn't
 * know the table, and no row is decrypted.
 *
 * @param {Client} eaas
 * @param {Table} encrypted
 * @param {{ keyId: string, indexColumn: string, value: string, signal: AbortSignal }} options
 * @returns {Promise<number[]>}
 */
export async function findRows(eaas, encrypted, { keyId, indexColumn, value, signal }) {
  const hash = await eaas.hash(value, { keyId, signal })
  return encrypted.rows.flatMap((row, at) => (row[indexColumn] === hash ? [at] : []))
}

/**
 * Decrypts columns of a table that `encryptTable` made, and leaves out the columns that it added.
 *
 * @param {Client} eaas
 * @param {Table} encrypted
 * @param {Options & { columns: string[], indexColumns: string[] }} options
 * @returns {Promise<Table>}
 */
export async function decryptTable(eaas, encrypted, { columns, indexColumns, signal, onProgress }) {
  const sealed = encrypted.rows.map((row) => replaceCells(row, columns, readEnvelope))
  const opened = await eaas.decryptMany(sealed, { fields: columns, context: bindTo(columns), signal, onProgress })
  const kept = encrypted.columns.filter((name) => !indexColumns.includes(name))
  const rows = opened.map((row) => Object.fromEntries(kept.map((name) => [name, row[name]])))
  return { columns: kept, rows: /** @type {Table['rows']} */ (rows) }
}

/**
 * What each cell is bound to: its column and, where the table has a plain column `id`, its row. A cell that was moved elsewhere does not decrypt.
 *
 * @param {string[]} columns those that are encrypted
 * @returns {(row: Record<string, unknown>, column: string) => Record<string, string>}
 */
function bindTo(columns) {
  return ({ id }, column) => (typeof id === 'string' && !columns.includes('id') ? { column, row: id } : { column })
}

/** @param {string} json @returns {Envelope} `decryptMany` checks that it is one */
function readEnvelope(json) {
  return JSON.parse(json)
}

/**
 * @template From, To
 * @param {Record<string, From>} row
 * @param {string[]} columns
 * @param {(cell: From) => To} change
 * @returns {Record<string, To>}
 */
function replaceCells(row, columns, change) {
  const changed = columns.map((name) => [name, change(/** @type {From} */ (row[name]))])
  return { ...row, ...Object.fromEntries(changed) }
}
