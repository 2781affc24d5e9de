/** `eaas tenant`: lets the operator manage tenants, beside a running server or without one. */
import { counted, foldUuid, INSTALLATION_ID, isUuid, visible, wire } from '@eaas/protocol'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Config } from '../../core/config.js'
import type { Operation, Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import { DatabaseDeadlineError } from '../../core/store/deadline.js'
import * as tenants from '../../operators/tenants.js'
import { deleteStray, getStray } from '../operations/delete-moved.js'
import { type DeletionPlan, deleteTenant, planDeletion } from '../operations/delete-tenant.js'
import type { Stray } from '../store/moved-rows.js'
import * as cli from './command.js'
import { linesOf, print, printJson, printOnce, showProgress } from './output.js'
import { mode, quota, tenantList, tenantListAll } from './tenant-list.js'
import { addTenantMove } from './tenant-move.js'
import { findTenant, getTenant, performIn, withServices } from './with-services.js'

const STATUS_CHANGES = {
  suspend:
    'Refuse every call of a tenant, on every server. Nothing is deleted; rotations and destructions of its keys wait.',
  resume: 'Serve a suspended tenant again.',
} as const

export function addTenant(program: Command): void {
  const tenant = program
    .command('tenant')
    .description('Manage tenants. Works whether or not a server is running.')
    .addHelpText('afterAll', cli.SAME_ENVIRONMENT)

  tenant
    .command('create')
    .description('Create a tenant and print its first API key, which is shown only once.')
    .requiredOption('--name <name>', 'name of the tenant, 1 to 255 characters, not a UUID', readTenantName)
    .option(
      '--envelope-only <boolean>',
      'false opens server mode: the server then sees plaintext',
      cli.readBoolean,
      true,
    )
    .addOption(cli.JSON_OPTION)
    .action((options) => tenantCreate(cli.commandConfig(), options))

  tenant
    .command('list')
    .description("Print every tenant, and name those that the installation's log has and the database lacks.")
    .option(
      '--all <file>',
      'of all installations in this file: a JSON object of names and configuration files',
      cli.readKeptPath,
    )
    .addOption(cli.JSON_OPTION)
    .action(({ all, json }) =>
      cli.succeed(all === undefined ? tenantList(cli.commandConfig(), { json }) : tenantListAll(all, { json })),
    )

  tenant
    .command('show')
    .description('Print one tenant.')
    .argument('<tenant>', 'name or id')
    .addOption(cli.JSON_OPTION)
    .action((name, options) => printTenant(name, options, tenants.readTenantForOperator()))

  tenant
    .command('set')
    .description("Change a tenant's settings; that tenant's own audit log records the change.")
    .argument('<tenant>', 'name or id')
    .option('--envelope-only <boolean>', 'false opens server mode: the server then sees plaintext', cli.readBoolean)
    .option('--monthly-encrypt-quota <number>', 'encrypt calls a month in server mode, or none', readQuota)
    .addOption(
      new Option(
        '--plaintext-encoding <encoding>',
        'how server mode reads a plaintext if the call does not say (default: utf8)',
      ).choices(wire.PLAINTEXT_ENCODINGS),
    )
    .addOption(cli.JSON_OPTION)
    .action((name, { envelopeOnly, monthlyEncryptQuota: quota, plaintextEncoding, json }) => {
      const monthly_encrypt_quota = quota === 'none' ? null : quota
      const changes = { envelope_only: envelopeOnly, monthly_encrypt_quota, plaintext_encoding: plaintextEncoding }
      return printTenant(name, { json }, tenants.updateTenant(changes))
    })

  for (const change of ['suspend', 'resume'] as const) {
    tenant
      .command(change)
      .description(`${STATUS_CHANGES[change]} The tenant's log records it.`)
      .argument('<tenant>', 'name or id')
      .addOption(cli.REASON_OPTION)
      .addOption(cli.JSON_OPTION)
      .action((name, options) => tenantSetStatus(name, { change, ...options }))
  }

  addTenantMove(tenant)

  tenant
    .command('delete')
    .description(
      'Destroy the key material of a suspended tenant and revoke its API keys, for good. Its audit log remains, and can be verified and exported until a purge deletes it. Of a tenant that was moved to another installation, or whose move here was interrupted (by its id), delete every row here. Without --confirm, print what would be destroyed and do nothing.',
    )
    .argument('<tenant>', 'name or id')
    .option(
      '--confirm <name>',
      "the tenant's name, repeated, or the id of a move that was interrupted: data encrypted under its keys can't be decrypted afterwards",
    )
    .addOption(cli.REASON_OPTION)
    .addOption(cli.JSON_OPTION)
    .action((name, options) => cli.succeed(tenantDelete(cli.commandConfig(), name, options)))
}

function readTenantName(text: string): string {
  const fault = tenants.findNameFault(cli.readName(text))
  if (fault !== undefined) throw new InvalidArgumentError(`It ${fault}.`)
  return text
}

// `none` stays a word until the action, since the parser reads null as a missing value.
function readQuota(text: string): number | 'none' {
  if (text === 'none') return text
  const quota = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(quota))
    throw new InvalidArgumentError('It must be a whole number, or none.')
  return quota
}

