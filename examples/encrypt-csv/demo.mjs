// The demo's story, step by step. What an application would do with the SDK is in encrypt-csv.mjs.
import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { createClient, fromText, toText } from '@eaas/sdk'
import { readTable, writeTable } from '../lib/csv.mjs'
import { count, printable } from '../lib/output.mjs'
import { UsageError } from '../lib/usage-error.mjs'
import { chooseColumns } from './arguments.mjs'
import { findDifferences } from './compare.mjs'
import { decryptTable, defineTable, encryptTable, findRows } from './encrypt-csv.mjs'
import { listRows, pickExample, showEntries, showExample, showIndex, showTraffic } from './show.mjs'
import { watchTraffic } from './traffic.mjs'

/** @import { Client } from '@eaas/sdk' */
/** @import { Choice } from './arguments.mjs' */
/** @import { Table } from '../lib/csv.mjs' */
/** @import { Stage } from '../lib/run-example.mjs' */

/** One DEK seals 2^20 messages; well below that, only one wrap may happen. */
const MAX_CELLS = 500_000

/**
 * Encrypts the chosen file, reads it back and compares.
 *
 * @param {Choice} choice
 * @param {Stage} stage
 * @returns {Promise<string[]>} what was wrong; empty if nothing was
 * @throws {UsageError} when the file or the choice of columns cannot be used
 */
