/** `encrypt-csv` and `decrypt-csv`: encrypt and decrypt columns of a CSV file, block by block, with a model. */
import { counted } from '@eaas/protocol'
import { type Client, isEaasError, isEnvelope, text } from '@eaas/sdk'
import { withoutPlace } from '@eaas/sdk/maintenance'
import type { Command } from 'commander'
import type { DecryptingOptions, OutputOptions } from './arguments.js'
import { addDecryptingOptions, addOutputOptions, addServiceOptions, collect, readNames } from './arguments.js'
import { assertOneInput, findKeyId, withClient } from './connection.js'
import { type Cell, writeRow } from './csv.js'
import { readBlocks } from './csv-blocks.js'
import { openInput } from './files.js'
import { ArgumentsError, CommandError, type Io, NOT_AUTHENTIC, USAGE, UsageError } from './io.js'
import {
  assertReportable,
  openOutput,
  PRIVATE_MODE,
  plainName,
  readOut,
  report,
  sealedName,
  writing,
} from './output.js'
import { showProgress } from './progress.js'

interface CsvOptions extends DecryptingOptions, OutputOptions {
  key: string
  createKey?: boolean
  model: string
  columns: string[]
  index?: string[]
  bind?: string[]
  delimiter: string
  emptyIsNull?: boolean
}

const CSV_HELP = `
The file must be UTF-8 with a header line, quoted as RFC 4180 says, and a record
at most 8 MiB long. An application reads the rows with a model of the same name,
format: 'text', bind and fields.`
const USAGE_LINE = '[file] --key <name> --model <name> --columns <a,b>'

export function addEncryptCsv(program: Command, io: Io): void {
  const command = program
    .command('encrypt-csv')
    .summary('encrypt columns of a CSV file')
    .usage(USAGE_LINE)
    .description(
      'Encrypts columns of a CSV file, or of standard input; the others stay as they are. Each cell becomes the text of an envelope, empty cells too. A cell that is encrypted already is refused. Without --out, a file becomes <file>.eaas, and standard input goes to standard output.',
    )
    .argument('[file]')
    .option('--create-key', 'create the key if there is none of that name')
  addServiceOptions(addCsvOptions(command)).action((file: string | undefined, options: CsvOptions) =>
    runCsv(io, file, options, true),
  )
}

export function addDecryptCsv(program: Command, io: Io): void {
  const command = program
    .command('decrypt-csv')
    .summary('decrypt the columns that encrypt-csv encrypted')
    .usage(USAGE_LINE)
    .description(
      'Decrypts the columns of a file that encrypt-csv made, with the same --model, --columns, --index and --bind, and leaves the index columns out. All cells come back as they were. Only its owner may read the new file (mode 0600). A cell that does not decrypt ends the command with exit code 3.',
    )
    .argument('[file]')
  addDecryptingOptions(addCsvOptions(command)).action((file: string | undefined, options: CsvOptions) =>
    runCsv(io, file, options, false),
  )
}

function addCsvOptions(command: Command): Command {
  command
    .requiredOption('--key <name>', 'name or id of the key')
    .requiredOption('--model <name>', 'name of the model; each cell is bound to it and to its column')
    .requiredOption(
      '--columns <a,b>',
      'the columns; put a name with a comma in quotes: \'"last, first",email\'. May be repeated',
      collect,
    )
    .option('--index <a,b>', 'those of them to search by their exact value, in columns <name>_index', collect)
    .option(
      '--bind <a,b>',
      'columns that identify the row, such as id: each cell is bound to them too. They must never change',
      collect,
    )
    .option('--delimiter <c>', 'the character between cells; tab for a tab', ',')
    .option(
      '--empty-is-null',
      'an empty cell without quotes is null and stays empty, as COPY of PostgreSQL writes NULL; "" is an empty text. Otherwise both are an empty text',
    )
  return addOutputOptions(command).addHelpText('after', CSV_HELP)
}

interface Choice {
  model: string
  columns: readonly string[]
  index: readonly string[]
  bind: readonly string[]
  delimiter: string
  /** Whether a cell without text and without quotes is null, as PostgreSQL's COPY writes it. */
  emptyIsNull: boolean
}

