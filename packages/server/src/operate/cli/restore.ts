/** `eaas restore`: restores a backup into an empty database, or with `--check` into a temporary one. */
import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEnd } from '@eaas/audit/node'
import { counted, visible } from '@eaas/protocol'
import type { Command } from 'commander'
import type { Config } from '../../core/config.js'
import type { RootKeyProvider } from '../../core/crypto/key-hierarchy.js'
import { openStore, type Store } from '../../core/store/open-store.js'
import { UnusableDataDirectoryError } from '../../embedded/database.js'
import { assertOpens } from '../../installation-secrets.js'
import { MIGRATIONS_DIRECTORY } from '../../package-directory.js'
import { providerOf, rootKeySettingOf } from '../../root-keys/open-provider.js'
import { verifyAll } from '../jobs/verify-all.js'
import { countAll, type WrittenRows, writeAllRows } from '../store/all-rows.js'
import { asOwner } from './advice.js'
import { openBackup } from './backup-file.js'
import { commandConfig, JSON_OPTION, NOT_VALID, readInputFile, SAME_ENVIRONMENT } from './command.js'
import { failWithoutDatabase } from './fail.js'
import { print, printJson, showProgress } from './output.js'
import { withServices } from './with-services.js'

export function addRestore(program: Command): void {
  program
    .command('restore')
    .argument('<file>', 'the backup, - for standard input', readInputFile)
    .description(
      'Restore a backup into the database, in one transaction. The database must be empty, and the root key must open what is in the backup. On PostgreSQL, run it as the role that will own the tables.',
    )
    .option(
      '--identity <file>',
      'the identity of age that the backup is encrypted to, as age-keygen writes it',
      readInputFile,
    )
    .option(
      '--check',
      'restore into a temporary embedded database instead, verify every log and print the verdict; exit code 1 if a log is not valid',
      false,
    )
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((file, options) => (options.check ? check : restore)(commandConfig(), file, options))
}

type RestoreOptions = { identity?: string; json: boolean }

async function restore(config: Config, file: string, options: RestoreOptions): Promise<void> {
  const release = beforeEnd(() => process.stderr.write('eaas: interrupted: the database is empty, or has every row\n'))
  const restored = await restoreInto(config, file, options).finally(release)
  if (options.json) return printJson(view(file, restored))
  print(
    `${describe(restored)} restored.`,
    'Before servers use it: eaas audit verify --all, with a checkpoint that you kept (--checkpoint). It says what was lost since.',
    ...(config.databaseUrl === undefined ? [] : ['If servers have a role of their own: eaas migrate --role ROLE']),
  )
}

/** The configured root key must open the backup. */
async function restoreInto(config: Config, file: string, { identity }: RestoreOptions): Promise<WrittenRows> {
  const provider = await providerOf(config)
  const chunks = await openBackup(file, identity)
  const store = await openStore(config, { beside: false, mayCreate: true, onFailure: failWithoutDatabase })
  try {
    return await asOwner(fillDatabase(store, chunks, { provider, what: 'restore:' }))
  } finally {
    await store.close()
  }
}

/** Fills an empty database with all rows, which the root key must open. `what` names the work in its progress. */
export async function fillDatabase(
  { sql }: Store,
  chunks: AsyncIterable<Uint8Array>,
  { provider, what }: { provider: RootKeyProvider; what: string },
): Promise<WrittenRows> {
  const progress = showProgress(what)
  const written = await writeAllRows(sql, chunks, {
    directory: MIGRATIONS_DIRECTORY,
    check: (transaction) => assertOpens(transaction, provider),
    onRows: (rows) => progress(counted(rows, 'row')),
  }).finally(progress.done)
  if (written.leftOut.length > 0) {
    const columns = written.leftOut.map(visible).join(', ')
    process.stderr.write(`eaas: these columns are not of eaas and were left out: ${columns}\n`)
  }
  return written
}

/** Leaves the installation untouched. */
async function check(config: Config, file: string, options: RestoreOptions): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'eaas-restore-')).catch(throwOfTemporary)
  const release = beforeEnd(() => rmSync(dataDir, { recursive: true, force: true }))
  try {
    const database = { databaseUrl: undefined, databaseUrlFile: undefined, dataDir }
    // A checkpoint file would record entries of the trial.
    const trial: Config = { ...config, ...database, rootKey: rootKeySettingOf(config), checkpointFile: undefined }
    const restored = await restoreInto(trial, file, options)
    const progress = showProgress('verified')
    const onProgress = (name: string, entries: number) => progress(`${name}: ${counted(entries, 'entry', 'entries')}`)
    const verifying = withServices(trial, (services) => verifyAll(services, { onProgress }))
    const { verdicts, invalid, unverified, entries } = await verifying.finally(progress.done)
    const isValid = invalid.length + unverified.length === 0
    if (!isValid) process.exitCode = NOT_VALID
    if (options.json) return printJson({ valid: isValid, ...view(file, restored), logs: verdicts, entries })
    const faults = invalid.map(({ tenant_id, name, reason }) => `${name ?? tenant_id} (${reason})`)
    print(
      isValid
        ? `Valid: ${describe(restored)}; the root key opens it, and ${counted(verdicts.length, 'log verifies', 'logs verify')}, with ${counted(entries, 'entry', 'entries')}.`
        : `NOT valid: ${describe(restored)}; ${counted(faults.length, 'log does', 'logs do')} not verify: ${faults.join(', ')}; ${unverified.length} could not be verified.`,
    )
  } catch (error) {
    if (error instanceof UnusableDataDirectoryError) throwOfTemporary(error)
    throw error
  } finally {
    await rm(dataDir, { recursive: true, force: true })
    release()
  }
}

// The directory is a temporary one, not the configured one.
function throwOfTemporary(error: unknown): never {
  throw UnusableDataDirectoryError.of(tmpdir(), error, 'TMPDIR') ?? error
}

function describe({ header, counts }: WrittenRows): string {
  return `${counted(countAll(counts), 'row')} of schema ${header.schema}, of ${header.created_at}`
}

function view(file: string, { header, counts }: WrittenRows) {
  return { file, ...header, rows: countAll(counts) }
}
