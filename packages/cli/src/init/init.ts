/** `init`: sets up an application's first encrypted table, and shows each change before it is made. */
import { existsSync, realpathSync } from 'node:fs'
import { mkdir, rmdir, stat } from 'node:fs/promises'
import { dirname, isAbsolute, relative, sep } from 'node:path'
import { createInterface } from 'node:readline'
import { visibleLine } from '@eaas/protocol'
import type { Command } from 'commander'
import { collect, readNames } from '../arguments.js'
import { refuseUnwritten, resolvePath } from '../files.js'
import { ArgumentsError, CommandError, type Io, print, UsageError, write } from '../io.js'
import { loaderFor } from '../model-module.js'
import { type Output, openOutput, PRIVATE_MODE } from '../output.js'
import type { Application, Column, FieldKind, FoundTable } from './application.js'
import { guide, installSteps, readApplication, readIfThere, versionWarning } from './application.js'
import { modelPath, wrapClient } from './client.js'
import { changeDrizzle, readDrizzle } from './drizzle.js'
import { changeKysely, readKysely } from './kysely.js'
import { type Change, isConverted } from './migration.js'
import { backfillLine, type ModelFile, modelFile, specifier } from './model-file.js'
import { changePrisma, readPrisma } from './prisma.js'
import { slugOf, unifiedDiff } from './source-text.js'
import { changeTypeorm, readTypeorm } from './typeorm.js'

const CHANGES = { prisma: changePrisma, drizzle: changeDrizzle, kysely: changeKysely, typeorm: changeTypeorm } as const

const READS: Readonly<Partial<Record<string, string>>> = {
  'drizzle-orm': "const users = pgTable('users', { … }), and those of pgSchema() and pgTableCreator()",
  kysely: 'tables named without a schema in the interface of new Kysely<Database>(…)',
  typeorm: 'classes with @Entity()',
}

/** What removes constraints again. */
const DROPS: Readonly<Partial<Record<FoundTable['orm'], string>>> = {
  drizzle: 'drizzle-kit push drops',
  typeorm: 'synchronize and migration:generate drop',
}

type InitOptions = { table?: string; fields?: string[]; search?: string[]; timeZone?: string; yes?: boolean }

export function addInit(program: Command, io: Io): void {
  program
    .command('init')
    .summary('set up an application of Prisma, Drizzle, Kysely or TypeORM for its first encrypted table')
    .usage('[--table <name> --fields <a,b>] [options]')
    .description(
      'Finds the schema and the client of the application in this folder, and adds what encrypts a table: a file with the model, the line that wraps the client, the columns of indexes, a type that holds an encrypted value for each column, constraints that refuse plaintext, the migration for Prisma, and EAAS_URL and EAAS_API_KEY in .env.local if it is there, otherwise in .env. Shows all of it as a diff, and asks. It replaces no file. It prints what it cannot place with certainty. On a terminal it asks for the options that are missing.',
    )
    .option('--table <name>', 'the table, as the schema or the database calls it')
    .option(
      '--fields <a,b>',
      'the columns to encrypt, by either name: text, times, numbers, booleans and JSON',
      collect,
    )
    .option('--search <a,b>', 'those of them that are searched by equality, which get an index', collect)
    .option(
      '--time-zone <zone>',
      'for timestamps without a zone in TypeORM and Kysely, which mean the local time of the application: its zone, such as Europe/Paris (default: that of this process if it is UTC)',
    )
    .option('-y, --yes', 'write without a question')
    .action((options: InitOptions) => init(io, options))
}

