/** Copies the log of a tenant to another installation, and verifies each entry on the way. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChainedEntry, entryHash, genesisHash } from '@eaas/audit/formats'
import { counted } from '@eaas/protocol'
import {
  type AuditKey,
  areMarksAuthentic,
  entryMac,
  equalBytes,
  type PurgeMark,
} from '../../../core/audit/formats/chain.js'
import type { Services } from '../../../core/runner/operation.js'
import { Refusal } from '../../../core/runner/refusal.js'
import type { TenantState } from '../../../core/runner/tenant-state.js'
import { findHead, findLastId, readChain } from '../../../core/store/audit.js'
import type { Queryable } from '../../../core/store/db.js'
import { listMarks } from '../../../core/store/purge-marks.js'
import { TamperedRowError } from '../../../core/store/tampered-row.js'
import { insertRows } from '../../store/moved-rows.js'

/** In one statement; between two, other calls run. */
const STRETCH_ENTRIES = 500
/** While the tenant is served, a pause of this many times its own duration follows each stretch. */
const PAUSES = 3
/** Once this few entries are left, or after some rounds if their number does not fall, the tenant is closed. */
const TAIL_ENTRIES = 1_000
const MOST_ROUNDS = 10

/** The installations between which a tenant moves, with their secrets. */
export type Move = { from: Services; to: Services; tenant_id: string }

export interface MoveOptions {
  /** where clients find the tenant afterwards; the refusals of their calls state it */
  address?: string | undefined
  /** how long processes may take to read a pepper, in seconds */
  learnSeconds?: number
  onStep?: ((step: string) => void) | undefined
  onProgress?: ((state: string) => void) | undefined
  /** called before the tenant is closed, or at once if it is; from then on, only the end of the move serves it again */
  onClosing?: (() => void) | undefined
}

export type Position = { id: number; hash: Uint8Array }

export type Reading = { on: Queryable; auditKey: AuditKey }

/** The position before the first entry that is not purged. @throws TamperedRowError */
export async function findStart(
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
export async function copyWhileServed(move: Move, { onStep, onProgress }: MoveOptions): Promise<Position> {
  const { from, tenant_id } = move
  let at = await findCopied(move, { on: from.sql, ...(await getState(move)) })
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const head = await findHead(from.sql, tenant_id)
    if (head && round === 0) onStep?.(`copying ${counted(head.last_id - at.id, 'entry', 'entries')}`)
    if (!head || head.last_id - at.id <= TAIL_ENTRIES) break
    const { auditKey } = await getState(move) // read after the head, so that it covers a rotation before that
    at = await copyEntries(move, {
      on: from.sql,
      auditKey,
      at,
      through_id: head.last_id,
      onProgress,
      pauses: PAUSES,
    })
  }
  return at
}

/** The last entry that the target has or had. @throws Refusal E_STATE if its entries are not the log's */
export async function findCopied(move: Move, { on, auditKey }: Reading): Promise<Position> {
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

export async function copyEntries(
  move: Move,
  {
    on,
    auditKey,
    through_id,
    onProgress,
    pauses,
    ...rest
  }: Reading & { at: Position; through_id: number; pauses: number } & Pick<MoveOptions, 'onProgress'>,
): Promise<Position> {
  const { to, tenant_id } = move
  let { at } = rest
  while (at.id < through_id) {
    const begun = performance.now()
    const entries = await readChain(on, { tenant_id, after_id: at.id, through_id, limit: STRETCH_ENTRIES })
    if (entries[0]?.id !== at.id + 1) {
      const start = await findStart(move, on, auditKey)
      if (start.id > at.id) {
        at = start // a purge deleted the entries meanwhile
        continue
      }
    }
    at = follow(at, entries, { auditKey, where: 'this installation', todo: 'find out why (eaas audit verify)' })
    await insertRows(to.sql, 'audit_log', { tenant_id, rows: entries })
    onProgress?.(`copied through entry ${at.id}`)
    if (pauses > 0) await sleep((performance.now() - begun) * pauses)
  }
  return at
}

/** Follows entries by hashes and MACs that it computes. @throws Refusal E_STATE */
export function follow(
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

export async function getState({ from, tenant_id }: Pick<Move, 'from' | 'tenant_id'>): Promise<TenantState> {
  from.states.forget(tenant_id)
  const state = await from.states.find(tenant_id)
  if (!state) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  if (state.fault) throw state.fault
  return state
}
