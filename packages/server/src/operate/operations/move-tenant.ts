/**
 * Moves a tenant to another installation, where its log continues. Called by the operator; has no route.
 *
 * 1. The peppers of its API keys are written there, so that every process there has read them before the tenant arrives.
 * 2. The entries of its log are copied while it is served here. Each is verified on the way.
 * 3. It is closed here, by an entry with the status `moving`: calls get 503.
 * 4. Under the lock of its head here, the rest is copied. One transaction there writes all rows, the entry with the status
 *    `moved`, and two entries under an audit key of its own, since this installation knows the former one. Calls are
 *    answered there from its commit on.
 * 5. The entry `moved` is appended here too, so that both logs agree up to it. Calls get 421.
 *
 * A crash before 4 is committed leaves the tenant here, open or closed: `moveTenant` continues, and `undoMove` reopens it.
 * After a crash between 4 and 5 it is served there only, and `moveTenant` does 5.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ChainedEntry,
  CheckpointError,
  encodePublicKey,
  entryHash,
  followKeyChanges,
  genesisHash,
  readMetadata,
  signKeyChange,
} from '@eaas/audit/formats'
import { encodeHex, OpenError } from '@eaas/protocol'
import { appendToLocked } from '../../core/audit/append/send-appends.js'
import { extendLocked } from '../../core/audit/append/tenant-log.js'
import { moveAuditKey, openAuditKey, renewAuditKey } from '../../core/audit/audit-key.js'
import {
  type AuditKey,
  areMarksAuthentic,
  currentKey,
  entryMac,
  equalBytes,
  extendChain,
  type Head,
  headMac,
  NO_MARK_MAC,
  type PurgeMark,
  purgeMarkMac,
} from '../../core/audit/formats/chain.js'
import {
  apiKeyMac,
  assertWritten,
  authentic,
  keyMac,
  keyVersionMac,
  tenantMac,
  withMac,
} from '../../core/audit/formats/row-mac.js'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import { deriveRowKey, moveSecret, openSecret, type SecretBinding } from '../../core/crypto/key-hierarchy.js'
import { listKeyChangesOf } from '../../core/runner/carried-keys.js'
import { draftEntry, recordChanges } from '../../core/runner/entry-drafts.js'
import type { EntryNote, Services } from '../../core/runner/operation.js'
import { pepperBinding, tenantPepperBinding } from '../../core/runner/peppers.js'
import { performAsSystem, systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { isMovedAway } from '../../core/runner/tenant-state.js'
import { listApiKeys } from '../../core/store/api-keys.js'
import { findHead, findLastId, insertHead, readChain } from '../../core/store/audit.js'
import type { Queryable, Transaction } from '../../core/store/db.js'
import { withoutDeadlines } from '../../core/store/deadline.js'
import { listKeys, listTenantKeyVersions } from '../../core/store/keys.js'
import { getPeppers, listTenantPeppers, type TenantPepperRow } from '../../core/store/peppers.js'
import { listMarks } from '../../core/store/purge-marks.js'
import { LEARN_SECONDS } from '../../core/store/store-keys.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { findTenant, findTenantByName, insertTenant, type TenantRow, updateTenant } from '../../core/store/tenants.js'
import { lockInstallationHead, recordForInstallation } from '../../guard/installation-log.js'
import { authenticTenant, closeForMove } from '../../operators/tenants.js'
import {
  arePeppersKnown,
  COPIED_TABLES,
  copyRows,
  deleteEntriesAfter,
  deleteLeft,
  deletePeppersOf,
  insertRows,
  lockPeppersOf,
  replacePeppersOf,
  withoutTimeouts,
} from '../store/moved-rows.js'

/** Entries of one statement, between which other calls run. */
const STRETCH_ENTRIES = 500
/** While the tenant is served, each stretch is followed by a pause of this many times its own time. */
const PAUSES = 3
/** The tenant is closed once this few entries are left to copy, or after some rounds if they do not get fewer. */
const TAIL_ENTRIES = 1_000
const MOST_ROUNDS = 10
/** Between two checks whether processes have read the peppers, in milliseconds. */
const LOOK_MS = 500
/** More statements about signing keys would not fit into an entry. */
const MOST_STATEMENTS_LENGTH = 12_000

/** The installations between which a tenant is moved; both with their secrets. */
export interface Move {
  from: Services
  to: Services
  tenant_id: string
}

