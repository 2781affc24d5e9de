/** `inspect-table`: counts the forms of a table's values. Writes nothing. */
import { counted } from '@eaas/protocol'
import type { Command } from 'commander'
import { type InspectReport, inspectWith } from './backfill/backfill.js'
import { type Io, print } from './io.js'
import { showBar } from './progress.js'
import type { OpenTable, TableOptions } from './table-command.js'
import { addTableOptions, assertNoFailures, describeProgress, MODULE_HELP, withTable } from './table-command.js'

interface InspectTableOptions extends TableOptions {
  open?: boolean
}

export function addInspectTable(program: Command, io: Io): void {
  const command = program
    .command('inspect-table')
    .summary('count what is plaintext, of an old format or under an old key version in a table')
    .usage('<module> --table <name> [options]')
    .description(
      'Reads a whole table of PostgreSQL, and counts by field how many values are plaintext, of format v1 or v2, and under an old version of the key, and by index how many are missing. Writes nothing. With --open, also opens each row and compares its indexes; exit code 1 if a row does not open.',
    )
    .argument('<module>', MODULE_HELP)
    .option('--open', 'open each row')
  addTableOptions(command).action((module: string, options: InspectTableOptions) => inspectTable(io, module, options))
}

async function inspectTable(io: Io, file: string, given: InspectTableOptions): Promise<void> {
  const name = given.table
  await withTable(io, file, { ...given, decrypts: true }, async (table) => {
    const report = await inspect(io, table, { open: given.open ?? false })
    const { rows, left } = report.found
    if (given.json) await print(io, JSON.stringify({ table: name, ...report }))
    else await print(io, `${name}: ${counted(rows, 'row')}, ${left} with something to do`, ...describeCounts(report))
    assertNoFailures(io, report, 'do not open')
  })
}

export async function inspect(
  io: Io,
  { sdk, model, table, speed }: OpenTable,
  options: { open: boolean },
): Promise<InspectReport> {
  const bar = showBar(io, 'reading')
  return inspectWith(sdk, model, table, {
    ...{ ...speed, ...options, signal: io.signal },
    onProgress: (progress) => bar.show(progress.rows, progress.total, describeProgress(progress)),
  }).finally(() => bar.done())
}

export function describeCounts({ found }: InspectReport): string[] {
  const counts = (of: object) =>
    Object.entries(of as Record<string, number>)
      .filter(([, count]) => count > 0)
      .map(([form, count]) => `${count} ${WORDS[form] ?? form}`)
      .join(', ') || 'nothing'
  return [
    ...Object.entries(found.fields).map(([field, of]) => `  ${field}: ${counts(of)}`),
    ...Object.entries(found.indexes).map(([column, of]) => `  ${column}: ${counts(of)}`),
  ]
}

const WORDS: Readonly<Record<string, string>> = { oldVersion: 'old key version', formerKey: 'former key' }
