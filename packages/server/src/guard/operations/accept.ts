/** What operators can accept besides a rollback, with an entry: a wrong clock, a tenant that is gone, changed tables. */
import { encodeHex, INSTALLATION_ID } from '@eaas/protocol'
import * as z from 'zod/mini'
import { appendToLocked } from '../../core/audit/append/send-appends.js'
import { extendLocked } from '../../core/audit/append/tenant-log.js'
import { type AuditKey, alarmMac, equalBytes, extendChain } from '../../core/audit/formats/chain.js'
import { readAuthenticEntry } from '../../core/audit/read-entry.js'
import { type RecordedTenants, readRecordedTenants } from '../../core/audit/recorded-tenants.js'
import { draftEntry } from '../../core/runner/entry-drafts.js'
import type { EntryNote, Services } from '../../core/runner/operation.js'
import { systemCaller } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { isMovedAway } from '../../core/runner/tenant-state.js'
import { findHead, listHeads } from '../../core/store/audit.js'
import type { Queryable } from '../../core/store/db.js'
import { compareSchemas } from '../../core/store/migrations.js'
import { findTenant } from '../../core/store/tenants.js'
import { MIGRATIONS_DIRECTORY } from '../../package-directory.js'
import { anchorHeads, lockAnchored } from '../anchor-heads.js'
import { recordAlone } from '../installation-log.js'
import { deleteAlarm, listAcceptanceIds, lockAlarm } from '../store/alarms.js'
import { compareTables, type SchemaDifferences } from '../store/schema.js'
import { watchesOf } from '../watch/head-watch.js'

export type LogAhead = { tenant_id: string; last_id: number; ahead_until: string }

/** The furthest ahead first. Does not authenticate the rows. */
export async function listLogsAhead({ sql, committer }: Services): Promise<LogAhead[]> {
  const heads = (await listHeads(sql)).filter((head) => committer.clock.isAhead(head))
  return heads
    .map(({ tenant_id, last_id, created_at }) => ({ tenant_id, last_id, ahead_until: created_at }))
    .sort((a, b) => (a.ahead_until < b.ahead_until ? 1 : -1))
}

/**
 * Appends `audit.clock_accepted` to a log that is ahead: no other entry may have an earlier time than its predecessor
 * (chain.md 4). Returns its id; undefined if the log is no longer ahead. @throws Refusal E_NOT_FOUND, E_STATE if
 * another installation continues the log, ChainAlarmError while the log has an alarm, WrongClockError
 */