interface MoveOptions {
  /** where clients find the tenant from then on; they are told in the refusal of their calls */
  address?: string | undefined
  /** how long processes may take to read a pepper, in seconds */
  learnSeconds?: number
  /** called with the step that begins, and with how many entries were copied */
  onProgress?: ((step: string) => void) | undefined
  /** ends the move before the tenant is closed; the next call continues */
  signal?: AbortSignal | undefined
}

/**
 * Moves a tenant, or continues a move that was interrupted. Returns for how long calls were refused, in milliseconds: 0 if
 * the tenant had arrived before.
 *
 * @throws Refusal E_STATE, E_NOT_FOUND, E_NAME_TAKEN; TamperedRowError, ChainAlarmError
 */
export async function moveTenant(move: Move, options: MoveOptions = {}): Promise<number> {
  const { from, to, tenant_id } = move
  const { learnSeconds = LEARN_SECONDS, onProgress, signal } = options
  const tenant = await readTenant(move, from.sql)
  await assertTarget(move, from.sql, tenant)
  if (tenant.status === 'moved') return 0
  await assertMovable(move, tenant)
  let closedAt: number | undefined
  if (!(await hasArrived(move))) {
    await stagePeppers(move)
    const copied = await copyWhileServed(move, options)
    const peppers = await stagePeppers(move) // again, since a rotation may have replaced one meanwhile
    onProgress?.('waiting until its API keys are known there')
    while (!(await arePeppersKnown(to.sql, tenant_id, learnSeconds))) {
      signal?.throwIfAborted()
      await sleep(LOOK_MS)
    }
    closedAt = performance.now()
    if (tenant.status !== 'moving') await performAsSystem(from, tenant_id, closeForMove(keyOf(to)))
    onProgress?.('closed here, copying the rest')
    await switchOver(move, { ...options, peppers, copied })
  } else await switchOver(move, options)
  return closedAt === undefined ? 0 : performance.now() - closedAt
}

/** Undoes a move unless the tenant has arrived: deletes what was copied, and serves the tenant here again. @throws Refusal E_STATE */
export async function undoMove(move: Move): Promise<void> {
  const { from, to, tenant_id } = move
  const { auditKey } = await getState(move)
  const noted = noteInstallation(from)
  await extendLocked(from, { tenant_id, auditKey }, async (lock, head) => {
    await withoutTimeouts(lock)
    const tenant = await readTenant(move, lock)
    if (tenant.status === 'moved') throw arrived(tenant)
    await assertTarget(move, lock, tenant)
    await withoutDeadlines(to.sql).begin(async (there) => {
      await withoutTimeouts(there)
      // This waits for a transaction in which the tenant arrives. Without the peppers, no later one commits.
      await lockPeppersOf(there, tenant_id)
      if (await findArrival(move, { on: there, head, auditKey })) throw arrived(tenant)
      // A purge or a restored backup may hide that it arrived. What it left there earlier is `moved`, with an older head.
      const [row, left] = [await findTenant(there, tenant_id), await findHead(there, tenant_id)]
      const isLeft = !row || authenticTenant(to, row).status === 'moved'
      if (!isLeft || (left && left.last_id > head.last_id)) throw isThere(tenant.name, row)
      await deletePeppersOf(there, tenant_id)
      await deleteEntriesAfter(there, tenant_id, left?.last_id ?? 0)
    })
    if (tenant.status !== 'moving') return undefined
    const metadata = describeStatus(tenant, 'active')
    const time = from.committer.clock.read(head)
    const policy_version = head.policy_version + 1
    const draft = draftEntry({ action: 'tenant.update', metadata }, systemCaller(from))
    const extension = extendChain(head, [draft], { auditKey, now: time, policy_version })
    const { entries, head: next } = extension
    await appendToLocked(lock, from.committer.clock, { previous: head, next, entries, time })
    await writeStatus(move, lock, { tenant, status: 'active', entry: entries[0], noted })
    return next
  })
  noted.commit()
  from.states.forget(tenant_id)
}

function arrived({ name }: TenantRow): Refusal {
  return new Refusal(
    'E_STATE',
    `tenant ${name} has arrived in the other installation: repeat the move without --undo, which ends it, and then move the tenant back from there`,
  )
}

