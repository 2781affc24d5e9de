/** `inspect-table`: in which form the values of a table are. Reads alone. */
import { type InspectReport, inspectWith } from './backfill/backfill.js'
import type { Command } from './command.js'
import { print } from './io.js'
import { showBar } from './progress.js'
import { assertNoFailures, describeProgress, TABLE_HELP, TABLE_OPTIONS, withTable } from './table-command.js'

export const inspectTable: Command = {
  summary: 'count what of a table is plaintext, of an old format or under an old key version',
  help: `Usage: eaas-cli inspect-table <module> --table <name> [options]

Reads a whole table of PostgreSQL, and counts by field how many values are plaintext, of format v1 or v2, and under an old version of the key, and by index
how many are missing. Writes nothing. With --open, also opens each row and compares its indexes; exit code 1 if a row does not open.

  --open                open each row${TABLE_HELP}`,
  options: { ...TABLE_OPTIONS, open: { type: 'boolean' } },
  positionals: 1,
  async run(io, given) {
    const name = given.get('table')
    await withTable(io, given, async ({ sdk, model, table, speed }) => {
      const bar = showBar(io, 'reading')
      const report = await inspectWith(sdk, model, table, {
        ...speed,
        open: given.has('open'),
        signal: io.signal,
        onProgress: (progress) => bar.show(progress.rows, progress.total, describeProgress(progress)),
      }).finally(() => bar.done())
      if (given.has('json')) await print(io, JSON.stringify({ table: name, ...report }))
      else await print(io, ...describe(name, report))
      assertNoFailures(io, report.failed, report.failures, 'do not open')
    })
  },
}

function describe(name: string, { found }: InspectReport): string[] {
  const counts = (of: object) =>
    Object.entries(of as Record<string, number>)
      .filter(([, count]) => count > 0)
      .map(([form, count]) => `${count} ${WORDS[form] ?? form}`)
      .join(', ') || 'nothing'
  return [
    `${name}: ${found.rows} rows, ${found.left} with something to do`,
    ...Object.entries(found.fields).map(([field, of]) => `  ${field}: ${counts(of)}`),
    ...Object.entries(found.indexes).map(([column, of]) => `  ${column}: ${counts(of)}`),
  ]
}

const WORDS: Readonly<Record<string, string>> = { oldVersion: 'old key version', formerKey: 'former key' }
