/** The moves of a tenant from one installation to another, by the entries with the status `moved` (chain.md 12). Pure. */
import { visible } from '@eaas/protocol'
import { type AuditEntry, readMetadata } from '../formats/chain.js'

/** The log of the installation that the tenant left ends with this entry. */
export interface Move {
  entry_id: number
  /** RFC 3339, UTC, milliseconds */
  created_at: string
  /** the public keys of both installations, as the entry states them */
  from: string
  to: string
  /** the address of the other one, if the operator set it */
  moved_to?: string
}

/** Reads the move that an entry records; undefined for other entries. */
export function readMove(
  entry: Pick<AuditEntry, 'id' | 'metadata' | 'created_at'> & { action: string },
): Move | undefined {
  const { status, from, to, moved_to } = entry.action === 'tenant.update' ? readMetadata(entry) : {}
  if (status !== 'moved') return undefined
  const { id: entry_id, created_at } = entry
  const address = typeof moved_to === 'string' && { moved_to }
  return { entry_id, created_at, from: String(from ?? 'unknown'), to: String(to ?? 'unknown'), ...address }
}

/** Names the entry, its time, the keys of both installations, and the address if the operator set one. */
export function describeMove({ entry_id, created_at, from, to, moved_to }: Move): string {
  const address = moved_to === undefined ? '' : `, at ${visible(moved_to)}`
  return `by entry ${entry_id} of ${created_at}, from the installation with the key ${visible(from)} to that with ${visible(to)}${address}, where the log goes on`
}
