/** Examines the audit logs for `eaas doctor`. */
import { existsSync } from 'node:fs'
import { readWitnessKey } from '@eaas/audit'
import { counted, INSTALLATION_ID } from '@eaas/protocol'
import { ChainAlarmError, RECOVERY_PAGE, untilFollowed } from '../../core/audit/append-errors.js'
import { isUnopened, openAuditKey, readAuditKeys } from '../../core/audit/audit-key.js'
import { type AuditKey, currentKey, isPurgeMarkAuthentic } from '../../core/audit/formats/chain.js'
import { authentic, tenantMac } from '../../core/audit/formats/row-mac.js'
import { readRecordedTenants } from '../../core/audit/recorded-tenants.js'
import { verifyLog } from '../../core/audit/verify/verify.js'
import type { Config } from '../../core/config.js'
import { deriveRowKey, type StoreKeys } from '../../core/crypto/key-hierarchy.js'
import { Refusal } from '../../core/runner/refusal.js'
import { createTenantStates, isMovedAway } from '../../core/runner/tenant-state.js'
import { findHead, readChain } from '../../core/store/audit.js'
import type { Sql } from '../../core/store/db.js'
import { findCurrentInstallation } from '../../core/store/instance.js'
import { findOutdatedRow, findPutBack } from '../../core/store/newest-entry.js'
import { findLastMark } from '../../core/store/purge-marks.js'
import { findTenant, listTenants, type TenantRow } from '../../core/store/tenants.js'
import { compareWithWitnesses, WITNESS_TIMEOUT_MS, type WitnessOutcome } from '../../guard/jobs/ask-witnesses.js'
import { listTenantsByVerifiedRecord } from '../../guard/jobs/tenants-on-record.js'
import { isGoneAccepted } from '../../guard/named-entries.js'
import { findHeadFault } from '../../guard/operations/diff-audit.js'
import { listAlarms } from '../../guard/store/alarms.js'
import { findUncovered } from '../../guard/store/anchors.js'
import { compareWithAnchor } from '../../guard/watch/anchor-watch.js'
import { HeadWatch, HeadWatches } from '../../guard/watch/head-watch.js'
import {
  FAULTS_ADVICE,
  type KeptFile,
  nameFaults,
  readKeptFile,
  STANDARD_OUTPUT,
} from '../../guard/watch/kept-witnesses.js'
import { readAnchorTime } from '../../guard/watch/newest-anchor.js'
import { describeRefused, MISSING_TENANT, TENANT_GONE } from '../../guard/watch/shared-alarms.js'
import { assertUnused, listUnexplained } from '../../installation-comparisons.js'
import { findOwnInstance, openInstallationKey, openSigningKey } from '../../installation-secrets.js'
import { findHold, findLeft } from '../operations/purge-candidate.js'
import { listStrays } from '../store/moved-rows.js'
import { linesOf, type Result, someOf, warn, wrong } from './output.js'
import { describeMove } from './tenant-move.js'
import { messageOf } from './with-services.js'

const MINUTE_MS = 60_000
const OWN_LOG = "the installation's own log"
/** How long, in milliseconds, a tenant may be closed for its move. */
const CLOSED_MS = 5 * MINUTE_MS
/** How long, in milliseconds, entries may be due before a daily purge counts as missed. */
const UNPURGED_MS = 2 * 24 * 60 * MINUTE_MS

/** A row that no server wrote also counts as an alarm. */
export async function examineAlarms(sql: Sql): Promise<Result> {
  const alarms = await listAlarms(sql)
  if (alarms.length === 0) return { detail: 'none' }
  const names = new Map((await listTenants(sql)).map(({ tenant_id, name }) => [tenant_id, name]))
  names.set(INSTALLATION_ID, OWN_LOG)
  const named = alarms.map(({ tenant_id, reason }) => {
    const name = names.get(tenant_id)
    return name === undefined ? `${tenant_id}: ${TENANT_GONE}` : `${name}: ${reason}`
  })
  return wrong(`${someOf(named)}. ${describeRefused(alarms.map(({ tenant_id }) => tenant_id))}`)
}

/**
 * Reports tenants that a move left closed, remains of interrupted moves of tenants that have not arrived here, and
 * remains of the logs of lost tenants.
 */
