/** `backfill`: encrypts a table that is in use, adds its indexes, rewraps or reseals it, or restores its plaintext. */
import { counted, quoteWord } from '@eaas/protocol'
import { AbortedError } from '@eaas/sdk'
import { type Command, Option } from 'commander'
import { addDecryptingOptions, readKeptPath } from './arguments.js'
import { type BackfillReport, type BackfillWork, backfillWith, WORKS } from './backfill/backfill.js'
import type { ConstrainReport } from './backfill/constrain.js'
import type { PlanStep } from './backfill/plan.js'
import type { Table, TableSource } from './backfill/table.js'
import { addCounts, openState, type Stand } from './backfill-state.js'
import { describeCounts, inspect } from './inspect-table.js'
import { ArgumentsError, CommandError, type Io, print, tell } from './io.js'
import { loaderFor, optionWord } from './model-module.js'
import { showBar } from './progress.js'
import type { OpenTable, TableOptions } from './table-command.js'
import { addTableOptions, assertNoFailures, describeProgress, MODULE_HELP, withTable } from './table-command.js'

interface BackfillCommandOptions extends TableOptions {
  work: BackfillWork
  dryRun?: boolean
  state?: string
  read?: string
  constrain?: boolean
  plan?: boolean
}

export function addBackfill(program: Command, io: Io): void {
  const command = program
    .command('backfill')
    .summary('encrypt a PostgreSQL table in place, or open it; add indexes, rewrap, reseal')
    .usage('<module> --table <name> [options]')
    .description(
      'Works through a table of PostgreSQL that is in use, page by page, and writes a row only if nobody changed it meanwhile. It may be killed and run again: rows that are done are only read. It accepts what the model accepts, such as plaintext with acceptPlaintext. A row that fails stays as it is, is shown by its key, and makes the exit code 1. Ctrl-C ends it after the page that is being written. Each new wrapped key is unwrapped once before a value depends on it, so the API key needs unwrap as well as wrap. --work open restores the plaintext in place; open and check need only unwrap, or a recovery kit (--kit).',
    )
    .argument('<module>', MODULE_HELP)
    .addOption(
      new Option(
        '--work <work>',
        'seal: rows that are not sealed as the model seals, and indexes that are missing\nindex: indexes that differ from what the values give, missing ones first\nrewrap: wrapped keys of an old version, after a rotation\nreseal: every row, under new data keys\nopen: the opposite of seal: writes the plaintext, and leaves the indexes\ncheck: open every row, and write nothing',
      )
        .choices(WORKS)
        .default('seal'),
    )
    .option(
      '--plan',
      'print the steps in which to encrypt this table, so that searches find its rows throughout, with their commands and SQL, and which of them are done. Changes nothing',
    )
    .option('--dry-run', 'read and check everything, and write nothing')
    .option(
      '--state <file>',
      'keep the position in this file, and continue there; it is removed at the end',
      readKeptPath,
    )
    .option('--read <name>', 'an export that reads what another library encrypted: { email: cloakReader({ ... }) }')
    .option(
      '--constrain',
      'at the end, add check constraints by which the database refuses plaintext in the columns of the model, if nothing is in plaintext; with --dry-run, print their SQL. Needs the owner of the table. --work open needs them dropped',
    )
    .option('--create-key', 'create the key of --key if there is none of that name; needs the permission keys:create')
  addTableOptions(command, addDecryptingOptions).action((module: string, options: BackfillCommandOptions) =>
    options.plan ? printPlan(io, command, { file: module, given: options }) : backfill(io, module, options),
  )
}