async function tenantCreate(
  config: Config,
  { name, envelopeOnly, json }: cli.Format & { name: string; envelopeOnly: boolean },
): Promise<void> {
  const create = (services: Services) =>
    tenants.createTenant(services, { name, envelope_only: envelopeOnly }).catch((error: unknown) => {
      if (!(error instanceof DatabaseDeadlineError)) throw error
      throw new Refusal(
        'E_UNAVAILABLE',
        `the database did not acknowledge the tenant within ${tenants.CREATE_DEADLINE_MS / 1_000} s; a synchronous standby may be missing ` +
          '(eaas doctor). Run eaas tenant list before you repeat this; if the tenant exists, create an API key for it with eaas api-key create',
      )
    })
  const tenant = await withServices(config, create, { mayCreate: true })
  const { tenant_id, api_key } = tenant
  const lines = json ? [JSON.stringify(tenant)] : describeNewTenant(tenant)
  await printOnce(
    lines,
    `tenant ${tenant_id} was created, but the secret of its API key could not be printed and is lost. Create another one with ` +
      `eaas api-key create --tenant ${tenant_id}, and then revoke the lost one: eaas api-key revoke ${api_key.id} --tenant ${tenant_id}`,
  )
}

async function printTenant(
  tenant: string,
  { json }: cli.Format,
  operation: Operation<tenants.OperatorTenant>,
): Promise<void> {
  const { answer } = await performIn({ tenant }, operation)
  if (json) printJson(answer)
  else print(...describeTenant(answer))
}

async function tenantSetStatus(
  tenant: string,
  { change, json, ...reason }: cli.Format & tenants.Reason & { change: 'suspend' | 'resume' },
): Promise<void> {
  const operation = change === 'suspend' ? tenants.suspendTenant(reason) : tenants.resumeTenant(reason)
  let before: string | undefined
  const { answer: changed } = await performIn({ tenant }, (context) => {
    before = context.state.tenant.status // the last decision counts
    return operation(context)
  })
  if (json) return printJson(changed)
  const { name, tenant_id, status } = changed
  const effect = change === 'suspend' ? ': all of its calls are refused' : ''
  if (before !== status) return print(`Tenant ${name} (${tenant_id}) is ${status}${effect}.`)
  const recorded = reason.reason === undefined ? 'Nothing' : 'The reason'
  print(`Tenant ${name} (${tenant_id}) is ${status} already${effect}. ${recorded} was recorded.`)
}

/** Without `confirm`, prints what it would delete, and returns false. */
async function tenantDelete(
  config: Config,
  tenant: string,
  { confirm, json, ...reason }: cli.Format & tenants.Reason & { confirm?: string },
): Promise<boolean> {
  return withServices(config, async (services) => {
    const found = await findTenant(services, tenant)
    const stray = found ? undefined : await findStrayOf(services, tenant)
    if (stray) return strayDelete(services, stray, { confirm, json, ...reason })
    const { tenant_id } = found ?? (await getTenant(services, tenant))
    const plan = await planDeletion(services, tenant_id)
    if (confirm === undefined) {
      if (json) printJson({ ...plan, deleted: false })
      else print(...(plan.tenant.status === 'moved' ? describeDeletionOfMoved(plan) : describeDeletion(plan)))
      return false
    }
    const progress = showProgress('destroying keys')
    const onProgress = (keys: number) => progress(String(keys))
    const deleted = await deleteTenant(services, tenant_id, { ...reason, confirm, onProgress }).finally(progress.done)
    if (json) printJson({ ...plan, tenant: deleted, deleted: true })
    else if (plan.tenant.status === 'moved')
      print(`What tenant ${deleted.name} (${tenant_id}) left here is deleted. ${IN_BACKUPS}`)
    else
      print(
        `Tenant ${deleted.name} (${tenant_id}) is deleted: the material of ${counted(plan.keys, 'key')} is destroyed and ${counted(plan.api_keys, 'API key')} revoked. Its log remains.`,
      )
    return true
  })
}

