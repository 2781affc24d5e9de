// The command line of the demo: what it takes, and which columns of the file it means.
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { UsageError } from '../lib/usage-error.mjs'

const SAMPLE = {
  file: fileURLToPath(new URL('../data/customers.csv', import.meta.url)),
  columns: ['full_name', 'phone', 'birth_date', 'address', 'notes', 'balance'],
  index: 'email',
}

export const HELP = `npm run demo                  encrypts a sample of 1,200 invented customers
npm run demo -- FILE.csv --columns a,b [--index c] [--out encrypted.csv]

Encrypts columns of a CSV file in this process, with a server of its own, and proves that all of it comes back.
The file is only read. The server, its keys and everything temporary are gone when the demo ends.

  --columns a,b    the columns to encrypt; may be given several times
  --index c        a column to encrypt and to search by its exact value; its values are hashed here, and sent nowhere
  --out FILE       keep the encrypted file, to look at: nothing can open it once the demo has ended
  --delimiter ";"  what stands between cells, "," if not given; tab for a tab
  --tamper         alter one bit of the encrypted file before it is read back, to see it refused
  --help           show this

The file must be UTF-8 with a header line, quoted as RFC 4180 says. A byte order mark at its start is dropped.

Exit code: 0 all is as it should be; 1 it is not; 2 the command line or the file cannot be used.
`

/**
 * @typedef {object} Choice What the command line asks for.
 * @property {boolean} help
 * @property {boolean} isSample
 * @property {string} file
 * @property {string[]} columns as given: one text may have several, separated by commas
 * @property {string | undefined} index
 * @property {string | undefined} out
 * @property {string} delimiter
 * @property {boolean} tamper
 */

/**
 * Reads the command line. Paths are relative to `folder`.
 *
 * @param {string[]} argv
 * @param {string} folder
 * @returns {Choice}
 * @throws {UsageError}
 */
export function readArguments(argv, folder) {
  const { values, positionals } = parse(argv)
  const { help = false, tamper = false, columns = [], index, out, delimiter = ',' } = values
  const [file, ...more] = positionals
  const separator = delimiter === 'tab' ? '\t' : delimiter
  const kept = out === undefined ? undefined : resolve(folder, out)
  const choice = { help, tamper, delimiter: separator, out: kept }
  if (help) return { ...choice, ...SAMPLE, isSample: true }

  if (more.length > 0) throw new UsageError(`Give one file, got ${positionals.length}: ${positionals.join(' ')}`)
  if ([...separator].length !== 1 || /["\r\n]/.test(separator)) {
    throw new UsageError('--delimiter must be one character other than a quote or a line break, or the word tab')
  }
  if (kept !== undefined) assertFree(kept)
  if (file !== undefined) {
    return { ...choice, isSample: false, file: resolve(folder, file), columns, index }
  }
  if (columns.length > 0 || index !== undefined || separator !== ',') {
    throw new UsageError('--columns, --index and --delimiter go with a file: npm run demo -- FILE.csv --columns a,b')
  }
  return { ...choice, ...SAMPLE, isSample: true }
}

/**
 * The columns to encrypt, in the order of the file, the index column among them.
 *
 * @param {Choice} choice
 * @param {string[]} header
 * @returns {string[]}
 * @throws {UsageError} when nothing is chosen, or a column is not in the file
 */
export function chooseColumns({ columns, index }, header) {
  // A name with a comma in it can be given by itself.
  const named = columns.flatMap((text) => (header.includes(text) ? [text] : text.split(',')))
  const chosen = new Set(index === undefined ? named : [...named, index])
  const known = header.map((name) => JSON.stringify(name)).join(', ')
  if (chosen.size === 0) throw new UsageError(`Name the columns to encrypt with --columns. The file has: ${known}`)
  for (const name of chosen) {
    if (header.includes(name) && (name === '' || name === '__proto__')) {
      throw new UsageError(
        `A column named ${JSON.stringify(name)} cannot be encrypted: give it another name in the file.`,
      )
    }
    if (!header.includes(name)) {
      const hint = header.length === 1 ? '\nIs it not a comma that stands between its cells? See --delimiter.' : ''
      throw new UsageError(`The file has no column ${JSON.stringify(name)}. It has: ${known}${hint}`)
    }
  }
  return header.filter((name) => chosen.has(name))
}

/** @param {string[]} argv */
function parse(argv) {
  try {
    return parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        columns: { type: 'string', multiple: true },
        index: { type: 'string' },
        out: { type: 'string' },
        delimiter: { type: 'string' },
        tamper: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    })
  } catch (error) {
    // parseArgs says what was wrong in its message.
    throw new UsageError(`${error instanceof Error ? error.message : error}\nSee: npm run demo -- --help`)
  }
}

/** @param {string} out */
function assertFree(out) {
  if (existsSync(out)) throw new UsageError(`${out} is there already. Remove it, or choose another name for --out.`)
  if (!existsSync(dirname(out))) throw new UsageError(`There is no folder ${dirname(out)} to write --out into.`)
}
