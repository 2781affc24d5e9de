/**
 * Watches the head of one tenant's chain. A head that is missing, forged or behind what this process saw committed means that the
 * database was restored or tampered with: an alarm is raised, and the tenant is served no longer. Going on would fork the chain.
 */
import type { KeyObject } from 'node:crypto'
import { findEntryHash, findHead } from '../store/audit.js'
import { findLastMark } from '../store/audit-retention.js'
import type { Queryable } from '../store/db.js'
import { ChainAlarmError } from './append-errors.js'
import { equalBytes, type Head, isHeadAuthentic, purgeMarkMac } from './chain.js'

export class HeadWatch {
  #known: Head | undefined
  #witnessed: Head | undefined
  #alarm: string | undefined

  constructor(
    readonly tenant_id: string,
    /** told once */
    private readonly onAlarm: (tenant_id: string, reason: string) => void,
  ) {}

  /** The head in the database, as far as is known; undefined after `forget`. */
  get known(): Head | undefined {
    return this.#known
  }

  get isAlarmed(): boolean {
    return this.#alarm !== undefined
  }

  /** @throws ChainAlarmError after an alarm */
  demandNoAlarm(): void {
    if (this.#alarm !== undefined) throw new ChainAlarmError(this.#alarm)
  }

  /** To be called when it is not known what was committed: the head is read again before anything is chained to it. */
  forget(): void {
    this.#known = undefined
  }

  /** Takes note of a head that was committed. A commit that was given up on may end after later ones: it never goes back. */
  witness(head: Head): void {
    if (this.#witnessed && head.last_id < this.#witnessed.last_id) return
    this.#known = head
    this.#witnessed = head
  }

  /** Reads the head and checks that the chain goes on from what was written; `find` locks it too, say. @throws ChainAlarmError */
  async read<Where extends Queryable>(
    sql: Where,
    auditKey: KeyObject,
    find: (sql: Where, tenant_id: string) => Promise<Head | undefined> = findHead,
  ): Promise<Head> {
    const witnessed = this.#witnessed // before the read: what is committed during it, the read need not show
    const head = this.#check(await find(sql, this.tenant_id), auditKey, witnessed)
    if (witnessed && witnessed !== head) await this.#demandContinues(sql, auditKey, head, witnessed)
    this.#known = head
    return head
  }

  /** Reads the policy version of a head that is not behind; does not look into the chain. @throws ChainAlarmError */
  async readPolicyVersion(sql: Queryable, auditKey: KeyObject): Promise<number> {
    const witnessed = this.#witnessed
    return this.#check(await findHead(sql, this.tenant_id), auditKey, witnessed).policy_version
  }

  #check(head: Head | undefined, auditKey: KeyObject, witnessed: Head | undefined): Head {
    if (!head) return this.#raiseAlarm('the head of the audit chain is missing')
    if (!isHeadAuthentic(auditKey, head)) {
      return this.#raiseAlarm('the head of the audit chain was not written by this server')
    }
    if (witnessed && (head.last_id < witnessed.last_id || head.policy_version < witnessed.policy_version)) {
      return this.#raiseAlarm(
        `the audit chain went back from entry ${witnessed.last_id} to ${head.last_id}: the database was restored or tampered with`,
      )
    }
    return head
  }

  // The entry must be the one that was written, or one that a purge took. The entry is looked for first: a purge marks before it
  // deletes, so the mark of one that is gone is there.
  async #demandContinues(sql: Queryable, auditKey: KeyObject, head: Head, { last_id, hash }: Head): Promise<void> {
    const found = head.last_id === last_id ? head.hash : await findEntryHash(sql, this.tenant_id, last_id)
    if (!found && (await this.#isPurged(sql, auditKey, last_id))) return
    if (!found) this.#raiseAlarm(`entry ${last_id} of the audit chain is missing, and no purge took it`)
    if (!equalBytes(found, hash)) {
      this.#raiseAlarm(`entry ${last_id} of the audit chain is not the one that was written`)
    }
  }

  // Whoever hides the row may write a mark too, but not one with a MAC.
  async #isPurged(sql: Queryable, auditKey: KeyObject, id: number): Promise<boolean> {
    const mark = await findLastMark(sql, this.tenant_id)
    return mark !== undefined && mark.purged_through >= id && equalBytes(mark.mac, purgeMarkMac(auditKey, mark))
  }

  #raiseAlarm(reason: string): never {
    if (this.#alarm === undefined) this.onAlarm(this.tenant_id, reason)
    this.#alarm = reason
    throw new ChainAlarmError(reason)
  }
}
