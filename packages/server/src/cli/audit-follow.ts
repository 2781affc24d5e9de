/** `eaas audit export --follow`: a tenant's entries as they are written, for a log shipper. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.js'
import { readNextLines } from '../operations/export-audit.js'
import { performAsSystem } from '../runner/perform.js'
import type { LogChoice } from './command.js'
import { printable } from './output.js'
import { describeTenant, getLogOwner, withServices } from './with-services.js'

/** Between two reads of a log that has nothing new, in milliseconds. */
const POLL_MS = 1_000

/**
 * Writes the entries after an id, and new ones as they are written, until a signal stops it or its reader is
 * gone.
 */
export async function auditFollow(
  config: Config,
  { afterId = 0, ...log }: LogChoice & { afterId?: number },
): Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  const stop = () => stopping.abort()
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    await withServices(config, async (services) => {
      const owner = await getLogOwner(services, log)
      const { tenant_id } = owner
      process.stderr.write(`eaas: follows the log of ${printable(describeTenant(owner))}\n`)
      let after_id = afterId
      while (!signal.aborted) {
        const { from_id, last_id, text } = await performAsSystem(services, tenant_id, readNextLines({ after_id }))
        if (from_id > after_id + 1) {
          process.stderr.write(`eaas: entries ${after_id + 1} to ${from_id - 1} were purged and are left out\n`)
        }
        after_id = last_id
        if (text === '') await sleep(POLL_MS, undefined, { signal }).catch(() => undefined)
        else if (!(await write(text))) return
      }
    })
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

/** Writes whole lines; resolves once they have left this process, to false if the reader is gone. */
function write(text: string): Promise<boolean> {
  return new Promise((resolve) => process.stdout.write(text, (error) => resolve(!error)))
}
