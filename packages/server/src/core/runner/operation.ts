/** An operation is a decision on the state of a tenant. The operations themselves are in `api/`. */
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
  /** the actor where no API key acts: `system` for the server itself, `operator:` with the operator's name for a command */
  actor: string
  installationKey: AuditKey
  signingKey: InstallationKey
  states: TenantStates
  committer: Committer
  apiKeyUses: ApiKeyUses
  unrecordedCalls: UnrecordedCalls
  takeUses: TakeUses
  /** makes an API key expire whose budgets say so */
  expireApiKey: (apiKey: ApiKeyRow) => Operation<void>
  /** for batches */
  gate: WorkGate
  /** for the pages of exports */
  readGate: WorkGate
  inSearchPlace: InSearchPlace
  shareVerification: ShareVerification
  blindHashing: BlindHashing
  hold: HeldBytes
  /** finds the tenant's head that the newest anchor of the installation's log covers */
  findAnchored: (services: Pick<Services, 'sql' | 'installationKey'>, tenant_id: string) => Promise<Witness | undefined>
  /** finds that anchor in the form of exports. @throws Refusal E_STATE if nothing of what is demanded can be linked */
  findCovering: (services: Services, tenant_id: string, toLink?: ToLink) => Promise<Covering | undefined>
  /** proves, by the installation's log up to the head, which keys signed for it. @throws Refusal E_STATE */
  proveKeys: (services: Services, head: Head) => Promise<void>
  /** verifies a log, in a thread of its own where that helps */
  verifyLog: VerifyLog
  /** milliseconds since 1970; a change of the system clock does not move it (audit/append/clock.ts) */
  now: () => number
  /** by the database's clock: an irreversible step must be due by both clocks */
  databaseNow: (sql?: Queryable) => Promise<number>
  /** days from the request to destroy a key to its destruction; 0 means at once */
  destroyWindowDays: number
  rotateAfterWraps: number
  /** by `nameVersion`, the versions that could not be replaced in time and must wrap nothing more */
  spentVersions: ReadonlySet<string>
}

/** Ids that the caller sent, with which it can find its call again. */
export type Correlation = { request_id?: string; trace_id?: string }

export interface Caller {
  /** the API key's id, `system`, or `operator:` with the operator's name */
  actor: string
  ip_address: string | null
  /** the end user that the caller names; like `correlation`, in the metadata of each entry */
  on_behalf_of: string | undefined
  correlation?: Correlation | undefined
  /** undefined if the server or its operator acts */
  apiKey: ApiKeyRow | undefined
}

export interface Context {
  state: TenantState
  caller: Caller
  services: Services
  /** for a decision's reads: under the lock of the head no other connection may be awaited; `release` uses `services.sql` */
  sql: Queryable
  /** how many encrypt calls the tenant's quota leaves this month; Infinity unless a limit applies to this decision */
  quotaLeft: number
  /** the uses that the budgets of the API key leave this call; unlimited until its needs are known */
  allowances: Readonly<Allowances>
}

/** An entry before its commit, which adds actor and address. */
export interface EntryNote {
  action: LogAction
  key_id?: string
  key_version?: number
  /** small and flat, without secrets; stored as canonical JSON */
  metadata?: Record<string, string | number | boolean | null>
}

export interface Decision<Answer, Written extends WrittenRows = WrittenRows> {
  /** committed before anything is released; empty for calls that only read */
  entries: readonly EntryNote[]
  /** writes the rows of a management change, and nothing else, in the transaction of the entries; returns them */
  change?: (sql: Transaction, at: EntryPosition) => Promise<Written>
  /** makes the answer after the commit; throws to refuse a call whose refusal is recorded */
  release: (written: Written) => Answer | Promise<Answer>
  /** the server's own part of the same transaction: its entries follow, with the server as the actor */
  byServer?: Pick<Decision<void>, 'entries' | 'change'>
  /** counts of uses without an entry, added once the call is carried out; `observe/refusals.ts` counts refused calls */
  unrecorded?: ReadonlyMap<UnrecordedKind, number>
  /**
   * the state that the decision needs. `current`, the default: the one that is now in the database; a decision on another one is made
   * again, and a tampered row fails the call. `as_found`: if the current state cannot be determined, whatever is there, so that
   * verification can report it. `cached`: the last one read; before anything is done, another decision follows on the current state
   */
  freshness?: 'current' | 'as_found' | 'cached'
  /** zeroed once the answer is made, or cannot be made */
  secrets?: readonly Uint8Array[]
}

/** Gives a decision's `change` and `release` the same type of rows. */
export function decision<Answer, Written extends WrittenRows>(
  made: Decision<Answer, Written> & Required<Pick<Decision<Answer, Written>, 'change'>>,
): Decision<Answer> {
  return made as unknown as Decision<Answer>
}

/** May run several times for one call, so it must not change anything itself. @throws Refusal */
export type Operation<Answer> = (context: Context) => Decision<Answer> | Promise<Decision<Answer>>
