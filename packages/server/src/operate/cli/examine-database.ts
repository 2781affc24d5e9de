/** Examines the database for `eaas doctor`. Rolls back everything that it writes. */
import type { Config } from '../../core/config.js'
import { readDatabaseUrl } from '../../core/database-url.js'
import type { Sql } from '../../core/store/db.js'
import { describeMissingRights, findMissingRights } from '../../core/store/grants.js'
import { compareSchemas } from '../../core/store/migrations.js'
import { NoDatabaseError, openStore, type Store } from '../../core/store/open-store.js'
import { findWriteObstacle } from '../../core/store/writability.js'
import type { AcceptedSchema } from '../../guard/operations/accept.js'
import {
  compareTables,
  describeElsewhere,
  findSchemas,
  MISSING_INDEX,
  type SchemaDifferences,
} from '../../guard/store/schema.js'
import { MIGRATIONS_DIRECTORY } from '../../package-directory.js'
import { openProvider } from '../../root-keys/open-provider.js'
import * as queries from '../store/database-settings.js'
import { listUnspread } from '../store/distribute.js'
import { isVacuumed, MAY_NOT_VACUUM, mayVacuum } from '../store/erasure.js'
import { examineNewDirectory } from './examine-files.js'
import { failWithoutDatabase } from './fail.js'
import { type Found, type Result, someOf, warn, wrong } from './output.js'

/** In milliseconds. A clock this far from the database's, or behind the log, makes expiries and policies wrong. */
const CLOCK_TOLERANCE_MS = 60_000
const CHANGED_PAGE = 'The page "When tables or sessions were changed" says more'

/** Opens the database beside a running server. If there is none, examines where it will be, and finds no store. */
export async function examineDatabase(config: Config): Promise<Result<Store>> {
  try {
    const store = await openStore(config, { beside: true, mayCreate: false, onFailure: failWithoutDatabase })
    return { found: store, detail: `${store.description}${await describeEncryption(store, config)}` }
  } catch (error) {
    if (!(error instanceof NoDatabaseError)) throw error
    await examineNewDirectory(config.dataDir)
    if (config.rootKey) await openProvider(config.rootKey)
    return warn(
      `EAAS_DATABASE_URL is not set, and there is no database in ${config.dataDir} yet: eaas start would create one there`,
    )
  }
}

// The pooler's connection to PostgreSQL says nothing about our connection to the pooler.
async function describeEncryption({ sql, isPooled }: Store, { databaseUrl }: Config): Promise<string> {
  if (databaseUrl === undefined || isPooled) return ''
  const version = await queries.findEncryption(sql)
  if (version === undefined) return '; the connection is not encrypted'
  const isVerified = readDatabaseUrl(databaseUrl)?.isVerified
  return `; the connection is encrypted (${version}), and the certificate ${isVerified ? 'verified' : 'not verified, as sslmode=verify-full would'}`
}

/** Finds `current` if the schema is the one that this version needs. @throws SchemaVersionError */
export async function examineSchema({ sql, isEmbedded }: Store): Promise<Result<'current'>> {
  const { version, newest } = await compareSchemas(sql, MIGRATIONS_DIRECTORY)
  if (version === newest) return { found: 'current', detail: `version ${version}` }
  const elsewhere = version > 0 || isEmbedded ? undefined : describeElsewhere(await findSchemas(sql))
  if (elsewhere !== undefined) return wrong(elsewhere)
  if (!(await queries.mayCreateTables(sql))) {
    return wrong(
      `version ${version}, and this role may not migrate it to ${newest}: run eaas migrate as the owner of the tables`,
    )
  }
  const detail = `version ${version}; the next start migrates it to ${newest}`
  if (version === 0) return { detail }
  return warn(
    `${detail}. The tables could not be compared with what the migrations make. Unless an older version of eaas was the last to serve here, somebody changed schema_version`,
  )
}

