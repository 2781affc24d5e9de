/** Walks through a table page by page. Writes each row by compare-and-swap, and repeats it if another writer was faster. */
import { setTimeout } from 'node:timers/promises'
import { ContentError, type EaasError, InvalidInputError, isEaasError } from '@eaas/sdk'
import { assertNotAborted, type Maintenance, type Outcome, type Row, withoutPlace } from '@eaas/sdk/maintenance'
import { conversionOf } from './cast-texts.js'
import { readAfter, type Table, type TableChange, type TableRow, writeAfter } from './table.js'

/** How often a row is read again before the run goes on without it. At the end it is read once more, and then as often. */
const MAX_ROUNDS = 6
const FIRST_PAUSE_MS = 10
const MAX_FAILURES = 100
const MAX_KEYS = 10
/** How many keys of rows that were done first are kept in memory, so that none is worked on or counted twice. */
const MAX_AHEAD = 1_000_000

/** A row that stays as it was, although the work `index` may have written indexes of its other fields. */
export interface RowFailure {
  key: string
  /** The field of the model that failed, if it is one field. */
  field: string | undefined
  code: string
  message: string
}

export interface FailureCause extends Omit<RowFailure, 'key'> {
  rows: number
  /** The keys of the first 10. */
  keys: string[]
}

export interface BackfillProgress {
  /** The rows that were read, each counted once. */
  rows: number
  changed: number
  current: number
  failed: number
  /** Rows that others changed or locked at every attempt. The run returns to them at the end. */
  contended: number
  /** Rows that were deleted while the run worked on them. */
  gone: number
  /** Rows done first because they lacked an index. Each counts above once all rows before it do. */
  ahead: number
  /** The rows after `after` when the run began; undefined if the table does not count them. */
  total: number | undefined
  rowsPerSecond: number
  /** Estimated from the rate so far; undefined without `total`. */
  secondsLeft: number | undefined
  /** All rows up to this key are done, or failed. Pass it as the option `after` to continue after a stop. */
  after: string | undefined
}

interface RunOptions {
  signal: AbortSignal | undefined
  batchSize: number
  after: string | undefined
  rowsPerSecond: number | undefined
  dryRun: boolean
  /** Whether a row that would be written counts as `current`, since nothing is wrong with it. */
  isCheck: boolean
  /** Whether `after` may be used to continue. A dry run finishes no row, so a later run would skip all of them. */
  isResumable: boolean
  isIndexing: boolean
  onProgress: ((progress: BackfillProgress) => unknown) | undefined
}

interface RunResult {
  progress: BackfillProgress
  /** The first 100 of each. */
  failures: RowFailure[]
  causes: FailureCause[]
}

/** A row that others changed at every attempt, and the key after which its page was read. */
type Contended = { key: string; behind: string | undefined }

interface Run {
  table: Table
  maintenance: Maintenance
  options: RunOptions
  result: RunResult
  /** The rows done first, by key, each with how it is to be counted. */
  ahead: Map<string, Done | undefined>
  isAhead: boolean
  report(contended: number): Promise<void>
  wait(): Promise<void>
}

type Done = 'changed' | 'current' | 'failed'

/** @throws what the table, the service or `onProgress` throws. All reported pages are then written. */
export async function runWork(table: Table, maintenance: Maintenance, options: RunOptions): Promise<RunResult> {
  const { onProgress, signal, isIndexing, dryRun } = options
  const after = readAfter(table, options.after)
  const total = await table.count?.(after)
  const zero = { rows: 0, changed: 0, current: 0, failed: 0, contended: 0, gone: 0, ahead: 0 }
  const progress: BackfillProgress = { ...zero, total, rowsPerSecond: 0, secondsLeft: undefined, after: options.after }
  const tempo = createTempo(options.rowsPerSecond)
  const ahead: Run['ahead'] = new Map()
  const run: Run = {
    ...{ table, maintenance, options, ahead, isAhead: false, result: { progress, failures: [], causes: [] } },
    async report(contended) {
      Object.assign(progress, tempo.figures(progress.rows, total), { contended, ahead: ahead.size })
      await onProgress?.({ ...progress })
    },
    wait: () => tempo.wait(progress.rows + ahead.size, signal),
  }
  const { lacking } = table
  let later = 0
  // Only if few rows lack an index. Where most do, as at the first fill, key order is as good.
  if (
    isIndexing &&
    !dryRun &&
    lacking &&
    (await lacking.count(after)) <= Math.min(MAX_AHEAD, (total ?? Number.POSITIVE_INFINITY) / 2)
  ) {
    const first = { ...table, page: (after: string | undefined, limit: number) => lacking.page(after, limit) }
    later = await walk({ ...run, table: first, isAhead: true }, after, 0)
  }
  await walk(run, after, later)
  return run.result
}

