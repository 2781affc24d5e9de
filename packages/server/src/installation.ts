/**
 * An installation: one database and the root key that belongs to it. Opening it connects, checks the root key
 * before anything is written, migrates, and creates the services that operations use.
 */

import { INSTALLATION_ID, OpenError, SYSTEM_ACTOR, type UnrecordedKind } from '@eaas/protocol'
import { expireApiKey } from './core/api/api-keys.js'
import { type Clock, createClock } from './core/audit/append/clock.js'
import { type Commit, createCommitter } from './core/audit/append/committer.js'
import { followAuditKey, openAuditKey, readAuditKeys } from './core/audit/audit-key.js'
import type { AuditKey } from './core/audit/formats/chain.js'
import type { ThreadDatabase, Verifier } from './core/audit/verification-thread.js'
import { verifyLog } from './core/audit/verify/verify.js'
import type { Config, RootKeySetting } from './core/config.js'
import { type StoreKeys, sealNewSecret, UnknownStoreKeyError } from './core/crypto/key-hierarchy.js'
import {
  embeddedRootKeyPath,
  NEEDED_KEY,
  RefusedPinError,
  RootKeyError,
  type RootKeyProvider,
} from './core/crypto/root-key.js'
import { createBudgetCounts } from './core/runner/budgets.js'
import { followInstallation, InstallationKey } from './core/runner/installation-key.js'
import { createApiKeyUses, createUnrecordedCalls } from './core/runner/noted-calls.js'
import type { Services } from './core/runner/operation.js'
import { Peppers } from './core/runner/peppers.js'
import { createSharedVerifications } from './core/runner/shared-verification.js'
import { makeStoreKey, openStoreKeys, refreshStoreKeys } from './core/runner/store-keys.js'
import { createTenantStates } from './core/runner/tenant-state.js'
import { createCallHoldings, createReadGate, createSearchPlaces, createWorkGate } from './core/runner/work-gate.js'
import type { Queryable, Sql } from './core/store/db.js'
import { withDeadline, withDeadlines } from './core/store/deadline.js'
import { findInstallationKey, findInstance, type InstanceRow, insertInstance } from './core/store/instance.js'
import { type Complete, compareSchemas, findSchemaVersion, migrate } from './core/store/migrations.js'
import { NoDatabaseError, openStore, type Store } from './core/store/open-store.js'
import { describeElsewhere, findSchemas } from './core/store/search-path.js'
import { type Durability, findDatabaseTime } from './core/store/settings.js'
import { insertStoreKey, refuseStoreKeysAfter } from './core/store/store-keys.js'
import { findMissingTenants, hasTenants } from './core/store/tenants.js'
import { untilReached, type Wait } from './core/store/until-reached.js'
import { assertWhole } from './core/store/whole-tables.js'
import { alarmMessage } from './guard/alarm-texts.js'
import { beginInstallationLog, recordMigration } from './guard/installation-log.js'
import { createSessionWatch } from './guard/store/session-watch.js'
import { compareWithAnchor } from './guard/watch/anchor-watch.js'
import type { KeysOfHeads } from './guard/watch/follow.js'
import { holdsCheckpoints, type LineFault, readKeptFile } from './guard/watch/kept-witnesses.js'
import { createSharedAlarms, type SharedAlarms } from './guard/watch/shared-alarms.js'
import { MIGRATIONS_DIRECTORY } from './migrations-directory.js'
import { createErasure, type Erase } from './operate/store/erasure.js'
import { openEmbeddedProvider, openProvider } from './root-keys/open-provider.js'
import { ASK, listShareFiles } from './root-keys/shares.js'
import { VERSION } from './version.js'

/** The warning about a tenant that the checkpoint file names and the database lacks. */
export const MISSING_TENANT =
  'the checkpoint file names a tenant that is not in the database: a backup from before its creation was restored, or the database was ' +
  'tampered with. The tenant and its keys are lost unless a newer backup is restored'

