/** `eaas-audit report`: makes a report for auditors from a valid export: one HTML page, CSV or JSON. */
import { stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { INSTALLATION_ID, isUuid, quoteWord, readJson } from '@eaas/protocol'
import type { Command } from 'commander'
import { writeCsv, writeJson } from '../report/data.js'
import { writePage } from '../report/page.js'
import { createReportReader, listTables, type ReportPeriod } from '../report/report.js'
import { CommandError, createNewBy, createNewFolder, readGiven, STANDARD_STREAM } from './files.js'
import { viewWitnessed } from './kept-file.js'
import * as cli from './options.js'
import { printBeside } from './output.js'
import { exitCode } from './verify.js'
import { type Trusted, verifyFiles } from './verify-files.js'

interface ReportCommand extends Trusted {
  from?: string
  to?: string
  tenantNames?: string
  html?: string
  csv?: string
  json?: string
}

export function addReport(program: Command): void {
  const version = program.version() ?? ''
  program
    .command('report')
    .description(
      'Report what an export proves of a period: the evidence, who opened what, the register of keys, rights, refusals. Each figure names its entries. Times are of UTC.',
    )
    .addArgument(cli.exportsArgument())
    .option(
      '--from <time>',
      'where the period begins: RFC 3339 with an offset (default: where the export begins)',
      cli.readTime,
    )
    .option(
      '--to <time>',
      'where it ends, RFC 3339 with an offset; this time is excluded (default: where the export ends)',
      cli.readTime,
    )
    .option('--html <file>', `write one page that opens from disk and prints: ${cli.NEW_FILE}`, cli.readNewFile)
    .option('--csv <dir>', 'write each table as CSV into a new directory', cli.readKeptPath)
    .option('--json <file>', `write JSON: ${cli.NEW_FILE}`, cli.readNewFile)
    .option(
      '--tenant-names <file>',
      'JSON with the name of the tenant, and of keys and API keys that the log does not name: {"<id>":"<name>"}',
      cli.readInputFile,
    )
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .addOption(cli.CHECKPOINT_OPTION)
    .addOption(cli.WITNESS_OPTION)
    .addOption(cli.TREE_OPTION)
    .addHelpText('after', `${cli.EXIT_CODES}\nPART is also the exit code if the export does not cover the period.`)
    .action(async (files: string[], options: ReportCommand, command: Command) => {
      cli.assertComparable(command)
      const fail = (message: string) => command.error(`error: ${message}`)
      if (options.html === undefined && options.csv === undefined && options.json === undefined)
        fail("give at least one of '--html', '--csv' and '--json'")
      cli.assertOneOutput(command, [options.html, options.json])
      const outputs = [options.html, options.csv, options.json].filter((path) => path !== undefined)
      if (new Set(outputs.map((path) => resolve(path))).size < outputs.length)
        fail('give each output a path of its own')
      if (options.from !== undefined && options.to !== undefined && options.from >= options.to)
        fail("'--to' must be after '--from'")
      const isReadTwice = options.from === undefined || options.to === undefined
      if (isReadTwice && (await Promise.all(files.map(isStream))).includes(true))
        fail("of standard input or a pipe, which is read once, give '--from' and '--to'")
      const given = command.opts<ReportCommand>()
      await cli.judge(async () =>
        reportFiles(files, await cli.withKey(options, command), { command: repeat(files, given, version), version }),
      )
    })
}

async function isStream(file: string): Promise<boolean> {
  const found = await stat(file).catch(() => undefined) // opening it will say what is wrong with the path
  return file === STANDARD_STREAM || found?.isFIFO() || found?.isCharacterDevice() || false
}

async function reportFiles(
  files: readonly string[],
  options: ReportCommand,
  made: { command: string; version: string },
): Promise<number> {
  const { html, csv, json } = options
  const names = options.tenantNames === undefined ? new Map<string, string>() : await readNames(options.tenantNames)
  const period = await findPeriod(files, options)
  const reader = createReportReader(period)
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
  const page = () => writePage(report, { files: shown })
  const tables = () => listTables(report).map((table) => [`${table.name}.csv`, writeCsv(table)] as const)
  // Nested, so that if one cannot be written, none exists.
  await createAround(html, page, () =>
    createAround(
      json,
      () => writeJson(report),
      async () => {
        if (csv !== undefined) await createNewFolder(csv, new Map(tables()))
      },
    ),
  )
  printBeside(html === STANDARD_STREAM ? html : json, report.evidence.verdict)
  const code = exitCode(verdict)
  return verdict.valid && !report.isCovered ? Math.max(code, cli.PART) : code
}

/** Creates a file, if it has a path. Checks the path before `others` runs; the file exists only if that succeeds. */
async function createAround(
  path: string | undefined,
  makeText: () => string,
  others: () => Promise<void>,
): Promise<void> {
  if (path === undefined) return others()
  await createNewBy(path, async (sink) => {
    await others()
    await sink.write(makeText())
  })
}

/** Returns the requested period. A missing end is that of the export, which is read once more to find it. */
async function findPeriod(files: readonly string[], { from, to }: ReportCommand): Promise<ReportPeriod> {
  if (from !== undefined && to !== undefined) return { from, to }
  let begin = ''
  let last = ''
  const onEntry = ({ created_at }: { created_at: string }) => {
    begin ||= created_at
    if (created_at > last) last = created_at
  }
  const { signed_at = '' } = (await verifyFiles(files, {}, { onEntry })).verdict
  const end = signed_at > last ? signed_at : last
  const afterEnd = end && new Date(Date.parse(end) + 1).toISOString()
  const period = { from: from ?? (begin || end), to: to ?? afterEnd }
  if (end && period.from >= period.to)
    throw new CommandError(`the export is of the time from ${begin || end} to ${end}, and the period has none of it`)
  return { ...period, fromExport: { from: from === undefined, to: to === undefined } }
}

async function readNames(file: string): Promise<Map<string, string>> {
  const value = readJson(await readGiven(file))
  const pairs = typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined
  if (!pairs?.every((pair): pair is [string, string] => isUuid(pair[0]) && typeof pair[1] === 'string'))
    throw new CommandError(`${file}: names must be a JSON object with an id and a text in each member`)
  return new Map(pairs)
}

/** Writes the command that makes the same report, without the options for output. */
function repeat(
  files: readonly string[],
  { from, to, publicKey, checkpoint = [], witness = [], tree, tenantNames }: ReportCommand,
  version: string,
): string {
  const options: [name: string, value: string | undefined][] = [
    ['--from', from],
    ['--to', to],
    ['--public-key', publicKey],
    ...checkpoint.map((file): [string, string] => ['--checkpoint', file]),
    ...witness.map((key): [string, string] => ['--witness', key]),
    ['--tree', tree],
    ['--tenant-names', tenantNames],
  ]
  const given = options.flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${quoteWord(value)}`]))
  return ['npx', `@eaas/audit@${version}`, 'report', ...files.map(quoteWord), ...given, '--html report.html'].join(' ')
}