/** Refuses a target that is this installation, or not the one to which the tenant is being moved or was. @throws Refusal E_STATE */
async function assertTarget({ from, to, tenant_id }: Move, on: Queryable, tenant: TenantRow): Promise<void> {
  if (keyOf(from) === keyOf(to))
    throw new Refusal('E_STATE', 'this is the same installation, or a copy of it: its signing key is the same')
  if (!isMovedAway(tenant)) return
  const { name, status, entry_id: id } = tenant
  const entry = await readAuthenticEntry(on, { tenant_id, id, auditKey: openAuditKey(from.storeKeys, tenant) })
  const { to: told } = readMetadata(entry ?? { metadata: null })
  if (to.signingKey.publicKeys.some((key) => key === told)) return
  const [is, todo] = status === 'moved' ? ['was', ''] : ['is being', ': end or undo that']
  throw new Refusal('E_STATE', `tenant ${name} ${is} moved to another installation, with the public key ${told}${todo}`)
}

async function assertMovable(move: Move, tenant: TenantRow): Promise<void> {
  const { from, to, tenant_id } = move
  const { name, status } = tenant
  if (status !== 'active' && status !== 'moving')
    throw new Refusal('E_STATE', `tenant ${name} is ${status}: only an active one is moved`)
  await signMove(move, from.sql)
  const there = await findTenant(to.sql, tenant_id)
  if (there && there.status !== 'moved' && !(await hasArrived(move))) throw isThere(name, there)
  await assertNameIsFree(move, to.sql, name)
}

async function assertNameIsFree({ tenant_id }: Move, there: Queryable, name: string): Promise<void> {
  const named = await findTenantByName(there, name)
  if (named && named.tenant_id !== tenant_id)
    throw new Refusal(
      'E_NAME_TAKEN',
      `the other installation has another tenant named ${name}, perhaps as a deleted one`,
    )
}

function isThere(name: string, row: TenantRow | undefined): Refusal {
  const isMoving = row?.status === 'moving'
  const why = isMoving
    ? 'is moving it: end or undo that'
    : 'has it already, with another log or one that ends elsewhere'
  return new Refusal('E_STATE', `tenant ${name}: the other installation ${why}; nothing was changed there`)
}

/** The public key that an installation signs with, which names it. */
function keyOf({ signingKey }: Services): string {
  return encodePublicKey(signingKey)
}

/**
 * Both installations sign that the log is signed there from then on: returns this after the statements before.
 * @throws Refusal E_STATE if nobody could follow them
 */
async function signMove(
  { from, to, tenant_id }: Move,
  on: Queryable,
): Promise<{ key_change: string; key_changes: string }> {
  const key_change = signKeyChange(
    from.signingKey.current(),
    to.signingKey.current(),
    new Date(from.now()).toISOString(),
  )
  const notes = [...(await listKeyChangesOf(on, from, tenant_id)), key_change]
  const key_changes = JSON.stringify(notes)
  try {
    followKeyChanges(notes)
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    throw new Refusal(
      'E_STATE',
      `${error.message}. If this tenant was there before: rotate the store key there first (eaas store-key rotate)`,
    )
  }
  if (key_changes.length > MOST_STATEMENTS_LENGTH)
    throw new Refusal('E_STATE', 'the signing key of the log was changed too often for a move')
  return { key_change, key_changes }
}

async function getState({ from, tenant_id }: Move): Promise<{ auditKey: AuditKey }> {
  from.states.forget(tenant_id)
  const state = await from.states.find(tenant_id)
  if (!state) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  if (state.fault) throw state.fault
  return state
}

async function readTenant({ from, tenant_id }: Move, on: Queryable): Promise<TenantRow> {
  const row = await findTenant(on, tenant_id)
  if (!row) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  return authenticTenant(from, row)
}

/** An entry of the log by its id and hash. */
interface Position {
  id: number
  hash: Uint8Array
}

/** Where the entries begin that no purge has taken. @throws TamperedRowError */
async function findStart(
  { tenant_id }: Move,
  on: Queryable,
  auditKey: AuditKey,
): Promise<Position & { marks: PurgeMark[] }> {
  const marks = await listMarks(on, tenant_id)
  if (!areMarksAuthentic(auditKey, marks))
    throw new TamperedRowError(`a mark of a purge of tenant ${tenant_id} is forged`)
  const last = marks.at(-1)
  return { id: last?.purged_through ?? 0, hash: last?.hash ?? genesisHash(tenant_id), marks }
}

