/**
 * `eaas doctor`: checks everything that a start needs and an auditor asks about, and says what to do. Changes nothing, but for the
 * installation's log, which records the run.
 */
import type { KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Command } from 'commander'
import { compareWithAnchor } from '../audit/anchor-watch.js'
import { ChainAlarmError } from '../audit/append-errors.js'
import { openAuditKey } from '../audit/audit-key.js'
import { equalBytes, isHeadAuthentic, isPurgeMarkAuthentic, type Witness } from '../audit/chain.js'
import { TENANT_GONE } from '../audit/chain-watch.js'
import { encodePublicKey } from '../audit/checkpoint.js'
import { createCommitter } from '../audit/committer.js'
import { HeadWatch } from '../audit/head-watch.js'
import { createHeadWatches } from '../audit/head-watches.js'
import { nameFaults, readKeptFile, STANDARD_OUTPUT } from '../audit/kept-witnesses.js'
import { findPutBack } from '../audit/newest-row.js'
import { authentic, TamperedRowError, tenantMac } from '../audit/row-mac.js'
import type { Config } from '../config.js'
import { deriveRowKey } from '../crypto/key-hierarchy.js'
import { readRootKey } from '../crypto/root-key.js'
import {
  findOwnInstance,
  findRootKey,
  MISSING_TENANT,
  openInstallationKey,
  openSecrets,
  rootKeyFile,
} from '../installation.js'
import { MIGRATIONS_DIRECTORY } from '../migrations-directory.js'
import { recordAlone } from '../runner/installation-log.js'
import { listAlarms } from '../store/alarms.js'
import { findAnchorTime } from '../store/anchors.js'
import { findEntryHash, findHead } from '../store/audit.js'
import { findLastMark } from '../store/audit-retention.js'
import type { Sql } from '../store/db.js'
import { withDeadline } from '../store/deadline.js'
import { findCurrentInstallation } from '../store/instance.js'
import { compareSchemas } from '../store/migrations.js'
import { findOutdatedRow } from '../store/newest-entry.js'
import { NoDatabaseError, openStore, type Store } from '../store/open-store.js'
import { findMissingLimits } from '../store/pooler.js'
import { findClock, findMissingStandby, mayCreateTables } from '../store/settings.js'
import { findMissingTenants, findTenant, listTenants, type TenantRow } from '../store/tenants.js'
import { findWriteObstacle, tryWrite } from '../store/writability.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT, succeed } from './command.js'
import {
  examineFile,
  examineFolder,
  examineKeyFile,
  examineNewDirectory,
  type Finding,
  type Result,
} from './examine-files.js'
import { print, printJson } from './output.js'
import { messageOf, operatorName } from './with-services.js'

/** A clock this far from the database's or behind the log makes expiries and policies wrong, in milliseconds. */
const CLOCK_TOLERANCE_MS = 60_000
/** Most tenants that one finding names. */
const NAMED_AT_MOST = 5

/** Adds `eaas doctor`. */
export function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description(
      "Check configuration, database, durability, clock, root key and audit chains. Changes nothing; the installation's log records the run.",
    )
    .addOption(JSON_OPTION)
    .addHelpText('after', SAME_ENVIRONMENT)
    .action((options) => succeed(doctor(commandConfig(), options)))
}

/** Prints the findings; returns true if all is well. */
async function doctor(config: Config, { json }: { json: boolean }): Promise<boolean> {
  const findings = await examine(config)
  const isWell = findings.every(({ ok }) => ok)
  if (json) printJson({ ok: isWell, findings })
  else {
    print(...findings.map((finding) => `${mark(finding)}  ${finding.check.padEnd(15)}  ${finding.detail}`))
    print('', isWell ? 'All checks passed.' : 'A check failed: see the lines marked WRONG.')
  }
  return isWell
}

// Without the installation's own log, or a database that takes writes, the findings are all that there is.
async function record(sql: Sql, rootKey: KeyObject, metadata: { ok: boolean }): Promise<void> {
  try {
    if (!(await findOwnInstance(sql))) return
    const installationKey = await openInstallationKey(sql, rootKey)
    const committer = createCommitter({ sql, now: Date.now, onAlarm: () => undefined })
    const services = { sql, committer, installationKey, actor: operatorName() }
    await withDeadline(recordAlone(services, [{ action: 'installation.doctor', metadata }]))
  } catch (error) {
    process.stderr.write(`eaas: the installation's log does not record this command: ${messageOf(error)}\n`)
  }
}

