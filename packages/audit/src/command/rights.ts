/** `eaas-audit rights`: shows who could do what with which key at a given time, from a valid export. */
import { findUsefulPermissions, INSTALLATION_ID, KEY_STATUSES, listTexts, type Permission } from '@eaas/protocol'
import type { Command } from 'commander'
import { describeAddresses, describeBudgets } from '../report/rights.js'
import { describeLosses } from '../verify/accepted-rollbacks.js'
import { describeAhead } from '../verify/entry-times.js'
import { describeMove } from '../verify/moves.js'
import {
  type ApiKeyRights,
  createRightsReader,
  type KeyRights,
  mayUse,
  type RightsReport,
} from '../verify/rights-report.js'
import type { ExportVerdict } from '../verify/verify-export.js'
import { CommandError } from './files.js'
import * as cli from './options.js'
import { print, printJson, table } from './output.js'
import { exitCode } from './verify.js'
import { verifyFiles } from './verify-files.js'

interface RightsCommand {
  /** RFC 3339 in UTC with milliseconds */
  at: string
  tenant?: string
  keyId?: string
  publicKey?: string
  json: boolean
}

export function addRights(program: Command): void {
  program
    .command('rights')
    .description(
      'Show which API key could do what with which key at a time, and which copies of keys had been exported by then. Exit code 3 if the log was signed before that time: nothing proves what happened in between.',
    )
    .addArgument(cli.exportsArgument())
    .requiredOption('--at <time>', 'RFC 3339 with an offset, as in 2026-05-03T12:00:00Z', cli.readTime)
    .option('--tenant <id>', 'the id of the tenant that the export must be of')
    .addOption(cli.KEY_ID_OPTION)
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .addOption(cli.JSON_OPTION)
    .addHelpText(
      'after',
      `${cli.EXIT_CODES}\nPART is also the exit code if an entry that the log lost, or that a clock dated later, may have changed rights by\nthen.`,
    )
    .action((files: string[], options: RightsCommand, command: Command) =>
      cli.judge(async () => rightsOfFiles(files, await cli.withKey(options, command))),
    )
}

async function rightsOfFiles(files: readonly string[], command: RightsCommand): Promise<number> {
  const { publicKey, tenant, at } = command
  const reader = createRightsReader(at)
  const { verdict } = await verifyFiles(files, { publicKey }, { onEntry: reader.read })
  const log = files.join(', ')
  if (verdict.valid && verdict.tenant_id === INSTALLATION_ID)
    throw new CommandError(`${log} is the installation's log, which records no rights of API keys`)
  if (tenant !== undefined && verdict.tenant_id !== undefined && verdict.tenant_id !== tenant)
    throw new CommandError(`${log} is the log of tenant ${verdict.tenant_id}, not of ${tenant}`)
  return printRights(verdict, reader.report(verdict), command)
}

interface Shown {
  json: boolean
  keyId?: string | undefined
  /** how to name the tenant, if more than its id is known */
  owner?: string | undefined
}

/** Prints the report of a log. Returns the exit code. @throws CommandError if the log was signed before the given time */
export function printRights(verdict: ExportVerdict, report: RightsReport, { json, keyId, owner }: Shown): number {
  const { valid, tenant_id, reason, broken_at, line, after_id = 0, signed_at, trusted_key, whole, moves } = verdict
  if (valid && signed_at !== undefined && report.at > signed_at)
    throw new CommandError(
      `the log was signed at ${signed_at}, which is before ${report.at}: nothing proves what happened in between. Ask for a time until then, or export the log again`,
    )
  const shown = keyId === undefined ? report : ofKey(report, keyId, after_id)
  if (!valid) {
    if (json) printJson({ valid, tenant_id, reason, broken_at, line })
    else
      print(
        `The log${owner ? ` of ${owner}` : ''} is NOT valid, so nothing is said of rights: ${reason}${broken_at === undefined ? '' : ` (entry ${broken_at})`}.`,
      )
  } else if (json) printJson({ valid, whole, trusted_key, tenant_id, after_id, signed_at, moves, ...shown })
  else print(describe(verdict, shown, { keyId, owner }))
  return Math.max(exitCode(verdict), valid && (report.losses.length > 0 || report.ahead) ? cli.PART : cli.VALID)
}

/** Selects one key, and the API keys that could use it, as far as the entries after `after_id` say. */
function ofKey({ keys, api_keys, exports, ...report }: RightsReport, key_id: string, after_id: number): RightsReport {
  const found = keys.find((key) => key.key_id === key_id)
  // If no entry names the key, it may have been created by one that the export does not have.
  const key = found ?? (after_id > 0 ? { key_id, folder: null, status: null, permissions: [] } : undefined)
  const isServed = report.tenant.status === 'active' || report.tenant.status === null
  return {
    ...report,
    keys: found ? [found] : [],
    api_keys: key && isServed ? api_keys.filter((apiKey) => couldUse(apiKey, key)) : [],
    exports: exports.filter((copy) => copy.key_id === key_id),
  }
}

