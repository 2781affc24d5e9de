/** `eaas-audit entries`: prints the matching entries of an export, and whether the export is valid. */
import { ACTIONS, counted, encodeHex, INSTALLATION_ACTIONS, listTexts, readRecordedName } from '@eaas/protocol'
import type { Command } from 'commander'
import { readMetadata } from '../formats/chain.js'
import { type EntryFilter, findUser, matchesFilter, NO_ADDRESS } from '../report/figure.js'
import { describeLosses } from '../verify/accepted-rollbacks.js'
import { createTimesReader, describeAhead } from '../verify/entry-times.js'
import type { ExportedEntry } from '../verify/read-export.js'
import * as cli from './options.js'
import { print, printJson, table } from './output.js'
import { exitCode } from './verify.js'
import { type Trusted, verifyFiles } from './verify-files.js'

interface EntriesCommand extends Trusted {
  key?: string
  apiKey?: string
  user?: string
  withoutUser: boolean
  action?: string[]
  address?: string
  metadata?: string[]
  context?: string[]
  from?: string
  to?: string
  json: boolean
}

/** An entry with the names that its key and actor had then; null if no earlier entry states them. */
type NamedEntry = ExportedEntry & { key_name: string | null; actor_name: string | null }

const PAGE_ENTRIES = 1_000

const KNOWN_ACTIONS: readonly string[] = [...ACTIONS, ...INSTALLATION_ACTIONS]

export function addEntries(program: Command): void {
  program
    .command('entries')
    .description(
      'Print the entries of an export that match all options. The exit code says whether the export is valid: the entries of an invalid one prove nothing.',
    )
    .addArgument(cli.exportsArgument())
    .option('--key <id>', 'about this key', cli.readId)
    .option('--api-key <id>', 'of this API key, or system', readActor)
    .option('--user <name>', 'for this end user, as the application named them')
    .option('--without-user', 'for which no end user was named', false)
    .option('--action <name>', 'of this action, such as key.unwrap; may be repeated', cli.readRepeated)
    .option('--context <name=value>', 'whose call stated this in its context; may be repeated', cli.readRepeated)
    .option('--metadata <name=value>', 'whose metadata has this; may be repeated', cli.readRepeated)
    .option('--address <address>', `from this address; ${NO_ADDRESS}: without one`)
    .option('--from <time>', 'from this time on, RFC 3339 with an offset', cli.readTime)
    .option('--to <time>', 'before this time', cli.readTime)
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .addOption(cli.JSON_OPTION)
    .addHelpText(
      'after',
      `${cli.EXIT_CODES}\nPART is also the exit code if a clock dated entries after --to that may be from before it.`,
    )
    .action(async (files: string[], options: EntriesCommand, command: Command) => {
      if (options.withoutUser && options.user !== undefined)
        command.error("error: '--user' and '--without-user' exclude each other")
      const wrong = [...(options.metadata ?? []), ...(options.context ?? [])].find((pair) => pair.indexOf('=') < 1)
      if (wrong !== undefined) command.error(`error: '${wrong}' must be <name>=<value>`)
      await cli.judge(async () => printEntries(files, await cli.withKey(options, command), command))
    })
}

async function printEntries(files: readonly string[], options: EntriesCommand, command: Command): Promise<number> {
  const filter = filterOf(options)
  const times = createTimesReader({ from: options.from ?? '', to: options.to ?? '9999' })
  const unknown = new Set(options.action?.filter((action) => !KNOWN_ACTIONS.includes(action)))
  const names = new Map<string, string>()
  let found: NamedEntry[] = []
  let printed = 0
  const flush = () => {
    if (found.length === 0) return
    if (options.json)
      print(...found.map(({ tenant_id: _, hash, ...entry }) => JSON.stringify({ ...entry, hash: encodeHex(hash) })))
    else print(...describe(found).slice(printed === 0 ? 0 : 1))
    printed += found.length
    found = []
  }
  const { verdict } = await verifyFiles(files, options, {
    onEntry(entry) {
      const { key_id, actor } = entry
      times.read(entry)
      const named = readRecordedName(entry, () => readMetadata(entry))
      if (named) names.set(...named)
      unknown.delete(entry.action)
      if (!matchesFilter(filter, entry)) return
      found.push({ ...entry, key_name: names.get(key_id ?? '') ?? null, actor_name: names.get(actor) ?? null })
      if (found.length === PAGE_ENTRIES) flush()
    },
  })
  flush()
  const [mistyped] = unknown
  if (verdict.valid && mistyped !== undefined) command.error(`error: option '--action': ${describeUnknown(mistyped)}`)
  const { valid, trusted_key, reason } = verdict
  const { losses, ahead } = valid ? times.times(verdict) : { losses: [] }
  if (options.json)
    printJson({ valid, entries: printed, trusted_key, reason, ...(losses.length > 0 ? { losses } : {}), ahead })
  else if (!valid) print(`The export is NOT valid, so these entries prove nothing: ${reason} (line ${verdict.line}).`)
  else
    print(
      listTexts(
        `${counted(printed, 'entry', 'entries')} of a valid export.`,
        losses.length > 0 && `LOST  entries of this time may be lost: ${describeLosses(losses)}`,
        ahead &&
          `AHEAD  entries of this time may be dated after it, as ${describeAhead(ahead)}; list them with --from=${ahead.entry.created_at}`,
      ),
    )
  return Math.max(exitCode(verdict), ahead ? cli.PART : cli.VALID)
}

// A newer server may write actions that this version does not know; the export then contains them.
function describeUnknown(action: string): string {
  const subjectOf = (name: string) => name.split('.')[0]
  const similar = KNOWN_ACTIONS.filter((known) => subjectOf(known) === subjectOf(action))
  const names = similar.length > 0 ? similar : KNOWN_ACTIONS
  return `${action} is no known action, and no entry of the export has it. Give one of ${names.join(', ')}`
}

function filterOf({ metadata = [], context = [], ...given }: EntriesCommand): EntryFilter {
  return {
    key_id: given.key,
    actor: given.apiKey,
    user: given.withoutUser ? null : given.user,
    actions: given.action,
    address: given.address === NO_ADDRESS ? null : given.address,
    told: [...metadata, ...context.map((pair) => `context.${pair}`)],
    ...{ from: given.from, to: given.to },
  }
}

function describe(entries: readonly NamedEntry[]): string[] {
  return table(
    ['ENTRY', 'TIME', 'ACTION', 'KEY', 'KEY NAME', 'VERSION', 'BY', 'API KEY NAME', 'FOR', 'ADDRESS', 'METADATA'],
    entries.map((entry) => [
      String(entry.id),
      entry.created_at,
      entry.action,
      entry.key_id ?? '',
      entry.key_name ?? '',
      String(entry.key_version ?? ''),
      entry.actor,
      entry.actor_name ?? '',
      findUser(readMetadata(entry)) ?? '',
      entry.ip_address ?? '',
      entry.metadata ?? '',
    ]),
  )
}

function readActor(text: string): string {
  return text === 'system' ? text : cli.readId(text)
}