type Row = Record<string, Cell>

const MOST_SHOWN = 20

async function runCsv(io: Io, name = '-', given: CsvOptions, isEncrypting: boolean): Promise<void> {
  const { key } = given
  const choice = readChoice(given)
  const out = readOut(given, () => (isEncrypting ? sealedName(name) : plainName(name)))
  assertReportable(given, out)
  assertOneInput(name, given)
  await withClient(io, given, {}, async (eaas) => {
    const input = await openInput(io, name)
    const output = await openOutput(io, out, {
      force: given.force ?? false,
      mode: isEncrypting ? undefined : PRIVATE_MODE,
      source: input.stats,
    })
    const progress = showProgress(io, isEncrypting ? 'encrypting' : 'decrypting', input.size)
    const rows = await writing(output, async () => {
      const use = isEncrypting ? { create: given.createKey ?? false } : { decrypts: true }
      const keyId = await findKeyId(eaas, key, io, use)
      let count = 0
      try {
        const chunks = withProgress(input.stream, (bytes) => progress.add(bytes))
        for await (const { part, rows } of convert(io, chunks, { eaas, keyId, choice, isEncrypting })) {
          await output.write(part)
          count += rows
        }
      } finally {
        progress.done()
      }
      return count
    })
    const result = { out, rows, columns: choice.columns }
    await report(io, { given, out }, result, `${out}: ${counted(rows, 'row')}, columns ${choice.columns.join(', ')}`)
  })
}

