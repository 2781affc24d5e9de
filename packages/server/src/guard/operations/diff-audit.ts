// Finds what a log lost, by kept checkpoints and an earlier export. Only reads, and works for tenants that are not served.
import { type ChainedEntry, type ExportedEntry, entryHash, genesisHash, readMetadata } from '@eaas/audit/formats'
import { isHeadGenuine } from '../../core/audit/audit-key.js'
import {
  type AuditKey,
  alarmMac,
  entryMac,
  equalBytes,
  type Head,
  type KeptHead,
} from '../../core/audit/formats/chain.js'
import { findAuthenticMark } from '../../core/audit/read-entry.js'
import { type Fault, findBeyond } from '../../core/audit/verify/verify.js'
import { createStretches } from '../../core/event-loop.js'
import type { Services } from '../../core/runner/operation.js'
import { Refusal } from '../../core/runner/refusal.js'
import type { TenantState } from '../../core/runner/tenant-state.js'
import { findEntryHash, findFirstId, listTenantHeads, readChain } from '../../core/store/audit.js'
import { type Evidence, readEvidence } from '../../core/store/audit-evidence.js'
import type { Queryable, Sql } from '../../core/store/db.js'
import { listAlarms } from '../store/alarms.js'
import { createAcceptedLosses } from '../watch/acceptances.js'

const PAGE_ENTRIES = 500

interface DiffOptions {
  checkpoints: readonly KeptHead[] // the heads of signed checkpoints of this tenant's log, in any order
  /** the entries of a verified export, in order; undefined without one */
  exported?: AsyncIterable<ExportedEntry> | undefined
  onProgress?: ((entries: number) => void) | undefined
}

export interface AuditDiff {
  tenant_id: string
  last_id: number // the last entry of the log; 0 if it has none
  agrees_through: number // the last entry that is confirmed to be the same; 0 if none is
  differs_at: number | null // the first entry that is known to be missing or different
  witnessed_through: number // the last entry that is known to have been written
  /** the last entry of a checkpoint whose loss was accepted; the other members ignore such checkpoints */
  accepted_through: number | null
  head_fault: HeadFault | null // the fault of the head, which no checkpoint and no export shows
  entry_fault: EntryFault | null // the entry that does not follow its predecessor; `differs_at` is this one or an earlier one
  lost: ExportedEntry[] | null // the entries of the export that are not in the log; null without an export
  undone: Undone[] // the changes that were undone with the lost entries, in their order
}

/** A change that the rows of the database lack. */
interface Undone {
  entry_id: number
  change: ExportedEntry['action']
  key_id?: string
  key_version?: number
  api_key_id?: string
  wraps?: number // how many DEKs were wrapped under the lost key version
  remedy: string // what the operator should do now
}

/** Compares a tenant's log with kept checkpoints and an export. @throws Refusal E_NOT_FOUND */
export async function diffAudit(
  services: Services,
  tenant_id: string,
  { checkpoints, exported, onProgress }: DiffOptions,
): Promise<AuditDiff> {
  const { sql } = services
  const state = await services.states.find(tenant_id)
  if (!state) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  const { auditKey } = state
  // Only an export shows which changes the rows lack.
  const evidence = await readEvidence(sql, tenant_id, { withRows: exported !== undefined })
  const { head } = evidence
  const last_id = Math.min(evidence.last_id, head?.last_id ?? evidence.last_id)
  const alarmed = await findWitness(services, state)
  const noted = new Set([...checkpoints, ...alarmed, ...(head ? [head] : [])].map((position) => position.last_id))
  const log = new ComputedHashes(sql, { tenant_id, auditKey, noted, onProgress })
  const verdicts: Verdicts = { same: [], other: [], accepted: [] }
  const lost = exported === undefined ? null : await findLost(exported, log, verdicts)
  await log.readThrough(evidence.last_id)
  const isAccepted = createAcceptedLosses(sql, { tenant_id, auditKey, last_id })
  await compare(checkpoints, { log, hashes: log.noted, verdicts, isAccepted })
  await compare(alarmed, { log, hashes: log.noted, verdicts }) // an existing alarm was not accepted
  const { same, other, accepted } = verdicts
  // Entries after the head count as a fault of the head.
  const entry_fault = log.fault && log.fault.entry_id <= last_id ? log.fault : null
  const different = entry_fault === null ? other : [...other, entry_fault.entry_id]
  const differs_at = different.length === 0 ? null : different.reduce((least, id) => Math.min(least, id))
  const agrees_through = same.reduce((most, id) => (id < (differs_at ?? Infinity) ? Math.max(most, id) : most), 0)
  const witnessed_through = [...same, ...other].reduce((most, id) => Math.max(most, id), 0)
  const accepted_through = accepted.length === 0 ? null : accepted.reduce((most, id) => Math.max(most, id))
  const undone = lost === null ? [] : findUndone(lost, evidence)
  const found = await findHeadFault(sql, { tenant_id, auditKey })
  const head_fault = found ?? (leadsTo(log, head) ? null : HEAD_MISMATCH)
  const compared = { agrees_through, differs_at, witnessed_through, accepted_through }
  return { tenant_id, last_id, ...compared, head_fault, entry_fault, lost, undone }
}