async function init(io: Io, given: InitOptions): Promise<void> {
  const app = readApplication(io)
  const tables = [...readPrisma(app), ...readDrizzle(app), ...readKysely(app), ...readTypeorm(app)]
  if (tables.length === 0)
    throw new UsageError(`no table of Prisma, Drizzle, Kysely or TypeORM was found${unseen(app)}`)
  const ask = io.stdin.isTTY ? createQuestions(io) : undefined
  const nameOf = ({ name }: FoundTable) => slugOf(name.charAt(0).toLowerCase() + name.slice(1))
  const pathOf = (table: FoundTable) => modelPath(app, table, `eaas-${nameOf(table)}`)
  const { table, columns, search } = await choose(tables, given, {
    ask,
    unseen: unseen(app),
    kindOf: (table, field) => findKind(readIfThere(io, pathOf(table)), field),
  })
  const path = pathOf(table)
  const there = readIfThere(io, path)
  const model = { table, columns, search, path, name: `${nameOf(table)}Model` }
  app.files.set(path, modelFile(model, specifier(app, path, table.path)))
  if (there !== undefined && there !== app.files.get(path))
    throw new UsageError(`${path}: it exists already with another content, and is not replaced`)
  const lacking = columns.filter(
    ({ name, index }) => search.includes(name) && !table.columns.some((one) => one.name === index.name),
  )
  const change = { table, columns, lacking, timeZone: 'UTC' }
  const isFirst = there === undefined || !isSchemaDone(app, change, io)
  if (isFirst) {
    if (hasLocalTimes(table, columns)) change.timeZone = await chooseZone(io, given, ask)
    CHANGES[table.orm](app, change, io)
  }
  wrapClient(app, table, model)
  const env = addToEnv(io, app)
  // The schema is written last and the model before it: after a kill between two files, the model shows the next run
  // that all files before it exist, and the schema that all do.
  const rank = ({ file }: FileChange) => [path, table.path].indexOf(file)
  const changes = [...app.files]
    .map(([file, after]) => ({ file, before: app.sources.get(file) ?? readIfThere(io, file), after }))
    .filter(({ before, after }) => before !== after)
    .sort((one, other) => rank(one) - rank(other))
  for (const change of changes) assertAsRead(io, change)
  const diff = changes.flatMap(({ file, before, after }) => [...unifiedDiff(file, before, after), ''])
  await write(io.stdout, diff.map((line) => `${line.split('\t').map(visibleLine).join('\t')}\n`).join(''))
  const notes = [versionWarning(app, table.orm), ...(isFirst ? changedUses(columns) : [])]
  for (const note of notes.filter((one) => one !== undefined)) await print(io, `note: ${note}`)
  if (changes.length > 0 && !given.yes) {
    if (!ask) throw new UsageError('nothing was written: pass --yes to write this, or run it on a terminal')
    if (!/^y(es)?$/i.test(await ask('Write this? [y/N] '))) throw new CommandError('nothing was written')
  }
  await writeChanges(io, changes)
  await print(io, changes.length > 0 ? 'Written. Next:' : 'Every file has it already. Next:')
  const other = columns.filter((one) => isConverted(one) && one.type !== 'character varying').map(({ name }) => name)
  const drops = DROPS[table.orm]
  const steps = [
    ...installSteps(app, table.orm, resolvePath(io, '.')),
    ...(loaderFor(path) && !app.packages.has('tsx') ? ['npm install --save-dev tsx'] : []),
    ...(isFirst && other.length > 0
      ? [`when the new version is ready, end the running one: it cannot use ${other.join(', ')} as text`]
      : []),
    ...app.byHand,
    `npx @eaas/server dev --file ${env}`,
    ...(isFirst ? [...adoption(model, other.length > 0), `then remove acceptPlaintext from ${path}`] : []),
    'with DATABASE_URL set, this prints the steps that are left:',
    backfillLine(model, '--plan'),
    ...(drops ? [`${drops} the constraints that the schema lacks: ${guide('refusing-plaintext', '@eaas/cli')}`] : []),
  ]
  await print(io, ...steps.map((step) => `  ${step}`))
}

/** Whether an earlier run finished: it writes the schema last. */
function isSchemaDone(app: Application, change: Change, io: Io): boolean {
  const files = new Map(app.files)
  CHANGES[change.table.orm]({ ...app, files, byHand: [] }, change, io)
  return files.get(change.table.path) === app.files.get(change.table.path)
}

function unseen({ packages }: Application): string {
  const [name, reads] = Object.entries(READS).find(([one]) => packages.has(one)) ?? []
  const page = name === 'drizzle-orm' ? 'drizzle' : (name ?? 'orms')
  return `${reads ? `. init reads ${reads}; for others, write the model and the call of encrypted() by hand` : ''}: see ${guide(page)}`
}

function changedUses(columns: readonly Column[]): string[] {
  const texts = columns.filter((one) => one.kind === 'text' && isConverted(one) && one.type !== 'character varying')
  const [days, others] = [true, false].map((isDay) =>
    texts.flatMap(({ name, type }) => ((type === 'date') === isDay ? name : [])).join(', '),
  )
  return [
    ...(days
      ? [
          `${days}: a day as text has no search by range. For one, first make it a JavaScript Date (date({ mode: 'date' }) in Drizzle, timestamptz in TypeORM): init then takes date(), and the application writes and compares Dates`,
        ]
      : []),
    ...(others
      ? [
          `${others}: the database neither checks nor rounds text, so 12.5 and 12.50 are two values for a search, and there is none by range`,
        ]
      : []),
  ]
}

/** The kind of a field in the model's file that an earlier run wrote: the column no longer shows it. */
function findKind(model: string | undefined, field: string): FieldKind | undefined {
  return new RegExp(`^ +${field}: (text|date|number|boolean|json)\\b`, 'm').exec(model ?? '')?.[1] as
    | FieldKind
    | undefined
}