/** Works on all rows after a key. @param before the rows contended so far. Returns how many are contended now */
async function walk(run: Run, start: string | undefined, before: number): Promise<number> {
  const { table, ahead, isAhead, result } = run
  const { batchSize, signal } = run.options
  let after = start
  let later: Contended[] = []
  for (;;) {
    assertNotAborted(signal)
    const page = await table.page(after, batchSize)
    if (page.length === 0) break
    const behind = after
    const todo = page.filter(({ key }) => isAhead || !countAhead(run, key))
    for (const { key } of isAhead ? todo : []) ahead.set(key, undefined)
    if (!isAhead) result.progress.rows += todo.length
    const contended = todo.length === 0 ? [] : await workOn(run, todo, { behind, isFirst: true })
    later.push(...contended.map((key) => ({ key, behind })))
    const last = page.at(-1)?.key
    if (last === after) throw new InvalidInputError('page() of the table returned the rows that it had returned before')
    after = last
    // Otherwise a run that continues after this key would never see the contended rows.
    if (before + later.length === 0) reach(run, after)
    await run.report(before + later.length)
    await run.wait()
  }
  const pages = new Map<string | undefined, Contended[]>()
  for (const one of later) pages.set(one.behind, [...(pages.get(one.behind) ?? []), one])
  later = []
  for (const [behind, some] of pages) {
    const found = await readAgain(
      run,
      some.map(({ key }) => key),
      behind,
    )
    const contended = await workOn(run, found, { behind, isFirst: false })
    later.push(...contended.map((key) => ({ key, behind })))
  }
  if (!isAhead) for (const key of [...ahead.keys()]) countAhead(run, key) // rows deleted since
  if (before + later.length === 0) reach(run, after)
  await run.report(before + later.length)
  return before + later.length
}

/** Counts a row that was done first. Returns whether it was one. */
function countAhead({ ahead, result }: Run, key: string): boolean {
  const done = ahead.get(key)
  if (!ahead.delete(key)) return false
  result.progress.rows++
  if (done) result.progress[done]++
  return true
}

function count({ ahead, isAhead, result }: Run, key: string, as: Done): void {
  if (isAhead) ahead.set(key, as)
  else result.progress[as]++
}

function reach({ table, options, result, isAhead }: Run, key: string | undefined): void {
  if (options.isResumable && !isAhead && key !== undefined) result.progress.after = writeAfter(table, key)
}

/** Works on rows until each is done. Returns the keys of rows that others kept changing. */
async function workOn(
  run: Run,
  page: readonly TableRow[],
  { behind, isFirst }: { behind: string | undefined; isFirst: boolean },
): Promise<string[]> {
  const { maintenance, options } = run
  let pending = page
  for (let round = 0; ; round++) {
    const outcomes = await maintenance.workOn(
      pending.map(({ row }) => row),
      !(isFirst && round === 0),
    )
    const changes = settle(run, pending, outcomes)
    const lost = await swapEach(run, changes)
    if (lost.length === 0 || round === MAX_ROUNDS) return lost
    await rest(FIRST_PAUSE_MS * 2 ** round, options.signal)
    pending = await readAgain(run, lost, behind)
    if (pending.length === 0) return []
  }
}

/** Reads rows of a page again. @throws InvalidInputError if an existing row's key does not lead back to it */
async function readAgain(
  { table, result, options }: Run,
  keys: readonly string[],
  behind: string | undefined,
): Promise<readonly TableRow[]> {
  const rows = await table.again(keys)
  if (rows.length === keys.length) return rows
  const found = new Set(rows.map(({ key }) => key))
  const missing = new Set(keys.filter((key) => !found.has(key)))
  const there = (await table.page(behind, options.batchSize)).filter(({ key }) => missing.has(key))
  // The application may have reinserted them between the two statements.
  const back = there.length === 0 ? [] : await table.again(there.map(({ key }) => key))
  if (back.length < there.length)
    throw new InvalidInputError(
      'again() of the table leaves out rows that page() returns',
      'Their keys do not lead back to them, so no row of the page can be told from a deleted one. Read the table by another key.',
    )
  result.progress.gone += missing.size - back.length
  return [...rows, ...back]
}

interface Change extends TableChange {
  /** Why the row fails once this is written. */
  error: EaasError | undefined
}