function readChoice({ model, emptyIsNull = false, ...given }: CsvOptions): Choice {
  const columns = readNames('columns', given.columns)
  const [index, bind] = [readNames('index', given.index), readNames('bind', given.bind)]
  if (columns.length === 0) throw new ArgumentsError('--columns is missing')
  const stranger = index.find((column) => !columns.includes(column))
  if (stranger !== undefined) throw new ArgumentsError(`--index: ${JSON.stringify(stranger)} is none of --columns`)
  const delimiter = given.delimiter === 'tab' ? '\t' : given.delimiter
  if ([...delimiter].length !== 1 || /["\r\n]/.test(delimiter))
    throw new ArgumentsError('--delimiter must be one character other than a quote or a line break, or the word tab')
  return { model, columns, index, bind, delimiter, emptyIsNull }
}

type Work = { eaas: Client; keyId: string; choice: Choice; isEncrypting: boolean }

async function* convert(
  { signal }: Io,
  chunks: AsyncIterable<Uint8Array>,
  { eaas, keyId, choice, isEncrypting }: Work,
): AsyncGenerator<{ part: string; rows: number }, void> {
  const { columns, index, bind, delimiter, emptyIsNull } = choice
  const indexColumns = index.map(indexColumnOf)
  const fieldOf = (name: string) => {
    const field = text(index.includes(name) ? { index: indexColumnOf(name) } : {})
    return emptyIsNull ? field.nullable() : field
  }
  const fields = Object.fromEntries(columns.map((name) => [name, fieldOf(name)]))
  // Columns that are neither encrypted nor bound stay as they are, with or without quotes.
  const isText = new Set([...(emptyIsNull ? [] : columns), ...bind])
  let done = 0
  for await (const { header, rows, lineBreak, mark } of readBlocks(chunks, delimiter)) {
    if (rows === undefined) assertHeader(header, choice, isEncrypting)
    const kept = header.filter((name) => !indexColumns.includes(name))
    const written = isEncrypting ? [...header, ...indexColumns] : kept
    const write = (cells: readonly Cell[]) => writeRow(cells, { delimiter, lineBreak })
    if (rows === undefined) {
      yield { part: mark + write(written.map((name) => name || null)), rows: 0 }
      continue
    }
    const model = eaas.model({ name: choice.model, keyId, bind: bind.length > 0 && bind, format: 'text', fields })
    const read = (cells: readonly Cell[]) =>
      header.map((name, at): [string, Cell] => [name, cells[at] ?? (isText.has(name) ? '' : null)])
    const records = rows.map((cells): Row => Object.fromEntries(read(cells)))
    if (isEncrypting) assertPlain(records, columns, done)
    const converted = isEncrypting
      ? await model.encryptMany(records, { signal }).catch((error) => refuseCell(error, done))
      : await model.decryptMany(records as never, { signal }).then(({ ok, failed: [first] }) => {
          if (!first) return ok
          const isEmpty = (name: string) =>
            !emptyIsNull && columns.includes(name) && records[first.index]?.[name] === ''
          return refuseCell(first.error, done, first.index, isEmpty)
        })
    done += rows.length
    // An empty text needs quotes only where it must differ from null.
    const cellOf = (row: Row, name: string) => row[name] || (isText.has(name) ? null : (row[name] ?? null))
    const part = (converted as unknown as Row[]).map((row) => write(written.map((name) => cellOf(row, name)))).join('')
    yield { part, rows: rows.length }
  }
}

function assertPlain(records: readonly Row[], columns: readonly string[], before: number): void {
  for (const [at, record] of records.entries()) {
    const sealed = columns.find((name) => record[name] && isEnvelope(record[name]))
    if (sealed === undefined) continue
    const where = `row ${before + at + 1}, column ${JSON.stringify(sealed)}`
    throw new UsageError(`${where}: it is encrypted already; leave the column out of --columns`)
  }
}

/** Adds the row and column in the file to an error. @throws CommandError, UsageError; other errors stay */
function refuseCell(
  error: unknown,
  before: number,
  index?: number,
  isEmpty: (name: string) => boolean = () => false,
): never {
  if (!isEaasError(error)) throw error
  const place = 'place' in error ? error.place : undefined
  const at = place?.index ?? index
  if (at === undefined) throw error
  const field = place === undefined ? '' : `, column ${JSON.stringify(place.field)}`
  const where = `row ${before + at + 1}${field}`
  if (place && isEmpty(place.field))
    throw new UsageError(`${where}: the cell is empty. Pass --empty-is-null, if encrypt-csv had it.`)
  const message = withoutPlace(error)
  const isAltered = error.code === 'E_DECRYPTION'
  const hint = isAltered ? 'Pass the same --model, --columns and --bind as to encrypt-csv.' : error.hint
  const exitCode = isAltered ? NOT_AUTHENTIC : error.code === 'E_INVALID_INPUT' ? USAGE : 1
  throw new CommandError(`${where}: ${message}. ${hint}`, exitCode)
}

function assertHeader(header: readonly string[], { columns, index, bind }: Choice, isEncrypting: boolean): void {
  const shown = header.slice(0, MOST_SHOWN).map((name) => JSON.stringify(name))
  const known = [...shown, ...(header.length > MOST_SHOWN ? ['…'] : [])].join(', ')
  const seen = new Set<string>()
  for (const name of header) {
    if (seen.has(name)) throw new UsageError(`the file has two columns ${JSON.stringify(name)}`)
    seen.add(name)
  }
  if (header.includes('__proto__')) throw new UsageError('a column cannot be named "__proto__"')
  const needed = [...columns, ...bind, ...(isEncrypting ? [] : index.map(indexColumnOf))]
  for (const name of needed) {
    if (!header.includes(name)) throw new UsageError(`the file has no column ${JSON.stringify(name)}. It has: ${known}`)
  }
  const dotted = columns.find((name) => name.includes('.'))
  if (dotted !== undefined)
    throw new UsageError(`${JSON.stringify(dotted)}: a dot leads into an object in a model, so rename the column`)
  const taken = isEncrypting ? index.map(indexColumnOf).find((name) => header.includes(name)) : undefined
  if (taken !== undefined) throw new UsageError(`the file already has a column ${JSON.stringify(taken)}`)
}

function indexColumnOf(name: string): string {
  return `${name}_index`
}

async function* withProgress(
  chunks: AsyncIterable<Uint8Array>,
  add: (bytes: number) => void,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    add(chunk.length)
    yield chunk
  }
}