function mark({ ok, warning }: Finding): string {
  if (!ok) return 'WRONG'
  return warning ? 'WARN ' : 'ok   '
}

async function examine(config: Config): Promise<Finding[]> {
  const findings: Finding[] = []
  const examineOne = async <T>(check: string, work: () => Promise<Result<T>>) => {
    try {
      const { found, ok = true, ...more } = await work()
      findings.push({ check, ok, ...more })
      return found
    } catch (error) {
      findings.push({ check, ok: false, detail: messageOf(error) })
      return undefined
    }
  }

  const keyFile = rootKeyFile(config)
  if (keyFile !== undefined && existsSync(keyFile)) await examineOne('root key file', () => examineKeyFile(keyFile))
  const { checkpointFile, auditArchiveDir } = config
  if (checkpointFile !== undefined && checkpointFile !== '-') {
    await examineOne('checkpoint file', () => examineFile('EAAS_CHECKPOINT_FILE', checkpointFile))
  }
  if (auditArchiveDir !== undefined) {
    await examineOne('audit archive', () => examineFolder('EAAS_AUDIT_ARCHIVE_DIR', auditArchiveDir))
  }

  const store = await examineOne('database', () => examineDatabase(config))
  if (!store) return findings
  try {
    if (store.isPooled) await examineOne('pooler', () => examineLimits(store.sql))
    const schema = await examineOne('schema', () => examineSchema(store))
    if (schema === 'current') {
      await examineOne('writes', () => examineWrites(store))
      await examineOne('alarms', () => examineAlarms(store.sql))
    }
    await examineOne('durability', async () => examineDurability(store))
    await examineOne('clock', () => examineClock(store))
    const rootKey = await examineOne('root key', () => examineRootKey(store, config))
    if (rootKey && checkpointFile !== undefined && schema === 'current') {
      await examineOne('checkpoints', () => examineCheckpoints(store.sql, rootKey, checkpointFile))
    }
    if (rootKey && schema === 'current') {
      await examineOne('audit chains', () => examineChains(store.sql, rootKey))
      await examineOne('anchor', () => examineAnchor(store.sql, rootKey))
      // Nothing is appended to a log that may have gone back.
      const needed = ['writes', 'alarms', 'checkpoints', 'audit chains', 'anchor']
      const mayRecord = findings.every(({ check, ok }) => ok || !needed.includes(check))
      if (mayRecord) await record(store.sql, rootKey, { ok: findings.every(({ ok }) => ok) })
    }
  } finally {
    await store.close()
  }
  return findings
}

async function examineDatabase(config: Config): Promise<Result<Store>> {
  try {
    const store = await openStore(config, { beside: true, mayCreate: false })
    return { found: store, detail: store.description }
  } catch (error) {
    if (!(error instanceof NoDatabaseError)) throw error
    await examineNewDirectory(config.dataDir)
    await readRootKey(config.rootKey)
    return { detail: `there is no database in ${config.dataDir} yet; eaas start creates one` }
  }
}

async function examineSchema({ sql }: Store): Promise<Result<'current'>> {
  const { version, newest } = await compareSchemas(sql, MIGRATIONS_DIRECTORY)
  if (version === newest) return { found: 'current', detail: `version ${version}` }
  if (!(await mayCreateTables(sql))) {
    return {
      ok: false,
      detail: `version ${version}, and this role may not migrate it to ${newest}: run eaas migrate as the owner of the tables`,
    }
  }
  return { detail: `version ${version}; the next start migrates it to ${newest}` }
}

// Behind a pooler the server sets limits for transactions only: a statement outside of one has the limits of its role.
async function examineLimits(sql: Sql): Promise<Result<unknown>> {
  const missing = await findMissingLimits(sql)
  if (missing.length === 0) return { detail: 'found one; the role has time limits for its statements' }
  return {
    warning: true,
    detail: `found one, but the role has no ${missing.join(', ')}: alter role … set … = '5s'`,
  }
}

async function examineWrites({ sql }: Store): Promise<Result> {
  const obstacle = await findWriteObstacle(sql)
  if (obstacle) return { ok: false, detail: obstacle.detail }
  await tryWrite(sql)
  const standby = await findMissingStandby(sql) // a rollback does not wait for a standby
  if (standby === undefined) return { detail: 'a test write succeeded and was rolled back' }
  return {
    ok: false,
    detail: `commits wait for a synchronous standby (${standby}), and none is connected: start it, or change synchronous_standby_names`,
  }
}

