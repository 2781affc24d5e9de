// CSV files as tables of text. A file is held in memory as a whole: this is for examples, not a pipeline.
import { readFile, stat, writeFile } from 'node:fs/promises'
import { CsvError, parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import { UsageError } from './usage-error.mjs'

const MAX_FILE_BYTES = 100 * 1024 * 1024

/**
 * @typedef {object} Table
 * @property {string[]} columns
 * @property {Record<string, string>[]} rows each with a cell for each column
 */

/**
 * Reads a file with a header line. Cells are taken as they are, blanks included.
 *
 * @param {string} path
 * @param {string} delimiter
 * @returns {Promise<Table>}
 * @throws {UsageError} when the file cannot be read, is not UTF-8, or is no table
 */
export async function readTable(path, delimiter) {
  const [header, ...records] = parseRecords(path, await readText(path), delimiter)
  if (!header) throw new UsageError(`${path} is empty: there must be a header line.`)
  const columns = header.cells
  const twice = columns.find((name, at) => columns.indexOf(name) !== at)
  if (twice !== undefined) {
    throw new UsageError(`${path} has two columns named ${JSON.stringify(twice)}. Give each a name of its own.`)
  }
  // A blank line is a row only if rows have one cell.
  const rows = columns.length === 1 ? records : records.filter(({ cells }) => cells.length > 1 || cells[0] !== '')
  for (const { cells, line } of rows) {
    if (cells.length !== columns.length) {
      throw new UsageError(
        `${path}: the row that ends on line ${line} must have as many cells as the header, ${columns.length}, got ${cells.length}.`,
      )
    }
  }
  return {
    columns,
    rows: rows.map(({ cells }) => Object.fromEntries(columns.map((name, at) => [name, cells[at] ?? '']))),
  }
}

/**
 * Writes a new file, as RFC 4180 says. Never overwrites a file.
 *
 * @param {string} path
 * @param {Table} table
 * @param {string} delimiter
 */
export async function writeTable(path, { columns, rows }, delimiter) {
  const cells = [columns, ...rows.map((row) => columns.map((name) => row[name]))]
  await writeFile(path, stringify(cells, { delimiter, record_delimiter: 'windows' }), { flag: 'wx' })
}

/** @param {string} path */
async function readText(path) {
  try {
    const { size } = await stat(path)
    if (size > MAX_FILE_BYTES)
      throw new UsageError(`${path} has ${size} bytes; this demo takes at most ${MAX_FILE_BYTES}.`)
    return new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path))
  } catch (error) {
    const { code } = /** @type {NodeJS.ErrnoException} */ (error)
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') {
      throw new UsageError(`${path} is not UTF-8. Convert it, for example: iconv -f WINDOWS-1252 -t UTF-8 FILE`)
    }
    if (code === 'ENOENT') throw new UsageError(`There is no file ${path}.`)
    if (code === 'EISDIR') throw new UsageError(`${path} is a folder, not a file.`)
    if (code === 'EACCES') throw new UsageError(`${path} may not be read by this user.`)
    throw error
  }
}

/**
 * @param {string} path
 * @param {string} text
 * @param {string} delimiter
 */
function parseRecords(path, text, delimiter) {
  try {
    const parsed = /** @type {{ record: string[], info: { lines: number } }[]} */ (
      /** @type {unknown} */ (
        parse(text, { delimiter, record_delimiter: ['\r\n', '\n', '\r'], relax_column_count: true, info: true })
      )
    )
    return parsed.map(({ record, info }) => ({ cells: record, line: info.lines }))
  } catch (error) {
    if (error instanceof CsvError)
      throw new UsageError(`${path} is not CSV as it was read: ${error.message}. See also --delimiter.`)
    throw error
  }
}