/** Copies until few entries are left, and leaves time to the calls. */
async function copyWhileServed(move: Move, { onProgress, signal }: MoveOptions): Promise<Position> {
  const { from, tenant_id } = move
  let at = await findCopied(move, { on: from.sql, ...(await getState(move)) })
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const head = await findHead(from.sql, tenant_id)
    if (!head || head.last_id - at.id <= TAIL_ENTRIES) break
    const { auditKey } = await getState(move) // read after the head, so that it covers a rotation before that
    at = await copyEntries(move, {
      on: from.sql,
      auditKey,
      at,
      through_id: head.last_id,
      onProgress,
      signal,
      pauses: PAUSES,
    })
  }
  return at
}

interface Reading {
  on: Queryable
  auditKey: AuditKey
}

/** The last entry that is there already, or was there before. @throws Refusal E_STATE if the entries there are not the log's */
async function findCopied(move: Move, { on, auditKey }: Reading): Promise<Position> {
  const { to, tenant_id } = move
  const through_id = await findLastId(to.sql, tenant_id)
  let at: Position = await findStart(move, on, auditKey)
  while (at.id < through_id) {
    const stretch = { tenant_id, after_id: at.id, through_id, limit: STRETCH_ENTRIES }
    at = follow(at, await readChain(to.sql, stretch), {
      auditKey,
      where: 'the other installation',
      todo: 'undo the move (--undo), and begin again',
    })
  }
  return at
}

async function copyEntries(
  { to, tenant_id }: Move,
  {
    on,
    auditKey,
    through_id,
    onProgress,
    signal,
    pauses,
    ...rest
  }: Reading & { at: Position; through_id: number; pauses: number } & Pick<MoveOptions, 'onProgress' | 'signal'>,
): Promise<Position> {
  let { at } = rest
  while (at.id < through_id) {
    signal?.throwIfAborted()
    const begun = performance.now()
    const entries = await readChain(on, { tenant_id, after_id: at.id, through_id, limit: STRETCH_ENTRIES })
    at = follow(at, entries, { auditKey, where: 'this installation', todo: 'find out why (eaas audit verify)' })
    await insertRows(to.sql, 'audit_log', entries)
    onProgress?.(`copied through entry ${at.id}`)
    if (pauses > 0) await sleep((performance.now() - begun) * pauses)
  }
  return at
}

/** Follows entries by hashes and MACs that are computed here. @throws Refusal E_STATE */
function follow(
  from: Position,
  entries: readonly ChainedEntry[],
  { auditKey, where, todo }: { auditKey: AuditKey; where: string; todo: string },
): Position {
  let at = from
  for (const entry of entries) {
    const hash = entryHash(at.hash, entry)
    const isNext =
      entry.id === at.id + 1 &&
      equalBytes(entry.hash, hash) &&
      equalBytes(entry.mac, entryMac(auditKey, entry.id, hash))
    if (!isNext) break
    at = { id: entry.id, hash }
  }
  if (entries.length > 0 && at.id === entries.at(-1)?.id) return at
  throw new Refusal('E_STATE', `entry ${at.id + 1} of the log does not verify in ${where}: ${todo}`)
}

/** Which number each pepper of the source has there, and the rows. */
interface StagedPeppers {
  numbers: ReadonlyMap<number, number>
  rows: readonly TenantPepperRow[]
}

/** Writes there under which peppers the digests of the API keys are, unless they are there. */
async function stagePeppers({ from, to, tenant_id }: Move): Promise<StagedPeppers> {
  const wanted = await listPeppers(from, tenant_id)
  const staged = await listTenantPeppers(to.sql, tenant_id)
  const isStaged = ({ number, binding, sealed }: (typeof wanted)[number], at: number) => {
    const row = staged[at]
    if (row?.number !== number) return false
    try {
      return openSecret(to.storeKeys, tenantPepperBinding(row), row.wrapped_pepper).equals(
        openSecret(from.storeKeys, binding, sealed),
      )
    } catch (error) {
      if (error instanceof OpenError) return false
      throw error
    }
  }
  const numbers = new Map(wanted.map(({ pepper, number }) => [pepper, number]))
  if (staged.length === wanted.length && wanted.every(isStaged)) return { numbers, rows: staged }
  const rows = wanted.map(({ number, binding, sealed }): TenantPepperRow => {
    const next = tenantPepperBinding({ tenant_id, number })
    return {
      tenant_id,
      number,
      wrapped_pepper: moveSecret({ from: from.storeKeys, to: to.storeKeys }, binding, sealed, next),
    }
  })
  await to.sql.begin((sql) => replacePeppersOf(sql, tenant_id, rows))
  return { numbers, rows }
}

