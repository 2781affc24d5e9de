/** Checkpoints, one line of JSON each, to a file or standard output: on a schedule of each log that grew, and of each alarm. */
import { appendFile, open } from 'node:fs/promises'
import { encodeBase64 } from '@eaas/protocol'
import type { KeptHead } from '../audit/chain.js'
import { encodePublicKey, signCheckpoint } from '../audit/checkpoint.js'
import type { Alarm } from '../audit/head-watch.js'
import { type KeptLine, STANDARD_OUTPUT } from '../audit/kept-witnesses.js'
import type { Services } from '../runner/operation.js'
import { listHeads } from '../store/audit.js'

const LINE_FEED = 0x0a

/**
 * Makes the emitter; each call writes the checkpoints of the logs that grew since the last one. A tenant whose log can't be vouched
 * for, because it does not go on from what was witnessed say, is reported and does not stop the others; a file that can't be
 * written does.
 */
export function createCheckpointEmitter(
  services: Services,
  file: string,
  onError: (error: unknown, tenant_id: string) => void,
): () => Promise<void> {
  const emitted = new Map<string, number>()
  const write = createLineWriter(file)
  return async () => {
    for (const { tenant_id, last_id } of await listHeads(services.sql)) {
      if (emitted.get(tenant_id) === last_id) continue
      const line = await witness(services, tenant_id).catch((error: unknown) => onError(error, tenant_id))
      if (!line) continue
      await write(line)
      emitted.set(tenant_id, last_id)
    }
  }
}

/**
 * Makes what writes the heads that alarms are about: each call writes a line of the head that was witnessed, not of the one in the
 * database, for each alarmed tenant, once an alarm. So the next start compares it, and raises the alarm again, also where the row
 * of the alarm was deleted meanwhile.
 */
export function createAlarmWitnessEmitter({ committer, signingKey, now }: Services, file: string): () => Promise<void> {
  const emitted = new WeakSet<Alarm>()
  const write = createLineWriter(file)
  return async () => {
    for (const { tenant_id, alarm } of committer.watches.alarmed()) {
      if (!alarm?.witness || emitted.has(alarm)) continue
      await write(keep({ signingKey, now }, tenant_id, alarm.witness))
      emitted.add(alarm)
    }
  }
}

// What is signed is compared with what was witnessed first, and is what the log has to go on from afterwards.
async function witness(services: Services, tenant_id: string): Promise<KeptLine> {
  const { sql, states, committer, signingKey, now } = services
  const state = await states.find(tenant_id)
  if (!state) throw new Error('there is no such tenant, but a head of its log')
  if (state.fault) throw state.fault
  const watch = committer.watches.get(tenant_id)
  watch.assertNoAlarm()
  const head = await watch.read(sql, state.auditKey)
  const line = keep({ signingKey, now }, tenant_id, head)
  watch.witness(head)
  return line
}

function keep({ signingKey, now }: Pick<Services, 'signingKey' | 'now'>, tenant_id: string, head: KeptHead): KeptLine {
  const { last_id, hash, policy_version, created_at, mac } = head
  const checkpoint = signCheckpoint(signingKey, { tenant_id, last_id, hash, created_at: new Date(now()).toISOString() })
  const sealed = created_at && mac ? { head: { created_at, mac: encodeBase64(mac) } } : {}
  return { tenant_id, policy_version, checkpoint, public_key: encodePublicKey(signingKey), ...sealed }
}

function createLineWriter(file: string): (line: KeptLine) => Promise<void> {
  let isMended = false
  return async (line) => {
    if (!isMended) await endLastLine(file)
    isMended = true
    const text = `${JSON.stringify(line)}\n`
    if (file === STANDARD_OUTPUT) await print(text)
    else await appendFile(file, text, { mode: 0o644, flush: true })
  }
}

// A crash may have cut the last line short: the next one must not be glued to it.
async function endLastLine(file: string): Promise<void> {
  if (file === STANDARD_OUTPUT) return
  const handle = await open(file, 'a+', 0o644)
  try {
    const found = await handle.stat()
    if (!found.isFile() || found.size === 0) return
    const last = Buffer.alloc(1)
    await handle.read(last, 0, 1, found.size - 1)
    if (last[0] !== LINE_FEED) await handle.appendFile('\n')
  } finally {
    await handle.close()
  }
}

// What nobody reads any more was not emitted: it is tried again.
function print(line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(line, (error) => (error ? reject(error) : resolve()))
  })
}