/** The steps that encrypt existing rows, while searches find them. */
function adoption(model: ModelFile, isEnded: boolean): string[] {
  const fill = backfillLine(model, '--work index')
  const isSearched = model.search.length > 0
  const isAgain = isSearched && !isEnded
  return [
    ...(isSearched
      ? [
          `with DATABASE_URL set${isEnded ? '' : ', and while the application runs as it was'}, fill the indexes of the rows that are there:`,
          fill,
        ]
      : []),
    `deploy the application${isAgain ? '; then, for rows that the version before wrote since, again:' : ''}`,
    ...(isAgain ? [fill] : []),
    'encrypt the rows, and make the database refuse plaintext:',
    backfillLine(model, '--constrain'),
  ]
}

type Ask = (question: string) => Promise<string>

/** Asks on standard error, and reads a line from standard input. */
function createQuestions({ stdin, stderr, signal }: Io): Ask {
  const lines = createInterface({ input: stdin, signal })[Symbol.asyncIterator]()
  return async (question) => {
    stderr.write(visibleLine(question))
    const { value, done } = await lines.next()
    if (done || signal.aborted) throw new CommandError('nothing was written: standard input has ended')
    return value.trim()
  }
}

async function choose(
  tables: readonly FoundTable[],
  given: InitOptions,
  {
    ask,
    unseen,
    kindOf,
  }: { ask: Ask | undefined; unseen: string; kindOf: (table: FoundTable, field: string) => FieldKind | undefined },
) {
  const all = tables.map(({ name }) => name).join(', ')
  const wanted = given.table ?? (await ask?.(`Table (${all}): `))
  if (wanted === undefined)
    throw new ArgumentsError(`--table is missing${given.fields ? '' : ', and so is --fields'}. There are: ${all}`)
  const isNamed = (text: string) => [text, `${text}s`].some((one) => one.toLowerCase() === wanted.toLowerCase())
  const exact = tables.filter(({ name, stored, schema }) => [name, stored, `${schema}.${stored}`].includes(wanted))
  const found = exact.length > 0 ? exact : tables.filter(({ name, stored }) => isNamed(name) || isNamed(stored))
  const [table, other] = found
  if (!table || other)
    throw new UsageError(
      table
        ? `${wanted} is in ${table.path} and in ${other?.path}`
        : `there is no ${wanted}. There are: ${all}${unseen}`,
    )
  if (table.id.length === 0)
    throw new UsageError(`${table.name} has no primary key that init can read: see ${guide('orms')}`)
  const fit = table.columns
    .filter(({ refusal }) => refusal === undefined)
    .map(({ name }) => name)
    .join(', ')
  const answer = async (question: string) => (await ask?.(question))?.split(/[\s,]+/).filter(Boolean)
  const fields = given.fields ? readNames('fields', given.fields) : await answer(`Columns to encrypt (${fit}): `)
  const unfit = table.columns.flatMap(({ name, refusal }) => (refusal ? `${name} ${refusal}` : []))
  const has = `${fit || 'none that fits'}${unfit.length > 0 ? `. Not taken: ${unfit.join('; ')}` : ''}`
  if (!fields?.length) throw new ArgumentsError(`--fields is missing. ${table.name} has: ${has}`)
  const find = (wanted: string) =>
    table.columns.find(({ name }) => name === wanted) ?? table.columns.find(({ stored }) => stored === wanted)
  const columns = fields.map((wanted) => {
    const column = find(wanted)
    if (!column) throw new UsageError(`${table.name} has no ${wanted}. It has: ${has}`)
    const { name, refusal } = column
    const kind = kindOf(table, name)
    if (refusal && !(kind && column.stored)) throw new UsageError(`${table.name}.${name} ${refusal}`)
    return { ...column, kind: kind ?? column.kind }
  })
  const isAsked = given.search === undefined && !given.yes
  const searched = isAsked ? await answer('Those to search by equality (none): ') : readNames('search', given.search)
  const search = (searched ?? []).map((wanted) => {
    const column = columns.find(({ name }) => name === find(wanted)?.name)
    if (!column) throw new ArgumentsError(`--search ${wanted}: it is not one of --fields`)
    if (!['boolean', 'json'].includes(column.kind)) return column.name
    throw new ArgumentsError(`--search ${wanted}: a field of ${column.kind}() has no index`)
  })
  return { table, columns, search }
}

/** Whether drivers return some of these columns in the process's local time. */
function hasLocalTimes({ orm }: FoundTable, columns: readonly Column[]): boolean {
  return ['kysely', 'typeorm'].includes(orm) && columns.some(({ type }) => /^timestamp( without.*)?$/.test(type))
}