/** The peppers of a tenant's API keys, those of earlier installations first, each with the number that it gets there. */
async function listPeppers(
  { sql }: Services,
  tenant_id: string,
): Promise<{ pepper: number; number: number; binding: SecretBinding; sealed: Uint8Array }[]> {
  const earlier = await listTenantPeppers(sql, tenant_id)
  const { pepper, wrapped_pepper, wrapped_former_pepper } = await getPeppers(sql)
  const next = (earlier.at(-1)?.number ?? 0) + 1
  const own = [
    ...(wrapped_former_pepper ? [{ pepper: pepper - 1, sealed: wrapped_former_pepper }] : []),
    { pepper, sealed: wrapped_pepper },
  ]
  return [
    ...earlier.map((row) => ({
      pepper: -row.number,
      number: row.number,
      binding: tenantPepperBinding(row),
      sealed: row.wrapped_pepper,
    })),
    ...own.map(({ pepper, sealed }, at) => ({ pepper, number: next + at, binding: pepperBinding(pepper), sealed })),
  ]
}

async function hasArrived(move: Move): Promise<boolean> {
  const { auditKey } = await getState(move)
  const head = await findHead(move.from.sql, move.tenant_id)
  return head !== undefined && (await findArrival(move, { on: move.to.sql, head, auditKey })) !== undefined
}

/**
 * Finds the entry `moved` there, after the end of the log here. It has a MAC under the audit key, so the administrator of
 * that database cannot make one.
 */
async function findArrival(
  { to, tenant_id }: Move,
  { on, head, auditKey }: Reading & { head: Head },
): Promise<ChainedEntry | undefined> {
  const row = await findTenant(on, tenant_id)
  if (!row) return undefined
  const theirs = openAuditKey(to.storeKeys, authenticTenant(to, row))
  const entry = await readAuthenticEntry(on, { tenant_id, id: head.last_id + 1, auditKey: theirs }, head.hash)
  if (!entry || readMetadata(entry).status !== 'moved') return undefined
  const hash = entryHash(head.hash, entry)
  const isNext = equalBytes(entry.hash, hash) && equalBytes(entry.mac, entryMac(auditKey, entry.id, hash))
  return isNext ? entry : undefined
}

async function switchOver(move: Move, options: MoveOptions & Pick<Arriving, 'peppers' | 'copied'>): Promise<void> {
  const { from, to, tenant_id } = move
  const { auditKey } = await getState(move)
  const noted = noteInstallation(from)
  await extendLocked(from, { tenant_id, auditKey }, async (lock, head) => {
    await withoutTimeouts(lock)
    const tenant = await readTenant(move, lock)
    if (tenant.status !== 'moving')
      throw new Refusal('E_STATE', `tenant ${tenant.name} is ${tenant.status}: another command ended or undid its move`)
    const found = await findArrival(move, { on: to.sql, head, auditKey })
    const entry = found ?? (await arrive(move, { lock, head, tenant, auditKey, ...options }))
    const { id: last_id, hash, created_at } = entry
    const sealed = { tenant_id, last_id, hash, policy_version: head.policy_version + 1, created_at }
    const next = { ...sealed, mac: headMac(auditKey, sealed) }
    const { clock } = from.committer
    await appendToLocked(lock, clock, { previous: head, next, entries: [entry], time: clock.read(head) })
    await writeStatus(move, lock, { tenant, status: 'moved', entry, noted })
    return next
  })
  noted.commit()
  from.states.forget(tenant_id)
}

/** Notes the head of the installation's log, which counts once its transaction is committed. */
function noteInstallation({ committer: { guard } }: Services) {
  let head: Head | undefined
  return {
    set: (next: Head) => {
      head = next
    },
    commit: () => head && guard.committed(head),
  }
}