const ACCEPTED_ROW =
  'an alarm that an operator had accepted was in the database again, and its row is deleted: unless a server wrote it at that moment, somebody ' +
  'put it back'

const STALE_LOGIN = 'the database is logged in to as before, because the file of EAAS_DATABASE_URL_FILE cannot be used'

export interface Installation {
  services: Services
  /** call its `compare` about once a second */
  sharedAlarms: SharedAlarms
  /**
   * Compares every tenant's log with the newest anchor, as opening the installation did; returns the errors of single
   * tenants.
   */
  compareAnchored(): Promise<unknown[]>
  /** Reads the store keys that a rotation made or removed, and the secrets that it replaced. @throws RootKeyError */
  refreshStoreKeys(): Promise<void>
  /**
   * Returns the kind of the root key's provider, and whether its last call failed; `none` if this process held the key.
   */
  describeRootKey(): string
  /** Removes from the database's files what destroyed keys left there. */
  eraseDestroyed: Erase
  /** the durability when it was opened */
  durability: Store['durability']
  /** Reads the durability in force from the database. */
  findDurability(): Promise<Durability>
  /**
   * Commits a write that changes nothing; ends when the database acknowledges it, however long that takes.
   */
  probeCommit(): Promise<void>
  /** where the database is, for messages; without credentials */
  database: string
  /** Commits the entries that wait and closes the database; further calls do nothing. */
  close(): Promise<void>
}

export interface OpenOptions {
  config: Config
  /** called when a tenant's chain in the database is not the one that was written */
  onAlarm: (message: string, details: Record<string, unknown>) => void
  /** called when the clock is found to be wrong, at most once a minute; a command reports it in its error instead */
  onWrongClock?: ((message: string) => void) | undefined
  /** called with a problem that the operator should know about, but that does not prevent serving */
  onWarning?: (message: string, details: Record<string, unknown>) => void
  /**
   * called with lines of the checkpoint file that are not as a server wrote them; without it they are not
   * searched for
   */
  onKeptFaults?: (faults: readonly LineFault[]) => void
  /** use an embedded database that a server holds, through that server's socket; otherwise refused */
  beside?: boolean
  /** the folder of the migrations; the package's own by default */
  migrations?: URL
  /** called now and then while a migration waits for locks that others hold; the message says who */
  onMigrationLocked?: (message: string) => void
  /** create an installation if there is none; true by default */
  mayCreate?: boolean
  /** how long to wait for a database that cannot be reached; by default not at all */
  wait?: Wait
  /** called when the open embedded database fails, after which it serves nothing; by default the process ends */
  onDatabaseFailure?: (error: Error) => void
  now?: () => number
  /** the time of the database's clock, in milliseconds since 1970; by default it is read from the database */
  databaseNow?: (() => Promise<number>) | undefined
  /** called with each batch of audit entries after its commit */
  observeCommit?: (commit: Commit) => void
  /** called with each call that is counted instead of recorded */
  observeUnrecorded?: (kind: UnrecordedKind, calls: number) => void
  /**
   * opens the verifier of logs on PostgreSQL; by default this thread verifies, as it always does on the embedded
   * database, whose queries it runs anyway
   */
  openVerifier?: ((database: ThreadDatabase) => Verifier) | undefined
  /** the actor where there is no API key; by default the server itself */
  actor?: string
}

/**
 * Opens an installation.
 *
 * @throws NoDatabaseError, UnreachableDatabaseError, DatabaseEncodingError, RootKeyError,
 * DataDirectoryInUseError, ForeignDataDirectoryError, UnusableDataDirectoryError, SchemaVersionError,
 * LockedTablesError, or the database's own error
 */
export async function openInstallation(options: OpenOptions): Promise<Installation> {
  const { config, wait } = options
  const fromEnvironment = config.rootKey && (await openProvider(config.rootKey))
  const open = () => openOnce(options, fromEnvironment)
  // The database may go away, or run out of connections, at any statement of the opening; each of them can be repeated.
  return config.databaseUrl === undefined ? open() : untilReached(open, config, wait)
}

