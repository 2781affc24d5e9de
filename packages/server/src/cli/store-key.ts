/** `eaas store-key`: the key in the database that everything else is sealed under. */
import type { Command } from 'commander'
import type { Config } from '../config.js'
import { providerOf } from '../installation.js'
import { rotateStoreKey } from '../operations/rotate-store-key.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT } from './command.js'
import { counted, print, printJson, showProgress } from './output.js'
import { withServices } from './with-services.js'

/** Adds `eaas store-key` and its subcommand. */
export function addStoreKey(program: Command): void {
  program
    .command('store-key')
    .description('Manage the store key.')
    .command('rotate')
    .description(
      'Replace the store key, while servers run: seal every secret again, and delete the old store key. If it is interrupted, repeat it. On PostgreSQL, run it as the owner of the tables.',
    )
    .addOption(JSON_OPTION)
    .addHelpText(
      'after',
      `
Servers open the new store key with the root key of their settings: if you rotated the root key, restart them with the
new one first. The guide to the root key in this package's docs says what opens no more after which rotations.
${SAME_ENVIRONMENT}`,
    )
    .action(({ json }) => storeKeyRotate(commandConfig(), { json }))
}

/** Rotates the store key. @throws RootKeyError, Refusal */
async function storeKeyRotate(config: Config, { json }: { json: boolean }): Promise<void> {
  const progress = showProgress('sealed again:')
  const { number, resealed } = await withServices(config, async (services) =>
    rotateStoreKey(services, {
      provider: await providerOf(config),
      onProgress: (rows) => progress(counted(rows, 'row', 'rows')),
    }),
  ).finally(() => progress.done())
  if (json) return printJson({ number, resealed })
  print(`Store key ${number} seals every secret now (${counted(resealed, 'row', 'rows')}); the one before is deleted.`)
}