function describeStatus(tenant: TenantRow, status: TenantRow['status']): NonNullable<EntryNote['metadata']> {
  const { envelope_only, entry_id: replaces } = tenant
  return { envelope_only, replaces, status, ...recordChanges(tenant, { status }) }
}

/** Writes the tenant's status here, which an entry of its log states, and records it in the installation's log. */
async function writeStatus(
  { from, to, tenant_id }: Move,
  lock: Transaction,
  {
    tenant,
    status,
    entry,
    noted,
  }: {
    tenant: TenantRow
    status: TenantRow['status']
    entry: ChainedEntry | undefined
    noted: ReturnType<typeof noteInstallation>
  },
): Promise<void> {
  if (!entry) throw new Error('a change has no entry')
  const row = withMac(
    { ...tenant, status, entry_id: entry.id },
    tenantMac,
    rowKeyOf(openAuditKey(from.storeKeys, tenant)),
  )
  assertWritten(await updateTenant(lock, row), row)
  const named = { tenant_id, entry_id: entry.id, entry_hash: encodeHex(entry.hash), to: keyOf(to) }
  const metadata = { ...named, ...recordChanges(tenant, { status }) }
  noted.set(
    await recordForInstallation(from, lock, systemCaller(from), [{ action: 'installation.tenant_move', metadata }]),
  )
}

function rowKeyOf(auditKey: AuditKey) {
  return deriveRowKey(currentKey(auditKey))
}

interface Arriving {
  /** the transaction here that has locked the head of the log */
  lock: Transaction
  head: Head
  tenant: TenantRow
  auditKey: AuditKey
  address?: string | undefined
  /** under which the digests of its API keys are */
  peppers?: StagedPeppers | undefined
  /** the last entry that was copied before */
  copied?: Position
  onProgress?: ((step: string) => void) | undefined
}

/** Has the tenant arrive, in one transaction there; returns the entry `moved`. */
async function arrive(move: Move, arriving: Arriving): Promise<ChainedEntry> {
  const { to, tenant_id } = move
  const { lock, head, auditKey, onProgress } = arriving
  const at = arriving.copied ?? (await findCopied(move, { on: lock, auditKey }))
  const { last_id: through_id } = head
  const end = await copyEntries(move, { on: lock, auditKey, at, through_id, onProgress, signal: undefined, pauses: 0 })
  if (end.id !== through_id || !equalBytes(end.hash, head.hash))
    throw new Refusal(
      'E_STATE',
      'the entries in the other installation do not end as the log does: undo the move (--undo), and begin again',
    )
  const { moved, own, installation } = await withoutDeadlines(to.sql).begin((there) => writeAll(move, there, arriving))
  to.states.forget(tenant_id)
  to.committer.guard.committed(own)
  to.committer.guard.committed(installation)
  return moved
}