/** Lines about objects that hold or describe rows. In any schema, these execute only the expressions in them. */
const PASSIVE = /^(?:table|column|constraint|CREATE) /
/** A call in an expression that names a schema, and so not a function of PostgreSQL's own. */
const FOREIGN_CALL = /[\w"]\.[\w"]+\(|OPERATOR\(/

/** Not ok if this role is a superuser, who would execute additions by reading or writing rows. */
export async function findDifferences({ sql }: Store): Promise<Found<SchemaDifferences> | Result> {
  const differences = await compareTables(sql, MIGRATIONS_DIRECTORY)
  const isHazard = (line: string) => !PASSIVE.test(line) || FOREIGN_CALL.test(line)
  if (!differences.added.some(isHazard) || !(await queries.isSuperuser(sql))) return { found: differences }
  const { detail } = examineTables(differences)
  return wrong(
    `${detail}. Nothing else was examined: this role is a superuser, which would execute what was added. Connect as another role`,
  )
}

/** The tables must be of this version. */
export function examineTables(differences: SchemaDifferences, accepted?: AcceptedSchema): Result {
  const { missing, added, refusing, harmless, beside, settings } = differences
  const harm = harmless.length === 0 ? '' : `. Without harm: ${harmless.join('; ')}`
  const named = [...describeDifferences(differences), ...settings].join('; ')
  if (missing.length + added.length > 0 && !accepted) {
    const detail = `the owner of the tables changed them: ${named}. Verify every log (eaas audit verify --all), then undo the changes as that owner, or accept your own: eaas accept schema --reason TEXT`
    return wrong(`${detail}. ${CHANGED_PAGE}${harm}`)
  }
  if (settings.length > 0) {
    const detail = `somebody changed how sessions here read statements and rows: ${settings.join('; ')}. Then verify every log (eaas audit verify --all)`
    return wrong(`${detail}${harm}`)
  }
  if (refusing.length > 0 && !accepted) {
    return wrong(
      `the owner of the tables added something that can refuse writes, but changes no answer and no entry: ${named}. Drop it, or accept it on record: ` +
        `eaas accept schema --reason …${harm}`,
    )
  }
  const same = accepted
    ? `accepted by ${accepted.actor} on ${accepted.created_at}, entry ${accepted.entry_id} of the installation's log (${accepted.reason}): ${named}`
    : harmless.length > 0
      ? 'as the migrations make them'
      : 'as the migrations make them, and nothing else acts on them'
  if (harmless.some((line) => line.startsWith(MISSING_INDEX)) && beside.length === 0)
    return warn(`${same}${harm}. Create the dropped indexes again as the owner of the tables`)
  if (beside.length === 0) return { detail: `${same}${harm}` }
  return warn(
    `${accepted ? same : 'as the migrations make them'}${harm}. Find out who made these and what for: ${beside.join('; ')}`,
  )
}

export function describeDifferences(differences: Pick<SchemaDifferences, 'missing' | 'added' | 'refusing'>): string[] {
  const { missing, added, refusing } = differences
  const altered = new Map(
    missing.flatMap((line) => {
      const now = [...added, ...refusing].find((other) => subjectOf(other) === subjectOf(line))
      return now === undefined ? [] : [[line, now] as const]
    }),
  )
  const isLeft = (line: string) => ![...altered.values()].includes(line)
  return [
    ...missing.map((line) => (altered.has(line) ? `altered: ${line}, now: ${altered.get(line)}` : `missing: ${line}`)),
    ...added.filter(isLeft).map((line) => `not made by eaas: ${line}`),
    ...refusing.filter(isLeft).map((line) => `not made by eaas, can refuse writes: ${line}`),
  ]
}

const SUBJECT =
  /^(?:table|view|partitioned table|foreign table|relation of kind \S+) (\S+)|^CREATE (?:UNIQUE )?INDEX (\S+)/

function subjectOf(line: string): string {
  const [, relation, index] = SUBJECT.exec(line) ?? []
  if (relation !== undefined) return `relation ${relation}`
  return index === undefined ? line.split(' ', 2).join(' ') : `index ${index}`
}

/** A server whose search path leads to another schema is healthy, but does not see the rows written here. */
export async function examineOtherSchemas(sql: Sql): Promise<Result> {
  const { own, others } = await findSchemas(sql)
  const works = own === null ? "this role's search path leads to no schema" : `works on the schema ${own}`
  if (others.length === 0) return { detail: `${works}; no other one of this database has tables of eaas` }
  return warn(
    `${works}, and other schemas of this database have tables of eaas too: ${someOf(others)}. Unless each belongs to an installation of its own, ` +
      'somebody copied the tables. Run eaas doctor with the settings of every server of this installation: each must name the same schema. ' +
      CHANGED_PAGE,
  )
}

/** Behind a pooler, the server limits only transactions; other statements have the limits of the role. */
export async function examineLimits(sql: Sql): Promise<Result<unknown>> {
  const missing = await queries.findMissingLimits(sql)
  if (missing.length === 0) return { detail: 'found one; the role has time limits for its statements' }
  return warn(
    `found one, but the role has no ${missing.join(', ')}: alter role … set … = '5s', and lock_timeout = '4s'`,
  )
}

/** Tries a write, and finds out whether a commit would wait for a missing standby. */
export async function examineWrites({ sql }: Store): Promise<Result> {
  const obstacle = await findWriteObstacle(sql)
  if (obstacle) return wrong(obstacle.detail)
  await queries.tryWrite(sql)
  const standby = await queries.findMissingStandby(sql) // a rollback does not wait for a standby
  if (standby === undefined) return { detail: 'a test write succeeded and was rolled back' }
  return wrong(
    `commits wait for a synchronous standby (${standby}), and none is connected: start it, or change synchronous_standby_names`,
  )
}

/** Whether the role has the rights of a server, may purge if servers do, and may change entries, which none needs. */
export async function examineRights({ sql }: Store, { auditRetentionMonths }: Config): Promise<Result> {
  const rights = await findMissingRights(sql)
  if (rights.missing.length > 0) return wrong(describeMissingRights(rights))
  const { role, may_change, may_delete } = await queries.findEntryRights(sql)
  if (may_change) {
    return warn(
      'this role may change audit entries, as their owner may: verification finds such a change but cannot prevent it. Run eaas migrate ' +
        '--role ROLE as the owner, and have servers connect as that role',
    )
  }
  if (auditRetentionMonths === 0 || may_delete) return { detail: 'this role may not change audit entries' }
  return warn(
    `this role may not change audit entries, but may not delete them either, and EAAS_AUDIT_RETENTION_MONTHS is ${auditRetentionMonths}, so ` +
      `every purge fails. Run eaas migrate --role ${role} as the owner, or set it to 0 and have the owner run eaas purge`,
  )
}

export async function examineErasure(sql: Sql): Promise<Result> {
  if (await mayVacuum(sql)) return { detail: 'this role may vacuum the tables of keys after a destruction' }
  if (!(await isVacuumed(sql))) return warn(MAY_NOT_VACUUM)
  return {
    detail:
      'this role may not vacuum the tables of keys, but they were vacuumed, and have had no earlier versions of rows since, as PostgreSQL counts',
  }
}

/** Whether all tables of a database that spans machines are spread; names what is not examined there. */
export async function examineMachines({ sql }: Store): Promise<Result> {
  const left = await listUnspread(sql)
  if (left.length > 0) {
    return wrong(`not all tables are spread: ${left.join(', ')}. Stop the servers and run eaas migrate --distribute`)
  }
  return warn(
    'the tables are spread over machines. Of the others than this one nothing is examined: neither durability, nor triggers on shards, nor what a vacuum left',
  )
}

export function examineDurability({ durability, isEmbedded }: Store): Result {
  if (durability === 'synchronous') return { detail: 'a commit is on disk when it is acknowledged' }
  if (durability === undefined) {
    return warn(
      'not known here: the server that holds the database does not say. Its /health shows `durability`, or restart it with this version',
    )
  }
  const remedy = isEmbedded
    ? 'use PostgreSQL if a power cut must not lose entries'
    : 'set fsync, full_page_writes and synchronous_commit to on'
  return wrong(`a power cut can lose acknowledged audit entries: ${remedy}`)
}

export async function examineClock({ sql, isEmbedded }: Store) {
  const asked = Date.now()
  const { database_now, newest_entry, ahead } = await queries.findClock(
    sql,
    new Date(asked + CLOCK_TOLERANCE_MS).toISOString(),
  )
  const apart = Date.now() - Date.parse(database_now)
  if (Math.abs(apart) > CLOCK_TOLERANCE_MS) {
    return wrong(
      `this machine's clock and the database's are ${Math.round(apart / 1_000)} s apart: run NTP on both. Nothing is written while they are over EAAS_MAX_CLOCK_SKEW_SECONDS apart`,
    )
  }
  if (ahead.length > 0) {
    return wrong(
      `the newest audit entry is of ${newest_entry}, in the future (${someOf(ahead)}). If this clock is wrong, correct it. If it is right, a wrong ` +
        `clock wrote that entry: times in a log never go back, so until it has passed new entries are ${isEmbedded ? 'refused' : 'dated then'}, unless you accept ` +
        'that the clock was wrong: eaas accept clock',
    )
  }
  return { detail: `agrees with the database's; newest audit entry: ${newest_entry ?? 'none'}` }
}
