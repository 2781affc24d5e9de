/** `eaas audit follow`: entries as they are written, for a SIEM. */
import type { ChainedEntry } from '@eaas/audit'
import type { Command } from 'commander'
import { type NextEntries, readNextEntries } from '../../core/api/audit-export.js'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { listHeads } from '../../core/store/audit.js'
import * as cli from './command.js'
import { describeTenant, getLogOwner, messageOf, withServices } from './with-services.js'

type FollowOptions = cli.LogChoice & cli.DeliveryOptions & { all: boolean }

export function addAuditFollow(audit: Command): void {
  const command = cli
    .addLogOptions(audit.command('follow'), ({ all }) => all === true)
    .description(
      'Deliver entries as they are written, each verified, until SIGINT or SIGTERM: one JSON object a line, to standard output or to a SIEM. With a cursor, none is left out, but one may arrive twice.',
    )
    .addOption(cli.allOption("the installation's log and every tenant's", ['afterId']))
  cli.addDeliveryOptions(command).action((options: FollowOptions) => auditFollow(cli.commandConfig(), options))
}

function auditFollow(config: Config, options: FollowOptions): Promise<void> {
  return cli.deliverFrom(options, { name: 'eaas' }, ({ cursor, tell, run }) =>
    withServices(config, async (services) => {
      const logs = await openLogs(services, { cursor, tell }, options)
      const waiting: string[] = []
      await run(() => readBatch(logs, waiting))
    }),
  )
}

interface Logs {
  list(): Promise<string[]>
  /** Reads the entries after the delivered ones; undefined after a failure, which it reports on standard error. */
  read(tenant_id: string): Promise<NextEntries | undefined>
}

async function openLogs(
  services: Services,
  { cursor, tell }: Pick<cli.Delivery, 'cursor' | 'tell'>,
  { all, afterId = 0, ...log }: FollowOptions,
): Promise<Logs> {
  const positionOf = (tenant_id: string): cli.Reached => cursor.get(tenant_id) ?? { id: afterId, hash: undefined }
  if (!all) {
    const owner = await getLogOwner(services, log)
    tell(`follows the log of ${describeTenant(owner)}`)
    return { list: async () => [owner.tenant_id], read: readNext }
  }
  tell('follows every log')
  const faults = new Map<string, string>()
  return {
    list: async () => (await listHeads(services.sql)).filter(isNew).map(({ tenant_id }) => tenant_id),
    // A log that was tampered with does not delay others. If the database is unreachable, the next list() fails.
    async read(tenant_id) {
      try {
        const next = await readNext(tenant_id)
        faults.delete(tenant_id)
        return next
      } catch (error) {
        const fault = messageOf(error)
        if (faults.get(tenant_id) !== fault) tell(`the log ${tenant_id} is not followed: ${fault}`)
        faults.set(tenant_id, fault)
        process.exitCode = 1
        return undefined
      }
    },
  }

  async function readNext(tenant_id: string): Promise<NextEntries> {
    const after = positionOf(tenant_id)
    const next = await performAsSystem(services, tenant_id, readNextEntries(after))
    if (next.from_id > after.id + 1)
      tell(`entries ${after.id + 1} to ${next.from_id - 1} of the log ${tenant_id} were purged and are left out`)
    return next
  }

  function isNew({ tenant_id, last_id, hash }: { tenant_id: string; last_id: number; hash: Uint8Array }): boolean {
    const known = cursor.get(tenant_id)
    return known?.id !== last_id || known.hash === undefined || Buffer.compare(known.hash, hash) !== 0
  }
}

/** Reads a batch and the new positions of its logs. Waiting logs go first, so that no busy log delays others. */
async function readBatch(logs: Logs, waiting: string[]): Promise<cli.Batch> {
  const entries: ChainedEntry[] = []
  const reached: cli.Cursor = new Map()
  if (waiting.length === 0) waiting.push(...(await logs.list()))
  while (entries.length < cli.BATCH_ENTRIES) {
    const tenant_id = waiting.shift()
    if (tenant_id === undefined) break
    const next = await logs.read(tenant_id)
    if (!next || next.entries.length === 0) continue
    entries.push(...next.entries)
    reached.set(tenant_id, next.reached)
  }
  return { entries, reached }
}