// A row that no server wrote is an alarm too.
async function examineAlarms(sql: Sql): Promise<Result> {
  const alarms = await listAlarms(sql)
  if (alarms.length === 0) return { detail: 'none' }
  const names = new Map((await listTenants(sql)).map(({ tenant_id, name }) => [tenant_id, name]))
  names.set(INSTALLATION_ID, "the installation's own log")
  const named = alarms.map(({ tenant_id, reason }) => {
    const name = names.get(tenant_id)
    return name === undefined ? `${tenant_id}: ${TENANT_GONE}` : `${name}: ${reason}`
  })
  return {
    ok: false,
    detail: `${someOf(named)}. All calls of these tenants are refused until you settle this: see eaas audit accept-rollback --help`,
  }
}

function examineDurability({ durability, isEmbedded }: Store) {
  if (durability === 'synchronous') return { detail: 'a commit is on disk when it is acknowledged' }
  const remedy = isEmbedded
    ? 'use PostgreSQL if a power cut must not lose entries'
    : 'set fsync, full_page_writes and synchronous_commit to on'
  return { ok: false, detail: `a power cut can lose acknowledged audit entries: ${remedy}` }
}

async function examineClock({ sql, isEmbedded }: Store) {
  const asked = Date.now()
  const { database_now, newest_entry, ahead } = await findClock(sql, new Date(asked + CLOCK_TOLERANCE_MS).toISOString())
  const apart = Date.now() - Date.parse(database_now)
  if (Math.abs(apart) > CLOCK_TOLERANCE_MS) {
    return {
      ok: false,
      detail: `this machine's clock and the database's are ${Math.round(apart / 1_000)} s apart: run NTP on both. Nothing is written while they are over EAAS_MAX_CLOCK_SKEW_SECONDS apart`,
    }
  }
  if (ahead.length > 0) {
    const wait = isEmbedded
      ? 'until then nothing is written unless you start with EAAS_MAX_CLOCK_SKEW_SECONDS=0'
      : 'you need do nothing'
    return {
      ok: false,
      detail:
        `the newest audit entry is of ${newest_entry}, in the future (${someOf(ahead)}). If this clock is wrong, correct it. If it is right, a wrong ` +
        `clock wrote that entry: times in a log never go back, so new entries, and the usage counted from them, have that time until ` +
        `it has passed; ${wait}`,
    }
  }
  return { detail: `agrees with the database's; newest audit entry: ${newest_entry ?? 'none'}` }
}

async function examineRootKey(store: Store, config: Config) {
  const instance = await findOwnInstance(store.sql)
  const fromEnvironment = await readRootKey(config.rootKey)
  const file = rootKeyFile(config)
  if (!instance && store.isEmbedded && !fromEnvironment && file !== undefined && !existsSync(file)) {
    return { detail: 'the database is new; the first start creates a root key' }
  }
  const rootKey = await findRootKey(store, config, { fromEnvironment, mayCreate: false })
  if (!instance) return { detail: 'the database is new; the first start binds it to this root key' }
  openSecrets(rootKey, instance)
  return { found: rootKey, detail: 'opens this database' }
}

async function examineCheckpoints(sql: Sql, rootKey: KeyObject, file: string): Promise<Result> {
  if (file === STANDARD_OUTPUT)
    return { detail: 'written to standard output, so a start cannot compare the database with them' }
  const instance = await findOwnInstance(sql)
  if (!instance) return { detail: 'the database is new' }
  const { signingKey } = openSecrets(rootKey, instance)
  const { witnesses, lines, faults } = await readKeptFile(file, encodePublicKey(signingKey), { isThorough: true })
  const behind = await findBehind(sql, rootKey, witnesses)
  if (behind.length > 0) {
    return {
      ok: false,
      detail: `${someOf(behind)} (${file}). A server that starts will refuse all calls of these tenants until you settle this: see eaas audit accept-rollback --help`,
    }
  }
  if (faults.length > 0) {
    return {
      ok: false,
      detail:
        `${nameFaults(faults)} (${file}). A crash cut these lines short, or somebody edited the file. Compare the logs with checkpoints that ` +
        'are kept elsewhere (eaas audit verify --checkpoint), then remove these lines',
    }
  }
  const missing = await findMissingTenants(sql, [...witnesses.keys()])
  if (missing.length === 0) return { detail: `${lines} lines in ${file}, all of them valid` }
  const where = missing.map((tenant_id) => `${tenant_id} (line ${witnesses.get(tenant_id)?.line})`)
  return { warning: true, detail: `${MISSING_TENANT}: ${someOf(where)} in ${file}` }
}