type UsableKey = Pick<KeyRights, 'key_id' | 'folder' | 'status' | 'permissions'>

const USEFUL_IN_ANY_STATE: readonly Permission[] = KEY_STATUSES.flatMap(findUsefulPermissions)

/** Whether an API key could use a key at all. Unknown values count as allowing it. */
function couldUse(apiKey: ApiKeyRights, key: UsableKey): boolean {
  if (apiKey.status !== 'active' && apiKey.status !== null) return false
  const useful: readonly string[] = key.status === null ? USEFUL_IN_ANY_STATE : key.permissions
  return mayUse(apiKey, key) && (apiKey.permissions?.some((name) => useful.includes(name)) ?? true)
}

function describe(
  { tenant_id, after_id = 0, trusted_key, key_changes, missing, moves }: ExportVerdict,
  report: RightsReport,
  { keyId, owner }: Pick<Shown, 'keyId' | 'owner'>,
): string[] {
  const { at, through_id, tenant, api_keys, keys, exports, losses, ahead } = report
  const mode =
    tenant.envelope_only === null ? 'server mode unknown' : tenant.envelope_only ? 'envelope-only' : 'server mode open'
  const unknown = (value: string | number | null | undefined) => String(value ?? 'unknown')
  const ifKnown = (apiKey: ApiKeyRights, text: () => string) => (apiKey.permissions === null ? 'unknown' : text())
  return listTexts(
    `Rights in ${owner ?? `tenant ${tenant_id}`} at ${at}, by the entries through ${through_id}`,
    `tenant  ${unknown(tenant.status)}, ${mode}`,
    '',
    table(
      ['API KEY', 'NAME', 'STATUS', 'PERMISSIONS', 'KEYS', 'BUDGETS', 'EXPIRES', 'ADDRESSES', 'ENTRY'],
      api_keys.map((apiKey) => [
        apiKey.api_key_id,
        unknown(apiKey.name),
        unknown(apiKey.status),
        apiKey.permissions === null ? 'unknown' : apiKey.permissions.join(' ') || 'none',
        ifKnown(apiKey, () => (apiKey.keys === null ? 'all' : apiKey.keys.join(' ') || 'none')),
        ifKnown(apiKey, () => describeBudgets(apiKey)),
        ifKnown(apiKey, () => apiKey.expires_at ?? 'never'),
        ifKnown(apiKey, () => describeAddresses(apiKey)),
        unknown(apiKey.entry_id),
      ]),
    ),
    '',
    table(
      ['KEY', 'NAME', 'FOLDER', 'STATUS', 'VERSION', 'OPENS FROM', 'DESTROYED', 'OPEN TO', 'ENTRY'],
      keys.map((key) => [
        key.key_id,
        unknown(key.name),
        key.folder === '' ? 'none' : unknown(key.folder),
        unknown(key.status),
        unknown(key.version),
        unknown(key.min_unwrap_version),
        destroyedOf(key),
        key.status === null ? 'unknown' : key.permissions.join(' '),
        unknown(key.entry_id),
      ]),
    ),
    '',
    'An API key could do with a key what both of its lines name.',
    exports.length > 0 && [
      '',
      ...table(
        ['EXPORTED KEY', 'VERSIONS', 'BY', 'TIME', 'ENTRY'],
        exports.map(({ key_id, through_version, actor, created_at, entry_id }) => [
          key_id,
          through_version === null ? 'unknown' : `through ${through_version}`,
          actor,
          created_at,
          String(entry_id),
        ]),
      ),
      '',
      'A copy opens what its versions encrypted for ever, whatever becomes of the API key and of the key.',
    ],
    after_id > 0 &&
      keyId !== undefined &&
      keys.length === 0 &&
      `UNKNOWN  the state of key ${keyId}, which no entry names by then: the API keys are those whose grants allow it`,
    after_id > 0 && [
      `UNKNOWN  what only the entries through ${after_id} granted: they are not in this log`,
      `UNKNOWN  copies of keys that were exported by the entries through ${after_id}: they are not in this log`,
    ],
    losses.length > 0 &&
      `UNKNOWN  whether these were the rights at that time, as a lost entry may have changed them: ${describeLosses(losses)}`,
    ahead &&
      `UNKNOWN  whether these were the rights at that time, as ${describeAhead(ahead)}, so what is dated from then on may have changed them. List it with eaas-audit entries and --from=${ahead.entry.created_at}`,
    moves?.map((move) => `MOVED    ${describeMove(move)}`),
    missing?.includes('end') && 'PART     the log went on after the last entry',
    !trusted_key &&
      (key_changes
        ? 'WARNING  the key that you gave was replaced: eaas-audit verify shows by which one. Compare that with the operator'
        : 'WARNING  the public key came from the file itself: give the one that you know with --public-key'),
  )
}

function destroyedOf({ status, version, destroyed_through }: KeyRights): string {
  if (status === 'destroyed') return 'all'
  if (destroyed_through === null) return version === 1 ? 'none' : 'unknown'
  return destroyed_through === 0 ? 'none' : `through ${destroyed_through}`
}
