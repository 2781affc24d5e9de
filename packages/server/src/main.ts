/** The `eaas` command. */
import { ACTIONS, isUuid, isWellFormed, PERMISSIONS, type Permission, wire } from '@eaas/protocol'
import { Command, Help, InvalidArgumentError, Option } from 'commander'
import { AuditWriteError } from './audit/append-errors.js'
import { CheckpointError } from './audit/checkpoint.js'
import { TamperedRowError } from './audit/row-mac.js'
import { apiKeyCreate, apiKeyList, apiKeyRevoke } from './cli/api-key.js'
import {
  auditAcceptRollback,
  auditCheckpoint,
  auditExport,
  auditList,
  auditPublicKey,
  auditVerify,
} from './cli/audit.js'
import { auditDiff } from './cli/audit-diff.js'
import { auditFollow } from './cli/audit-follow.js'
import { doctor } from './cli/doctor.js'
import { keyChange, keyCreate, keyDestroy, keyList, keyShow } from './cli/key.js'
import { migrateDatabase } from './cli/migrate.js'
import { printable } from './cli/output.js'
import { purge } from './cli/purge.js'
import { start } from './cli/start.js'
import { tenantCreate, tenantDelete, tenantList, tenantSet, tenantSetStatus, tenantShow } from './cli/tenant.js'
import { auditVerifyExport } from './cli/verify-export.js'
import { type Config, ConfigError, readConfig, VARIABLES } from './config.js'
import { RootKeyError } from './crypto/root-key.js'
import { DEFAULT_MAX_SHARE } from './operations/purge-audit.js'
import { Refusal } from './runner/refusal.js'
import { DatabaseDeadlineError } from './store/deadline.js'
import { DataDirectoryInUseError } from './store/embedded/data-directory-lock.js'
import { ForeignDataDirectoryError, UnusableDataDirectoryError } from './store/embedded/database.js'
import { RoleError } from './store/grants.js'
import { NewerSchemaError } from './store/migrations.js'
import { NoDatabaseError } from './store/open-store.js'
import { VERSION } from './version.js'

const WIDTH = Math.max(...Object.keys(VARIABLES).map((name) => name.length)) + 2
const ENVIRONMENT = `\nEnvironment:\n${Object.entries(VARIABLES)
  .map(([name, meaning]) => `  ${name.padEnd(WIDTH)}${meaning}`)
  .join('\n')}`
const SAME_ENVIRONMENT = '\nUses the same environment as the server: see eaas start --help.'
/** The exit code of a verification that came to no verdict. */
const NOT_VERIFIED = 3
const JSON_OPTION = new Option('--json', 'print JSON').default(false)
const REASON_OPTION = new Option('--reason <text>', 'why, for the log: 1 to 255 characters').argParser(readName)
const TENANT_OPTION = new Option('--tenant <tenant>', 'name or id of the tenant').makeOptionMandatory()

function config(): Config {
  const read = readConfig(process.env)
  for (const name of read.unknownVariables) {
    process.stderr.write(`eaas: ${name} is not a variable of this server; see eaas start --help\n`)
  }
  return read
}

const program = new Command('eaas')
  .description('Encryption as a service, self-hosted.')
  .version(VERSION, '--version', 'print the version')
  .showHelpAfterError('Run the command with --help to see what it takes.')
  .addHelpText('after', '\nWhere eaas is not on the path: npx @eaas/server <command>')
  .addHelpText('after', 'Configuration comes from the environment: see eaas start --help.')
  .addHelpText('after', 'Exit codes: 0 done, 1 refused or failed, 2 not a command that can be understood;')
  .addHelpText('after', 'of audit verify and verify-export: 0 valid, 1 not valid, 3 could not be verified.')
  .configureHelp({
    // That a flag which is not given is false needs no saying.
    optionDescription: (option) =>
      option.defaultValue === false ? option.description : Help.prototype.optionDescription(option),
  })
  .exitOverride(({ code, exitCode }) => {
    process.exit(exitCode === 0 ? 0 : code.startsWith('commander.') ? 2 : exitCode)
  })