// Compares as a start does. The finding `audit chains` reports a head that is wrong in itself.
async function findBehind(sql: Sql, rootKey: KeyObject, witnesses: ReadonlyMap<string, Witness>): Promise<string[]> {
  const behind: string[] = []
  const installation = await findCurrentInstallation(sql)
  for (const tenant of [...(await listTenants(sql)), ...(installation ? [installation.tenant] : [])]) {
    const { tenant_id, name } = tenant
    const witness = witnesses.get(tenant_id)
    if (!witness) continue
    const watch = new HeadWatch(tenant_id, () => undefined)
    watch.remember(witness)
    try {
      await watch.read(sql, openAuditKey(rootKey, tenant))
    } catch (error) {
      if (error instanceof TamperedRowError) continue
      if (!(error instanceof ChainAlarmError)) throw error
      behind.push(`${name}: ${watch.alarm?.reason}`)
    }
  }
  return behind
}

function someOf(parts: readonly string[]): string {
  const more = parts.length > NAMED_AT_MOST ? [`and ${parts.length - NAMED_AT_MOST} more`] : []
  return [...parts.slice(0, NAMED_AT_MOST), ...more].join('; ')
}

async function examineChains(sql: Sql, rootKey: KeyObject) {
  const tenants = await listTenants(sql)
  const broken: string[] = []
  for (const tenant of tenants) {
    const fault = await findChainFault(sql, rootKey, tenant)
    if (fault) broken.push(`${tenant.name}: ${fault}`)
  }
  if (broken.length === 0) return { detail: `the heads of ${tenants.length} logs are valid` }
  return { ok: false, detail: `${someOf(broken)}. Verify the log (eaas audit verify) and restore a backup` }
}

// As a start does: the installation's log from its newest anchor on, and every tenant that the anchor covers.
async function examineAnchor(sql: Sql, rootKey: KeyObject): Promise<Result> {
  const instance = await findOwnInstance(sql)
  if (!instance) return { detail: 'the database is new' }
  const installationKey = await openInstallationKey(sql, rootKey)
  const faults: string[] = []
  const watches = createHeadWatches((tenant_id, reason) => void faults.push(`${tenant_id}: ${reason}`))
  const errors = await compareWithAnchor({
    sql,
    watches,
    installationKey,
    rowKey: deriveRowKey(installationKey),
    findAuditKey: async (tenant_id) => {
      const tenant = await findTenant(sql, tenant_id)
      return tenant && openAuditKey(rootKey, tenant)
    },
  })
  faults.push(...errors.map(messageOf))
  if (faults.length > 0) {
    return {
      ok: false,
      detail: `${someOf(faults)}. A start will not serve them: see eaas audit accept-rollback --help`,
    }
  }
  const time = await findAnchorTime(sql)
  if (time === undefined) return { detail: "none yet; the installation's log is as the server wrote it" }
  return { detail: `of ${time}; every tenant's log has what it covers` }
}

async function findChainFault(sql: Sql, rootKey: KeyObject, tenant: TenantRow): Promise<string | undefined> {
  const { tenant_id } = tenant
  let auditKey: KeyObject
  try {
    auditKey = openAuditKey(rootKey, tenant)
    authentic(tenant, tenantMac, deriveRowKey(auditKey))
  } catch (error) {
    if (!(error instanceof TamperedRowError)) throw error
    return error.message
  }
  const head = await findHead(sql, tenant_id)
  if (!head) return 'the head is missing'
  if (!isHeadAuthentic(auditKey, head)) return 'the head was not written by the server'
  const last = await findEntryHash(sql, tenant_id, head.last_id)
  if (!last || !equalBytes(last, head.hash)) return 'the head does not match the last entry'
  const mark = await findLastMark(sql, tenant_id)
  if (mark && !isPurgeMarkAuthentic(auditKey, mark)) return 'the mark of the last purge is forged'
  const outdated = await findOutdatedRow(sql, tenant_id, mark?.purged_through ?? 0)
  return outdated && findPutBack(outdated, { what: outdated.what, auditKey, mark })?.message
}
