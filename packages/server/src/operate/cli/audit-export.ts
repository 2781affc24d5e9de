/** `eaas audit export`: writes a log as NDJSON, to be verified offline. */
import type { Readable } from 'node:stream'
import { STANDARD_STREAM } from '@eaas/audit/command'
import { type Command, Option } from 'commander'
import { exportAudit } from '../../core/api/audit-export.js'
import type { Config } from '../../core/config.js'
import { performAsSystem } from '../../core/runner/perform.js'
import {
  addLogOptions,
  commandConfig,
  type LogChoice,
  NEW_FILE,
  readInputFile,
  readNewFile,
  readWhole,
} from './command.js'
import { readGivenIds, readOwnIds } from './kept-file.js'
import { createOut, showProgress } from './output.js'
import { describeTenant, getLogOwner, recordOperation, withServices } from './with-services.js'

export function addAuditExport(audit: Command): void {
  addLogOptions(audit.command('export'))
    .description('Write the log as NDJSON, to be verified offline.')
    .option('--out <file>', NEW_FILE, readNewFile, STANDARD_STREAM)
    .option('--after-id <id>', 'only the entries after this one', readWhole)
    .addOption(
      new Option(
        '--since <file>',
        "link the tenant to the checkpoints of the installation's log in this file, so that eaas-audit verify can compare them; also done with those of EAAS_CHECKPOINT_FILE",
      )
        .argParser(readInputFile)
        .conflicts('installation'),
    )
    .action((options) => auditExport(commandConfig(), options))
}

async function auditExport(
  config: Config,
  { out, afterId, since, ...log }: LogChoice & { out: string; afterId?: number; since?: string },
): Promise<void> {
  const progress = showProgress('exported')
  const isShown = out === STANDARD_STREAM && process.stdout.isTTY // the terminal shows the lines themselves
  const owner = await withServices(config, async (services) => {
    const owner = await getLogOwner(services, log)
    const { tenant_id } = owner
    const known = log.installation ? [] : await readOwnIds(config.checkpointFile)
    const demanded = since === undefined ? [] : await readGivenIds(since)
    const toLink = log.installation ? undefined : { known, demanded }
    const scope = { after_id: afterId, withAnchor: true, toLink }
    const lines = await performAsSystem(services, tenant_id, exportAudit(scope))
    const watched = countBytes(lines, (bytes) => isShown || progress(`${Math.round(bytes / 1_048_576)} MiB`))
    await createOut(out, async (sink) => {
      for await (const chunk of watched) await sink.write(chunk)
    })
    await recordOperation(services, { action: 'installation.export', metadata: { tenant_id } })
    return owner
  }).finally(progress.done)
  if (out !== STANDARD_STREAM) process.stderr.write(`exported the log of ${describeTenant(owner)} to ${out}\n`)
}

async function* countBytes(lines: Readable, onBytes: (bytes: number) => unknown): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of lines as AsyncIterable<Buffer>) {
    bytes += chunk.length
    onBytes(bytes)
    yield chunk
  }
}