program
  .command('start')
  .description('Serve the API; on the embedded database unless EAAS_DATABASE_URL is set.')
  .addHelpText('after', ENVIRONMENT)
  .action(() => start(config()))

program
  .command('migrate')
  .description("Bring the database to this version's schema. Starting a server does so too.")
  .option('--role <role>', 'then give this role of PostgreSQL the rights that a server needs, and no others')
  .addOption(JSON_OPTION)
  .addHelpText('after', SAME_ENVIRONMENT)
  .action((options) => migrateDatabase(config(), options))

program
  .command('doctor')
  .description('Check configuration, database, durability, clock, root key and audit chains. Keeps no change.')
  .addOption(JSON_OPTION)
  .addHelpText('after', SAME_ENVIRONMENT)
  .action(async (options) => {
    if (!(await doctor(config(), options))) process.exitCode = 1
  })

const tenant = program.command('tenant').description('Manage tenants, beside a running server or without one.')

tenant
  .command('create')
  .description('Create a tenant and print its first API key, which is shown only here.')
  .requiredOption('--name <name>', 'name of the tenant, 1 to 255 characters, no UUID', readTenantName)
  .option('--envelope-only <boolean>', 'false opens server mode: the server then sees plaintext', readBoolean, true)
  .addOption(JSON_OPTION)
  .addHelpText('after', SAME_ENVIRONMENT)
  .action((options) => tenantCreate(config(), options))

tenant
  .command('list')
  .description('Print every tenant.')
  .addOption(JSON_OPTION)
  .action(async (options) => {
    if (!(await tenantList(config(), options))) process.exitCode = 1
  })

tenant
  .command('show')
  .description('Print one tenant.')
  .argument('<tenant>', 'name or id')
  .addOption(JSON_OPTION)
  .action((name, options) => tenantShow(config(), name, options))

tenant
  .command('set')
  .description("Change a tenant's settings; the change is written into that tenant's own audit log.")
  .argument('<tenant>', 'name or id')
  .option('--envelope-only <boolean>', 'false opens server mode: the server then sees plaintext', readBoolean)
  .option('--monthly-encrypt-quota <number>', 'encrypt calls a month in server mode, or none', readQuota)
  .addOption(
    new Option(
      '--plaintext-encoding <encoding>',
      'how server mode takes a plaintext where the call does not say (utf8 unless set)',
    ).choices(wire.PLAINTEXT_ENCODINGS),
  )
  .addOption(JSON_OPTION)
  .action((name, { envelopeOnly, monthlyEncryptQuota: quota, plaintextEncoding, json }) =>
    tenantSet(
      config(),
      name,
      {
        envelope_only: envelopeOnly,
        monthly_encrypt_quota: quota === 'none' ? null : quota,
        plaintext_encoding: plaintextEncoding,
      },
      { json },
    ),
  )

for (const [change, description] of [
  [
    'suspend',
    "Refuse every call of a tenant, on every server from now on. Nothing is lost; its keys' rotations and destructions wait.",
  ],
  ['resume', 'Serve a suspended tenant again.'],
] as const) {
  tenant
    .command(change)
    .description(`${description} The log says so.`)
    .argument('<tenant>', 'name or id')
    .addOption(REASON_OPTION)
    .addOption(JSON_OPTION)
    .action((name, options) => tenantSetStatus(config(), name, { change, ...options }))
}

tenant
  .command('delete')
  .description(
    'Destroy the key material of a suspended tenant and revoke its API keys, for good. Its audit log stays, to be verified and exported until a purge takes it. Without --confirm it says what would go, and does nothing.',
  )
  .argument('<tenant>', 'name or id')
  .option('--confirm <name>', "the tenant's name once more: what its keys protect can't be opened afterwards")
  .addOption(REASON_OPTION)
  .addOption(JSON_OPTION)
  .action(async (name, options) => {
    if (!(await tenantDelete(config(), name, options))) process.exitCode = 1
  })