export async function examineMoves(sql: Sql): Promise<Result> {
  const latest = new Date(Date.now() - CLOSED_MS).toISOString()
  const faults: string[] = []
  for (const { tenant_id, name, status, entry_id: through_id } of await listTenants(sql)) {
    if (status !== 'moving') continue
    const [entry] = await readChain(sql, { tenant_id, after_id: through_id - 1, through_id, limit: 1 })
    if (entry && entry.created_at > latest) continue
    const todo = describeMove(tenant_id, '--to URL-FILE')
    const since = entry ? ` since ${entry.created_at}` : ''
    faults.push(`tenant ${name} is closed for a move${since}, and its calls get 503. ${todo}`)
  }
  const strays: string[] = []
  for (const { tenant_id, entries } of await listStrays(sql)) {
    const { present, lost } = await readRecordedTenants(sql, tenant_id)
    if (present.has(tenant_id)) continue // its row is missing, which `audit chains` reports
    const left = `${counted(entries, 'entry', 'entries')} of tenant ${tenant_id}, which is not here`
    if (lost.has(tenant_id))
      faults.push(`no move left ${left}: an operator accepted that its rows were lost. ${RECOVERY_PAGE}`)
    else
      strays.push(`a move that runs or was interrupted left ${left}. To delete them: eaas tenant delete ${tenant_id}`)
  }
  if (faults.length + strays.length === 0) return { detail: 'none is unfinished' }
  return (faults.length > 0 ? wrong : warn)(someOf([...faults, ...strays]))
}

/** For a database that no root key opens: like a start, a new one requires an unused checkpoint file. */
export async function examineUnused(sql: Sql, file: string): Promise<Result> {
  if (await findOwnInstance(sql)) return warn(`not compared with ${file}, for want of the root key`)
  await assertUnused(sql, file)
  return { detail: 'the database is new' }
}

export async function examineCheckpoints(sql: Sql, storeKeys: StoreKeys, file: string): Promise<Result> {
  if (file === STANDARD_OUTPUT)
    return { detail: 'written to standard output, so a start cannot compare the database with them' }
  const instance = await findOwnInstance(sql)
  if (!instance) return { detail: 'the database is new' }
  const signingKey = await openSigningKey(sql, storeKeys, instance)
  const { witnesses, others, lines, remnants, faults } = await readKeptFile(file, signingKey.publicKeys, {
    isThorough: true,
    findAuditKeys: (tenants) => readAuditKeys(sql, storeKeys, tenants),
  })
  if (!existsSync(file))
    return warn(
      `${file} does not exist, so nothing was compared. A server that starts writes it; if one did before, find out what removed it`,
    )
  const behind = await findBehind(sql, storeKeys, { witnesses, others })
  const missing = (await listUnexplained(sql, await openInstallationKey(sql, storeKeys), witnesses)).map(
    (tenant_id) => `${tenant_id} (line ${witnesses.get(tenant_id)?.line})`,
  )
  const found = linesOf(
    behind.size > 0 &&
      `${someOf([...behind.values()])} (${file}). So it is with the next command, and with a server that starts. ${describeRefused([...behind.keys()])}`,
    faults.length > 0 && `${nameFaults(faults)} (${file}). ${FAULTS_ADVICE}`,
    missing.length > 0 && `${MISSING_TENANT}: ${someOf(missing)} in ${file}`,
  )
  if (found.length === 0) {
    if (lines === 0) return { detail: `no lines in ${file} to compare with` }
    const cut = remnants === 0 ? '' : `, and ${remnants} that a crash or a full disk cut short`
    return { detail: `${counted(lines, 'line')} in ${file}, all of them valid${cut}` }
  }
  // A missing tenant alone does not prevent a start.
  return (behind.size > 0 || faults.length > 0 ? wrong : warn)(found.join('. '))
}