/** Whether the entries lead to the head. Also true if `entry_fault` reports a fault among them. */
function leadsTo({ fault, noted }: ComputedHashes, head: Head | undefined): boolean {
  if (fault || !head) return fault !== undefined
  const hash = noted.get(head.last_id)
  return hash !== undefined && equalBytes(hash, head.hash)
}

type Position = Pick<Head, 'last_id' | 'hash'>

interface Verdicts {
  same: number[]
  other: number[]
  accepted: number[] // the third case: an operator accepted their loss
}

async function findWitness({ sql }: Services, { tenant, auditKey }: TenantState): Promise<Position[]> {
  const alarms = await listAlarms(sql)
  return alarms.filter(
    (alarm) =>
      alarm.tenant_id === tenant.tenant_id && alarm.last_id > 0 && equalBytes(alarm.mac, alarmMac(auditKey, alarm)),
  )
}

// Of the purged entries, only the last one can be compared, with the mark.
async function compare<Compared extends Position>(
  positions: readonly Compared[],
  by: {
    log: ComputedHashes
    hashes: ReadonlyMap<number, Uint8Array>
    verdicts: Verdicts
    isAccepted?: (position: Compared) => Promise<boolean>
  },
): Promise<void> {
  const { log, hashes, verdicts, isAccepted = async () => false } = by
  for (const position of positions) {
    const { last_id, hash } = position
    const found = hashes.get(last_id)
    if (!found && last_id <= log.purged_through) continue
    if (found && equalBytes(found, hash)) verdicts.same.push(last_id)
    else verdicts[(await isAccepted(position)) ? 'accepted' : 'other'].push(last_id)
  }
}

// Each hash covers all earlier entries, so the entries after the first different one are lost as well.
async function findLost(
  exported: AsyncIterable<ExportedEntry>,
  log: ComputedHashes,
  verdicts: Verdicts,
): Promise<ExportedEntry[]> {
  const lost: ExportedEntry[] = []
  let page: ExportedEntry[] = []
  const settle = async () => {
    const positions = page.map(({ id, hash }) => ({ last_id: id, hash }))
    const ids = page.map(({ id }) => id)
    const hashes = await log.readThrough(ids.at(-1) ?? 0, ids)
    const found: Verdicts = { same: [], other: [], accepted: [] }
    await compare(positions, { log, hashes, verdicts: found })
    const { same, other } = found
    const [first] = other
    const last = page.at(-1)
    if (first !== undefined) {
      lost.push(...page.filter(({ id }) => id >= first))
      verdicts.other.push(first)
      verdicts.same.push(...same.filter((id) => id < first).slice(-1))
    } else verdicts.same.push(...same.slice(-1))
    if (last && first !== undefined) verdicts.other.push(last.id)
    page = []
  }
  for await (const entry of exported) {
    page.push(entry)
    if (page.length === PAGE_ENTRIES) await settle()
  }
  if (page.length > 0) await settle()
  return lost
}

