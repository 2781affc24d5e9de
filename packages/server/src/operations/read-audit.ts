/** Reading the audit log: a page of entries, its verification, a checkpoint, an export. No entry. */
import type { KeyObject } from 'node:crypto'
import { Readable } from 'node:stream'
import type { wire } from '@eaas/protocol'
import { type AuditEntry, genesisHash, type Head, isHeadAuthentic } from '../audit/chain.js'
import { CheckpointError, encodePublicKey, readCheckpoint, signCheckpoint } from '../audit/checkpoint.js'
import { entryLine, headerLine, trailerLine } from '../audit/export.js'
import { readAuthenticEntry } from '../audit/read-entry.js'
import { verifyLog } from '../audit/verify.js'
import type { Context, Operation, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { countExport } from '../runner/running-exports.js'
import { shareVerification } from '../runner/shared-verification.js'
import type { TenantState } from '../runner/tenant-state.js'
import { findHead, readChain } from '../store/audit.js'
import { type EntryFilter, listEntries, type Page } from '../store/audit-list.js'
import { findLastMark } from '../store/audit-retention.js'
import type { Sql } from '../store/db.js'

/** Entries of an export that are read at a time. */
const EXPORT_PAGE_ENTRIES = 500

/** Lists entries, newest first unless the page says otherwise, with the exact number of all that match. */
export function listAudit(filter: EntryFilter, page: Page): Operation<wire.EntryList> {
  return async ({ state, services }) => ({
    entries: [],
    async release() {
      const { tenant, purged_through } = state
      const { entries, total } = await listEntries(
        services.sql,
        { tenant_id: tenant.tenant_id, purged_through },
        filter,
        page,
      )
      const logs = entries.map(viewEntry)
      return { logs, count: logs.length, total, limit: page.limit, offset: page.offset }
    },
  })
}

export interface VerifyScope {
  /** only the entries after this id */
  after_id?: number | undefined
  /** only the entries up to this id */
  through_id?: number | undefined
  /** a note that was kept from earlier */
  checkpoint?: string | undefined
  onProgress?: ((entries: number) => void) | undefined
  /** tells that nobody waits for the answer any more */
  signal?: AbortSignal | undefined
}

/** Verifies the tenant's chain in place. @throws Refusal E_VALIDATION, E_UNAVAILABLE when too many verifications run */
export function verifyAudit({ checkpoint, signal, ...scope }: VerifyScope): Operation<wire.Verification> {
  return async ({ state, services }) => {
    const kept = checkpoint === undefined ? undefined : readKept(checkpoint, state, services)
    const { auditKey, rowKey } = state
    const { tenant_id } = state.tenant
    const { after_id, through_id } = scope
    return {
      entries: [],
      evidence: true,
      async release() {
        await assertStretch(services.sql, { tenant_id, auditKey, ...scope })
        const witnessed = services.committer.watches.get(tenant_id).alarm?.witness
        const shared = JSON.stringify([
          after_id ?? null,
          through_id ?? null,
          checkpoint ?? null,
          witnessed?.last_id ?? null,
        ])
        return shareVerification({ tenant_id, scope: shared, signal }, (gone) =>
          verifyLog(services.sql, { tenant_id, auditKey, rowKey, checkpoint: kept, witnessed, ...scope, signal: gone }),
        )
      },
    }
  }
}

// What a head that is not the server's says of the end is for the verification to tell.
async function assertStretch(
  sql: Sql,
  { tenant_id, auditKey, after_id = 0, through_id }: { tenant_id: string; auditKey: KeyObject } & VerifyScope,
): Promise<void> {
  if (through_id !== undefined && after_id >= through_id) {
    throw new Refusal('E_VALIDATION', 'through_id must be greater than after_id')
  }
  const head = await findHead(sql, tenant_id)
  if (head && isHeadAuthentic(auditKey, head) && after_id > head.last_id) {
    throw new Refusal('E_VALIDATION', `after_id: the log ends at ${head.last_id}`)
  }
}

/** Signs a statement of where the tenant's log ends now. */
export function readAuditCheckpoint(): Operation<wire.Checkpoint> {
  return async (context) => ({
    entries: [],
    release: async () => {
      const head = await currentHead(context)
      return signed(context, head)
    },
  })
}

export interface ExportScope {
  /** only the entries after this id */
  after_id?: number | undefined
  /** only the entries up to this id */
  through_id?: number | undefined
}

/**
 * Exports the log, or a stretch of it, as lines (export.md). The server's own exports, such as the archive of a purge, are not
 * limited in number.
 *
 * @throws Refusal E_VALIDATION, E_UNAVAILABLE when too many exports run
 */
export function exportAudit(scope: ExportScope): Operation<Readable> {
  return async (context) => ({
    entries: [],
    release: () => {
      const open = () => openExport(context, scope)
      return context.caller.apiKey ? countExport(context.state.tenant.tenant_id, open) : open()
    },
  })
}

async function openExport(context: Context, scope: ExportScope): Promise<Readable> {
  const { services, state } = context
  const { tenant_id } = state.tenant
  const start = await findStart(context, scope.after_id)
  const end = await findEnd(context, scope.through_id)
  if (start.last_id > end.last_id) throw new Refusal('E_VALIDATION', `after_id: the log ends at ${end.last_id}`)
  const trailer = signed(context, end)

  async function* lines() {
    yield headerLine({ tenant_id, after_id: start.last_id, after_hash: start.hash })
    let last = start.last_id
    while (last < end.last_id) {
      const page = await readWhole(services.sql, { tenant_id, after_id: last, through_id: end.last_id })
      yield page.map(entryLine).join('')
      last += page.length
    }
    yield trailerLine(trailer)
  }
  return Readable.from(lines(), { objectMode: false })
}

/** Entries that follow each other, as lines; `last_id` is where the next ones begin. */
export interface NextLines {
  /** the entries before this one are gone: a purge took them */
  from_id: number
  last_id: number
  text: string
}

/** Reads the entries after an id, a page of them at most, as the lines of an export; none where there is nothing new. @throws Refusal E_VALIDATION, E_STATE */
export function readNextLines({ after_id }: { after_id: number }): Operation<NextLines> {
  return async (context) => ({
    entries: [],
    async release() {
      const { services, state } = context
      const { tenant_id } = state.tenant
      const head = await currentHead(context)
      if (after_id > head.last_id) throw new Refusal('E_VALIDATION', `after_id: the log ends at ${head.last_id}`)
      const first = await firstPlace(context)
      const last = Math.max(after_id, first.last_id)
      const from_id = last + 1
      if (last === head.last_id) return { from_id, last_id: last, text: '' }
      const page = await readWhole(services.sql, { tenant_id, after_id: last, through_id: head.last_id })
      return { from_id, last_id: last + page.length, text: page.map(entryLine).join('') }
    },
  })
}

// A purge or a break between two pages leaves a gap, which no reader may take for a log that is complete.
async function readWhole(sql: Sql, range: { tenant_id: string; after_id: number; through_id: number }) {
  const page = await readChain(sql, { ...range, limit: EXPORT_PAGE_ENTRIES })
  const gap = page.findIndex(({ id }, at) => id !== range.after_id + 1 + at)
  if (gap >= 0 || page.length === 0) {
    const missing = range.after_id + 1 + Math.max(gap, 0)
    throw new Refusal('E_STATE', `entry ${missing} is missing: the export can't be completed`)
  }
  return page
}

function readKept(note: string, { tenant }: TenantState, { signingKey }: Services) {
  try {
    const kept = readCheckpoint(note, encodePublicKey(signingKey))
    if (kept.tenant_id !== tenant.tenant_id) throw new CheckpointError("the checkpoint is another tenant's")
    return kept
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    throw new Refusal('E_VALIDATION', `checkpoint: ${error.message}`)
  }
}

// What is signed has to be what this server wrote: a head that is not its own is never vouched for.
async function currentHead({ services, state }: Context) {
  const head = await findHead(services.sql, state.tenant.tenant_id)
  if (!head || !isHeadAuthentic(state.auditKey, head)) throw new Error('the head of the log is missing or forged')
  return head
}

function signed(
  { services, state }: Context,
  { last_id, hash }: { last_id: number; hash: Uint8Array },
): wire.Checkpoint {
  const created_at = new Date(services.now()).toISOString()
  const statement = { tenant_id: state.tenant.tenant_id, last_id, hash, created_at }
  return {
    checkpoint: signCheckpoint(services.signingKey, statement),
    public_key: encodePublicKey(services.signingKey),
  }
}

/** A place in the chain: an entry's id and its hash. */
type Place = Pick<Head, 'last_id' | 'hash'>

async function findStart(context: Context, after_id: number | undefined): Promise<Place> {
  const first = await firstPlace(context)
  if (after_id === undefined || after_id <= first.last_id) return first
  return getPlace(context, 'after_id', after_id)
}

async function findEnd(context: Context, through_id: number | undefined): Promise<Place> {
  const head = await currentHead(context)
  if (through_id === undefined || through_id >= head.last_id) return head
  return getPlace(context, 'through_id', through_id)
}

async function firstPlace({ services: { sql }, state }: Context): Promise<Place> {
  const { tenant_id } = state.tenant
  const mark = await findLastMark(sql, tenant_id)
  return mark ? { last_id: mark.purged_through, hash: mark.hash } : { last_id: 0, hash: genesisHash(tenant_id) }
}

async function getPlace(context: Context, field: string, id: number): Promise<Place> {
  const { services, state } = context
  const { hash } = await firstPlace(context)
  const where = { tenant_id: state.tenant.tenant_id, id, auditKey: state.auditKey }
  const entry = await readAuthenticEntry(services.sql, where, hash)
  if (!entry) throw new Refusal('E_VALIDATION', `${field}: there is no entry ${id}, or it is not as it was written`)
  return { last_id: id, hash: entry.hash }
}

// Clients look for the version in the metadata too. It is stored once, in its column.
function viewEntry({ metadata, ...entry }: AuditEntry): wire.Entry {
  const stored = metadata === null ? {} : (JSON.parse(metadata) as Record<string, unknown>)
  const { key_version } = entry
  return { ...entry, metadata: { ...stored, ...(key_version === null ? {} : { key_version }) } }
}
