/**
 * An installation: one database and the root key that belongs to it. Opening it connects, checks the root key before anything
 * is written, migrates, and gives the services that the operations run on.
 */
import type { KeyObject } from 'node:crypto'
import { type ChainWatch, createChainWatch } from './audit/chain-watch.js'
import { encodePublicKey } from './audit/checkpoint.js'
import { createClock } from './audit/clock.js'
import { type Commit, createCommitter } from './audit/committer.js'
import { type LineFault, readKeptFile } from './audit/kept-witnesses.js'
import type { Config } from './config.js'
import { openSecret, sealNewSecret } from './crypto/key-hierarchy.js'
import { embeddedRootKeyPath, RootKeyError, readEmbeddedRootKey, readRootKey } from './crypto/root-key.js'
import { signingKeyOf } from './crypto/signing-key.js'
import { MIGRATIONS_DIRECTORY } from './migrations-directory.js'
import { createApiKeyUses } from './runner/api-key-uses.js'
import type { Services } from './runner/operation.js'
import { createTenantStates } from './runner/tenant-state.js'
import { createWorkGate } from './runner/work-gate.js'
import type { Sql } from './store/db.js'
import { withDeadline, withDeadlines } from './store/deadline.js'
import { findInstance, type InstanceRow, insertInstance } from './store/instance.js'
import { findSchemaVersion, migrate } from './store/migrations.js'
import { NoDatabaseError, openStore, type Store, type Wait } from './store/open-store.js'
import { type Durability, findDatabaseTime } from './store/settings.js'
import { findMissingTenants, hasTenants } from './store/tenants.js'

/** What is said of a tenant that the file of checkpoints has and the database has not. */
export const MISSING_TENANT =
  'the checkpoint file has a tenant that the database does not have: the database was restored from before it was created, or ' +
  'tampered with. The tenant and its keys are gone unless a newer backup is restored'

export interface Installation {
  services: Services
  /** its `compare` is to be called about once a second */
  chainWatch: ChainWatch
  /** when it was opened */
  durability: Durability
  /** Asks the database for the one in force. */
  findDurability(): Promise<Durability>
  /** Commits a write that changes nothing; ends when the database acknowledges it, however long that takes. */
  probeCommit(): Promise<void>
  /** where the database is, for people; without credentials */
  database: string
  /** Commits what waits and closes the database, once; may be called again. */
  close(): Promise<void>
}

export interface OpenOptions {
  config: Config
  /** called when a tenant's chain in the database is not the one that was written, and when the clock is wrong */
  onAlarm: (message: string, details: Record<string, unknown>) => void
  /** called with what an operator should know, and what keeps nothing from being served */
  onWarning?: (message: string, details: Record<string, unknown>) => void
  /** told of lines in the file of checkpoints that are not as a server wrote them; they are not looked for if not given */
  onKeptFaults?: (faults: readonly LineFault[]) => void
  /** work beside a server that holds the embedded database, through its socket; refused otherwise */
  beside?: boolean
  /** whether a new installation is made where there is none; so by default */
  mayCreate?: boolean
  /** how long a database that cannot be reached is waited for; not at all if not given */
  wait?: Wait
  now?: () => number
  /** what the database's clock shows, in milliseconds since 1970; by default it is asked */
  databaseNow?: (() => Promise<number>) | undefined
  /** told of each batch of audit entries after its commit */
  observeCommit?: (commit: Commit) => void
}

/**
 * Opens an installation.
 *
 * @throws NoDatabaseError, UnreachableDatabaseError, RootKeyError, DataDirectoryInUseError, ForeignDataDirectoryError,
 * UnusableDataDirectoryError, NewerSchemaError, or the database's own error
 */
