/** Checkpoints on a schedule: one line of JSON for each log that grew, to a file or standard output. */
import { appendFile } from 'node:fs/promises'
import type { Services } from './operations/operation.js'
import { performAsSystem } from './operations/perform.js'
import { readAuditCheckpoint } from './operations/read-audit.js'
import { listHeads } from './store/audit.js'

const STANDARD_OUTPUT = '-'

/**
 * Makes the emitter; each call writes the checkpoints of the logs that grew since the last one. A tenant whose log can't be vouched
 * for is told of, and does not stop the others; a file that can't be written does.
 */
export function createCheckpointEmitter(
  services: Services,
  file: string,
  onError: (error: unknown, tenant_id: string) => void,
): () => Promise<void> {
  const emitted = new Map<string, number>()
  return async () => {
    for (const { tenant_id, last_id } of await listHeads(services.sql)) {
      if (emitted.get(tenant_id) === last_id) continue
      const checkpoint = await performAsSystem(services, tenant_id, readAuditCheckpoint()).catch((error: unknown) =>
        onError(error, tenant_id),
      )
      if (!checkpoint) continue
      await write(file, `${JSON.stringify({ tenant_id, ...checkpoint })}\n`)
      emitted.set(tenant_id, last_id)
    }
  }
}

async function write(file: string, line: string): Promise<void> {
  if (file === STANDARD_OUTPUT) await print(line)
  else await appendFile(file, line, { mode: 0o644, flush: true })
}

// What nobody reads any more was not emitted: it is tried again.
function print(line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(line, (error) => (error ? reject(error) : resolve()))
  })
}
