// An installation: one database and its root key, which is checked before anything is written.
import { SYSTEM_ACTOR, type UnrecordedKind } from '@eaas/protocol'
import { expireApiKey } from './core/api/api-keys.js'
import { type Clock, createClock } from './core/audit/append/clock.js'
import { type Commit, createCommitter } from './core/audit/append/committer.js'
import type { Witness } from './core/audit/formats/chain.js'
import type { ThreadDatabase, Verifier } from './core/audit/verify/verify.js'
import { verifyLog } from './core/audit/verify/verify.js'
import type { Config } from './core/config.js'
import type { BlindHashResult, BlindHashTask } from './core/crypto/blind-hash.js'
import type { RootKeyProvider } from './core/crypto/key-hierarchy.js'
import { type DatabaseSetting, nameSetting } from './core/database-url.js'
import { createTaskThread, type TaskThread } from './core/event-loop.js'
import { createBlindHashing, type RunBlindHash } from './core/runner/blind-hashing.js'
import { createTakeUses } from './core/runner/budgets.js'
import { createApiKeyUses, createUnrecordedCalls } from './core/runner/noted-calls.js'
import type { Services } from './core/runner/operation.js'
import { createSharedVerifications } from './core/runner/shared-verification.js'
import { createTenantStates } from './core/runner/tenant-state.js'
import { createCallHoldings, createPatientGate, createSearchPlaces, createWorkGate } from './core/runner/work-gate.js'
import type { Queryable, Sql } from './core/store/db.js'
import { withDeadlines } from './core/store/deadline.js'
import { NoDatabaseError, openStore, type Store } from './core/store/open-store.js'
import { assertWhole } from './core/store/tampered-row.js'
import { untilReached, type Wait } from './core/store/unreachable.js'
import { findDatabaseTime } from './core/store/writability.js'
import { isGoneAccepted } from './guard/named-entries.js'
import { findCovering, proveKeys } from './guard/operations/covering-anchor.js'
import { describeElsewhere, findSchemas } from './guard/store/schema.js'
import { createSessionWatch } from './guard/store/session-watch.js'
import { HeadWatches } from './guard/watch/head-watch.js'
import { findAnchored } from './guard/watch/newest-anchor.js'
import { alarmMessage } from './guard/watch/shared-alarms.js'
import {
  assertUnused,
  type ComparisonOptions,
  type Comparisons,
  createComparisons,
  rememberKept,
} from './installation-comparisons.js'
import { findOwnInstance, type InstallationSecrets, unlock, watchStoreKeys } from './installation-secrets.js'
import { createErasure, type Erase } from './operate/store/erasure.js'
import { MIGRATIONS_DIRECTORY } from './package-directory.js'
import { openOwnKey, openProvider } from './root-keys/open-provider.js'

const READS_AT_ONCE = 4 // pages of the log

export interface Installation
  extends ReturnType<typeof watchStoreKeys>,
    Comparisons,
    Pick<Store, 'durability' | 'findDurability'> {
  services: Services
  eraseDestroyed: Erase // removes from the database's files what destroyed keys left there
  database: string // describes the database in messages; without credentials
  /** Commits the waiting entries and closes the database; further calls do nothing. */
  close(): Promise<void>
}

type BlindHasher = TaskThread<BlindHashTask, BlindHashResult>

/** Finds the thread's program beside this file in the build. */
export const openBlindHasher = (): BlindHasher =>
  createTaskThread(new URL('./blind-hash-thread-program.js', import.meta.url))