function findUndone(lost: readonly ExportedEntry[], { rows }: Evidence): Undone[] {
  const apiKeys = new Map(rows.apiKeys.map((row) => [row.api_key_id, row]))
  const keys = new Map(rows.keys.map((row) => [row.key_id, row]))
  const versions = new Set(rows.versions.map(({ key_id, version }) => `${key_id} ${version}`))
  // A version with the same number may have been created again: by another entry, and with another secret.
  const goneVersions = new Set(
    lost.filter(({ action }) => action === 'key.create' || action === 'key.rotate').map(nameVersion),
  )
  const wraps = new Map<string, number>()
  for (const entry of lost) {
    const name = nameVersion(entry)
    const isUseless = goneVersions.has(name) || !versions.has(name)
    if (/^(?:key\.wrap|encrypt)$/.test(entry.action) && isUseless) wraps.set(name, (wraps.get(name) ?? 0) + 1)
  }
  return lost.flatMap((entry): Undone[] => {
    const { id, action, key_id, key_version } = entry
    const key = { ...(key_id !== null && { key_id }), ...(key_version !== null && { key_version }) }
    const remedy = (text: string, more: Partial<Undone> = {}): Undone[] => [
      { entry_id: id, change: action, ...key, ...more, remedy: text },
    ]
    const { api_key_id = '', ...metadata } = readMetadata(entry)
    const change = { api_key_id: String(api_key_id) }
    switch (action) {
      case 'api_key.revoke': {
        const row = apiKeys.get(change.api_key_id)
        if (!row) return remedy('nothing: the API key is lost too', change)
        return remedy(
          row.revoked_at === null ? 'revoke it again: it is valid again' : 'nothing: it was revoked again',
          change,
        )
      }
      case 'api_key.create':
        return remedy('create another one: this one no longer exists and gets 401', change)
      case 'api_key.update':
        return remedy(`change it again: ${metadata.changed ?? 'it'} is as it was before`, change)
      case 'key.create':
      case 'key.rotate': {
        const lostWraps = wraps.get(nameVersion(entry)) ?? 0
        const what = action === 'key.create' ? 'create the key again' : 'rotate again'
        const text = `${what}; DEKs wrapped by this version can't be unwrapped: encrypt their data again from another source`
        return remedy(text, { wraps: lostWraps })
      }
      case 'key.disable':
      case 'key.enable':
      case 'key.destroy': {
        const row = keys.get(key_id ?? '')
        if (!row) return remedy('nothing: the key is lost too')
        return remedy(`repeat it if you still want it: the key is ${row.status} now`)
      }
      case 'key.update':
      case 'key.rotation_policy':
      case 'tenant.update':
        return remedy('repeat it if you still want it')
      case 'installation.tenant_create':
      case 'installation.tenant_update':
      case 'installation.tenant_suspend':
      case 'installation.tenant_resume':
      case 'installation.tenant_delete':
      case 'installation.tenant_move':
      case 'installation.tenant_arrive':
        return remedy(`compare the tenant's own log: eaas audit diff --tenant ${metadata.tenant_id}`)
      case 'installation.tenant_gone':
        return remedy(`accept again that tenant ${metadata.tenant_id} is gone, if there is an alarm about it`)
      default:
        return []
    }
  })
}

function nameVersion({ key_id, key_version }: ExportedEntry): string {
  return `${key_id} ${key_version ?? 1}`
}

// Computes a log's hashes in order, from its start or newest purge, since an attacker can change stored ones meanwhile.
const HASHED_ENTRIES = 1_000
const PROGRESS_ENTRIES = 10_000

interface EntryFault {
  entry_id: number // the first entry that is missing, or does not follow its predecessor
  reason: Fault // the reason that a verification gives
  detail: string // the same in words
}

/** The log leads to a head only if the computed hash of the head's entry equals the head's. */
class ComputedHashes {
  /** the first fault; after it, hashes are the stored ones, and only of entries with the server's MAC */
  fault: EntryFault | undefined
  /** the last entry that a purge deleted; 0 if there was no purge */
  purged_through = 0
  /** the hashes of those entries in `noted` that were read, by their ids */
  readonly noted = new Map<number, Uint8Array>()
  #last: { id: number; hash: Uint8Array }
  #read = 0
  readonly #pause = createStretches()

  constructor(
    private readonly sql: Queryable,
    private readonly log: {
      tenant_id: string
      auditKey: AuditKey
      noted: ReadonlySet<number> // the entries whose hashes to keep
      onProgress?: ((entries: number) => void) | undefined
    },
  ) {
    this.#last = { id: 0, hash: genesisHash(log.tenant_id) }
  }

