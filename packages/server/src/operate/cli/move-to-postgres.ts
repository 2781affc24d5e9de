/** `eaas move-to-postgres`: moves the installation of the embedded database to PostgreSQL. */
import { beforeEnd } from '@eaas/audit/node'
import { counted } from '@eaas/protocol'
import type { Command } from 'commander'
import { type Config, ConfigError, readUrlFile } from '../../core/config.js'
import { type DatabaseSetting, readDatabaseUrl } from '../../core/database-url.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { openStore, type Store } from '../../core/store/open-store.js'
import { markAsMoved } from '../../embedded/database.js'
import { providerOf, rootKeySettingOf } from '../../root-keys/open-provider.js'
import { VERSION } from '../../version.js'
import { verifyAll } from '../jobs/verify-all.js'
import { continues, countAll, isEmptyDatabase, readAllRows, UsedDatabaseError } from '../store/all-rows.js'
import { adviseOn } from './advice.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT } from './command.js'
import { failWithoutDatabase } from './fail.js'
import { print, printJson, showProgress } from './output.js'
import { fillDatabase } from './restore.js'
import { recordOperation, withServices } from './with-services.js'

const URL_FILE = '<url-file>'

export function addMoveToPostgres(program: Command): void {
  program
    .command(`move-to-postgres ${URL_FILE}`)
    .description(
      'Move the installation from the embedded database to an empty database of PostgreSQL, verify every log there, and have servers refuse the embedded one from then on. Stop the server first. If the command is interrupted, repeat it.',
    )
    .addOption(JSON_OPTION)
    .addHelpText(
      'after',
      `
The file has the URL of the database, with the role that will own the tables, like that of EAAS_DATABASE_URL_FILE.
${SAME_ENVIRONMENT}`,
    )
    .action((file: string, options) => move(commandConfig(), file, options))
}

/** @throws ConfigError, DataDirectoryInUseError, UsedDatabaseError, RootKeyError, Refusal if a log is not valid */
async function move(config: Config, urlFile: string, { json }: { json: boolean }): Promise<void> {
  if (config.databaseUrl !== undefined) {
    throw new ConfigError(
      'EAAS_DATABASE_URL or EAAS_DATABASE_URL_FILE is set: only the embedded database can be moved. Unset it.',
    )
  }
  const target: Config & DatabaseSetting = {
    ...config,
    databaseUrl: readUrlFile(urlFile, URL_FILE),
    databaseUrlFile: urlFile,
    databaseUrlOption: URL_FILE,
    rootKey: rootKeySettingOf(config),
  }
  adviseOn(target)
  const from = await openStore(config, { beside: false, mayCreate: false, onFailure: failWithoutDatabase })
  const release = beforeEnd(() => process.stderr.write('eaas: interrupted: repeat the command\n'))
  try {
    const rows = await copyUnlessThere(from, target)
    const { logs, entries, database } = await verify(target)
    await markAsMoved(config.dataDir, `The installation was moved to ${database} on ${new Date().toISOString()}.`)
    if (json) return printJson({ database, rows, logs, entries })
    print(
      `${rows === undefined ? 'The rows had been copied before' : `${counted(rows, 'row was', 'rows were')} copied`} to ${database}; ${counted(logs, 'log')} with ${counted(entries, 'entry', 'entries')} verify there.`,
      `A server on ${config.dataDir} is refused from now on. Keep its root key, and its checkpoint file for the servers.`,
      'If servers have a role of their own: eaas migrate --role ROLE',
    )
  } finally {
    await from.close()
    release()
  }
}

/** Returns the number of rows; undefined if an earlier run copied them, even if servers have since continued there. */
async function copyUnlessThere(from: Store, target: Config): Promise<number | undefined> {
  const provider = await providerOf(target)
  const to = await openStore(target, { beside: false, mayCreate: false })
  try {
    if (!(await isEmptyDatabase(to.sql))) {
      if (await continues(to.sql, from.sql)) return undefined
      throw new UsedDatabaseError(
        `The database at ${to.description} has tables of eaas already, of another installation or an earlier state of this one. Nothing was changed. Name an empty database.`,
      )
    }
    const rows = bytesOf(readAllRows(from.sql, { version: VERSION }))
    return countAll((await fillDatabase(to, rows, { provider, what: 'moved:' })).counts)
  } finally {
    await to.close()
  }
}

async function* bytesOf(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const line of lines) yield Buffer.from(line)
}

/** Verifies every log in the new database, also against the checkpoint file. @throws Refusal */
async function verify(target: Config): Promise<{ logs: number; entries: number; database: string }> {
  const progress = showProgress('verified')
  const work = async (services: Services) => {
    const found = await verifyAll(services, {
      onProgress: (name, entries) => progress(`${name}: ${counted(entries, 'entry', 'entries')}`),
    })
    await recordOperation(services, { action: 'installation.verify', metadata: found.counts })
    return found
  }
  // Until the move ends, the checkpoint file belongs to the embedded database, which lacks this entry if the move is abandoned.
  const verified = await withServices(target, work, { keepsCommitted: false }).finally(progress.done)
  const { verdicts, invalid, unverified, entries } = verified
  if (invalid.length + unverified.length > 0) {
    throw new Refusal(
      'E_STATE',
      `${counted(invalid.length, 'log does', 'logs do')} not verify in the new database, and ${unverified.length} could not be verified: see eaas audit verify --all there, and in the embedded database, which is unchanged`,
    )
  }
  return { logs: verdicts.length, entries, database: readDatabaseUrl(target.databaseUrl ?? '')?.description ?? '' }
}
