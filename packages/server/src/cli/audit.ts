/** `eaas audit`: the log by the operator's hand. What needs no server is in verify-export.ts. */
import { open, readFile, rm } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Action, isUuid, type wire } from '@eaas/protocol'
import { encodePublicKey } from '../audit/checkpoint.js'
import { findKeptNote } from '../audit/kept-checkpoint.js'
import type { Config } from '../config.js'
import { acceptLostTenant, type LostTenant } from '../operations/accept-lost-tenant.js'
import { acceptRollback } from '../operations/accept-rollback.js'
import { exportAudit } from '../operations/export-audit.js'
import { listAudit } from '../operations/list-audit.js'
import { readAuditCheckpoint } from '../operations/read-audit-checkpoint.js'
import { verifyAudit } from '../operations/verify-audit.js'
import { performAsSystem } from '../runner/perform.js'
import { Refusal } from '../runner/refusal.js'
import { print, printJson, showProgress, table } from './output.js'
import { findTenantId, getTenantId, withServices } from './with-services.js'

interface Of {
  /** the tenant's name or id */
  tenant: string
  json: boolean
}

export interface ListOptions extends Of {
  action?: Action
  keyId?: string
  limit: number
}

/** Prints the newest entries. */
export async function auditList(config: Config, { tenant, action, keyId, limit, json }: ListOptions): Promise<void> {
  const page = { limit, offset: 0, order: 'desc' as const }
  const list = await withServices(config, async (services) =>
    performAsSystem(services, await getTenantId(services, tenant), listAudit({ action, key_id: keyId }, page)),
  )
  if (json) {
    printJson(list)
    return
  }
  const rows = list.logs.map((entry) => [
    String(entry.id),
    entry.created_at,
    entry.action,
    entry.key_id === null ? '-' : `${entry.key_id} v${entry.key_version ?? '-'}`,
    entry.actor,
    entry.ip_address ?? '-',
    describeMetadata(entry.metadata),
  ])
  print(
    ...table(['ID', 'TIME', 'ACTION', 'KEY', 'ACTOR', 'ADDRESS', 'METADATA'], rows),
    '',
    `${list.count} of ${list.total}`,
  )
}

// The version stands beside the key.
function describeMetadata({ key_version: _, ...metadata }: wire.Entry['metadata']): string {
  return Object.keys(metadata).length === 0 ? '' : JSON.stringify(metadata)
}

export interface VerifyOptions extends Of {
  /** a file with a checkpoint, in any form that it is kept in */
  checkpoint?: string
  /** first and last entry of a stretch */
  from?: number
  to?: number
}

/** Verifies a tenant's log in place; returns whether it is valid. */
export async function auditVerify(
  config: Config,
  { tenant, checkpoint, from, to, json }: VerifyOptions,
): Promise<boolean> {
  const progress = showProgress('verified')
  const kept = checkpoint === undefined ? undefined : await readFile(checkpoint, 'utf8')
  const scope = {
    after_id: from === undefined ? undefined : from - 1,
    through_id: to,
    onProgress: (entries: number) => progress(`${entries} entries`),
  }
  const answer = await withServices(config, async (services) => {
    const tenant_id = await getTenantId(services, tenant)
    const note = kept === undefined ? undefined : findKeptNote(kept, tenant_id)
    return performAsSystem(services, tenant_id, verifyAudit({ ...scope, checkpoint: note }))
  }).finally(progress.done)
  if (json) printJson(answer)
  else print(...describe(answer, { from, to }))
  return answer.valid
}

function describe(
  { valid, reason, broken_at, ...answer }: wire.Verification,
  { from = 1, to }: { from: number | undefined; to: number | undefined },
): string[] {
  const { verified_entries, total_entries, purged_through, checkpoint } = answer
  if (valid && to !== undefined && to <= purged_through) {
    return [`Nothing was verified: entries ${from} to ${to} were purged, as all were through ${purged_through}.`]
  }
  return [
    valid ? 'The log is valid.' : `The log is NOT valid: ${reason}, entry ${broken_at}.`,
    `entries     ${verified_entries} of ${total_entries} verified`,
    ...(purged_through === 0 ? [] : [`purged      through ${purged_through}`]),
    ...(valid && checkpoint?.compared ? [`checkpoint  agrees at entry ${checkpoint.id}`] : []),
    ...(checkpoint?.compared === false && valid
      ? [`UNUSED      the checkpoint is of entry ${checkpoint.id}, which was not read`]
      : []),
  ]
}