export interface OpenOptions extends ComparisonOptions {
  config: Config
  onAlarm: (message: string, details: Record<string, unknown>) => void
  /** called when the clock is wrong, at most once a minute; commands report it in their errors instead */
  onWrongClock?: ((message: string) => void) | undefined
  beside?: boolean // use an embedded database that a server holds, through that server's socket; by default refuse it
  migrations?: URL // the folder of the migrations; the package's own by default
  /** called now and then while a migration waits for others' locks; `message` names them */
  onMigrationLocked?: (message: string) => void
  /** called before the embedded database is opened or created, after the configured root key was found */
  onOpening?: (() => void) | undefined
  mayCreate?: boolean // create an installation if there is none; true by default
  wait?: Wait // how long to wait for an unreachable database; by default not at all
  /** called when the open embedded database fails and no longer serves; by default the process ends */
  onDatabaseFailure?: (error: Error) => void
  now?: (() => number) | undefined
  databaseNow?: (() => Promise<number>) | undefined // in milliseconds since 1970; by default the database's clock
  observeCommit?: (commit: Commit) => void
  observeUnrecorded?: (kind: UnrecordedKind, calls: number) => void
  /** for PostgreSQL; otherwise this thread verifies, as it runs the queries of the embedded database anyway */
  openVerifier?: ((database: ThreadDatabase) => Verifier) | undefined
  openBlindHasher?: (() => BlindHasher) | undefined
  actor?: string // the actor where there is no API key; by default the server itself
}

/**
 * @throws NoDatabaseError, UnreachableDatabaseError, DatabaseEncodingError, RootKeyError, DataDirectoryInUseError,
 * ForeignDataDirectoryError, UnusableDataDirectoryError, SchemaVersionError, LockedTablesError, or the database's error
 */
export async function openInstallation(options: OpenOptions): Promise<Installation> {
  const { config, wait } = options
  const fromEnvironment = config.rootKey && (await openProvider(config.rootKey))
  const open = () => openOnce(options, fromEnvironment)
  // The database may become unreachable, or run out of connections, at any statement of the opening, which can be repeated.
  return config.databaseUrl === undefined ? open() : untilReached(open, config, wait)
}