// Compares as a start does. `audit chains` reports a head that is itself wrong.
async function findBehind(
  sql: Sql,
  storeKeys: StoreKeys,
  { witnesses, others }: Pick<KeptFile, 'witnesses' | 'others'>,
): Promise<Map<string, string>> {
  const behind = new Map<string, string>()
  const installation = await findCurrentInstallation(sql)
  for (const [tenant_id, witness] of witnesses) {
    const tenant = tenant_id === INSTALLATION_ID ? installation?.tenant : await findTenant(sql, tenant_id)
    if (!tenant) continue
    const watch = new HeadWatch(tenant_id, () => undefined)
    watch.held.remember(witness)
    for (const other of others) if (other.tenant_id === tenant_id) watch.held.remember(other)
    try {
      const auditKey = openAuditKey(storeKeys, tenant)
      await untilFollowed(() => watch.read(sql, auditKey))
    } catch (error) {
      if (isUnopened(error)) continue
      if (!(error instanceof ChainAlarmError)) throw error
      behind.set(tenant_id, `${tenant_id === INSTALLATION_ID ? OWN_LOG : tenant.name}: ${watch.alarm?.reason}`)
    }
  }
  return behind
}

/**
 * Examines every tenant on record, and of each log the ends, the last mark and the newest rows. Skips the MACs of keys
 * and API keys, since reading every row takes as long as a verification.
 */
export async function examineChains(sql: Sql, storeKeys: StoreKeys) {
  const states = createTenantStates({ sql, storeKeys })
  const { tenants, leftOut, unread } = await listTenantsByVerifiedRecord({
    sql,
    states,
    verifyLog: (options) => verifyLog(sql, { ...options, storeKeys }),
  })
  const broken = leftOut.map(({ tenant_id, reason }) => `${tenant_id}: ${reason}`)
  if (unread !== undefined) broken.push(messageOf(unread))
  for (const tenant of tenants) {
    const fault = await findChainFault(sql, storeKeys, tenant)
    if (fault) broken.push(`${tenant.name}: ${fault}`)
  }
  if (broken.length === 0) {
    return {
      detail: `the heads of the logs (${tenants.length}) are valid, each is of the last entry, no tenant is missing that the installation's log has, and no older row is in the place of a newer one. The entries before the last are not read here; eaas audit verify --all checks every entry, key and API key`,
    }
  }
  return wrong(`${someOf(broken)}. Verify the log (eaas audit verify). ${RECOVERY_PAGE}`)
}

/** As a start does: examines the installation's log from its newest anchor on, and every tenant that the anchor covers. */
export async function examineAnchor(
  sql: Sql,
  storeKeys: StoreKeys,
  { checkpointMinutes }: Pick<Config, 'checkpointMinutes'>,
): Promise<Result> {
  const instance = await findOwnInstance(sql)
  if (!instance) return { detail: 'the database is new' }
  const installationKey = await openInstallationKey(sql, storeKeys)
  const faults: string[] = []
  const alarmed: string[] = []
  const onAlarm = (tenant_id: string, reason: string) => {
    alarmed.push(tenant_id)
    faults.push(`${tenant_id === INSTALLATION_ID ? OWN_LOG : tenant_id}: ${reason}`)
  }
  const watches = new HeadWatches(onAlarm, undefined, (on, tenant_id, witness) =>
    isGoneAccepted(on, { installationKey, tenant_id, witness }),
  )
  const errors = await compareWithAnchor({
    sql,
    watches,
    installationKey,
    openKey: (row) => openAuditKey(storeKeys, row),
    findAuditKey: async (tenant_id) => {
      const tenant = await findTenant(sql, tenant_id)
      return tenant && openAuditKey(storeKeys, tenant)
    },
  })
  faults.push(...errors.map(messageOf))
  if (faults.length > 0) {
    return wrong([someOf(faults), ...(alarmed.length > 0 ? [describeRefused(alarmed)] : [])].join('. '))
  }
  const time = await readAnchorTime(sql, installationKey)
  if (time === undefined) return { detail: "none yet; the installation's log is as the server wrote it" }
  // Twice the interval, since one round may be under way.
  const since = new Date(Date.now() - 2 * checkpointMinutes * MINUTE_MS).toISOString()
  const uncovered = await findUncovered(sql, since)
  if (uncovered.length === 0) return { detail: `of ${time}; every tenant's log has what it covers` }
  return warn(
    `of ${time}; every tenant's log has what it covers, but no anchor was written over what these logs have had for ` +
      `${2 * checkpointMinutes} minutes and longer: ${someOf(uncovered)}. If a server runs, its log says why. Verify them (eaas audit verify)`,
  )
}