/** Writes a tenant's log as NDJSON, to a file or to standard output. */
export async function auditExport(
  config: Config,
  { tenant, out, afterId }: { tenant: string; out?: string; afterId?: number },
): Promise<void> {
  const progress = showProgress('exported')
  const isShown = out === undefined && process.stdout.isTTY // the lines themselves are
  await withServices(config, async (services) => {
    const tenant_id = await getTenantId(services, tenant)
    const lines = await performAsSystem(services, tenant_id, exportAudit({ after_id: afterId }))
    const counted = countBytes(lines, (bytes) => isShown || progress(`${Math.round(bytes / 1_048_576)} MiB`))
    if (out === undefined) await pipeline(counted, process.stdout, { end: false })
    else await writeNew(out, counted)
  }).finally(progress.done)
  if (out !== undefined) process.stderr.write(`exported to ${out}\n`)
}

async function* countBytes(lines: Readable, onBytes: (bytes: number) => unknown): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of lines as AsyncIterable<Buffer>) {
    bytes += chunk.length
    onBytes(bytes)
    yield chunk
  }
}

// Never over a file that is there; and what did not get to its end is no export, and does not stay, Ctrl-C or not.
async function writeNew(path: string, content: AsyncIterable<Buffer>): Promise<void> {
  const stopping = new AbortController()
  const stop = () => stopping.abort()
  process.once('SIGINT', stop).once('SIGTERM', stop)
  const file = await open(path, 'wx', 0o600)
  try {
    await pipeline(content, file.createWriteStream({ flush: true }), { signal: stopping.signal })
  } catch (error) {
    await rm(path, { force: true })
    throw stopping.signal.aborted ? new Refusal('E_STATE', `the export was stopped, and ${path} removed`) : error
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
  }
}

/** Prints a signed statement of where a tenant's log ends. */
export async function auditCheckpoint(config: Config, { tenant, json }: Of): Promise<void> {
  const checkpoint = await withServices(config, async (services) =>
    performAsSystem(services, await getTenantId(services, tenant), readAuditCheckpoint()),
  )
  if (json) printJson(checkpoint)
  else process.stdout.write(checkpoint.checkpoint)
}

/** Prints the public key that checkpoints and exports are verified with. */
export async function auditPublicKey(config: Config, { json }: { json: boolean }): Promise<void> {
  const public_key = await withServices(config, async ({ signingKey }) => encodePublicKey(signingKey))
  if (json) printJson({ public_key })
  else print(public_key)
}

/** Accepts that a tenant's log lost entries, so that the tenant is served again; writes that into the log. */
export async function auditAcceptRollback(
  config: Config,
  { tenant, reason, json }: Of & { reason: string },
): Promise<void> {
  const progress = showProgress('verified')
  const accepted = await withServices(config, async (services) => {
    const isLost = isUuid(tenant) && (await findTenantId(services, tenant)) === undefined
    if (isLost) return acceptLostTenant(services, tenant)
    return acceptRollback(services, await getTenantId(services, tenant), {
      reason,
      onProgress: (entries) => progress(`${entries} entries`),
    })
  }).finally(progress.done)
  if (json) {
    printJson('entry_id' in accepted ? accepted : { ...accepted, tenant_gone: true, reason })
    return
  }
  if (!('entry_id' in accepted)) {
    print(...describeLostTenant(accepted, reason))
    return
  }
  const { entry_id, witnessed_id } = accepted
  print(
    witnessed_id < entry_id
      ? `Accepted. Entry ${entry_id} of the log says so; an entry ${witnessed_id} had been witnessed.`
      : `Accepted: entries after ${entry_id - 1}, through ${witnessed_id} at least, are lost. Entry ${entry_id} of the log says so.`,
    'Every server serves the tenant again within a second or two.',
    'What was changed in the lost entries is undone: revoke again, rotate again. See: eaas audit diff --help',
  )
}

function describeLostTenant(
  { tenant_id, witnessed_id, witnessed_hash, raised_at }: LostTenant,
  reason: string,
): string[] {
  return [
    `Accepted: tenant ${tenant_id} is gone from the database, and its alarm is ended.`,
    'The tenant, its log and all its keys are lost unless a newer backup is restored: what they protect cannot be opened.',
    'There is no log of the tenant to write this into. Keep these lines, and the checkpoint files:',
    '',
    `witness  entry ${witnessed_id}, hash ${witnessed_hash}, alarm of ${raised_at}`,
    `reason   ${reason}`,
    '',
    'The witness is what the row of the alarm said; without the key of the tenant it cannot be verified.',
    'Every server ends its alarm within a second or two.',
  ]
}
