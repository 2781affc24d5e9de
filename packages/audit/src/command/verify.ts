/** `eaas-audit verify`: verifies an export against a public key, without a server or a secret. */
import { listTexts } from '@eaas/protocol'
import type { Command } from 'commander'
import { describeRollbacks } from '../verify/accepted-rollbacks.js'
import { describeCheckpoints, describeStatement, OTHER_SIGNER } from '../verify/compare-checkpoints.js'
import type { ExportVerdict, KeptStatement } from '../verify/verify-export.js'
import { describeWitnessed, KEY_OF_FILE, viewWitnessed } from './kept-file.js'
import * as cli from './options.js'
import { print, printJson } from './output.js'
import { type Trusted, verifyFiles } from './verify-files.js'

interface VerifyCommand extends Trusted {
  json: boolean
}

export function addVerify(program: Command): void {
  program
    .command('verify')
    .description('Verify an export of an audit log, without server or secret.')
    .addArgument(cli.exportsArgument())
    .option('--public-key <key>', 'the public key that you trust, or a file with it (default: the one in the export)')
    .addOption(cli.CHECKPOINT_OPTION)
    .addOption(cli.WITNESS_OPTION)
    .addOption(cli.TREE_OPTION)
    .addOption(cli.JSON_OPTION)
    .addHelpText('after', cli.EXIT_CODES)
    .action(async (files: string[], options: VerifyCommand, command: Command) => {
      cli.assertComparable(command)
      await cli.judge(async () => verifyAndPrint(files, await cli.withKey(options, command)))
    })
}

async function verifyAndPrint(files: readonly string[], { json, ...trusted }: VerifyCommand): Promise<number> {
  const { verdict, witnessed } = await verifyFiles(files, trusted)
  if (json) printJson({ ...verdict, ...viewWitnessed(witnessed) })
  else print(...describe(verdict), ...(verdict.valid ? describeWitnessed(witnessed) : []))
  return exitCode(verdict)
}

// The order matters: a script that accepts a lower code must not overlook a higher one. It may accept parts, which
// archives usually are. A given checkpoint must be compared. Without a trusted key nothing is proven.
export function exitCode({ valid, whole, checkpoint_compared, trusted_key }: ExportVerdict): number {
  if (!valid) return cli.NOT_VALID
  return Math.max(
    cli.VALID,
    whole ? cli.VALID : cli.PART,
    checkpoint_compared === false ? cli.UNUSED : cli.VALID,
    trusted_key ? cli.VALID : cli.UNTRUSTED_KEY,
  )
}

function describe({ valid, line, reason, broken_at, ...verdict }: ExportVerdict): string[] {
  const { verified_entries, after_id = 0, last_id = after_id, checkpoint, anchor, missing = [] } = verdict
  if (!valid) {
    const where = broken_at === undefined ? `line ${line}` : `line ${line}, entry ${broken_at}`
    return [`The export is NOT valid: ${reason} (${where}).`, `entries     ${verified_entries} verified before that`]
  }
  return listTexts(
    'The export is valid.',
    `tenant      ${verdict.tenant_id}`,
    `entries     ${verified_entries}${verified_entries === 0 ? '' : `, from ${after_id + 1} to ${last_id}`}`,
    verdict.purged_through !== undefined &&
      `purged      through entry ${verdict.purged_through}, as a later entry of the file says`,
    `signed      ${verdict.signed_at}`,
    `by key      ${verdict.public_key}`,
    anchor &&
      `anchor      entry ${anchor.id} of the installation's log, of ${anchor.created_at}, covers entry ${anchor.last_id}`,
    verdict.accepted_rollbacks && `ROLLED BACK ${describeRollbacks(verdict.accepted_rollbacks)}`,
    verdict.tree &&
      `tree        ${verdict.tree}${verdict.trusted_tree ? '' : ', by the word of who holds the key: compare it with eaas audit public-key --tree, and give it with --tree'}`,
    checkpoint && describeCompared(checkpoint, verdict),
    verdict.checkpoints && describeCheckpoints(verdict.checkpoints).map((line) => `checkpoints ${line}`),
    missing.includes('beginning') &&
      `PART        entries before ${after_id + 1} are missing from the export, and no purge in the file explains that`,
    missing.includes('end') &&
      (verdict.head_id === last_id
        ? `PART        the tenant moved to another installation with entry ${last_id}: give its export too`
        : `PART        the log went on after entry ${last_id}, to entry ${verdict.head_id} when this was signed`),
    verdict.key_changes?.flatMap(({ from, to, created_at }) => [
      `KEY CHANGED from ${from}`,
      `            to   ${to}, says a statement of ${created_at} that both signed`,
    ]),
    verdict.key_changes && [
      'WARNING     who stole the earlier key can write such a statement too: compare the last key with the',
      "            operator's over another channel, and give it with --public-key from then on. Another successor of",
      '            the same key, in whatever file, is an alarm, unless a tenant moved by it',
    ],
    !verdict.trusted_key && !verdict.key_changes && KEY_OF_FILE,
  )
}

function describeCompared(checkpoint: KeptStatement, verdict: Partial<ExportVerdict>): string[] {
  const { checkpoint_compared, unused, anchor } = verdict
  const isShared = checkpoint.tenant_id !== verdict.tenant_id
  const what = describeStatement(checkpoint)
  if (checkpoint_compared !== true) {
    const advice =
      unused === 'unsigned'
        ? `none of the keys that the export states signed it. ${OTHER_SIGNER}`
        : isShared
          ? 'this export is not linked to it. Have it made again: eaas audit export --since, with this checkpoint. If that is refused because a rollback of that log was accepted since, no export can be linked to it: keep a new one'
          : 'that entry is not in the file. Give the archives and the parts of the log that have it too'
    return [`UNUSED      the checkpoint is of ${what}: ${advice}`]
  }
  const said = isShared && anchor ? [describeOrder(checkpoint, anchor)] : describeUnchanged(checkpoint, verdict)
  return [[`checkpoint  agrees: ${what}`, ...said].join('; ')]
}

/** Describes where the checkpoint of the installation's log is relative to the anchor, and so to the tenant's entries. */
function describeOrder({ id }: KeptStatement, anchor: NonNullable<ExportVerdict['anchor']>): string {
  const order = id < anchor.id ? 'that log goes on from it to the anchor' : 'that log has the anchor up to it'
  return anchor.vouched
    ? `${order}, and nothing through entry ${anchor.last_id} was rewritten since`
    : `${order}, by the word of the server alone: whoever has its keys can sign another log`
}

/** Says what nobody did to the log, as far as the file has its entries, but not after an accepted rollback. */
function describeUnchanged(
  { id }: KeptStatement,
  { after_id = 0, accepted_rollbacks }: Partial<ExportVerdict>,
): string[] {
  if (accepted_rollbacks || id <= after_id) return []
  const from = after_id === 0 ? '' : `from entry ${after_id + 1} on, `
  return [`${from}nothing before it was rewritten, cut or rolled back`]
}
