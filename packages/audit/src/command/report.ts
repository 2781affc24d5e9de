/** `eaas-audit report`: a report for auditors from an export that verifies, as one page of HTML, CSV or JSON. */
import { basename } from 'node:path'
import { INSTALLATION_ID, isUuid, readJson } from '@eaas/protocol'
import type { Command } from 'commander'
import { writeCsv } from '../report/csv.js'
import { quote } from '../report/entry-filter.js'
import { writeJson } from '../report/json.js'
import { writePage } from '../report/page.js'
import { createReportReader, listTables } from '../report/report.js'
import { CommandError, createNew, createNewFolder, readGiven } from './files.js'
import { viewWitnessed } from './kept-file.js'
import {
  assertComparable,
  CHECKPOINT_OPTION,
  EXIT_CODES,
  exportsArgument,
  judge,
  PART,
  readNewPath,
  readTime,
  USAGE_ERROR,
  WITNESS_OPTION,
  withKey,
} from './options.js'
import { print } from './output.js'
import { exitCode } from './verify.js'
import { type Trusted, verifyFiles } from './verify-files.js'

interface ReportCommand extends Trusted {
  from: string
  to: string
  tenantNames?: string
  html?: string
  csv?: string
  json?: string
}

/** Adds `eaas-audit report`. */
export function addReport(program: Command, version: string): void {
  program
    .command('report')
    .description(
      'Report what an export proves of a period: the evidence, who opened what, the register of keys, rights, refusals. Each figure names its entries. Times are of UTC.',
    )
    .addArgument(exportsArgument())
    .requiredOption('--from <time>', 'where the period begins: RFC 3339 with an offset', readTime)
    .requiredOption('--to <time>', 'where it ends, RFC 3339 with an offset; this time is excluded', readTime)
    .option('--html <file>', 'write one page that opens from disk and prints; the file must not exist', readNewPath)
    .option('--csv <dir>', 'write each table as CSV into a new directory', readNewPath)
    .option('--json <file>', 'write JSON; the file must not exist', readNewPath)
    .option(
      '--tenant-names <file>',
      'JSON with the name of the tenant, and of keys and API keys that the log does not name: {"<id>":"<name>"}',
    )
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .addOption(CHECKPOINT_OPTION)
    .addOption(WITNESS_OPTION)
    .addHelpText('after', `${EXIT_CODES}\nPART is also the exit code if the export does not cover the period.`)
    .action(async (files: string[], options: ReportCommand, command: Command) => {
      assertComparable(command)
      const fail = (message: string) => command.error(`error: ${message}`, { exitCode: USAGE_ERROR })
      if (options.html === undefined && options.csv === undefined && options.json === undefined)
        fail("give at least one of '--html', '--csv' and '--json'")
      if (options.from >= options.to) fail("'--to' must be after '--from'")
      const given = command.opts<ReportCommand>()
      await judge(async () =>
        reportFiles(files, await withKey(options, command), { command: repeat(files, given, version), version }),
      )
    })
}

/** Reports on an export, or several as one; returns the exit code. */
async function reportFiles(
  files: readonly string[],
  options: ReportCommand,
  made: { command: string; version: string },
): Promise<number> {
  const { from, to, html, csv, json } = options
  const names = options.tenantNames === undefined ? new Map<string, string>() : await readNames(options.tenantNames)
  const reader = createReportReader({ from, to })
  const verified = await verifyFiles(files, options, { onEntry: reader.read })
  const { verdict, witnessed } = verified
  if (verdict.tenant_id === INSTALLATION_ID)
    throw new CommandError(`${files[0]} is the installation's log, which records no keys and no rights`)
  const report = reader.report({
    verdict,
    files: verified.files.map(({ name, sha256 = 'unknown' }) => ({ name, sha256 })),
    ...viewWitnessed(witnessed),
    witnesses: options.witness ?? [],
    names,
    ...made,
  })
  const shown = files.map((file) => basename(file))
  if (html !== undefined) await createNew(html, writePage(report, { files: shown }))
  if (json !== undefined) await createNew(json, writeJson(report))
  if (csv !== undefined) {
    const tables = listTables(report).map((table) => [`${table.name}.csv`, writeCsv(table)] as const)
    await createNewFolder(csv, new Map(tables))
  }
  print(report.evidence.verdict)
  const code = exitCode(verdict)
  return verdict.valid && !report.isCovered ? Math.max(code, PART) : code
}

/** Reads names by ids. @throws CommandError */
async function readNames(file: string): Promise<Map<string, string>> {
  const value = readJson(await readGiven(file))
  const pairs = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined
  if (!pairs?.every((pair): pair is [string, string] => isUuid(pair[0]) && typeof pair[1] === 'string'))
    throw new CommandError(`${file}: names must be a JSON object with an id and a text in each member`)
  return new Map(pairs)
}

/** Writes the command that makes the same report, except for where it writes it. */
function repeat(
  files: readonly string[],
  { from, to, publicKey, checkpoint = [], witness = [], tenantNames }: ReportCommand,
  version: string,
): string {
  const options: [name: string, value: string | undefined][] = [
    ['--from', from],
    ['--to', to],
    ['--public-key', publicKey],
    ...checkpoint.map((file): [string, string] => ['--checkpoint', file]),
    ...witness.map((key): [string, string] => ['--witness', key]),
    ['--tenant-names', tenantNames],
  ]
  const given = options.flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${quote(value)}`]))
  return ['npx', `@eaas/audit@${version}`, 'report', ...files.map(quote), ...given, '--html report.html'].join(' ')
}
