/** What an operation is: a decision on the state of a tenant. The operations themselves are in `api/`. */
import type { LogAction, UnrecordedKind } from '@eaas/protocol'
import type { Committer } from '../audit/append/committer.js'
import type { EntryPosition } from '../audit/append/tenant-log.js'
import type { AuditKey, Head, Witness } from '../audit/formats/chain.js'
import type { Covering, ToLink } from '../audit/guard.js'
import type { VerifyLog } from '../audit/verify/verify.js'
import type { StoreKeys } from '../crypto/key-hierarchy.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { Queryable, Sql, Transaction } from '../store/db.js'
import type { BlindHashing } from './blind-hashing.js'
import type { Allowances, TakeUses } from './budgets.js'
import type { InstallationKey } from './installation-key.js'
import type { ApiKeyUses, UnrecordedCalls } from './noted-calls.js'
import type { WrittenRows } from './opened-keys.js'
import type { Peppers } from './peppers.js'
import type { ShareVerification } from './shared-verification.js'
import type { TenantState, TenantStates } from './tenant-state.js'
import type { HeldBytes, InSearchPlace, WorkGate } from './work-gate.js'

/** One per process. */
export interface Services {
  sql: Sql
  storeKeys: StoreKeys
  peppers: Peppers
  /** the actor where no API key acts: `system` for the server itself, and the operator by name for a command */
  actor: string
  /** the audit key of the installation's own log */
  installationKey: AuditKey
  /** signs checkpoints */
  signingKey: InstallationKey
  states: TenantStates
  committer: Committer
  apiKeyUses: ApiKeyUses
  unrecordedCalls: UnrecordedCalls
  takeUses: TakeUses
  /** lets an API key expire if its budgets demand that */
  expireApiKey: (apiKey: ApiKeyRow) => Operation<void>
  /** of batches */
  gate: WorkGate
  /** of the pages of exports */
  readGate: WorkGate
  inSearchPlace: InSearchPlace
  shareVerification: ShareVerification
  blindHashing: BlindHashing
  hold: HeldBytes
  /** finds the head of a tenant that the newest anchor of the installation's log covers */
  findAnchored: (services: Pick<Services, 'sql' | 'installationKey'>, tenant_id: string) => Promise<Witness | undefined>
  /** finds that anchor, as an export shows it. @throws Refusal E_STATE if nothing that is demanded can be linked */
  findCovering: (services: Services, tenant_id: string, toLink?: ToLink) => Promise<Covering | undefined>
  /** proves which keys signed for the installation, by its log up to the head. @throws Refusal E_STATE */
  proveKeys: (services: Services, head: Head) => Promise<void>
  /** verifies a log, in a thread of its own where that helps */
  verifyLog: VerifyLog
  /** milliseconds since 1970; setting the system clock does not move it (audit/append/clock.ts) */
  now: () => number
  /** by the database's clock: an irreversible step must be due by both clocks */
  databaseNow: (sql?: Queryable) => Promise<number>
  /** days between the request to destroy a key and its destruction; 0 is at once */
  destroyWindowDays: number
  /** how many DEKs a version of a key wraps before the server rotates the key */
  rotateAfterWraps: number
  /** versions that could not be replaced in time and must wrap nothing more, by `nameVersion` */
  spentVersions: ReadonlySet<string>
}

/** Ids that the caller sent, to find its call again. */
export type Correlation = { request_id?: string; trace_id?: string }

export interface Caller {
  /** the API key's id, `system`, or `operator:` with the operator's name */
  actor: string
  ip_address: string | null
  /** the end user that the caller names; in the metadata of each entry, as `correlation` is */
  on_behalf_of: string | undefined
  correlation?: Correlation | undefined
  /** undefined for what the server or its operator does */
  apiKey: ApiKeyRow | undefined
}

export interface Context {
  state: TenantState
  caller: Caller
  services: Services
  /** for a decision's reads: under the lock of the head no other may be awaited. `release` reads by `services.sql` */
  sql: Queryable
  /** how many encrypt calls the tenant's quota leaves this month; Infinity unless this decision must respect a limit */
  quotaLeft: number
  /** what the budgets of the API key leave this call; unlimited until its needs are known */
  allowances: Readonly<Allowances>
}

/** An entry as an operation states it; actor and address are added when it is committed. */
export interface EntryNote {
  action: LogAction
  key_id?: string
  key_version?: number
  /** small, flat, nothing secret; stored as canonical JSON */
  metadata?: Record<string, string | number | boolean | null>
}

export interface Decision<Answer, Written extends WrittenRows = WrittenRows> {
  /** committed before anything is released; none for calls that only read */
  entries: readonly EntryNote[]
  /** writes the rows of a management change, and nothing else, in the transaction of the entries; returns them */
  change?: (sql: Transaction, at: EntryPosition) => Promise<Written>
  /** makes the answer after the commit; throws to refuse a call whose refusal is on record */
  release: (written: Written) => Answer | Promise<Answer>
  /** what the server itself does in the same transaction: its entries follow, and name the server as the actor */
  byServer?: Pick<Decision<void>, 'entries' | 'change'>
  /** counts of what has no entry, added once the call is carried out; `observe/refusals.ts` counts refused calls */
  unrecorded?: ReadonlyMap<UnrecordedKind, number>
  /**
   * which state it needs. `current`, the default: the one in the database now; on another one it is made again, and a
   * row that was tampered with fails the call. `as_found`: if that cannot be determined, what is there, for verification
   * to report. `cached`: the one read last; a decision on the current state follows before anything is done
   */
  freshness?: 'current' | 'as_found' | 'cached'
  /** zeroed once the answer is made, or when it cannot be made */
  secrets?: readonly Uint8Array[]
}

/** Types a decision by the rows that its change returns and its release receives. */
export function decision<Answer, Written extends WrittenRows>(
  made: Decision<Answer, Written> & Required<Pick<Decision<Answer, Written>, 'change'>>,
): Decision<Answer> {
  return made as unknown as Decision<Answer>
}

/** May run several times for one call, and must not change anything itself. @throws Refusal */
export type Operation<Answer> = (context: Context) => Decision<Answer> | Promise<Decision<Answer>>
