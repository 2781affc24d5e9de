/** `eaas store-key`: the key in the database under which every other secret is sealed. */
import { encodePublicKey } from '@eaas/audit'
import { beforeEnd } from '@eaas/audit/node'
import { counted } from '@eaas/protocol'
import type { Command } from 'commander'
import type { Config } from '../../core/config.js'
import { countWaiting } from '../../core/store/peppers.js'
import { providerOf } from '../../root-keys/open-provider.js'
import { rotateStoreKey } from '../operations/rotate-store-key.js'
import { asOwner } from './advice.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT } from './command.js'
import { print, printJson, showProgress } from './output.js'
import { withServices } from './with-services.js'

export function addStoreKey(program: Command): void {
  program
    .command('store-key')
    .description('Manage the store key.')
    .command('rotate')
    .description(
      'Replace the store key, while servers run: make a new signing key, pepper and audit keys, seal every other secret again, and delete the old store key. If it is interrupted, repeat it. On PostgreSQL, run it as the owner of the tables.',
    )
    .option(
      '--rotate-keys',
      'also give each active key of every tenant a new version, which a thief does not have; give this option each time that you repeat the command',
      false,
    )
    .option(
      '--keep-secrets',
      'seal the same signing key, pepper and audit keys again instead of making new ones: for when nothing leaked',
      false,
    )
    .addOption(JSON_OPTION)
    .addHelpText(
      'after',
      `
Servers open the new store key with the root key of their settings: if you rotated the root key, restart them with the
new one first. The guide to the root key in this package's docs says what no longer opens after which rotations.
${SAME_ENVIRONMENT}`,
    )
    .action(({ keepSecrets: keepsSecrets, rotateKeys: rotatesKeys, json }) =>
      storeKeyRotate(commandConfig(), { keepsSecrets, rotatesKeys, json }),
    )
}

async function storeKeyRotate(
  config: Config,
  { keepsSecrets, rotatesKeys, json }: { keepsSecrets: boolean; rotatesKeys: boolean; json: boolean },
): Promise<void> {
  const progress = showProgress('store key:')
  progress('waiting until every server has the new one')
  const interrupted = 'interrupted. Repeat the command: it begins again with another store key, and nothing is lost'
  const release = beforeEnd(() => process.stderr.write(`\neaas: ${interrupted}\n`))
  const work = withServices(config, async (services) => {
    const done = await rotateStoreKey(services, {
      provider: await providerOf(config),
      keepsSecrets,
      rotatesKeys,
      onProgress: (rows) => progress(`${counted(rows, 'row', 'rows')} sealed again`),
    })
    const waiting = await countWaiting(services.sql, services.now())
    return { ...done, public_key: encodePublicKey(services.signingKey), waiting }
  })
  const rotation = await asOwner(work).finally(release).finally(progress.done)
  const { number, resealed, rotated_keys, unrotated_keys, public_key, waiting } = rotation
  if (unrotated_keys.length > 0) process.exitCode = 1
  if (json) return printJson(rotation)
  print(`Store key ${number} seals every secret now (${counted(resealed, 'row', 'rows')}); the one before is deleted.`)
  if (rotatesKeys) print(`${counted(rotated_keys, 'key has', 'keys have')} a new version.`)
  for (const { tenant_id, key_id, reason } of unrotated_keys) {
    print(`Key ${key_id} of tenant ${tenant_id} has none: ${reason}`)
  }
  if (waiting > 0) {
    print(
      `${counted(waiting, 'API key needs', 'API keys need')} the former pepper until it is used or expires: see eaas root-key status.`,
    )
  }
  if (!keepsSecrets) {
    print(
      `The public key is ${public_key} from now on. Give it to auditors over a way that you trust, and its tree key (eaas audit public-key --tree) to witnesses.`,
    )
  }
}
