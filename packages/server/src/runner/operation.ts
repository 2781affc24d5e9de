/** What an operation is: a decision on the state of a tenant. Each one is a file of this folder. */
import type { KeyObject } from 'node:crypto'
import type { Action } from '@eaas/protocol'
import type { Committer } from '../audit/committer.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { Queryable, Sql, Transaction } from '../store/db.js'
import type { ApiKeyUses } from './api-key-uses.js'
import type { WrittenRows } from './open-rows.js'
import type { TenantState, TenantStates } from './tenant-state.js'
import type { WorkGate } from './work-gate.js'

/** What operations and their runner lean on; one a process. */
export interface Services {
  sql: Sql
  rootKey: KeyObject
  pepper: KeyObject
  /** signs checkpoints */
  signingKey: KeyObject
  states: TenantStates
  committer: Committer
  apiKeyUses: ApiKeyUses
  /** admits batches */
  gate: WorkGate
  /** milliseconds since 1970 */
  now: () => number
  /** the same by the database's clock: what can't be undone has to be due by both */
  databaseNow: (sql?: Queryable) => Promise<number>
  /** days between asking for a key's destruction and the destruction; 0 is at once */
  destroyWindowDays: number
}

/** Who acts. */
export interface Caller {
  /** the API key's id, or `system` */
  actor: string
  ip_address: string | null
  /** the end user for whom, in the words of the caller; each entry's metadata names it */
  on_behalf_of: string | undefined
  /** undefined for what the server or its operator does */
  apiKey: ApiKeyRow | undefined
}

export interface Context {
  state: TenantState
  caller: Caller
  services: Services
  /** what a decision reads by; under the lock of the head nothing else may be awaited. What is released later reads by `services` */
  sql: Queryable
  /** how many encrypt calls the tenant's quota leaves this month, as far as this decision has to know */
  quotaLeft: number
}

/** An entry as an operation words it; who and from where is added when it is committed. */
export interface EntryNote {
  action: Action
  key_id?: string
  key_version?: number
  /** small, flat, nothing secret; stored as canonical JSON */
  metadata?: Record<string, string | number | boolean | null>
}

/** Where the entries of a management change stand in the log. */
export interface EntryPosition {
  /** the id of the first entry */
  entry_id: number
  created_at: string
}

/**
 * Which state a decision needs.
 *
 * - `current`: the state in the database now, as the server wrote it. The call fails if either is not so.
 * - `as_found`: the current one if that can be determined, and otherwise what is there. Verification reports tampering that every
 *   other call fails on.
 * - `cached`: the one that this process read last. Another decision on the current state follows before anything is done.
 */
export type Freshness = 'current' | 'as_found' | 'cached'

export interface Decision<Answer, Written extends WrittenRows = WrittenRows> {
  /** committed before anything is released; none for calls that only read */
  entries: readonly EntryNote[]
  /** writes the rows of a management change through the transaction of the entries, and nothing else; returns the new rows */
  change?: (sql: Transaction, at: EntryPosition) => Promise<Written>
  /** makes the answer after the commit, from the rows that `change` returned; throws to refuse a call whose refusal is on record */
  release: (written: Written) => Answer | Promise<Answer>
  /** `current` by default */
  freshness?: Freshness
  /** zeroed once the answer is made, or when it cannot be made */
  secrets?: readonly Uint8Array[]
}

/** Types a decision by the rows that its change returns and its release receives. */
export function decision<Answer, Written extends WrittenRows>(
  made: Decision<Answer, Written> & Required<Pick<Decision<Answer, Written>, 'change'>>,
): Decision<Answer> {
  return made as unknown as Decision<Answer>
}

/** May run more than once for one call, and changes nothing by itself. @throws Refusal */
export type Operation<Answer> = (context: Context) => Decision<Answer> | Promise<Decision<Answer>>