const apiKey = program
  .command('api-key')
  .description("Manage a tenant's API keys, beside a running server or without one.")

apiKey
  .command('create')
  .description('Create an API key and print its secret, which is shown only here.')
  .addOption(TENANT_OPTION)
  .requiredOption('--name <name>', 'name of the API key, 1 to 255 characters', readName)
  .requiredOption('--permissions <list>', `by commas, or all: ${PERMISSIONS.join(',')}`, readPermissions)
  .option('--expires-at <time>', 'RFC 3339 time with an offset (default: never)')
  .option('--allowed-ips <list>', 'addresses and CIDR ranges, by commas (default: any)', readList)
  .addOption(JSON_OPTION)
  .action((options) => apiKeyCreate(config(), options))

apiKey
  .command('list')
  .description("Print a tenant's API keys, without their secrets.")
  .addOption(TENANT_OPTION)
  .addOption(JSON_OPTION)
  .action((options) => apiKeyList(config(), options))

apiKey
  .command('revoke')
  .description('Revoke an API key for good.')
  .argument('<id>', 'id of the API key')
  .addOption(TENANT_OPTION)
  .addOption(JSON_OPTION)
  .action((id, options) => apiKeyRevoke(config(), id, options))

const key = program.command('key').description("Manage a tenant's keys, beside a running server or without one.")

key
  .command('list')
  .description("Print a tenant's keys.")
  .addOption(TENANT_OPTION)
  .addOption(JSON_OPTION)
  .action((options) => keyList(config(), options))

key
  .command('show')
  .description('Print one key and its versions.')
  .argument('<key>', 'name or id')
  .addOption(TENANT_OPTION)
  .addOption(JSON_OPTION)
  .action((name, options) => keyShow(config(), name, options))

key
  .command('create')
  .description('Create a key.')
  .addOption(TENANT_OPTION)
  .requiredOption('--name <name>', 'name of the key, 1 to 255 characters; names are never reused', readName)
  .addOption(JSON_OPTION)
  .action((options) => keyCreate(config(), options))

for (const [change, description] of [
  ['rotate', 'Rotate a key: a new version takes over, the old ones only open.'],
  ['disable', 'Disable a key: it still opens, but protects nothing new.'],
  ['enable', 'Enable a disabled key.'],
  ['cancel-destruction', 'Cancel a destruction that is waiting: the key is disabled again.'],
] as const) {
  key
    .command(change)
    .description(description)
    .argument('<key>', 'name or id')
    .addOption(TENANT_OPTION)
    .addOption(JSON_OPTION)
    .action((name, options) => keyChange(config(), { change, key: name }, options))
}

key
  .command('destroy')
  .description('Destroy a disabled key for good, after a waiting period (EAAS_DESTROY_WINDOW_DAYS).')
  .argument('<key>', 'name or id')
  .addOption(TENANT_OPTION)
  .requiredOption('--confirm <name>', "the key's name once more: what it protects can't be opened afterwards")
  .addOption(JSON_OPTION)
  .action((name, options) => keyDestroy(config(), name, options))

const audit = program.command('audit').description('Read, export and verify the audit log.')

audit
  .command('list')
  .description('Print the newest entries.')
  .addOption(TENANT_OPTION)
  .addOption(new Option('--action <action>', 'only this action').choices(ACTIONS))
  .option('--key-id <id>', 'only this key', readId)
  .option('--limit <number>', 'entries at most', readPositive, 50)
  .addOption(JSON_OPTION)
  .action((options) => auditList(config(), options))

