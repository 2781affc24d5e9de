/** `eaas key`: manages a tenant's keys; the tenant's log records each change with the actor `system`. */
import { resolve } from 'node:path'
import { counted, foldUuid, isUuid, visible, type wire } from '@eaas/protocol'
import { type Command, InvalidArgumentError } from 'commander'
import { cancelDestruction, destroyKey, destroyVersion } from '../../core/api/key-destruction.js'
import { rotateKey, updateKey } from '../../core/api/key-rotation.js'
import { createKey, disableKey, enableKey, exportKey, listKeys, readKey } from '../../core/api/keys.js'
import type { Config } from '../../core/config.js'
import type { Operation, Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import * as cli from './command.js'
import { createSealedFile, print, printJson, table } from './output.js'
import { describeTenant, type FoundTenant, getTenant, performIn, withServices } from './with-services.js'

const CHANGES = {
  rotate: { operation: rotateKey, description: 'Rotate a key: a new version encrypts, older ones only decrypt.' },
  disable: { operation: disableKey, description: 'Disable a key: it still decrypts, but encrypts nothing new.' },
  enable: { operation: enableKey, description: 'Enable a disabled key.' },
  'cancel-destruction': {
    operation: cancelDestruction,
    description: 'Cancel a pending destruction: the key is disabled again.',
  },
} as const
type KeyChange = keyof typeof CHANGES

export function addKey(program: Command): void {
  const key = program
    .command('key')
    .description("Manage a tenant's keys. Works whether or not a server is running.")
    .addHelpText('afterAll', cli.SAME_ENVIRONMENT)

  const aboutKey = (name: string) => key.command(name).argument('<key>', 'name or id').addOption(cli.TENANT_OPTION)

  key
    .command('list')
    .description("Print a tenant's keys.")
    .addOption(cli.TENANT_OPTION)
    .addOption(cli.JSON_OPTION)
    .action(keyList)

  aboutKey('show').description('Print one key and its versions.').addOption(cli.JSON_OPTION).action(keyShow)

  key
    .command('create')
    .description('Create a key.')
    .addOption(cli.TENANT_OPTION)
    .requiredOption('--name <name>', 'name of the key, 1 to 255 characters; names are never reused', cli.readName)
    .addOption(cli.JSON_OPTION)
    .action(async ({ tenant, name, json }) => printKey(await performIn({ tenant }, createKey({ name })), { json }))

  for (const change of Object.keys(CHANGES) as KeyChange[]) {
    aboutKey(change)
      .description(CHANGES[change].description)
      .addOption(cli.JSON_OPTION)
      .action((name, options) => changeKey(name, options, (key_id) => CHANGES[change].operation({ key_id })))
  }

  aboutKey('update')
    .description('Set the oldest version of a key that still opens. First rewrap what older versions wrapped.')
    .requiredOption(
      '--min-unwrap-version <version>',
      '1 to the current version; wrapped keys of older versions no longer open. It may be lowered again',
      readVersion,
    )
    .addOption(cli.JSON_OPTION)
    .action((name, { minUnwrapVersion: min_unwrap_version, ...options }) =>
      changeKey(name, options, (key_id) => updateKey({ key_id, min_unwrap_version })),
    )

  aboutKey('export')
    .description(
      "Export a key's secrets, encrypted to recipients of age: they open all that the key protects, without the server. The tenant's log records it.",
    )
    .addOption(cli.NEEDED_RECIPIENT_OPTION)
    .requiredOption('--out <file>', cli.NEW_FILE, cli.readNewFile)
    .addOption(cli.JSON_OPTION)
    .action((name, options, command: Command) => {
      cli.assertOneOutput(command, [options.out], options)
      return keyExport(cli.commandConfig(), name, options)
    })

  aboutKey('destroy')
    .description('Destroy a disabled key for good, after a waiting period (EAAS_DESTROY_WINDOW_DAYS).')
    .requiredOption(
      '--confirm <name>',
      "the key's name, repeated: data encrypted under the key can't be decrypted afterwards",
    )
    .addOption(cli.JSON_OPTION)
    .action((name, { confirm, ...options }) =>
      changeKey(name, options, (key_id) => destroyKey({ key_id, confirm })).catch(nameDisable),
    )

  aboutKey('destroy-version')
    .description(
      'Destroy the oldest version that a key has left, once it has been closed (eaas key update) for the waiting period (EAAS_DESTROY_WINDOW_DAYS).',
    )
    .argument('<version>', 'its number', readVersion)
    .requiredOption(
      '--confirm <name>',
      "the key's name, repeated: what the version wrapped can't be decrypted afterwards",
    )
    .addOption(cli.JSON_OPTION)
    .action((name, version, { confirm, ...options }) =>
      changeKey(name, options, (key_id) => destroyVersion({ key_id, version: String(version), confirm })),
    )
}

async function keyList({ tenant, json }: cli.OfTenant): Promise<void> {
  const { owner, answer } = await performIn({ tenant }, listKeys({}))
  if (json) return printJson({ ...answer, tenant_id: owner.tenant_id })
  const rows = answer.keys.map(({ name, id, status, current_version, min_unwrap_version, created_at, rotation }) => {
    const versions = [String(current_version), String(min_unwrap_version)]
    return [name, id, status, ...versions, created_at, rotation?.next_rotation_at ?? '-']
  })
  const titles = ['NAME', 'ID', 'STATUS', 'VERSION', 'OPENS FROM', 'CREATED', 'NEXT ROTATION']
  print(...table(titles, rows), '', `${counted(rows.length, 'key')} of ${describeTenant(owner)}`)
}

async function keyShow(key: string, { tenant, json }: cli.OfTenant): Promise<void> {
  const { owner, answer } = await onKey({ tenant, key }, (key_id) => readKey({ key_id }))
  if (json) return printKey({ owner, answer }, { json })
  const rows = answer.versions.map(({ version, status, created_at, wraps, last_unwrapped_at }) => {
    const opened = last_unwrapped_at?.slice(0, 10) ?? '-'
    return [String(version), status, created_at, String(wraps), opened]
  })
  print(describe(owner, answer), '', ...table(['VERSION', 'STATUS', 'CREATED', 'WRAPPED', 'LAST OPENED'], rows))
}

async function changeKey(
  key: string,
  { tenant, json }: cli.OfTenant,
  operation: (key_id: string) => Operation<wire.Key>,
): Promise<void> {
  printKey(await onKey({ tenant, key }, operation), { json })
}

function readVersion(text: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('must be the number of a version, such as 3')
}

async function keyExport(
  config: Config,
  key: string,
  { tenant, recipient, out, json }: cli.OfTenant & { recipient: string[]; out: string },
): Promise<void> {
  const { owner, answer } = await createSealedFile(out, recipient, async () => {
    const exported = await onKey({ tenant, key }, (key_id) => exportKey({ key_id }), config)
    return { ...exported, text: `${JSON.stringify(exported.answer)}\n` }
  })
  const versions = answer.versions.length
  if (json) printJson({ file: resolve(out), key_id: answer.key_id, versions, tenant_id: owner.tenant_id })
  else if (out !== cli.STANDARD_STREAM) {
    print(
      `The key ${visible(answer.name)} (${answer.key_id}) of ${describeTenant(owner)} is in ${resolve(out)}, in ${counted(versions, 'version')}. Whoever opens it opens all that the key ever protected.`,
    )
  }
}

function nameDisable(error: unknown): never {
  if (!(error instanceof Refusal && error.code === 'E_STATE')) throw error
  throw new Refusal(error.code, `${error.message} (eaas key disable)`)
}

function onKey<Answer>(
  { tenant, key }: { tenant: string; key: string },
  operation: (key_id: string) => Operation<Answer>,
  config = cli.commandConfig(),
): Promise<{ owner: FoundTenant; answer: Answer }> {
  return withServices(config, async (services) => {
    const owner = await getTenant(services, tenant)
    const key_id = await getKeyId(services, { tenant_id: owner.tenant_id, tenant, key })
    return { owner, answer: await performAsSystem(services, owner.tenant_id, operation(key_id)) }
  })
}

// Tries ids first, since a tenant chooses names, and a name may look like the id of another key.
async function getKeyId(
  services: Services,
  { tenant_id, tenant, key }: { tenant_id: string; tenant: string; key: string },
): Promise<string> {
  const id = foldUuid(key)
  const state = isUuid(id) ? await services.states.find(tenant_id) : undefined
  if (await state?.findKey(id)) return id
  const [named] = (await performAsSystem(services, tenant_id, listKeys({ name: key }))).keys
  if (named) return named.id
  throw new Refusal('E_NOT_FOUND', `${tenant} has no key ${key}; see: eaas key list --tenant ${tenant}`)
}

function printKey({ owner, answer }: { owner: FoundTenant; answer: wire.Key }, { json }: { json: boolean }): void {
  if (json) printJson({ ...answer, tenant_id: owner.tenant_id })
  else print(describe(owner, answer))
}

function describe(
  owner: FoundTenant,
  { name, id, status, current_version, min_unwrap_version, destroy_at }: wire.Key,
): string {
  const least = min_unwrap_version === 1 ? '' : `, opens from version ${min_unwrap_version} on`
  const until = destroy_at === undefined ? '' : `, to be destroyed at ${destroy_at} unless cancelled`
  return `Key ${visible(name)} (${id}) of ${describeTenant(owner)}: ${status}, version ${current_version}${least}${until}.`
}