const IN_BACKUPS = 'Backups of the database hold the key material for as long as they are kept.'

function findStrayOf(services: Services, tenant: string): Promise<Stray | undefined> {
  const id = foldUuid(tenant)
  return isUuid(id) && id !== INSTALLATION_ID ? getStray(services, id) : Promise.resolve(undefined)
}

async function strayDelete(
  services: Services,
  stray: Stray,
  { confirm, json, ...reason }: cli.Format & tenants.Reason & { confirm?: string | undefined },
): Promise<boolean> {
  const deleted = confirm !== undefined
  const { tenant_id, entries } = deleted ? await deleteStray(services, stray, { ...reason, confirm }) : stray
  const left = `${counted(entries, 'entry', 'entries')} and the peppers of tenant ${tenant_id}`
  if (json) printJson({ tenant_id, entries, deleted })
  else if (deleted) print(`${left} are deleted here. The tenant is not in this installation.`)
  else
    print(
      `A move that runs or was interrupted left here ${left}, which is not in this installation.`,
      'Nothing was deleted. If the move is not to be continued, repeat the command with --confirm and the id.',
    )
  return deleted
}

function describeDeletionOfMoved({ tenant, keys, versions, api_keys, last_entry }: DeletionPlan): string[] {
  const { name, tenant_id } = tenant
  return [
    `Deleting what tenant ${visible(name)} (${tenant_id}) left here cannot be undone. It is served by ${describePlace(tenant)}: make sure of that, and that there is a backup.`,
    '',
    `Deleted here  the sealed secrets of ${counted(keys, 'key')} in ${counted(versions, 'version')}, ${counted(api_keys, 'API key')}, and all other rows of the tenant`,
    `              this part of the audit log, which ends at entry ${last_entry}; the other installation has the whole log`,
    '',
    'Clients that call here get 401 from then on. The tenant can be moved back later.',
    IN_BACKUPS,
    `To join exports from before the move with later ones, first export this part: eaas audit export --tenant ${tenant_id} --out FILE`,
    '',
    'Nothing was deleted. To delete it, repeat the command with --confirm and the name of the tenant.',
  ]
}

function describeDeletion({ tenant, keys, versions, api_keys, last_entry }: DeletionPlan): string[] {
  const { name, tenant_id } = tenant
  return [
    `Deleting tenant ${visible(name)} (${tenant_id}) cannot be undone.`,
    '',
    `Destroyed at once  the material of ${counted(keys, 'key')} in ${counted(versions, 'version')}: data encrypted under them can never be decrypted again`,
    `Revoked            ${counted(api_keys, 'API key')}`,
    `Kept               the audit log, which ends at entry ${last_entry} so far, until a purge deletes it; it can still be verified and exported`,
    '                   the records of keys and API keys, without key material; the name of the tenant, which stays taken',
    '',
    IN_BACKUPS,
    `To save the log as a file: eaas audit export --tenant ${tenant_id} --out FILE`,
    '',
    'Nothing was deleted. To delete the tenant, repeat the command with --confirm and its name.',
  ]
}

function describePlace({ moved_to }: tenants.OperatorTenant): string {
  if (!moved_to) return 'another installation'
  const { address, public_key } = moved_to
  return `${address === undefined ? '' : `${visible(address)}, `}the installation with the public key ${visible(public_key)}`
}

function describeTenant(tenant: tenants.OperatorTenant): string[] {
  return linesOf(
    `name              ${visible(tenant.name)}`,
    `id                ${tenant.tenant_id}`,
    `status            ${tenant.status}`,
    tenant.moved_to && `moved to          ${describePlace(tenant)}`,
    `mode              ${mode(tenant)}`,
    `encrypts a month  ${quota(tenant)}`,
    tenant.plaintext_encoding && `plaintext         ${tenant.plaintext_encoding} unless a call says otherwise`,
    `created           ${tenant.created_at}`,
  )
}

function describeNewTenant({ tenant_id, name, envelope_only, api_key }: tenants.NewTenant): string[] {
  return [
    `Tenant ${visible(name)} (${tenant_id}) was created${envelope_only ? '' : ', with server mode open'}.`,
    'Its API key, which is shown only once:',
    '',
    `  ${api_key.secret}`,
    '',
  ]
}