/** @throws UsageError if none is given, or it is not a zone's name */
async function chooseZone(io: Io, { timeZone }: InitOptions, ask: Ask | undefined): Promise<string> {
  const own = io.env.TZ ?? new Intl.DateTimeFormat().resolvedOptions().timeZone
  const wanted =
    timeZone ?? (/^(Etc\/)?UTC$/.test(own) ? 'UTC' : await ask?.('Time zone of the application, such as UTC: '))
  if (!wanted)
    throw new ArgumentsError(
      `--time-zone is missing: these columns hold times without a zone, which mean the local time of the application. Pass its zone, such as UTC or ${own}`,
    )
  // PostgreSQL reads the sign of +02:00 the other way round.
  if (/^[A-Z]\w*(\/[\w+-]+)*$/i.test(wanted) && isZone(wanted)) return wanted
  throw new ArgumentsError(`--time-zone ${wanted}: there is no such zone. Pass its name, such as UTC or Europe/Paris`)
}

function isZone(timeZone: string): boolean {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone }))
  } catch {
    return false
  }
}

/** Adds missing variables, which `eaas dev` fills in. Returns the file. */
function addToEnv(io: Io, { files }: Application): string {
  const file = existsSync(resolvePath(io, '.env.local')) ? '.env.local' : '.env'
  const before = readIfThere(io, file) ?? ''
  const missing = ['EAAS_URL=http://127.0.0.1:8420', 'EAAS_API_KEY='].filter(
    (line) => !new RegExp(`^\\s*(export\\s+)?${line.split('=')[0]}\\s*=`, 'm').test(before),
  )
  if (missing.length > 0) files.set(file, `${before}${/[^\n]$/.test(before) ? '\n' : ''}${missing.join('\n')}\n`)
  return file
}

type FileChange = { file: string; before: string | undefined; after: string }

/** @throws UsageError if the file changed since it was read, is not UTF-8, or is elsewhere */
function assertAsRead(io: Io, { file, before }: FileChange): void {
  if (readIfThere(io, file) !== before) throw new UsageError(`${file}: it was changed meanwhile. Run init again`)
  let nearest = resolvePath(io, file)
  while (!existsSync(nearest)) nearest = dirname(nearest)
  const way = relative(realpathSync(io.folder), realpathSync(nearest))
  if (way.split(sep)[0] === '..' || isAbsolute(way))
    throw new UsageError(
      `${file}: a symbolic link leads out of this folder. Make this change yourself, or remove the link`,
    )
}

/** Writes all contents before renaming any file, so that a full disk changes no file. */
async function writeChanges(io: Io, changes: readonly FileChange[]): Promise<void> {
  const outputs: Output[] = []
  const folders: string[] = []
  const names = (some: readonly Output[]) => some.map(({ name }) => name).join(', ')
  let written = 0
  try {
    for (const change of changes) {
      folders.push(...(await makeFolder(io, change.file)))
      const output = await openChange(io, change)
      outputs.push(output)
      await output.write(change.after)
      await output.flush()
    }
    for (const change of changes) assertAsRead(io, change)
    for (const output of outputs) {
      await output.commit()
      written++
    }
  } catch (error) {
    for (const output of outputs.slice(written)) await output.discard()
    for (const folder of folders.reverse()) await rmdir(folder).catch(() => undefined) // it holds a file
    if (!(error instanceof UsageError || error instanceof CommandError)) throw error
    const why = error.message.replace(', and nothing was', '').replace(/\.$/, '')
    const what =
      written === 0
        ? 'Nothing was written'
        : `Only written: ${names(outputs.slice(0, written))}; not: ${names(outputs.slice(written))}. Then run init again with the same options, which finishes it`
    throw new (error instanceof UsageError ? UsageError : CommandError)(`${why}. ${what}`)
  }
}

/** Creates the folders of a file. Returns the new ones, outermost first. */
async function makeFolder(io: Io, file: string): Promise<string[]> {
  const last = dirname(resolvePath(io, file))
  const first = await mkdir(last, { recursive: true }).catch((error: unknown) => refuseUnwritten(io, file, error))
  const made: string[] = []
  for (let one = last; first !== undefined && one.length >= first.length; one = dirname(one)) made.unshift(one)
  return made
}

async function openChange(io: Io, { file, before }: FileChange): Promise<Output> {
  const isThere = before !== undefined
  const mode = file.startsWith('.env') ? PRIVATE_MODE : undefined
  const source = isThere ? await stat(resolvePath(io, file)) : undefined
  return openOutput(io, file, { force: isThere, inPlace: isThere, source, mode })
}