audit
  .command('verify')
  .description('Verify the log in the database. Exit code 1 when it is not valid, 3 when that could not be found out.')
  .addOption(TENANT_OPTION)
  .option('--checkpoint <file>', 'a checkpoint that was kept: the log has to agree with it')
  .option('--from <id>', 'the first entry to verify; the one before is taken as it stands', readPositive)
  .option('--to <id>', 'the last entry to verify; what follows, and the end of the log, is not looked at', readPositive)
  .addOption(JSON_OPTION)
  .action(async (options, command: Command) => {
    if (options.from > options.to) command.error("error: option '--to' must not be before '--from'", { exitCode: 2 })
    await judge(() => auditVerify(config(), options))
  })

audit
  .command('export')
  .description('Write the log as NDJSON, to be verified offline.')
  .addOption(TENANT_OPTION)
  .option('--out <file>', 'a new file (default: standard output)')
  .option('--after-id <id>', 'only the entries after this one', readWhole)
  .option('--follow', 'entries alone, and new ones as they come, until SIGINT or SIGTERM; for a log shipper', false)
  .action((options, command: Command) => {
    if (!options.follow) return auditExport(config(), options)
    if (options.out !== undefined) command.error("error: '--follow' writes to standard output only", { exitCode: 2 })
    return auditFollow(config(), options)
  })

audit
  .command('checkpoint')
  .description(
    'Print a signed statement of where the log ends. Keep it where the operator of the database cannot reach.',
  )
  .addOption(TENANT_OPTION)
  .addOption(JSON_OPTION)
  .action((options) => auditCheckpoint(config(), options))

audit
  .command('public-key')
  .description('Print the public key that exports and checkpoints are verified with.')
  .addOption(JSON_OPTION)
  .action((options) => auditPublicKey(config(), options))

audit
  .command('verify-export')
  .description(
    'Verify an export offline: needs no server and no secret. Exit code 1 when it is not valid, 3 when that could not be found out.',
  )
  .argument('<file>', 'what eaas audit export wrote')
  .option('--public-key <key>', 'the public key that you know, or a file with it (default: the one in the export)')
  .option('--checkpoint <file>', 'a checkpoint that was kept: the export has to agree with it; needs --public-key')
  .addOption(JSON_OPTION)
  .action(async (file, options, command: Command) => {
    if (options.checkpoint !== undefined && options.publicKey === undefined) {
      command.error("error: option '--checkpoint' needs '--public-key', which the checkpoint is checked by", {
        exitCode: 2,
      })
    }
    await judge(() => auditVerifyExport(file, options))
  })

audit
  .command('diff')
  .description(
    'Show what a log lost, after a restore or a failover, and what is to be done again. Exit code 1 when something differs, 3 when that could not be found out.',
  )
  .addOption(TENANT_OPTION)
  .option('--checkpoint <file>', 'checkpoints that were kept (default: EAAS_CHECKPOINT_FILE)')
  .option('--export <file>', 'an export that was made before, or from the abandoned database: names each lost entry')
  .addOption(JSON_OPTION)
  .action((options) => judge(() => auditDiff(config(), options)))

audit
  .command('accept-rollback')
  .description(
    'Accept that a log lost entries, after a restore or a failover: the log says so from then on, and the tenant is served again.',
  )
  .addOption(TENANT_OPTION)
  .requiredOption('--reason <text>', 'why, for the log: 1 to 255 characters', readName)
  .addOption(JSON_OPTION)
  .addHelpText('after', SAME_ENVIRONMENT)
  .action((options) => auditAcceptRollback(config(), options))

program
  .command('purge')
  .description('Purge audit entries that are older than EAAS_AUDIT_RETENTION_MONTHS. The server does so every day.')
  .option('--tenant <tenant>', 'name or id of a tenant (default: all)')
  .option('--dry-run', 'only say what would go', false)
  .option('--archive <directory>', 'export what will go to this directory first (default: EAAS_AUDIT_ARCHIVE_DIR)')
  .option('--max-share <share>', 'refuse to take a larger share of a log, 0 to 1', readShare, DEFAULT_MAX_SHARE)
  .addOption(JSON_OPTION)
  .addHelpText('after', SAME_ENVIRONMENT)
  .action(async (options) => {
    if (!(await purge(config(), options))) process.exitCode = 1
  })