  /** Reads to an entry, or to the end of the log. Returns the hashes of those entries in `ids` that it read. */
  async readThrough(through_id: number, ids: readonly number[] = []): Promise<ReadonlyMap<number, Uint8Array>> {
    const wanted = new Set(ids)
    const found = new Map<number, Uint8Array>()
    const note = ({ id, hash }: { id: number; hash: Uint8Array }) => {
      if (wanted.has(id)) found.set(id, hash)
      if (this.log.noted.has(id)) this.noted.set(id, hash)
    }
    while (this.#last.id < through_id) {
      const where = { tenant_id: this.log.tenant_id, after_id: this.#last.id, through_id, limit: HASHED_ENTRIES }
      const page = await readChain(this.sql, where)
      if (page[0]?.id !== this.#last.id + 1 && (await this.#followPurge())) note(this.#last)
      else if (page.length === 0) break
      else await this.#readPage(page, note)
    }
    return found
  }

  /** If the newest purge deleted the next entry, continues after that purge. */
  async #followPurge(): Promise<boolean> {
    const mark = await findAuthenticMark(this.sql, this.log)
    if (!mark || mark.purged_through <= this.#last.id) return false
    this.purged_through = mark.purged_through
    this.#last = { id: mark.purged_through, hash: mark.hash }
    return true
  }

  async #readPage(page: readonly ChainedEntry[], note: (entry: ChainedEntry) => void): Promise<void> {
    for (const entry of page) {
      this.fault ??= findFault(this.#last, entry)
      if (!this.fault || this.#isGenuine(entry)) note(entry)
      this.#last = entry
      this.#read += 1
      if (this.#read % PROGRESS_ENTRIES === 0) this.log.onProgress?.(this.#read)
      const due = this.#pause()
      if (due) await due
    }
  }

  #isGenuine({ id, hash, mac }: ChainedEntry): boolean {
    return equalBytes(mac, entryMac(this.log.auditKey, id, hash))
  }
}

function findFault(last: { id: number; hash: Uint8Array }, entry: ChainedEntry): EntryFault | undefined {
  const next = last.id + 1
  if (entry.id === last.id)
    return { entry_id: entry.id, reason: 'entry_repeated', detail: `entry ${entry.id} is there more than once` }
  if (entry.id !== next) return { entry_id: next, reason: 'entry_missing', detail: `entry ${next} is missing` }
  if (equalBytes(entry.hash, entryHash(last.hash, entry))) return undefined
  return { entry_id: next, reason: 'entry_altered', detail: `entry ${next} does not follow from the entry before it` }
}

export interface HeadFault {
  /** the reason that a verification gives */
  reason: Fault
  detail: string
}

const HEAD_MISMATCH: HeadFault = { reason: 'head_mismatch', detail: 'the head does not match the last entry' }

/** Uses one snapshot while appends continue; undefined if the head is authentic and of the last entry. */
export function findHeadFault(
  sql: Sql,
  { tenant_id, auditKey }: { tenant_id: string; auditKey: AuditKey },
): Promise<HeadFault | undefined> {
  return sql.begin('isolation level repeatable read read only', async (snapshot): Promise<HeadFault | undefined> => {
    const [head, ...others] = await listTenantHeads(snapshot, tenant_id)
    if (!head) return { reason: 'head_missing', detail: 'the head is missing' }
    if (others.length > 0) return { reason: 'head_repeated', detail: 'there are several heads' }
    if (!(await isHeadGenuine(snapshot, auditKey, head)))
      return { reason: 'head_forged', detail: 'the head was not written by the server' }
    const last = await findEntryHash(snapshot, tenant_id, head.last_id)
    if (!last || !equalBytes(last, head.hash)) return HEAD_MISMATCH
    const beyond = await findBeyond(snapshot, { tenant_id, auditKey }, head)
    const { last_id } = head
    if (beyond?.isGenuine)
      return { reason: 'head_behind', detail: `the head is of entry ${last_id}, and a server wrote entries after it` }
    if (beyond)
      return {
        reason: 'entry_beyond_head',
        detail: `entry ${beyond.id} is beyond the head, and no server wrote it there`,
      }
    const first = await findFirstId(snapshot, tenant_id)
    if (first >= 1) return undefined
    return { reason: 'entry_before_first', detail: `entry ${first} is before the first one, and no server wrote it` }
  }) as Promise<HeadFault | undefined>
}
