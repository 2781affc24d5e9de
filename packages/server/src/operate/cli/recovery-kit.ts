/** `eaas recovery-kit`: the exports of all keys of a tenant in one file, in case this server is lost. */
import { resolve } from 'node:path'
import { counted, visible, visibleLine, type wire } from '@eaas/protocol'
import type { Command } from 'commander'
import { exportKey, listKeys } from '../../core/api/keys.js'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import * as cli from './command.js'
import { createSealedFile, print, printBeside, printJson, showProgress } from './output.js'
import { describeTenant, type FoundTenant, getTenant, messageOf, withServices } from './with-services.js'

const AT_ONCE = 64 // exports that wait for their entries at once; the committer writes these together

export function addRecoveryKit(program: Command): void {
  program
    .command('recovery-kit')
    .description(
      "Export all keys of a tenant into one file, encrypted to recipients of age: it opens all that the tenant's keys protect, without the server. The tenant's log records each export. Make it again after creating or rotating keys.",
    )
    .addOption(cli.TENANT_OPTION)
    .addOption(cli.NEEDED_RECIPIENT_OPTION)
    .requiredOption('--out <file>', cli.NEW_FILE, cli.readNewFile)
    .addOption(cli.JSON_OPTION)
    .addHelpText('after', cli.SAME_ENVIRONMENT)
    .action((options, command: Command) => {
      cli.assertOneOutput(command, [options.out], options)
      return cli.succeed(recoveryKit(cli.commandConfig(), options))
    })
}

type KitOptions = cli.OfTenant & { recipient: string[]; out: string }

interface Kit {
  owner: FoundTenant
  text: string // a line for each key, the answer of `POST /v1/keys/:id/export`
  exported: number
  left_out: number // keys whose material is destroyed, or will be, and that cannot be exported
  failed: { key_id: string; name: string; error: string }[]
}

/** Returns true if the kit has every key with material. @throws RecipientError, Refusal, CommandError */
async function recoveryKit(config: Config, { tenant, recipient, out, json }: KitOptions): Promise<boolean> {
  const { owner, exported, left_out, failed } = await createSealedFile(out, recipient, () =>
    withServices(config, async (services) => makeKit(services, await getTenant(services, tenant))),
  )
  if (json) printJson({ file: resolve(out), tenant_id: owner.tenant_id, exported, left_out, failed })
  else {
    const what = `${counted(exported, 'key')} of ${describeTenant(owner)}`
    if (out !== cli.STANDARD_STREAM)
      print(`${what} in ${resolve(out)}. Whoever opens it opens all that they ever protected.`)
    if (left_out > 0)
      printBeside(out, `Left out: ${counted(left_out, 'key')} that destruction has taken, or waits for.`)
    for (const { key_id, name, error } of failed) {
      process.stderr.write(`eaas: the kit lacks key ${visibleLine(`${visible(name)} (${key_id}): ${error}`)}\n`)
    }
  }
  return failed.length === 0
}

async function makeKit(services: Services, owner: FoundTenant): Promise<Kit> {
  const { keys } = await performAsSystem(services, owner.tenant_id, listKeys({}))
  const progress = showProgress('exporting keys')
  const kit: Kit = { owner, text: '', exported: 0, left_out: 0, failed: [] }
  const lines: string[] = []
  try {
    for (let from = 0; from < keys.length; from += AT_ONCE) {
      progress(`${from} of ${keys.length}`)
      const some = keys.slice(from, from + AT_ONCE)
      const found = await Promise.all(some.map((key) => exportOne(services, owner, key)))
      for (const { line, failure } of found) {
        if (line !== undefined) lines.push(line)
        else if (failure) kit.failed.push(failure)
        else kit.left_out++
      }
    }
  } finally {
    progress.done()
  }
  if (lines.length === 0) {
    const reason = kit.failed.map(({ error }) => error)[0] ?? 'it has none'
    throw new cli.CommandError(`No key of ${describeTenant(owner)} can be exported: ${reason}.`)
  }
  return { ...kit, text: lines.join(''), exported: lines.length }
}

// A fault of one key must not prevent exporting the others.
async function exportOne(
  services: Services,
  { tenant_id }: FoundTenant,
  { id: key_id, name, status }: wire.Key,
): Promise<{ line?: string; failure?: Kit['failed'][number] }> {
  if (status === 'destroyed' || status === 'pending_destruction') return {}
  try {
    const exported = await performAsSystem(services, tenant_id, exportKey({ key_id }))
    return { line: `${JSON.stringify(exported)}\n` }
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof TamperedRowError)) throw error
    return { failure: { key_id, name, error: messageOf(error) } }
  }
}