/** That something is not valid must not look like anything else: a script may call the auditor on it. */
async function judge(verify: () => Promise<boolean>): Promise<void> {
  process.exitCode = NOT_VERIFIED
  process.exitCode = (await verify()) ? 0 : 1
}

function readWhole(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

function readPositive(text: string): number {
  const number = readWhole(text)
  if (number === 0) throw new InvalidArgumentError('It must be a whole number from 1.')
  return number
}

function readId(text: string): string {
  if (!isUuid(text)) throw new InvalidArgumentError('It must be a UUID, lower case, with dashes.')
  return text
}

function readShare(text: string): number {
  const share = Number(text)
  if (!/^[01](\.\d+)?$/.test(text) || share > 1) throw new InvalidArgumentError('It must be a number from 0 to 1.')
  return share
}

function readName(text: string): string {
  if (text === '' || [...text].length > 255 || !isWellFormed(text)) {
    throw new InvalidArgumentError('It must be 1 to 255 characters.')
  }
  return text
}

// A name that is an id would pass for another tenant's, and what cannot be seen cannot be told apart.
function readTenantName(text: string): string {
  readName(text)
  if (isUuid(text.toLowerCase()))
    throw new InvalidArgumentError('It must not be a UUID, which stands for the id of a tenant.')
  if (/\p{Cc}/u.test(text) || text.trim() === '') {
    throw new InvalidArgumentError('It must have no control characters, and not only blanks.')
  }
  return text
}

function readBoolean(text: string): boolean {
  if (text !== 'true' && text !== 'false') throw new InvalidArgumentError('It must be true or false.')
  return text === 'true'
}

// The parser takes null for a value that is missing, so the word stays a word until the action.
function readQuota(text: string): number | 'none' {
  if (text === 'none') return text
  const quota = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(quota))
    throw new InvalidArgumentError('It must be a whole number, or none.')
  return quota
}

function readList(text: string): string[] {
  return text.split(',').map((part) => part.trim())
}

function readPermissions(text: string): Permission[] {
  if (text === 'all') return [...PERMISSIONS]
  return readList(text).map((name) => {
    const permission = PERMISSIONS.find((known) => known === name)
    if (!permission) throw new InvalidArgumentError(`There is no permission ${name}.`)
    return permission
  })
}

/** Errors that are told in one sentence; anything else is a defect, and shows its stack. */
const EXPECTED = [
  AuditWriteError,
  CheckpointError,
  ConfigError,
  DataDirectoryInUseError,
  DatabaseDeadlineError,
  ForeignDataDirectoryError,
  NewerSchemaError,
  NoDatabaseError,
  Refusal,
  RoleError,
  RootKeyError,
  TamperedRowError,
  UnusableDataDirectoryError,
]

// Who reads the output may have seen enough, as `head` has: the command goes on to its end, and closes what it opened.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE' || program.args[0] === 'start') return
  if (process.exitCode === undefined) process.stderr.write(`eaas: standard output cannot be written (${code})\n`)
  process.exitCode ??= 1
})
process.stderr.on('error', () => undefined)

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode ??= 1
  const lines = explain(error).split('\n').map(printable)
  // Closed is all that can be; a connection on which the database never acknowledges a commit would keep the process.
  process.stderr.write(`eaas: ${lines.join('\n')}\n`, () => process.exit())
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, cause } = error
  const { code } = error as NodeJS.ErrnoException
  if (cause !== undefined) return `${message}: ${explain(cause)}`
  if (EXPECTED.some((kind) => error instanceof kind)) return message
  // The system's and the database's own errors carry a code, and say enough; their stack says nothing more.
  if (code === undefined) return error.stack ?? message
  return message.includes(code) ? message : `${message} (${code})`
}