async function backfill(io: Io, file: string, given: BackfillCommandOptions): Promise<void> {
  const { table: name, work, dryRun = false, constrain = false } = given
  if (dryRun && given.state !== undefined)
    throw new ArgumentsError('--dry-run begins at the first row each time: leave out --state')
  const isOpening = work === 'open' || work === 'check'
  if (given.kit !== undefined && !isOpening)
    throw new ArgumentsError('a recovery kit opens, and does nothing else: --kit is for --work open and check')
  if (given.createKey && isOpening)
    throw new ArgumentsError(`--work ${work} needs a key that is there: leave out --create-key`)
  if (constrain && isOpening) throw new ArgumentsError(`--work ${work} seals nothing: leave out --constrain`)
  const createKey = isOpening ? undefined : (given.createKey ?? false)
  const { report, constrained } = await withTable(
    io,
    file,
    { ...given, createKey, decrypts: isOpening },
    async (open) => {
      const report = await runBackfill(io, given, { open, work, dryRun })
      const isDue = constrain && report.failed === 0 && report.contended === 0
      // The report of the written rows is printed even if the constraints cannot be added.
      const [constrained] = isDue ? await Promise.allSettled([open.constrain({ dryRun })]) : []
      return { report, constrained }
    },
  )
  const added = constrained?.status === 'fulfilled' ? constrained.value : undefined
  if (given.json) await print(io, JSON.stringify({ table: name, work, dryRun, ...report, ...added }))
  else if (work === 'check') await print(io, describeCheck(name, report), ...describeCounts(report))
  else await print(io, describe(name, report, dryRun), ...describeConstraints(name, added, dryRun))
  if (constrained?.status === 'rejected') throw constrained.reason
  if (report.contended > 0)
    tell(io, `${counted(report.contended, 'row was', 'rows were')} changed or locked each time: run it again`)
  if (constrain && constrained === undefined)
    tell(io, `no constraint was added, and ${name} still accepts plaintext: once no row fails, run it again`)
  const failed = work === 'index' ? 'failed' : 'failed, and stay as they were'
  assertNoFailures(io, report, work === 'check' ? 'do not open' : failed)
  if (report.contended > 0) throw new CommandError('there is more to do')
}

type Run = { open: OpenTable; work: BackfillWork; dryRun: boolean }

async function runBackfill(
  io: Io,
  given: BackfillCommandOptions,
  { open, work, dryRun }: Run,
): Promise<BackfillReport> {
  const { sdk, model, table, speed } = open
  const { read: readers, state: file } = given
  const state = file === undefined ? undefined : await openState(io, file, await identify(io, given, open))
  const before = state?.found
  let stand: Stand | undefined = before
  const bar = showBar(io, VERBS[work])
  const stop = createStop(io.signal)
  try {
    const running = backfillWith(sdk, model, stop.between(table), {
      ...speed,
      work,
      dryRun,
      read: readers === undefined ? undefined : (open.get(readers) as Record<string, never>),
      after: before?.after,
      signal: stop.signal,
      async onProgress(progress) {
        const done = addCounts(before?.done, progress)
        const total = progress.total === undefined ? undefined : progress.total + (before?.done.rows ?? 0)
        bar.show(done.rows, total, describeProgress({ ...progress, ...done }))
        // While rows are contended, `after` stays, and the counts are ahead of it.
        if (dryRun) stand = { after: '', done }
        else if (progress.after !== undefined && progress.contended === 0) {
          stand = { after: progress.after, done }
          await state?.save(stand)
        }
        stop.mayEnd()
      },
    })
    const report = await untilAborted(running, stop.signal)
    if (report.contended === 0) await state?.clear()
    return { ...report, ...addCounts(before?.done, report) }
  } catch (error) {
    bar.done()
    if (stand) tell(io, describeStop(stand, { isKept: state !== undefined, dryRun }))
    throw error
  } finally {
    bar.done()
  }
}

/** Returns what two runs must share for the later one to continue the earlier one. */
async function identify(io: Io, { work, read }: BackfillCommandOptions, { sdk, model, identity }: OpenTable) {
  const run = { ...identity, work, read: read ?? null }
  // A rotation makes rows due again that the earlier run rewrapped.
  return work === 'rewrap' ? { ...run, versions: await sdk.getVersions(model, { signal: io.signal }) } : run
}