export async function demo(choice, { output, openServer, signal }) {
  const { step, tell } = output
  const since = performance.now()
  output.title('EaaS demo: encrypt a CSV file, search it, rotate its key, get it back')

  const { delimiter, index } = choice
  const original = await step(`Read ${printable(basename(choice.file))}`, () => readTable(choice.file, delimiter))
  const columns = chooseColumns(choice, original.columns)
  const cells = original.rows.length * columns.length
  if (cells > MAX_CELLS) {
    throw new UsageError(
      `This demo encrypts at most ${count(MAX_CELLS)} cells at once, got ${count(cells)}. Cut the file.`,
    )
  }
  tell(`${count(original.rows.length)} rows of ${original.columns.length} columns.`)
  tell(`To encrypt: ${columns.map((name) => printable(name)).join(', ')}.`)

  const server = openServer()
  const baseUrl = await step('Start a server on a new, empty database: eaas start', () => server.listening)
  tell(`It listens on ${baseUrl}, and ends with this demo.`)

  const apiKey = await step('Create a tenant: eaas tenant create --name demo', server.createTenant)
  tell('A tenant is what owns keys. Its API key is what an application needs to use them.')

  const traffic = watchTraffic()
  const writer = createClient({ baseUrl, apiKey, fetch: traffic.fetch })
  const reader = createClient({ baseUrl, apiKey, fetch: traffic.fetch })

  const key = await step('Create a key', () => writer.keys.create({ name: 'customers' }, { signal }))
  tell(`Key ${key.id}, version ${key.current_version}. Its secret stays in the server.`)
  const keyId = key.id

  const indexColumn = index === undefined ? undefined : nameBeside(original.columns, index)
  const indexes = index === undefined || indexColumn === undefined ? {} : { [index]: indexColumn }
  const indexColumns = Object.values(indexes)
  const options = { keyId, columns, index: cells === 0 ? {} : indexes }
  const written = defineTable(writer, original, options)
  const encrypted = await step('Encrypt, in this process', (onProgress) =>
    encryptTable(written, original, { indexColumns, signal, onProgress }),
  )
  tell(
    `${count(cells)} cells, with AES-256-GCM${cells > 0 ? ', all with one data key that the server has wrapped' : ''}.`,
  )
  if (index !== undefined && cells > 0) showIndex(output, original, index)

  const example = pickExample(original, columns, index)
  if (choice.tamper) {
    if (!example) throw new UsageError('There is no row for --tamper to alter.')
    tamper(encrypted, example)
    tell(
      `--tamper: one bit of row ${count(example.at + 1)}, ${printable(example.column)}, was altered. It must not open.`,
    )
  }

  const path = choice.out ?? join(server.folder, 'encrypted.csv')
  await step('Write the encrypted file', () => writeTable(path, encrypted, delimiter))
  tell(`${count((await stat(path)).size)} bytes${choice.out === undefined ? ', removed at the end; see --out' : ''}.`)
  if (example) showExample(output, { ...example, original, encrypted, indexColumn, isSample: choice.isSample })

  const stored = await step('Read the encrypted file back', () => readTable(path, delimiter))
  const read = defineTable(reader, stored, options)
  const problems = []

  if (index !== undefined && indexColumn !== undefined && example?.isSearchable) {
    const value = example.row[index] ?? ''
    const found = await step(`Search by ${printable(index)}, without decrypting anything`, () =>
      findRows(read, stored, { column: index, indexColumn, value, signal }),
    )
    const expected = original.rows.flatMap((row, at) => (row[index] === value ? [at] : []))
    tell(
      `The value that is in row ${example.at + 1} was hashed in this process; the index column has that hash in ${listRows(found)}.`,
    )
    if (found.join() !== expected.join()) problems.push(`the search should have found ${listRows(expected)}`)
  }

  const rotated = await step('Rotate the key', () => writer.keys.rotate(keyId, { signal }))
  tell(
    `Version ${rotated.current_version} wraps from now on. Version ${key.current_version} still unwraps what it wrapped.`,
  )

  const returned = await step('Decrypt, with another client that has only the API key', (onProgress) =>
    decryptTable(read, stored, { indexColumns, signal, onProgress }),
  )
  const differences = findDifferences(original, returned)
  const compared = original.rows.length * original.columns.length
  tell(
    `All ${count(compared)} cells compared with the original, byte for byte: ${count(differences.length)} differences.`,
  )
  problems.push(...differences.slice(0, 10))
  if (differences.length > 10) problems.push(`and ${count(differences.length - 10)} more differences`)

  const verification = await step('Have the audit log verified', () => reader.audit.verify({ signal }))
  tell(verification.valid ? 'Each entry is chained to the one before; the chain is whole.' : 'The chain is BROKEN.')
  if (!verification.valid) problems.push(`the audit chain is broken at entry ${verification.broken_at}`)
  tell('The last entries:\n')
  await showEntries(output, reader, signal)

  const wraps = await countEntries(reader, 'key.wrap', { keyId, signal })
  const unwraps = await countEntries(reader, 'key.unwrap', { keyId, signal })
  const due = cells === 0 ? 0 : 1
  if (wraps !== due) problems.push(`${count(wraps)} keys were wrapped where ${due} should have been enough`)
  writer.close()
  reader.close()

  showTraffic(output, traffic.sent(), index)
  output.title('Result')
  output.table([
    ['rows', original.rows.length],
    ['cells encrypted', cells],
    ['wraps', wraps],
    ['unwraps', unwraps],
    ['audit entries', verification.total_entries],
    ['chain valid', verification.valid ? 'yes' : 'NO'],
    ['differences', differences.length],
    ['seconds', ((performance.now() - since) / 1000).toFixed(1)],
  ])
  if (choice.out !== undefined) {
    tell(`${choice.out} is yours to look at. Nothing can open it any more: its key ends with the demo's server.\n`)
  }
  return problems
}

/**
 * @param {string[]} columns
 * @param {string} index
 */
function nameBeside(columns, index) {
  let name = `${index}_index`
  while (columns.includes(name)) name += '_'
  return name
}

/**
 * Flips one bit of one ciphertext.
 *
 * @param {Table} encrypted
 * @param {{ at: number, column: string }} place
 */
function tamper({ rows }, { at, column }) {
  const envelope = fromText(rows[at]?.[column] ?? '')
  const bytes = Buffer.from(envelope.ciphertext, 'base64')
  bytes.writeUInt8(bytes.readUInt8(0) ^ 1, 0)
  rows[at] = { ...rows[at], [column]: toText({ ...envelope, ciphertext: bytes.toString('base64') }) }
}

/**
 * @param {Client} eaas
 * @param {'key.wrap' | 'key.unwrap'} action
 * @param {{ keyId: string, signal: AbortSignal }} options
 */
async function countEntries(eaas, action, { keyId, signal }) {
  const { total } = await eaas.audit.list({ action, key_id: keyId, limit: 1, signal })
  return total
}