async function openOnce(options: OpenOptions, fromEnvironment: RootKeyProvider | undefined): Promise<Installation> {
  const { config, wait, onWarning, beside = false, mayCreate = true, actor = SYSTEM_ACTOR } = options
  const staleLogin = `the database is logged in to as before, because ${nameSetting(config)} cannot be used`
  const onStaleLogin = (error: Error) => onWarning?.(staleLogin, { reason: error.message })
  const serves = wait !== undefined
  const onFailure = options.onDatabaseFailure
  if (config.databaseUrl === undefined) options.onOpening?.()
  const store = await openStore(config, { beside, mayCreate, serves, onFailure, onStaleLogin })
  try {
    const sql = withDeadlines(store.sql) // the states and the committer set their own deadlines
    const assertSessions = createSessionWatch({ sql, isEmbedded: store.isEmbedded })
    await assertSessions() // before any table is read, since policies may execute code that changes a session
    const isNew = (await findOwnInstance(store.sql)) === undefined
    if (isNew && !mayCreate) await failWithoutInstallation(store, sql)
    if (isNew && config.checkpointFile !== undefined) await assertUnused(sql, config.checkpointFile)
    const provider = fromEnvironment ?? (await openOwnKey(config, { mayCreate: isNew }))
    const clock = createClock({
      now: options.now ?? Date.now,
      toleranceMs: config.maxClockSkewMs,
      isDatabaseLocal: store.isEmbedded,
      onWrong: options.onWrongClock,
    })
    const { migrations = MIGRATIONS_DIRECTORY, onMigrationLocked: onLocked } = options
    const secrets = await unlock(store.sql, provider, { clock, actor, migrations, onLocked })
    // A view hides rows without an error, so the first calls would be answered from the view.
    if (serves) await assertWhole(sql)
    const { databaseUrl: url, databaseUrlFile: urlFile, databaseUrlOption: urlOption }: DatabaseSetting = config
    const { isPooled, isSpread, searchPath } = store
    const database = url === undefined ? undefined : { url, urlFile, urlOption, isPooled, isSpread, searchPath }
    const verifier = database && options.openVerifier?.(database)
    const blindHasher = options.openBlindHasher?.()
    const created = createServices({ store, sql, clock, secrets, verifier, blindHasher }, options)
    const services: Services = { ...secrets, ...created, actor }
    if (config.checkpointFile !== undefined) await rememberKept(services, config.checkpointFile, options)
    const comparisons = createComparisons(services, assertSessions, options)
    await comparisons.compareAnchored()
    await comparisons.sharedAlarms.compare() // an error about one tenant recurs when that tenant is used
    const { durability, findDurability } = store
    let closing: Promise<void> | undefined
    return {
      services,
      ...comparisons,
      ...watchStoreKeys(sql, secrets, config),
      eraseDestroyed: createErasure(store),
      durability,
      findDurability,
      database: store.description,
      close() {
        const ending = () => Promise.all([services.committer.drain(), verifier?.close(), blindHasher?.close()])
        closing ??= ending().then(() => store.close())
        return closing
      },
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

async function failWithoutInstallation({ isEmbedded, description }: Store, sql: Sql): Promise<never> {
  const elsewhere = isEmbedded ? undefined : describeElsewhere(await findSchemas(sql))
  if (elsewhere !== undefined) throw new NoDatabaseError(`There is no installation in this schema: ${elsewhere}`)
  throw new NoDatabaseError(
    `There is no installation yet in this database (${description}). Create it: eaas start. If that has just begun, wait until it listens`,
  )
}

interface Opened {
  store: Store
  sql: Sql
  clock: Clock
  secrets: InstallationSecrets
  verifier: Verifier | undefined
  blindHasher: BlindHasher | undefined
}

function createServices(
  { store, sql, clock, secrets: { storeKeys, installationKey }, verifier, blindHasher }: Opened,
  { config, onAlarm, observeCommit, observeUnrecorded, databaseNow }: OpenOptions,
): Omit<Services, keyof InstallationSecrets | 'actor'> {
  const verifyHere: Verifier['verify'] = (options) => verifyLog(sql, options)
  const states = createTenantStates({ sql: store.sql, storeKeys })
  const alarm = (tenant_id: string, reason: string) => onAlarm(alarmMessage(tenant_id), { tenant_id, reason })
  const isGone = async (on: Queryable, tenant_id: string, witness: Witness | undefined) => {
    const isAccepted = await isGoneAccepted(on, { installationKey, tenant_id, witness })
    if (isAccepted) states.forget(tenant_id)
    return isAccepted
  }
  return {
    sql,
    states,
    committer: createCommitter({
      sql: store.sql,
      clock,
      tenantsPerStatement: store.isSpread ? 'one' : config.tenantsPerAppend,
      guard: new HeadWatches(alarm, undefined, isGone),
      observe: observeCommit,
    }),
    apiKeyUses: createApiKeyUses(sql, clock.now),
    unrecordedCalls: createUnrecordedCalls(sql, observeUnrecorded),
    takeUses: createTakeUses(sql),
    gate: createWorkGate(),
    readGate: createPatientGate(READS_AT_ONCE),
    inSearchPlace: createSearchPlaces(),
    shareVerification: createSharedVerifications(),
    blindHashing: createBlindHashing(blindHasher?.run ?? hashHere),
    hold: createCallHoldings(),
    verifyLog: (options) => (verifier?.verify ?? verifyHere)({ ...options, storeKeys }),
    now: clock.now,
    databaseNow: databaseNow ?? ((on = sql) => findDatabaseTime(on)),
    destroyWindowDays: config.destroyWindowDays,
    rotateAfterWraps: config.rotateAfterWraps,
    spentVersions: new Set(),
    expireApiKey,
    findAnchored,
    findCovering,
    proveKeys,
  }
}

// Imported here, so that commands do not load the curve.
const hashHere: RunBlindHash = async (task) => (await import('./core/crypto/blind-hash.js')).runBlindHash(task)