async function openOnce(
  {
    config,
    onAlarm,
    onWrongClock,
    onWarning,
    onKeptFaults,
    beside = false,
    mayCreate = true,
    wait,
    onDatabaseFailure,
    now = Date.now,
    databaseNow,
    observeCommit,
    observeUnrecorded,
    openVerifier,
    actor = SYSTEM_ACTOR,
    migrations = MIGRATIONS_DIRECTORY,
    onMigrationLocked,
  }: OpenOptions,
  fromEnvironment: RootKeyProvider | undefined,
): Promise<Installation> {
  const onStaleLogin = (error: Error) => onWarning?.(STALE_LOGIN, { reason: error.message })
  const serves = wait !== undefined
  const store = await openStore(config, { beside, mayCreate, serves, onFailure: onDatabaseFailure, onStaleLogin })
  try {
    const sql = withDeadlines(store.sql) // the states and the committer set their own
    const assertSessions = createSessionWatch({ sql, isEmbedded: store.isEmbedded })
    await assertSessions() // before any table is read: its policies may execute what changes a session
    const isNew = (await findOwnInstance(store.sql)) === undefined
    if (isNew && !mayCreate) {
      const elsewhere = store.isEmbedded ? undefined : describeElsewhere(await findSchemas(sql))
      if (elsewhere !== undefined) throw new NoDatabaseError(`There is no installation in this schema: ${elsewhere}`)
      throw new NoDatabaseError(
        `There is no installation yet in this database (${store.description}). Create it: eaas start. If that has just begun, wait until it listens`,
      )
    }
    if (isNew && config.checkpointFile !== undefined) await assertUnused(sql, config.checkpointFile)
    const provider = await findProvider(store, config, { fromEnvironment, mayCreate: isNew })
    const clock = createClock({
      now,
      toleranceMs: config.maxClockSkewMs,
      isDatabaseLocal: store.isEmbedded,
      onWrong: onWrongClock,
    })
    const { storeKeys, ...secrets } = await unlock(store.sql, provider, {
      clock,
      actor,
      migrations,
      onLocked: onMigrationLocked,
    })
    // A view hides rows without an error, so the first calls would be answered by what it shows.
    if (serves) await assertWhole(sql)
    const states = createTenantStates({ sql: store.sql, storeKeys })
    const committer = createCommitter({
      sql: store.sql,
      clock,
      tenantsPerStatement: config.tenantsPerAppend,
      onAlarm: (tenant_id, reason) => onAlarm(alarmMessage(tenant_id), { tenant_id, reason }),
      observe: observeCommit,
    })
    if (config.checkpointFile !== undefined) {
      const options = {
        isThorough: onKeptFaults !== undefined,
        findAuditKeys: (tenants: readonly string[]) => readAuditKeys(sql, storeKeys, tenants),
      }
      const kept = await readKeptFile(config.checkpointFile, secrets.signingKey.publicKeys, options)
      if (kept.faults.length > 0) onKeptFaults?.(kept.faults)
      for (const [tenant_id, witness] of kept.witnesses) committer.watches.get(tenant_id).held.remember(witness)
      for (const other of kept.others) committer.watches.get(other.tenant_id).held.remember(other)
      for (const tenant_id of await findMissingTenants(sql, [...kept.witnesses.keys()])) {
        const line = kept.witnesses.get(tenant_id)?.line
        onWarning?.(MISSING_TENANT, { tenant_id, file: config.checkpointFile, line })
      }
    }
    const { installationKey } = secrets
    const findAuditKey = async (tenant_id: string) => {
      const auditKey = (await states.find(tenant_id))?.auditKey
      if (auditKey) await followAuditKey(sql, auditKey)
      return auditKey
    }
    const openKey: KeysOfHeads['openKey'] = (row) => openAuditKey(storeKeys, row)
    const sharedAlarms = createSharedAlarms({
      sql,
      watches: committer.watches,
      assertSessions,
      installationKey,
      findAuditKey,
      openKey,
      isGone: async (tenant_id) => {
        const isGone = (await findMissingTenants(sql, [tenant_id])).length > 0
        if (isGone) states.forget(tenant_id)
        return isGone
      },
      onGoneAccepted: (tenant_id) =>
        onWarning?.('an operator accepted that a tenant is gone from the database; its alarm is cleared', {
          tenant_id,
        }),
      onAcceptedRow: (tenant_id) => onWarning?.(ACCEPTED_ROW, { tenant_id }),
      now: clock.now,
    })
    const { databaseUrl: url, databaseUrlFile: urlFile } = config
    const verifier =
      url === undefined
        ? undefined
        : openVerifier?.({ url, urlFile, isPooled: store.isPooled, searchPath: store.searchPath })
    const verifyHere: Verifier['verify'] = (options) => verifyLog(sql, options)
    const compareAnchored = () =>
      compareWithAnchor({ sql, watches: committer.watches, installationKey, findAuditKey, openKey })
    await compareAnchored()
    await sharedAlarms.compare() // an error of one tenant occurs again when that tenant is used
    let closing: Promise<void> | undefined
    const services: Services = {
      sql,
      storeKeys,
      ...secrets,
      actor,
      states,
      committer,
      apiKeyUses: createApiKeyUses(sql, clock.now),
      unrecordedCalls: createUnrecordedCalls(sql, observeUnrecorded),
      budgetCounts: createBudgetCounts(sql),
      gate: createWorkGate(),
      readGate: createReadGate(),
      inSearchPlace: createSearchPlaces(),
      shareVerification: createSharedVerifications(),
      hold: createCallHoldings(),
      verifyLog: (options) => (verifier?.verify ?? verifyHere)({ ...options, storeKeys }),
      now: clock.now,
      databaseNow: databaseNow ?? ((on = sql) => findDatabaseTime(on)),
      destroyWindowDays: config.destroyWindowDays,
      rotateAfterWraps: config.rotateAfterWraps,
      spentVersions: new Set(),
      expireApiKey,
    }
    return {
      services,
      sharedAlarms,
      compareAnchored,
      ...watchStoreKeys(sql, { storeKeys, ...secrets }, config),
      eraseDestroyed: createErasure(store),
      durability: store.durability,
      findDurability: store.findDurability,
      probeCommit: store.probeCommit,
      database: store.description,
      close() {
        closing ??= Promise.all([committer.drain(), verifier?.close()]).then(() => store.close())
        return closing
      },
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

/**
 * Refuses a checkpoint file that has been used if the database has no installation: the database was emptied, or the
 * settings name another one.
 *
 * @throws NoDatabaseError, HiddenRowsError
 */
export async function assertUnused(sql: Queryable, checkpointFile: string): Promise<void> {
  if (!(await holdsCheckpoints(checkpointFile))) return
  await assertWhole(sql)
  throw new NoDatabaseError(
    `There is no installation in this database, but ${checkpointFile} (EAAS_CHECKPOINT_FILE) holds checkpoints of one: somebody emptied the ` +
      'database, or this is another one, or another schema of it. Connect to the right one, or restore a backup. For a new installation, name another file.',
  )
}

/**
 * The installation's row; undefined in a new database. @throws RootKeyError if the database holds tenants but
 * not the row
 */
export async function findOwnInstance(sql: Sql): Promise<InstanceRow | undefined> {
  // In this order, because another process that creates both creates the row first.
  const isUsed = (await findSchemaVersion(sql)) > 0 && (await hasTenants(sql))
  const row = await findInstance(sql)
  if (isUsed && !row) {
    await assertWhole(sql)
    throw new RootKeyError(
      'The database has tenants, but lacks the row that its root key is checked against. Restore a backup.',
    )
  }
  return row
}

/** Lists the files with secrets that the root key's settings name, including shares and tokens. */
export function rootKeyFiles({ rootKey, databaseUrl, dataDir }: Config): string[] {
  if (!rootKey) return databaseUrl === undefined ? [embeddedRootKeyPath(dataDir)] : []
  const { kind, value, login } = rootKey
  if (kind === 'file') return [value]
  if (kind === 'shares') return value === ASK ? [] : listShareFiles(value)
  return kind === 'transit' ? [login.tokenFile, login.appRoleFile].filter((file) => file !== undefined) : []
}

/**
 * Finds what wraps the store keys of an opened store: the provider in the settings, or the embedded database's own root
 * key.
 * @throws RootKeyError
 */
export async function findProvider(
  { isEmbedded }: Pick<Store, 'isEmbedded'>,
  config: Config,
  { fromEnvironment, mayCreate }: { fromEnvironment: RootKeyProvider | undefined; mayCreate: boolean },
): Promise<RootKeyProvider> {
  if (fromEnvironment) return fromEnvironment
  if (!isEmbedded) {
    throw new RootKeyError(
      `${config.databaseUrlFile === undefined ? 'EAAS_DATABASE_URL' : 'EAAS_DATABASE_URL_FILE'} is set, and no variable says where the root key is. ${NEEDED_KEY}`,
    )
  }
  return openEmbeddedProvider(config.dataDir, { mayCreate })
}

/**
 * How long to wait, in milliseconds, after the root key could not be used. After a refused PIN, this process never
 * tries again: an HSM locks itself after a few tries.
 */
const ASK_AGAIN_MS = 5_000

// Opens the root key again from its settings: it may have been rotated since the start, into the same file.
function watchStoreKeys(
  sql: Sql,
  { storeKeys, ...secrets }: Pick<Services, 'storeKeys' | 'signingKey' | 'peppers' | 'installationKey'>,
  config: Config,
): Pick<Installation, 'refreshStoreKeys' | 'describeRootKey'> {
  const kind = config.rootKey?.kind ?? 'file'
  const isRemote = kind === 'exec' || kind === 'transit' || kind === 'aws-kms'
  let failedAt = Number.NEGATIVE_INFINITY
  let refusedPin: RefusedPinError | undefined
  return {
    async refreshStoreKeys() {
      if (performance.now() - failedAt < ASK_AGAIN_MS) return
      try {
        await refreshStoreKeys(sql, storeKeys, async () => {
          if (refusedPin) throw refusedPin // a device locks itself after a few wrong ones
          return providerOf(config)
        })
        await followInstallation({ sql, storeKeys, ...secrets })
        failedAt = Number.NEGATIVE_INFINITY
      } catch (error) {
        if (error instanceof RootKeyError) {
          failedAt = performance.now()
          if (error instanceof RefusedPinError) refusedPin = error
          // Otherwise the rotation would seal secrets that this server cannot open, for example after a rotation of its
          // root key.
          await refuseStoreKeysAfter(sql, Math.max(...storeKeys.keys.keys()))
        }
        throw error
      }
    },
    describeRootKey() {
      if (!isRemote) return 'none'
      return failedAt === Number.NEGATIVE_INFINITY && !refusedPin ? kind : `${kind} failing`
    },
  }
}

/** Returns the setting of the root key; the embedded database's own root key counts as a file. */
export function rootKeySettingOf({ rootKey, transitLogin, dataDir }: Config): RootKeySetting {
  return rootKey ?? { kind: 'file', value: embeddedRootKeyPath(dataDir), login: transitLogin }
}

/** Finds what wraps the store keys, from the configuration alone. @throws RootKeyError */
export async function providerOf(config: Config): Promise<RootKeyProvider> {
  const fromEnvironment = config.rootKey && (await openProvider(config.rootKey))
  return findProvider({ isEmbedded: config.databaseUrl === undefined }, config, { fromEnvironment, mayCreate: false })
}

/** The secrets of the whole installation. */
export interface InstallationSecrets {
  peppers: Peppers
  signingKey: InstallationKey
}

interface Opening {
  clock: Clock
  actor: string
  migrations: URL
  onLocked: ((message: string) => void) | undefined
}

interface Unlocked extends InstallationSecrets {
  storeKeys: StoreKeys
  installationKey: AuditKey
}

// The secrets are sealed under the root key of this database: opening them first keeps a server with a wrong
// key from writing.
async function unlock(sql: Sql, provider: RootKeyProvider, opening: Opening): Promise<Unlocked> {
  const known = await findInstance(sql)
  if (known) await migrateUnlocked(sql, provider, { known, ...opening })
  else await create(sql, provider, opening)
  const instance = await findInstance(sql)
  if (!instance) throw new Error('the row of the installation could not be read back')
  const storeKeys = await openStoreKeys(sql, provider)
  return {
    storeKeys,
    signingKey: await openSigningKey(sql, storeKeys, instance),
    peppers: await Peppers.open(sql, storeKeys),
    installationKey: await openInstallationKey(sql, storeKeys),
  }
}

async function migrateUnlocked(
  sql: Sql,
  provider: RootKeyProvider,
  { known, clock, actor, migrations, onLocked }: Opening & { known: InstanceRow },
): Promise<void> {
  await compareSchemas(sql, migrations) // before secrets are read, which earlier schemas keep elsewhere
  await openSigningKey(sql, await openStoreKeys(sql, provider), known)
  const complete: Complete = async (transaction, { from, to }) => {
    const auditKey = await openInstallationKey(transaction, await openStoreKeys(transaction, provider))
    const note = { action: 'installation.migrate', metadata: { from, to, version: VERSION } } as const
    await recordMigration(transaction, { auditKey, clock, actor, note })
  }
  await migrate(sql, migrations, { complete, onLocked })
}

async function create(sql: Sql, provider: RootKeyProvider, { clock, actor, migrations }: Opening): Promise<void> {
  await migrate(sql, migrations)
  const { keys, row: first } = await makeStoreKey(provider, 1)
  const row = {
    wrapped_pepper: sealNewSecret(keys, { purpose: 'api-key-pepper' }),
    wrapped_signing_key: sealNewSecret(keys, { purpose: 'signing-key' }),
    created_at: new Date(clock.now()).toISOString(),
  }
  await withDeadline(
    sql.begin(async (transaction) => {
      if (!(await insertStoreKey(transaction, first))) return // another process creates the installation
      if (!(await insertInstance(transaction, row)))
        throw new Error('an installation without store keys exists already')
      await beginInstallationLog(transaction, { storeKeys: keys, clock, actor, version: VERSION })
    }),
  )
}

/** Opens the key of the installation's own log. @throws RootKeyError if the key was removed from the database */
export async function openInstallationKey(sql: Queryable, storeKeys: StoreKeys): Promise<AuditKey> {
  const wrapped_audit_key = await findInstallationKey(sql)
  if (!wrapped_audit_key) {
    await assertWhole(sql)
    throw new RootKeyError("The key of the installation's own log is missing from the database. Restore a backup.")
  }
  return openAuditKey(storeKeys, { tenant_id: INSTALLATION_ID, wrapped_audit_key })
}

/** Opens the installation's signing key, which only the store keys of this database open. @throws RootKeyError */
export async function openSigningKey(
  sql: Queryable,
  storeKeys: StoreKeys,
  instance: InstanceRow,
): Promise<InstallationKey> {
  try {
    return await InstallationKey.open(sql, storeKeys, instance)
  } catch (error) {
    if (!(error instanceof OpenError) && !(error instanceof UnknownStoreKeyError)) throw error
    throw new RootKeyError(
      'The secrets of the installation do not open under its store keys: somebody changed the database. Restore a backup.',
    )
  }
}

/**
 * Checks that the root key opens the secrets of the installation in a database, of any schema that is served or
 * migrated. @throws RootKeyError if there is no installation, or the root key is not its own
 */
export async function assertOpens(sql: Queryable, provider: RootKeyProvider): Promise<void> {
  const known = await findInstance(sql)
  if (!known) throw new RootKeyError('There is no installation whose secrets could be opened.')
  await openSigningKey(sql, await openStoreKeys(sql, provider), known)
}
