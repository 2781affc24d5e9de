/** `eaas backup`: all rows of the installation in one file, from one snapshot. */
import { resolve } from 'node:path'
import { counted } from '@eaas/protocol'
import { type Command, Option } from 'commander'
import type { Config } from '../../core/config.js'
import { withDeadline } from '../../core/store/deadline.js'
import { compareSchemas } from '../../core/store/migrations.js'
import { openStore } from '../../core/store/open-store.js'
import { MIGRATIONS_DIRECTORY } from '../../package-directory.js'
import { VERSION } from '../../version.js'
import { countAll, noteBackup, type RowCounts, type RowsHeader, readAllRows } from '../store/all-rows.js'
import { createWriter } from './backup-file.js'
import * as cli from './command.js'
import { failWithoutDatabase } from './fail.js'
import { createOut, print, printBeside, printJson, showProgress } from './output.js'
import { messageOf } from './with-services.js'

export function addBackup(program: Command): void {
  program
    .command('backup')
    .description(
      'Write all rows of the database into a new file, in one consistent snapshot, while servers run; needs no root key. Secrets in the file are sealed under the root key, which it does not contain; names, audit entries and addresses are in plaintext. On the embedded database, calls wait until it is done.',
    )
    .argument('<file>', cli.NEW_FILE, cli.readNewFile)
    .addOption(cli.RECIPIENT_OPTION)
    .addOption(new Option('--plain', 'do not encrypt the file').conflicts('recipient').default(false))
    .addOption(cli.JSON_OPTION)
    .addHelpText('after', cli.SAME_ENVIRONMENT)
    .action((file: string, options, command: Command) => {
      if (!options.plain && options.recipient === undefined) {
        command.error("error: option '--recipient <age1…>' not specified; '--plain' leaves the file unencrypted")
      }
      cli.assertOneOutput(command, [file], options)
      return backup(cli.commandConfig(), file, options)
    })
}

type BackupOptions = cli.Format & { recipient?: string[] }

/** @throws RecipientError, CommandError, RowsError, SchemaVersionError, or the errors of openStore */
async function backup(config: Config, file: string, { recipient = [], json }: BackupOptions): Promise<void> {
  const write = await createWriter(recipient)
  const store = await openStore(config, { beside: true, mayCreate: false, onFailure: failWithoutDatabase })
  const progress = showProgress('backup:')
  let read: { header: RowsHeader; counts: RowCounts } | undefined
  let unnoted: string | undefined
  try {
    await compareSchemas(store.sql, MIGRATIONS_DIRECTORY) // a newer schema may have tables that this version does not read
    async function* lines() {
      read = yield* readAllRows(store.sql, { version: VERSION, onRows: (rows) => progress(counted(rows, 'row')) })
    }
    await createOut(file, (sink) => write(sink, lines()), { isText: false })
    if (!read) throw new cli.CommandError('the database was not read') // the sink received all lines
    const noting = withDeadline(noteBackup(store.sql, read.header.created_at))
    unnoted = await noting.then(() => undefined, messageOf)
  } finally {
    progress.done()
    await store.close()
  }
  const { header, counts } = read
  const rows = countAll(counts)
  const sealed = { rows, recipients: recipient.length, is_noted: unnoted === undefined }
  if (json) return printJson({ file: resolve(file), ...header, ...sealed })
  if (unnoted !== undefined)
    printBeside(file, `Its time could not be noted in the database, for operators to see: ${unnoted}`)
  if (file === cli.STANDARD_STREAM) return
  print(
    `${counted(rows, 'row')} of schema ${header.schema} in ${resolve(file)}, as they were at ${header.created_at}.`,
    recipient.length === 0
      ? 'It is not encrypted. Its secrets are sealed under the root key; names, audit entries and addresses can be read.'
      : `It is encrypted to ${counted(recipient.length, 'recipient')}.`,
    'It opens nothing without the root key: keep that elsewhere. Try it: eaas restore --check',
  )
}