/** Settles as the promise does, or rejects with AbortedError when the signal is aborted first. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    promise.then(resolve, reject)
    const refuse = () => reject(new AbortedError(signal))
    if (signal.aborted) refuse()
    else signal.addEventListener('abort', refuse, { once: true }) // no other code uses this signal
  })
}

/** Lets an interrupted run end between two pages or while it waits, but not while it writes. */
function createStop(interruption: AbortSignal) {
  const controller = new AbortController()
  let isBusy = false
  const end = () => {
    if (interruption.aborted && !isBusy) controller.abort(interruption.reason)
  }
  interruption.addEventListener('abort', end, { once: true })
  end()
  return {
    signal: controller.signal,
    between(source: TableSource): TableSource {
      return async (columns) => {
        const table: Table = typeof source === 'function' ? await source(columns) : source
        const busy =
          (page: Table['page']): Table['page'] =>
          (after, limit) => {
            isBusy = true
            return page(after, limit)
          }
        const { lacking } = table
        return { ...table, page: busy(table.page), lacking: lacking && { ...lacking, page: busy(lacking.page) } }
      }
    },
    mayEnd() {
      isBusy = false
      end()
    },
  }
}

const VERBS: Readonly<Record<BackfillWork, string>> = {
  seal: 'sealing',
  index: 'indexing',
  rewrap: 'rewrapping',
  reseal: 'resealing',
  open: 'opening',
  check: 'checking',
}

function describeCheck(name: string, { rows, current, failed }: BackfillReport): string {
  return `${name}: ${counted(rows, 'row')}, ${current} readable, ${failed} failed`
}

function describe(name: string, report: BackfillReport, dryRun: boolean): string {
  const { rows, changed, current, failed, contended, gone } = report
  const more = Object.entries({ failed, contended, gone }).flatMap(([word, count]) =>
    count === 0 ? [] : [`, ${count} ${word}`],
  )
  return `${name}: ${counted(rows, 'row')}, ${changed} ${dryRun ? 'to change' : 'changed'}, ${current} current${more.join('')}`
}

function describeConstraints(name: string, added: ConstrainReport | undefined, dryRun: boolean): string[] {
  if (added === undefined) return []
  const { constraints, statements } = added
  return dryRun
    ? statements.map((statement) => `${statement};`)
    : [`${name} refuses plaintext now: ${constraints.join(', ')}`]
}

function describeStop({ done }: Stand, { isKept, dryRun }: { isKept: boolean; dryRun: boolean }): string {
  const so = `stopped after ${counted(done.rows, 'row')}`
  if (dryRun) return `${so}; nothing was written`
  const how = isKept
    ? 'run the same command again to go on there'
    : 'run the same command again: rows that are done cost reading only, and with --state <file> not even that'
  return `${so}, which stay as they are now: ${how}`
}

/** The options that say what a run does, not on which table: a plan writes its own. */
const OF_A_RUN = ['work', 'dryRun', 'state', 'constrain', 'kit']

async function printPlan(
  io: Io,
  command: Command,
  { file, given }: { file: string; given: TableOptions },
): Promise<void> {
  const options = command.options.filter((one) => command.getOptionValueSource(one.attributeName()) === 'cli')
  const stray = options.find((one) => OF_A_RUN.includes(one.attributeName()))
  if (stray) throw new ArgumentsError(`--plan prints each step with its command: leave out ${stray.long}`)
  const words = options.flatMap((one): string[] => {
    const value: unknown = command.getOptionValue(one.attributeName())
    if (one.long === '--plan' || one.long === '--json') return []
    const name = one.long ?? ''
    return value === true ? [name] : [value].flat().map((text) => optionWord(name, String(text)))
  })
  const line = `${loaderFor(file)}npx @eaas/cli backfill ${[quoteWord(file), ...words].join(' ')}`
  const { left, steps } = await withTable(io, file, { ...given, createKey: undefined, mayCallNothing: true }, (open) =>
    open.plan({ command: (more) => `${line} ${more}`, inspect: () => inspect(io, open, { open: false }) }),
  )
  if (given.json) await print(io, JSON.stringify({ table: given.table, left: left ?? null, steps }))
  else
    await print(
      io,
      `${given.table}: ${left ?? 'the columns of the model are not there yet'}`,
      ...steps.flatMap(describeStep),
    )
}

function describeStep({ step, done, run }: PlanStep, at: number): string[] {
  return [`${at + 1}. ${done ? 'done: ' : ''}${step}`, ...(done ? [] : run.map((line) => `     ${line}`))]
}