export async function openInstallation({
  config,
  onAlarm,
  onWarning,
  onKeptFaults,
  beside = false,
  mayCreate = true,
  wait,
  now = Date.now,
  databaseNow,
  observeCommit,
}: OpenOptions): Promise<Installation> {
  const fromEnvironment = await readRootKey(config.rootKey)
  const store = await openStore(config, { beside, mayCreate, wait })
  try {
    const isNew = (await findOwnInstance(store.sql)) === undefined
    if (isNew && !mayCreate) {
      throw new NoDatabaseError(
        `There is no installation yet in this database (${store.description}). Make it: eaas start`,
      )
    }
    const rootKey = await findRootKey(store, config, { fromEnvironment, mayCreate: isNew })
    const secrets = await unlock(store.sql, rootKey, now)
    const states = createTenantStates({ sql: store.sql, rootKey })
    const clock = createClock({
      now,
      toleranceMs: config.maxClockSkewMs,
      isDatabaseLocal: store.isEmbedded,
      onWrong: (message) => onAlarm(message, {}),
    })
    const committer = createCommitter({
      sql: store.sql,
      now,
      clock,
      onAlarm: (tenant_id, reason) =>
        onAlarm('the audit chain is broken; this tenant is no longer served', { tenant_id, reason }),
      observe: observeCommit,
    })
    const sql = withDeadlines(store.sql) // states and committer have their own
    if (config.checkpointFile !== undefined) {
      const options = { isThorough: onKeptFaults !== undefined }
      const kept = await readKeptFile(config.checkpointFile, encodePublicKey(secrets.signingKey), options)
      if (kept.faults.length > 0) onKeptFaults?.(kept.faults)
      for (const [tenant_id, witness] of kept.witnesses) committer.watches.get(tenant_id).remember(witness)
      for (const tenant_id of await findMissingTenants(sql, [...kept.witnesses.keys()])) {
        const line = kept.witnesses.get(tenant_id)?.line
        onWarning?.(MISSING_TENANT, { tenant_id, file: config.checkpointFile, line })
      }
    }
    const chainWatch = createChainWatch({
      sql,
      watches: committer.watches,
      findAuditKey: async (tenant_id) => (await states.find(tenant_id))?.auditKey,
      isGone: async (tenant_id) => {
        const isGone = (await findMissingTenants(sql, [tenant_id])).length > 0
        if (isGone) states.forget(tenant_id)
        return isGone
      },
      onGoneAccepted: (tenant_id) =>
        onWarning?.('an operator accepted that a tenant is gone from the database; its alarm is ended', { tenant_id }),
      now,
    })
    await chainWatch.compare() // what fails for one tenant fails again when that tenant is used
    let closing: Promise<void> | undefined
    return {
      services: {
        sql,
        rootKey,
        ...secrets,
        states,
        committer,
        apiKeyUses: createApiKeyUses(sql),
        gate: createWorkGate(),
        now,
        databaseNow: databaseNow ?? ((on = sql) => findDatabaseTime(on)),
        destroyWindowDays: config.destroyWindowDays,
      },
      chainWatch,
      durability: store.durability,
      findDurability: store.findDurability,
      probeCommit: store.probeCommit,
      database: store.description,
      close() {
        closing ??= committer.drain().then(() => store.close())
        return closing
      },
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

/** The installation's row; undefined in a new database. @throws RootKeyError where the row is gone from one that holds tenants */
export async function findOwnInstance(sql: Sql): Promise<InstanceRow | undefined> {
  // In this order: another process may be making both, and makes the row first.
  const isUsed = (await findSchemaVersion(sql)) > 0 && (await hasTenants(sql))
  const row = await findInstance(sql)
  if (isUsed && !row) {
    throw new RootKeyError(
      'The database holds tenants but not the row that its root key is checked by. Restore a backup.',
    )
  }
  return row
}

/** The file that the root key comes from; undefined where the environment holds it. */
export function rootKeyFile({ rootKey, databaseUrl, dataDir }: Config): string | undefined {
  if (rootKey.value !== undefined) return undefined
  return rootKey.file ?? (databaseUrl === undefined ? embeddedRootKeyPath(dataDir) : undefined)
}

/** The root key of an opened store: from the environment, or the embedded database's own. @throws RootKeyError */
export async function findRootKey(
  { isEmbedded }: Pick<Store, 'isEmbedded'>,
  { dataDir }: Config,
  { fromEnvironment, mayCreate }: { fromEnvironment: KeyObject | undefined; mayCreate: boolean },
): Promise<KeyObject> {
  if (fromEnvironment) return fromEnvironment
  if (!isEmbedded) {
    throw new RootKeyError(
      'EAAS_DATABASE_URL is set, so the root key must come from EAAS_ROOT_KEY or EAAS_ROOT_KEY_FILE. ' +
        'Make one with: openssl rand -base64 32',
    )
  }
  return readEmbeddedRootKey(dataDir, { mayCreate })
}

/** What belongs to the whole installation. */
export interface InstallationSecrets {
  pepper: KeyObject
  signingKey: KeyObject
}

// They were sealed under the root key that belongs to this database: opening them first keeps a wrong one from writing.
async function unlock(sql: Sql, rootKey: KeyObject, now: () => number): Promise<InstallationSecrets> {
  const known = await findInstance(sql)
  if (known) {
    const secrets = openSecrets(rootKey, known)
    await migrate(sql, MIGRATIONS_DIRECTORY)
    return secrets
  }
  await migrate(sql, MIGRATIONS_DIRECTORY)
  const row = {
    wrapped_pepper: sealNewSecret(rootKey, { purpose: 'api-key-pepper' }),
    wrapped_signing_key: sealNewSecret(rootKey, { purpose: 'signing-key' }),
    created_at: new Date(now()).toISOString(),
  }
  await withDeadline(insertInstance(sql, row))
  const inserted = await findInstance(sql) // perhaps another process's, which was quicker
  if (!inserted) throw new Error('the row of the installation could not be read back')
  return openSecrets(rootKey, inserted)
}

/** Opens what only the root key of this database opens. @throws RootKeyError */
export function openSecrets(
  rootKey: KeyObject,
  { wrapped_pepper, wrapped_signing_key }: InstanceRow,
): InstallationSecrets {
  try {
    return {
      pepper: openSecret(rootKey, { purpose: 'api-key-pepper' }, wrapped_pepper),
      signingKey: signingKeyOf(openSecret(rootKey, { purpose: 'signing-key' }, wrapped_signing_key)),
    }
  } catch {
    throw new RootKeyError(
      'The root key does not belong to this database. Set the one that the database was started with first ' +
        `(EAAS_ROOT_KEY, EAAS_ROOT_KEY_FILE, or ${embeddedRootKeyPath('the data directory')}).`,
    )
  }
}