/** Finds tenants whose due entries a daily purge would hold back, or has not deleted for two days. */
export async function examinePurge(
  sql: Sql,
  storeKeys: StoreKeys,
  { auditRetentionMonths: retentionMonths }: Pick<Config, 'auditRetentionMonths'>,
): Promise<Result> {
  if (retentionMonths === 0) return { detail: 'EAAS_AUDIT_RETENTION_MONTHS is 0: nothing is ever purged' }
  const now = Date.now()
  const kept: string[] = []
  for (const tenant of await listTenants(sql)) {
    if (isMovedAway(tenant)) continue
    try {
      const log = { sql, state: { tenant, auditKey: openAuditKey(storeKeys, tenant) } }
      const left = await findLeft(log, { retentionMonths, now })
      if (!left) continue
      const entries = left.through_id - left.after_id
      const held = entries > 0 ? await findHold(sql, left, { now }) : undefined
      if (held !== undefined) kept.push(`${tenant.name}: ${held}`)
      else if (entries <= 0)
        kept.push(`${tenant.name}: entries are marked as purged, and the database has not deleted them`)
      else if (await findLeft(log, { retentionMonths, now: now - UNPURGED_MS }))
        kept.push(
          `${tenant.name}: ${counted(entries, 'entry is', 'entries are')} due, some for over two days, and no purge took them`,
        )
    } catch (error) {
      if (!(isUnopened(error) || error instanceof Refusal)) throw error
    }
  }
  if (kept.length === 0) return { detail: `nothing older than ${counted(retentionMonths, 'month')} is held back` }
  return warn(
    `entries older than EAAS_AUDIT_RETENTION_MONTHS (${retentionMonths}) are kept until you act: ${someOf(kept)}. See eaas purge --dry-run`,
  )
}

async function findChainFault(sql: Sql, storeKeys: StoreKeys, tenant: TenantRow): Promise<string | undefined> {
  const { tenant_id } = tenant
  let auditKey: AuditKey
  try {
    auditKey = openAuditKey(storeKeys, tenant)
    authentic(tenant, tenantMac, deriveRowKey(currentKey(auditKey)))
  } catch (error) {
    if (!isUnopened(error)) throw error
    return error.message
  }
  const head = await findHeadFault(sql, { tenant_id, auditKey })
  if (head) return head.detail
  const mark = await findLastMark(sql, tenant_id)
  if (mark && !isPurgeMarkAuthentic(auditKey, mark)) return 'the mark of the last purge is forged'
  const outdated = await findOutdatedRow(sql, tenant_id)
  return outdated && findPutBack(outdated, outdated.what)?.message
}

/** Compares the installation's log with the last cosigned tree of each witness, without asking for more cosignatures. */
export async function examineWitnesses(
  sql: Sql,
  storeKeys: StoreKeys,
  addresses: Config['witnesses'],
): Promise<Result> {
  const witnesses = addresses.map(({ key, url }) => ({ key: readWitnessKey(key), url }))
  const instance = await findOwnInstance(sql)
  const signingKey = instance && (await openSigningKey(sql, storeKeys, instance))
  const head = await findHead(sql, INSTALLATION_ID) // after the key, which the log up to it must state
  if (!signingKey || !head) return { detail: 'the database is new' }
  const options = { witnesses, timeoutMs: WITNESS_TIMEOUT_MS }
  const installationKey = await openInstallationKey(sql, storeKeys)
  const outcomes = await compareWithWitnesses({ sql, signingKey, installationKey }, head, options)
  const named = (...kinds: WitnessOutcome['kind'][]) =>
    outcomes.flatMap(({ witness, kind, detail }) => (kinds.includes(kind) ? [`${witness}: ${detail}`] : [])).join('; ')
  const contradicted = named('contradicted')
  if (contradicted !== '') {
    const remedy =
      'The database went back or was rewritten, or the witness is wrong: compare with a checkpoint that is kept elsewhere ' +
      '(eaas audit verify --all --checkpoint)'
    return wrong(`${contradicted}. ${remedy}`)
  }
  const failed = named('failed')
  if (failed !== '') return warn(failed)
  return { detail: `agree with the installation's log, by what they cosigned last: ${named('cosigned', 'overtaken')}` }
}