async function writeAll(
  move: Move,
  there: Transaction,
  { lock, head, tenant, auditKey, address, peppers }: Arriving,
): Promise<{ moved: ChainedEntry; own: Head; installation: Head }> {
  const { from, to, tenant_id } = move
  const storeKeys = { from: from.storeKeys, to: to.storeKeys }
  await withoutTimeouts(there)
  await assertStaged(tenant_id, { lock, there, peppers })
  const left = await findTenant(there, tenant_id)
  if (left && authenticTenant(to, left).status !== 'moved') throw isThere(tenant.name, left)
  if (left) await deleteLeft(there, tenant_id)
  const { marks, id: purged_through } = await findStart(move, lock, auditKey)
  const { key_change, key_changes } = await signMove(move, lock)
  const { clock } = to.committer
  const time = clock.read(head)
  const metadata = { ...describeStatus(tenant, 'moved'), from: keyOf(from), to: keyOf(to), key_change }
  const note: EntryNote = {
    action: 'tenant.update',
    metadata: { ...metadata, ...(address !== undefined && { moved_to: address }) },
  }
  const policy_version = head.policy_version + 1
  const ended = extendChain(head, [draftEntry(note, systemCaller(from))], { auditKey, now: time, policy_version })
  const [moved] = ended.entries
  if (!moved) throw new Error('a change has no entry')
  // From the next entry on, the log has an audit key that the former installation does not know.
  const sealed = moveAuditKey(storeKeys, tenant_id, tenant.wrapped_audit_key)
  const wrapped_audit_key = renewAuditKey(
    { tenant_id, storeKeys: to.storeKeys, sealed },
    { after_id: moved.id, purged_through },
  )
  const theirs = openAuditKey(to.storeKeys, { tenant_id, wrapped_audit_key })
  const active = describeStatus({ ...tenant, status: 'moved', entry_id: moved.id }, 'active')
  const begun = extendChain(
    ended.head,
    [
      draftEntry({ action: 'audit.key_renew' }, systemCaller(to)),
      draftEntry({ action: 'tenant.update', metadata: active }, systemCaller(to)),
    ],
    { auditKey: theirs, now: time, policy_version: policy_version + 2 },
  )
  const [, opened] = begun.entries
  if (!opened) throw new Error('a change has no entry')
  const macs = { from: rowKeyOf(auditKey), to: rowKeyOf(theirs) }
  const sealThere = (binding: SecretBinding, secret: Uint8Array | null) =>
    secret && moveSecret(storeKeys, binding, secret)
  const keys = (await listKeys(lock, tenant_id, {})).map((row) => {
    const binding = { purpose: 'hash-key', tenant_id, id: row.key_id } as const
    return withMac(
      { ...authentic(row, keyMac, macs.from), wrapped_hash_key: sealThere(binding, row.wrapped_hash_key) },
      keyMac,
      macs.to,
    )
  })
  const versions = (await listTenantKeyVersions(lock, tenant_id)).map((row) => {
    const binding = { purpose: 'kek', tenant_id, id: row.key_id, version: row.version } as const
    return withMac(
      { ...authentic(row, keyVersionMac, macs.from), wrapped_kek: sealThere(binding, row.wrapped_kek) },
      keyVersionMac,
      macs.to,
    )
  })
  const apiKeys = (await listApiKeys(lock, tenant_id)).map((row) => {
    const pepper = -(peppers?.numbers.get(row.pepper) ?? 0) // 0 is under no pepper: such an API key was of no use here either
    return withMac({ ...authentic(row, apiKeyMac, macs.from), pepper }, apiKeyMac, macs.to)
  })
  await insertRows(there, 'keys', keys)
  await insertRows(there, 'key_versions', versions)
  await insertRows(there, 'api_keys', apiKeys)
  await insertRows(there, 'purge_marks', underKey(marks, theirs))
  for (const table of COPIED_TABLES) await copyRows(lock, there, table, tenant_id)
  await lockInstallationHead(to, there) // so that no other tenant gets the name
  await assertNameIsFree(move, there, tenant.name)
  await insertTenant(
    there,
    withMac({ ...tenant, status: 'active', wrapped_audit_key, entry_id: opened.id }, tenantMac, macs.to),
  )
  await insertHead(there, head)
  const entries = [...ended.entries, ...begun.entries]
  await appendToLocked(there, clock, { previous: head, next: begun.head, entries, time })
  const { name, envelope_only } = tenant
  const named = { entry_id: opened.id, entry_hash: encodeHex(opened.hash) }
  const told = { tenant_id, name, envelope_only, status: 'active', ...named, from: keyOf(from), key_changes }
  const installation = await recordForInstallation(to, there, systemCaller(to), [
    { action: 'installation.tenant_arrive', metadata: told },
  ])
  return { moved, own: begun.head, installation }
}

/** @throws Refusal E_STATE if the peppers are not those that this command staged: the move was undone, or a pepper replaced */
async function assertStaged(
  tenant_id: string,
  { lock, there, peppers }: Pick<Arriving, 'lock' | 'peppers'> & { there: Transaction },
): Promise<void> {
  const staged = await lockPeppersOf(there, tenant_id)
  const isStaged =
    staged.length === peppers?.rows.length &&
    peppers.rows.every((row, at) => equalBytes(row.wrapped_pepper, staged[at]?.wrapped_pepper ?? new Uint8Array()))
  const { pepper } = await getPeppers(lock)
  if (isStaged && peppers.numbers.has(pepper)) return
  throw new Refusal('E_STATE', 'the move was undone meanwhile, or a pepper replaced: repeat the command')
}

function underKey(marks: readonly PurgeMark[], auditKey: AuditKey): PurgeMark[] {
  let previous_mac: Uint8Array = NO_MARK_MAC
  return marks.map((mark) => {
    const next = { ...mark, previous_mac, mac: purgeMarkMac(auditKey, { ...mark, previous_mac }) }
    previous_mac = next.mac
    return next
  })
}
