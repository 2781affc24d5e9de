/** Exports the audit log as lines (export.md). Writes no entry. */
import { Readable } from 'node:stream'
import {
  type AuditEntry,
  anchorLine,
  type ChainedEntry,
  type ExportTrailer,
  encodePublicKey,
  entryHash,
  entryLine,
  genesisHash,
  headerLine,
  linksLine,
  RunningRoot,
  readMove,
  signCheckpoint,
  signEntryTree,
  signInstallation,
  signStretch,
  trailerLine,
} from '@eaas/audit/formats'
import { INSTALLATION_ID, type wire } from '@eaas/protocol'
import { isHeadGenuine } from '../audit/audit-key.js'
import { equalBytes, type Head } from '../audit/formats/chain.js'
import type { ToLink } from '../audit/guard.js'
import { assertFollowing, assertLeadsToHead, TamperedEntryError } from '../audit/listed-entries.js'
import { isMarkGenuine, readAuthenticEntry } from '../audit/read-entry.js'
import { listKeyChangesOf } from '../runner/installation-key.js'
import type { Context, Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { whenAdmitted } from '../runner/work-gate.js'
import { findEntryHash, findHead, readChain } from '../store/audit.js'
import type { Sql } from '../store/db.js'
import { findLastMark } from '../store/purge-marks.js'
import { TamperedRowError } from '../store/tampered-row.js'

type ExportScope = wire.Queries['exportAudit'] & {
  /** show that the installation's log covers the tenant: only for the operator, since it reveals the number of tenants */
  withAnchor?: boolean
  /** the entries of the installation's log that the export links to the anchor */
  toLink?: ToLink | undefined
}

/** Exports take turns page by page, so one that its client does not read delays no other. @throws Refusal */
export function exportAudit(scope: ExportScope): Operation<Readable> {
  return async (context) => ({ entries: [], release: () => openExport(context, scope) })
}

async function openExport({ services: live, ...rest }: Context, scope: ExportScope): Promise<Readable> {
  const services = { ...live, signingKey: live.signingKey.current() }
  const context = { ...rest, services }
  const { state } = context
  const { tenant_id } = state.tenant
  const key_changes = await listKeyChangesOf(services.sql, services, tenant_id)
  // First: an anchor that is written during the export may cover later entries than the export contains.
  const covering = scope.withAnchor ? await services.findCovering(services, tenant_id, scope.toLink) : undefined
  const head = await getHead(context)
  const start = await findStart(context, scope.after_id, head)
  const { signingKey } = services
  const isOwn = tenant_id === INSTALLATION_ID
  if (isOwn) await services.proveKeys(services, head)
  const installation = covering || isOwn ? signInstallation(signingKey, signingKey.publicKeys) : undefined
  const end = await findEnd(context, head, scope.through_id)
  if (start.last_id > end.last_id) throw new Refusal('E_VALIDATION', `after_id: the log ends at ${end.last_id}`)
  const seal = sealEnd(context, end, head)

  async function* lines() {
    yield headerLine({ tenant_id, after_id: start.last_id, after_hash: start.hash, key_changes, installation })
    if (covering) yield anchorLine(covering.anchor)
    if (covering?.links) yield linksLine(covering.links)
    const tree = createTree(context, { start, end })
    let last = start.last_id
    while (last < end.last_id) {
      const range = { tenant_id, after_id: last, through_id: end.last_id }
      const page = await whenAdmitted(services.readGate, { tenant_id }, () => readPage(services.sql, range))
      for (const entry of page) tree.add(entry)
      yield page.map(entryLine).join('')
      last += page.length
    }
    yield trailerLine({ ...(await seal(gone.signal)), tree: tree.sign() })
  }
  const gone = new AbortController()
  const file = Readable.from(lines(), { objectMode: false })
  return file.once('close', () => gone.abort())
}

/** The tree over the entries of the export (proof.md 2); not signed if these do not reach the end of the log. */
function createTree({ services, state }: Context, { start, end }: { start: Position; end: Position }) {
  const { tenant_id } = state.tenant
  const leaves = new RunningRoot()
  const created_at = new Date(services.now()).toISOString()
  let { hash } = start
  return {
    add(entry: AuditEntry) {
      hash = entryHash(hash, entry)
      leaves.add(hash)
    },
    sign() {
      if (leaves.length === 0 || !equalBytes(hash, end.hash)) return undefined
      const range = { tenant_id, after_id: start.last_id, last_id: end.last_id }
      return signEntryTree(services.signingKey, { ...range, root: leaves.root(), created_at })
    },
  }
}

/** Prepares the last line, with the time of the head: a checkpoint if the log ends where the export does. */
function sealEnd(context: Context, end: Position, head: Head): (signal: AbortSignal) => Promise<ExportTrailer> {
  if (end.last_id === head.last_id) {
    const trailer = signHead(context, head)
    return async () => trailer
  }
  const { sql, now, readGate, signingKey } = context.services
  const created_at = new Date(now()).toISOString()
  const admitted = <T>(read: () => Promise<T>) => whenAdmitted(readGate, head, read)
  return async (signal) => {
    try {
      await assertLeadsToHead(sql, { from: end, head, signal, whenAdmitted: admitted })
    } catch (error) {
      if (!(error instanceof TamperedEntryError) || (await firstPosition(context)).last_id < error.entry_id) throw error
      throw new Refusal('E_STATE', `a purge took entry ${error.entry_id} meanwhile: export again`)
    }
    const { last_id, hash } = end
    const { tenant_id, last_id: head_id, hash: head_hash } = head
    const statement = { tenant_id, last_id, hash, head_id, head_hash, created_at }
    return { stretch: signStretch(signingKey, statement), public_key: encodePublicKey(signingKey) }
  }
}

// Only the entry of a move says that the log goes on elsewhere: a file that began after it would count as whole.
async function findStart(context: Context, after_id: number | undefined, head: Head): Promise<Position> {
  const first = await firstPosition(context)
  if (after_id === undefined || after_id <= first.last_id) return first
  const entry = await getEntry(context, 'after_id', after_id)
  if (after_id === head.last_id && readMove(entry)) return findStart(context, after_id - 1, head)
  return { last_id: after_id, hash: entry.hash }
}

async function findEnd(context: Context, head: Head, through_id: number | undefined): Promise<Position> {
  if (through_id === undefined || through_id >= head.last_id) return head
  const { hash } = await getEntry(context, 'through_id', through_id)
  return { last_id: through_id, hash }
}

async function getEntry(context: Context, field: string, id: number): Promise<ChainedEntry> {
  const { services, state } = context
  const { hash } = await firstPosition(context)
  const where = { tenant_id: state.tenant.tenant_id, id, auditKey: state.auditKey }
  const entry = await readAuthenticEntry(services.sql, where, hash)
  if (!entry) throw new Refusal('E_VALIDATION', `${field}: there is no entry ${id}, or it was altered`)
  return entry
}

/** The entry up to which a reader has read a log, and its hash if the reader knows it. */
type Reached = { id: number; hash: Uint8Array | undefined }

/** Consecutive entries of a log. A purge deleted those between the reader's position and `from_id`, the first one's id. */
export type NextEntries = { from_id: number; entries: ChainedEntry[]; reached: Reached }

/**
 * Reads a page of the entries after a position, each proven; none if there is nothing new. The entry of the position
 * must still be the one that the reader saw: after a rollback, other entries may have its id and earlier ones.
 * @throws Refusal E_STATE if the log went back, TamperedEntryError
 */
export function readNextEntries(after: Reached): Operation<NextEntries> {
  return async (context) => ({
    entries: [],
    async release() {
      const { services, state } = context
      const { tenant_id } = state.tenant
      const head = await getHead(context)
      if (after.id > head.last_id) throw wentBack(after, `the log ends at ${head.last_id}`)
      const first = await firstPosition(context)
      const last_id = Math.max(after.id, first.last_id)
      const from_id = last_id + 1
      const hash = await findHash()
      if (!hash && (await firstPosition(context)).last_id <= last_id)
        throw new TamperedEntryError(tenant_id, last_id, 'missing')
      // a purge deleted it: the next call begins at its mark
      if (!hash) return { from_id, entries: [], reached: { id: last_id, hash: undefined } }
      if (last_id === after.id && after.hash && !equalBytes(after.hash, hash)) {
        throw wentBack(after, 'the log has another entry there')
      }
      if (last_id === head.last_id) return { from_id, entries: [], reached: { id: last_id, hash } }
      const entries = await readPage(services.sql, { tenant_id, after_id: last_id, through_id: head.last_id })
      assertFollowing(entries, { tenant_id, auditKey: state.auditKey, hash })
      const { id, hash: lastHash } = entries.at(-1) as ChainedEntry
      return { from_id, entries, reached: { id, hash: lastHash } }

      async function findHash(): Promise<Uint8Array | undefined> {
        if (last_id === head.last_id) return head.hash
        return last_id === first.last_id ? first.hash : findEntryHash(services.sql, tenant_id, last_id)
      }
    },
  })
}

function wentBack({ id }: Reached, what: string): Refusal {
  return new Refusal('E_STATE', `after entry ${id}, which was read before, nothing can follow: ${what}. It went back`)
}

const PAGE_ENTRIES = 500

type Position = Pick<Head, 'last_id' | 'hash'>

/** Gets the head of the log, proven to be the server's own: only such a head may be signed. */
export async function getHead({ services, state }: Context): Promise<Head> {
  const head = await findHead(services.sql, state.tenant.tenant_id)
  if (!head || !(await isHeadGenuine(services.sql, state.auditKey, head)))
    throw new Error('the head of the log is missing or forged')
  return head
}

async function firstPosition({ services: { sql }, state }: Context): Promise<Position> {
  const { tenant_id } = state.tenant
  const mark = await findLastMark(sql, tenant_id)
  if (mark && !(await isMarkGenuine(sql, state.auditKey, mark)))
    throw new TamperedRowError(`the mark of the last purge of tenant ${tenant_id} is forged`)
  return mark ? { last_id: mark.purged_through, hash: mark.hash } : { last_id: 0, hash: genesisHash(tenant_id) }
}

// A purge or a break between two pages leaves a gap, which no reader may mistake for a complete log.
async function readPage(sql: Sql, range: { tenant_id: string; after_id: number; through_id: number }) {
  const page = await readChain(sql, { ...range, limit: PAGE_ENTRIES })
  const gap = page.findIndex(({ id }, at) => id !== range.after_id + 1 + at)
  if (gap >= 0 || page.length === 0) {
    const missing = range.after_id + 1 + Math.max(gap, 0)
    throw new Refusal('E_STATE', `entry ${missing} is missing: the export can't be completed`)
  }
  return page
}

export function signHead({ services, state }: Context, { last_id, hash }: Head): wire.Checkpoint {
  const created_at = new Date(services.now()).toISOString()
  const statement = { tenant_id: state.tenant.tenant_id, last_id, hash, created_at }
  return {
    checkpoint: signCheckpoint(services.signingKey, statement),
    public_key: encodePublicKey(services.signingKey),
  }
}