function settle(run: Run, rows: readonly TableRow[], outcomes: readonly Outcome[]): Change[] {
  const { table } = run
  const changes: Change[] = []
  for (const [at, from] of rows.entries()) {
    const outcome = outcomes[at]
    const to = outcome?.status === 'changed' || outcome?.status === 'failed' ? outcome.to : undefined
    const error = outcome?.status === 'failed' ? outcome.error : undefined
    const refused = to && refuse(table, to)
    const why = error ?? refused
    if (to && !refused) changes.push({ from, to, error })
    else if (why) fail(run, from, why)
    else count(run, from.key, 'current')
  }
  return changes
}

function refuse(table: Table, to: Readonly<Row>): EaasError | undefined {
  const { column, message } = table.unfit?.(to) ?? {}
  if (column === undefined || message === undefined) return undefined
  const hint = 'Change the value by the application, or open this row by a program of your own.'
  return new ContentError(message, hint, { index: 0, field: column })
}

/** Writes all changes at once, or one by one if that is refused. Returns the keys of rows where another writer was faster. */
async function swapEach(run: Run, changes: readonly Change[]): Promise<string[]> {
  const { dryRun, isCheck } = run.options
  const done = ({ from, error }: Change) =>
    error ? fail(run, from, error) : count(run, from.key, isCheck ? 'current' : 'changed')
  if (dryRun) for (const change of changes) done(change)
  if (changes.length === 0 || dryRun) return []
  try {
    const swapped = await run.table.swap(changes)
    for (const [at, change] of changes.entries()) if (swapped[at] === true) done(change)
    return changes.flatMap(({ from }, at) => (swapped[at] === true ? [] : [from.key]))
  } catch (error) {
    const kind = refusalOf(error)
    if (kind === 'conflict') return changes.map(({ from }) => from.key)
    if (kind === undefined) throw error
    const [only] = changes
    if (changes.length > 1) {
      const lost: string[] = []
      for (const change of changes) lost.push(...(await swapEach(run, [change])))
      return lost
    }
    if (only && isEaasError(error)) fail(run, only.from, only.error ?? error)
    return []
  }
}

/** Tells whether the database refused a row, or could not write because of other writers; undefined for any other error. */
function refusalOf(error: unknown): 'row' | 'conflict' | undefined {
  if (!isEaasError(error) || error.code !== 'E_DATABASE') return undefined
  const state = error.sqlState ?? ''
  if (['40001', '40P01', '55P03'].includes(state)) return 'conflict' // serialization, deadlock, lock
  // A value that does not fit, a constraint, a trigger that raises, a limit of the index.
  return /^(22|23|44|54|P0)/.test(state) ? 'row' : undefined
}

function fail(run: Run, from: TableRow, error: EaasError): void {
  const { table, result } = run
  const { failures, causes } = result
  count(run, from.key, 'failed')
  const { key, ...why } = describeFailure(table, from, error)
  if (failures.length < MAX_FAILURES) failures.push({ key, ...why })
  const cause = causes.find((one) => one.message === why.message && one.field === why.field && one.code === why.code)
  if (cause) cause.rows++
  if (cause && cause.keys.length < MAX_KEYS) cause.keys.push(key)
  if (!cause && causes.length < MAX_FAILURES) causes.push({ ...why, rows: 1, keys: [key] })
}

function describeFailure(table: Table, { key, row }: TableRow, error: EaasError): RowFailure {
  const field = 'place' in error ? error.place?.field : undefined
  const message = withoutPlace(error) // the key identifies the row
  const conversion = field === undefined ? undefined : conversionOf(message, row[field], table.sqlNames?.(field))
  const hint = message.startsWith('not an envelope') ? ENTERED : error.hint
  const more = error.code === 'E_DECRYPTION' && field !== undefined ? ` ${ENTERED}` : ''
  return { key, field, code: error.code, message: `${message}. ${conversion ?? hint + more}` }
}

/** A user can enter text that begins like an envelope. Only the operator can tell the two apart. */
const ENTERED =
  'If a user entered it as plain text, change or clear it in this row, through the application or in the database; if it was an envelope, restore it from a backup. Until then the whole row stays as it is.'

function createTempo(limit: number | undefined) {
  const start = performance.now()
  return {
    figures(rows: number, total: number | undefined) {
      const seconds = Math.max((performance.now() - start) / 1_000, 0.001)
      const rate = rows / seconds
      const left = total === undefined || rate === 0 ? undefined : Math.max(0, total - rows) / rate
      return { rowsPerSecond: Math.round(rate), secondsLeft: left === undefined ? undefined : Math.round(left) }
    },
    async wait(rows: number, signal: AbortSignal | undefined) {
      if (limit !== undefined) await rest(start + (rows / limit) * 1_000 - performance.now(), signal)
    },
  }
}

function rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return setTimeout(Math.max(0, ms), undefined, { signal }).catch(() => assertNotAborted(signal))
}
