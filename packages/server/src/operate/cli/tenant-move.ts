/** `eaas tenant move`: moves a tenant to another installation. */
import { beforeEnd } from '@eaas/audit/node'
import { visibleLine } from '@eaas/protocol'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Config, ConfigError, readConfig, readUrlFile } from '../../core/config.js'
import type { DatabaseSetting } from '../../core/database-url.js'
import type { Services } from '../../core/runner/operation.js'
import { rootKeySettingOf } from '../../root-keys/open-provider.js'
import { moveTenant, undoMove, undoWithoutTarget } from '../operations/move/move-tenant.js'
import { adviseOn } from './advice.js'
import { commandConfig, JSON_OPTION, readKeptPath } from './command.js'
import { print, printJson, showProgress } from './output.js'
import { describeTenant, getTenant, withServices } from './with-services.js'

const MOST_ADDRESS = 255
const TO = '--to'

interface MoveOptions {
  to: string
  toConfig?: string
  address?: string
  undo: boolean
  undoWithoutTarget?: boolean
  json: boolean
}

export function addTenantMove(tenant: Command): void {
  tenant
    .command('move')
    .description(
      'Move a tenant to another installation, with its keys, API keys, counts and log. Its calls get 503 while the end of the log is copied, and 421 from then on. If the command is interrupted, repeat it.',
    )
    .argument('<tenant>', 'name or id')
    .requiredOption(`${TO} <url-file>`, 'file with the URL of the database of the other installation', readKeptPath)
    .option(
      '--to-config <file>',
      'configuration of the other installation, as for its EAAS_CONFIG, from which its root key is taken; this one has the same root key without it',
      readKeptPath,
    )
    .option('--address <url>', 'where clients find the tenant then; refused calls name it', readAddress)
    .option('--undo', 'serve the tenant here again, unless it has arrived, and delete what was copied', false)
    .addOption(
      new Option(
        '--undo-without-target',
        'serve the tenant here again if the other installation is lost for good, which is not opened then. You state that it never served the tenant and never will: otherwise what the tenant did there is missing here, or both serve it. The logs record that',
      )
        .conflicts('undo')
        .implies({ to: '' }), // so that it need not be given
    )
    .addOption(JSON_OPTION)
    .action((name: string, options: MoveOptions) => tenantMove(commandConfig(), name, options))
}

function readAddress(text: string): string {
  const { protocol = '', username, password } = URL.canParse(text) ? new URL(text) : {}
  const isAddress = /^https?:$/.test(protocol) && username === '' && password === '' && text.length <= MOST_ADDRESS
  if (!isAddress)
    throw new InvalidArgumentError('It must be a URL with http or https, without a user, of at most 255 characters.')
  return text
}

export function describeMove(tenant: string, options: string): string {
  const command = `eaas tenant move ${tenant} ${options}`
  return `To end the move: ${command}. To serve the tenant here again, unless it has arrived there: ${command} --undo`
}

// The environment is that of this installation, and does not apply there, except, without --to-config, the root key.
function targetOf(config: Config, { to, toConfig }: MoveOptions): Config & DatabaseSetting {
  const databaseUrl = readUrlFile(to, TO)
  const named = toConfig === undefined ? undefined : readConfig({ EAAS_CONFIG: toConfig, EAAS_DATABASE_URL_FILE: to })
  const target = named ?? { ...config, rootKey: rootKeySettingOf(config), checkpointFile: undefined }
  const { checkpointFile } = target
  if (checkpointFile !== undefined && checkpointFile === config.checkpointFile)
    throw new ConfigError(`EAAS_CHECKPOINT_FILE of --to-config is the file of this installation: ${checkpointFile}`)
  return { ...target, databaseUrl, databaseUrlFile: to, databaseUrlOption: TO }
}

async function tenantMove(config: Config, name: string, options: MoveOptions): Promise<void> {
  const { to, toConfig, address, undoWithoutTarget: isLost = false, json } = options
  const undo = options.undo || isLost
  const progress = showProgress('move:')
  const tell = (text: string) => {
    progress.done()
    process.stderr.write(`eaas: ${visibleLine(text)}\n`)
  }
  const given = [TO, to, ...(toConfig ? ['--to-config', toConfig] : []), ...(address ? ['--address', address] : [])]
  const hint = describeMove(name, given.join(' '))
  let isClosing = false
  const onClosing = () => {
    isClosing = true
  }
  const tellState = () => {
    const closed = `tenant ${name} may be closed here, and its calls then get 503`
    const unchanged = `this command has not changed tenant ${name} yet: eaas tenant show ${name} tells whether it is closed`
    tell(`${isClosing ? closed : unchanged}. ${hint}`)
  }
  const release = isLost ? () => undefined : beforeEnd(tellState)
  const work = () =>
    withServices(config, async (from) => {
      const found = await getTenant(from, name)
      if (isLost) {
        await undoWithoutTarget({ from, tenant_id: found.tenant_id })
        return { found, closedMs: 0 }
      }
      const workThere = async (to: Services) => {
        const move = { from, to, tenant_id: found.tenant_id }
        if (undo) await undoMove(move, { onClosing })
        const closedMs = undo ? 0 : await moveTenant(move, { address, onStep: tell, onProgress: progress, onClosing })
        isClosing = false
        release()
        const { moved_to } = (await from.states.find(found.tenant_id)) ?? {}
        if (!undo && address !== undefined && moved_to?.address !== address)
          tell(`--address changes nothing: the tenant arrived before, with ${moved_to?.address ?? 'no address'}`)
        return { found, closedMs }
      }
      // If an alarm there were not yet raised, the move would close the tenant here, and the tenant would not arrive.
      const target = targetOf(config, options)
      adviseOn(target)
      return withServices(target, workThere, { comparesAll: true })
    })
  const { closedMs, found } = await work()
    .catch((error: unknown) => {
      if (isClosing) tellState()
      throw error
    })
    .finally(progress.done)
    .finally(release)
  if (json) return printJson({ ...found, moved: !undo, closed_ms: Math.round(closedMs) })
  if (isLost) return print(`${describeTenant(found)} is served here. Never let the other installation serve it.`)
  if (undo)
    return print(
      `${describeTenant(found)} is served here, and what was copied there is deleted.`,
      'If an older state of the other database was restored since the move began, the tenant may have arrived there and lost entries: compare a checkpoint from there.',
    )
  print(
    `${describeTenant(found)} is served by the other installation${closedMs > 0 ? `; its calls waited ${(closedMs / 1_000).toFixed(1)} s` : ''}.`,
    'Its sealed secrets are still in this database and its backups. To let nobody here use them, rotate its keys there, and delete what it left here: eaas tenant delete --help',
  )
}
