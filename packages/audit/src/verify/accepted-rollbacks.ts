/** The rollbacks that an operator accepted, from a log's entries `audit.rollback_accepted` (chain.md 10). Pure. */
import { counted, visible } from '@eaas/protocol'
import { type AuditEntry, readMetadata } from '../formats/chain.js'
import type { Checkpoint } from '../formats/checkpoint.js'

/** The entries that a rollback lost. They were written at unknown times before the entry that accepts the loss. */
export interface AcceptedLoss {
  entry_id: number
  /** the time of that entry: RFC 3339, UTC, milliseconds */
  created_at: string
  reason: string
  /** the lost entries follow this one; 0 if it is unknown which */
  agrees_through: number
  /** the last entry known to be lost */
  lost_through: number
}

type Told = Pick<AuditEntry, 'id' | 'metadata' | 'created_at'> & { action: string }

/** Reads the loss that an entry accepts; undefined for other entries, and if no entry is known to be lost. */
export function readAcceptedLoss(entry: Told): AcceptedLoss | undefined {
  if (entry.action !== 'audit.rollback_accepted') return undefined
  const { agrees_through, witnessed_id, named_id, reason } = readMetadata(entry)
  const named = numberOf(named_id)
  const lost_through = Math.max(numberOf(witnessed_id), named)
  const agrees = named === 0 ? numberOf(agrees_through) : Math.min(numberOf(agrees_through), named - 1)
  if (lost_through <= agrees) return undefined
  const { id: entry_id, created_at } = entry
  return { entry_id, created_at, reason: String(reason), agrees_through: agrees, lost_through }
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}

/** Describes the newest loss and counts the earlier ones; empty if there is none. */
export function describeLosses(losses: readonly AcceptedLoss[]): string {
  const newest = losses.at(-1)
  if (!newest) return ''
  const { entry_id, created_at, reason, agrees_through, lost_through } = newest
  // When the rollback was accepted, the log ended before `entry_id` and lacked `lost_through`.
  const least = Math.max(1, lost_through - entry_id + 1)
  const where = agrees_through === 0 ? 'from which entry on is not known' : `all after entry ${agrees_through}`
  const earlier = losses.length - 1
  const others = earlier === 0 ? '' : `; ${counted(earlier, 'earlier entry says', 'earlier entries say')} so of others`
  return `by entry ${entry_id}, audit.rollback_accepted, an operator accepted at ${created_at} that the log lost entries (${visible(reason)}): at least ${least}, up to entry ${lost_through}, ${where}${others}`
}

/** How many entries `audit.rollback_accepted` a file has, and the newest one's id. */
export type CountedRollbacks = { entries: number; newest_id: number }

export function describeRollbacks({ entries, newest_id }: CountedRollbacks): string {
  const accepted =
    entries === 1 ? `a rollback, by entry ${newest_id}` : `${entries} rollbacks, the newest by entry ${newest_id}`
  return `an operator accepted ${accepted}: what the log had lost by then is not in it`
}

/** Explains checkpoints signed before `created_at` for entries after `after` through `through`: these may be lost. */
type Acceptance = { id: number; after: number; through: number; created_at: string }

/** The accepted rollbacks of a log, as its entries are read. */
export class AcceptedRollbacks {
  readonly #explaining: Acceptance[] = []
  counted: CountedRollbacks | undefined

  read(entry: Told): void {
    if (entry.action !== 'audit.rollback_accepted') return
    const { id, created_at } = entry
    this.counted = { entries: (this.counted?.entries ?? 0) + 1, newest_id: id }
    const { agrees_through, witnessed_id } = readMetadata(entry)
    if (typeof agrees_through === 'number' && typeof witnessed_id === 'number')
      this.#explaining.push({ id, after: agrees_through, through: witnessed_id, created_at })
  }

  /** Finds the entry by which an operator accepted that a checkpoint's entry was lost (export.md 6). */
  find({ last_id, created_at }: Pick<Checkpoint, 'last_id' | 'created_at'>): Acceptance | undefined {
    return this.#explaining.find(
      ({ after, through, created_at: accepted_at }) =>
        last_id > after && last_id <= through && created_at <= accepted_at,
    )
  }
}
