/** `eaas backup`: all rows of the installation in one file, from one snapshot. */
import { resolve } from 'node:path'
import { CommandError } from '@eaas/audit/command'
import { beforeEnd, createFileBy, explainUnwritten } from '@eaas/audit/node'
import { type Command, Option } from 'commander'
import type { Config } from '../config.js'
import { MIGRATIONS_DIRECTORY } from '../migrations-directory.js'
import { countAll, type RowCounts, type RowsHeader, readAllRows } from '../store/all-rows.js'
import { withDeadline } from '../store/deadline.js'
import { noteBackup } from '../store/instance.js'
import { compareSchemas } from '../store/migrations.js'
import { openStore } from '../store/open-store.js'
import { VERSION } from '../version.js'
import { createWriter } from './backup-file.js'
import { commandConfig, JSON_OPTION, RECIPIENT_OPTION, readNewPath, SAME_ENVIRONMENT } from './command.js'
import { failWithoutDatabase } from './fail.js'
import { counted, print, printJson, showProgress } from './output.js'
import { messageOf } from './with-services.js'

/** Adds `eaas backup`. */
export function addBackup(program: Command): void {
  program
    .command('backup')
    .description(
      'Write all rows of the database into a new file, in one consistent snapshot, while servers run; needs no root key. Secrets in the file are sealed under the root key, which it does not contain; names, audit entries and addresses are in plaintext. On the embedded database, calls wait until it is done.',
    )
    .argument('<file>', 'the file to create, mode 0600; a file that exists is left as it is', readNewPath)
    .addOption(RECIPIENT_OPTION)
    .addOption(new Option('--plain', 'do not encrypt the file').conflicts('recipient').default(false))
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((file: string, options, command: Command) => {
      if (!options.plain && options.recipient === undefined) {
        command.error("error: option '--recipient <age1…>' not specified; '--plain' leaves the file unencrypted", {
          exitCode: 2,
        })
      }
      return backup(commandConfig(), file, options)
    })
}

interface BackupOptions {
  /** none: it is not encrypted */
  recipient?: string[]
  json: boolean
}

/** @throws RecipientError, CommandError, RowsError, SchemaVersionError, or the errors of openStore */
async function backup(config: Config, file: string, { recipient = [], json }: BackupOptions): Promise<void> {
  const path = resolve(file)
  const write = await createWriter(recipient)
  const store = await openStore(config, { beside: true, mayCreate: false, onFailure: failWithoutDatabase })
  const progress = showProgress('backup:')
  let done: { header: RowsHeader; counts: RowCounts; unnoted: string | undefined } | undefined
  try {
    await compareSchemas(store.sql, MIGRATIONS_DIRECTORY) // a newer one may have tables that this version does not read
    let read: { header: RowsHeader; counts: RowCounts } | undefined
    async function* lines() {
      read = yield* readAllRows(store.sql, { version: VERSION, onRows: (rows) => progress(counted(rows, 'row')) })
    }
    const release = beforeEnd(() => process.stderr.write(`eaas: interrupted: ${path} was not written\n`))
    const isCreated = await createFileBy(path, (handle) => write(handle, lines()))
      .catch((error) => {
        throw new CommandError(explainUnwritten(path, error))
      })
      .finally(release)
    if (isCreated && read) {
      const noting = withDeadline(noteBackup(store.sql, read.header.created_at))
      const unnoted = await noting.then(() => undefined, messageOf)
      done = { ...read, unnoted }
    }
  } finally {
    progress.done()
    await store.close()
  }
  if (!done) throw new CommandError(`${path} exists already and was left as it is. Name another path.`)
  const { header, counts, unnoted } = done
  const rows = countAll(counts)
  if (json)
    return printJson({ file: path, ...header, rows, recipients: recipient.length, is_noted: unnoted === undefined })
  print(
    `${counted(rows, 'row')} of schema ${header.schema} in ${path}, as they were at ${header.created_at}.`,
    recipient.length === 0
      ? 'It is not encrypted. Its secrets are sealed under the root key; names, audit entries and addresses can be read.'
      : `It is encrypted to ${counted(recipient.length, 'recipient')}.`,
    'It opens nothing without the root key: keep that elsewhere. Try it: eaas restore --check',
    ...(unnoted === undefined ? [] : [`Its time could not be noted in the database, for operators to see: ${unnoted}`]),
  )
}