export async function acceptClock(services: Services, tenant_id: string, reason: string): Promise<number | undefined> {
  const { clock } = services.committer
  const isOwn = tenant_id === INSTALLATION_ID
  const auditKey = isOwn ? services.installationKey : (await services.states.find(tenant_id))?.auditKey
  if (!auditKey) throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant_id}`)
  const next = await extendLocked(services, { tenant_id, auditKey }, async (sql, previous) => {
    if (!clock.isAhead(previous)) return undefined
    await readServedHere(sql, tenant_id)
    const time = clock.read()
    const metadata = { ahead_until: previous.created_at, reason }
    const draft = draftEntry({ action: 'audit.clock_accepted', metadata }, systemCaller(services))
    // The only entry that may have an earlier time than its predecessor (chain.md 4).
    const { entries, head } = extendChain({ ...previous, created_at: '' }, [draft], { auditKey, now: time })
    await appendToLocked(sql, clock, { previous, next: head, entries, time })
    return head
  })
  return next?.last_id
}

/**
 * Call it with the tenant's head locked. Reads the installation's log as well as the row, since older rows of a moved
 * tenant may have been restored. @throws Refusal E_STATE if another installation continues the log
 */
export async function readServedHere(sql: Queryable, tenant_id: string): Promise<RecordedTenants> {
  const recorded = await readRecordedTenants(sql, tenant_id)
  const row = await findTenant(sql, tenant_id)
  const moved = [row?.status, recorded.statuses.get(tenant_id)].find((status) => status && isMovedAway({ status }))
  if (moved === undefined) return recorded
  throw new Refusal(
    'E_STATE',
    `tenant ${row?.name} is ${moved}: another installation continues its log, or is about to (eaas tenant list --all shows where). ` +
      'Accept nothing here: restore its rows from a backup made after that',
  )
}

/** The alarm, with the latest head known to its row, the newest anchor or this process. */
export interface LostTenant {
  tenant_id: string
  // whether a server wrote the row after the tenant was gone; an earlier MAC is by the tenant's key, which is gone as well
  is_alarm_proven: boolean
  witnessed_id: number
  witnessed_hash: string
  raised_at: string
  /** if another installation continues its log */
  status_before?: 'moved'
}

/**
 * Records in the installation's log that the tenant is gone, so that anchors no longer cover it, and deletes the
 * alarm's row, upon which servers end their alarms. @throws Refusal E_NOT_FOUND if there is no alarm, E_STATE if the
 * tenant or a part of its log exists, or if only this process has an alarm
 */
export async function acceptLostTenant(services: Services, tenant_id: string, reason: string): Promise<LostTenant> {
  const { lost, head } = await services.sql.begin(async (transaction) => {
    const alarm = await lockAlarm(transaction, tenant_id)
    const own = watchesOf(services.committer).get(tenant_id)
    if (await findTenant(transaction, tenant_id))
      throw new Refusal('E_STATE', `tenant ${tenant_id} is in the database, so it is not gone`)
    if (!alarm && own.alarm) throw unwrittenAlarm(`tenant ${tenant_id}`, own.alarm.reason)
    if (!alarm)
      throw new Refusal(
        'E_NOT_FOUND',
        `there is no tenant ${tenant_id}, and no alarm about one, so there is nothing to accept`,
      )
    if (await findHead(transaction, tenant_id)) {
      throw new Refusal(
        'E_STATE',
        `tenant ${tenant_id} has a log but no row: the database was tampered with. Restore a backup`,
      )
    }
    await deleteAlarm(transaction, tenant_id)
    const { installationKey } = services
    const anchored = (await lockAnchored(services, transaction)).find((head) => head.tenant_id === tenant_id)
    // Uses even an unproven row: it cannot make the log seem shorter, and as the last one never replaces a proven head.
    const known = [anchored, own.held.proven, own.alarm?.witness, alarm].filter((head) => head !== undefined)
    const { last_id, hash } = known.reduce((latest, head) => (head.last_id > latest.last_id ? head : latest))
    const { raised_at } = alarm
    const isMoved = (await readRecordedTenants(transaction, tenant_id)).statuses.get(tenant_id) === 'moved'
    const lost = {
      tenant_id,
      is_alarm_proven: equalBytes(alarm.mac, alarmMac(installationKey, alarm)),
      witnessed_id: last_id,
      witnessed_hash: encodeHex(hash),
      raised_at: new Date(raised_at).toISOString(),
      ...(isMoved && ({ status_before: 'moved' } as const)),
    }
    const note: EntryNote = { action: 'installation.tenant_gone', metadata: { ...lost, reason } }
    return { lost, head: await anchorHeads(services, transaction, { notes: [note], without: tenant_id }) }
  })
  if (head) services.committer.guard.committed(head)
  return lost
}

/** Refuses to accept an alarm that has no row in the database, of which other processes would not know. */
export function unwrittenAlarm(log: string, reason: string): Refusal {
  return new Refusal(
    'E_STATE',
    `there is an alarm about ${log} (${reason}), but it could not be written into the database, so it cannot be accepted: eaas doctor names the ` +
      'right that this role lacks, or what somebody changed in the tables. Undo that, and repeat the command',
  )
}

const SCHEMA_ACCEPTED = 'installation.schema_accepted'

type SchemaAcceptance = Pick<SchemaDifferences, 'missing' | 'added' | 'refusing' | 'digest'> & { entry_id: number }

/** Valid until a difference changes. @throws Refusal E_STATE if there is nothing to accept; SchemaVersionError */
export async function acceptSchema(services: Services, { reason }: { reason: string }): Promise<SchemaAcceptance> {
  const { sql, installationKey } = services
  await compareSchemas(sql, MIGRATIONS_DIRECTORY)
  const { missing, added, refusing, digest } = await compareTables(sql, MIGRATIONS_DIRECTORY)
  const differences = missing.length + added.length + refusing.length
  if (differences === 0) throw new Refusal('E_STATE', 'the tables differ in nothing that needs to be accepted')
  const known = await findAcceptedSchema(sql, installationKey, { digest })
  if (known) throw new Refusal('E_STATE', `entry ${known.entry_id} of the installation's log accepts these differences`)
  const metadata = { digest, differences, reason }
  const { last_id } = await recordAlone(services, [{ action: SCHEMA_ACCEPTED, metadata }])
  return { missing, added, refusing, digest, entry_id: last_id }
}

const schemaMetadata = z.looseObject({ digest: z.string(), reason: z.string() })

export type AcceptedSchema = { entry_id: number; actor: string; created_at: string; reason: string }

/** Only the newest acceptance counts: if a change that an earlier one accepted was undone, its return is not accepted. */
export async function findAcceptedSchema(
  sql: Queryable,
  auditKey: AuditKey,
  { digest }: Pick<SchemaDifferences, 'digest'>,
): Promise<AcceptedSchema | undefined> {
  if (digest === '') return undefined
  for (const id of await listAcceptanceIds(sql, INSTALLATION_ID, SCHEMA_ACCEPTED)) {
    const entry = await readAuthenticEntry(sql, { tenant_id: INSTALLATION_ID, auditKey, id })
    // The column by which the entry was found proves nothing.
    if (entry?.action !== SCHEMA_ACCEPTED) continue
    const accepted = schemaMetadata.safeParse(JSON.parse(entry.metadata ?? '{}')).data
    if (accepted?.digest !== digest) return undefined
    return { entry_id: id, actor: entry.actor, created_at: entry.created_at, reason: accepted.reason }
  }
  return undefined
}
