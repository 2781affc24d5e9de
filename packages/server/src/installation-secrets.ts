/** The secrets of an installation: opened by its root key, created with a new one, and read again while a server runs. */
import { INSTALLATION_ID, OpenError } from '@eaas/protocol'
import type { Clock } from './core/audit/append/clock.js'
import { openAuditKey } from './core/audit/audit-key.js'
import type { AuditKey } from './core/audit/formats/chain.js'
import type { Config } from './core/config.js'
import {
  RefusedPinError,
  RootKeyError,
  type RootKeyProvider,
  type StoreKeys,
  sealNewSecret,
  UnknownStoreKeyError,
} from './core/crypto/key-hierarchy.js'
import { followInstallation, InstallationKey } from './core/runner/installation-key.js'
import type { Services } from './core/runner/operation.js'
import { Peppers } from './core/runner/peppers.js'
import { makeStoreKey, openStoreKeys, refreshStoreKeys } from './core/runner/store-keys.js'
import type { Queryable, Sql } from './core/store/db.js'
import { withDeadline } from './core/store/deadline.js'
import { findInstallationKey, findInstance, type InstanceRow, insertInstance } from './core/store/instance.js'
import { type Complete, compareSchemas, findSchemaVersion, migrate } from './core/store/migrations.js'
import { insertStoreKey, refuseStoreKeysAfter } from './core/store/store-keys.js'
import { assertWhole } from './core/store/tampered-row.js'
import { hasTenants } from './core/store/tenants.js'
import { beginInstallationLog, recordMigration } from './guard/installation-log.js'
import { providerOf } from './root-keys/open-provider.js'
import { VERSION } from './version.js'

/** The installation's row; undefined in a new database. @throws RootKeyError if there are tenants but no row */
export async function findOwnInstance(sql: Sql): Promise<InstanceRow | undefined> {
  // In this order: another process that creates both creates the row first.
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

export type InstallationSecrets = Pick<Services, 'storeKeys' | 'signingKey' | 'peppers' | 'installationKey'>

type Opening = { clock: Clock; actor: string; migrations: URL; onLocked: ((message: string) => void) | undefined }

/** Migrates and opens the secrets, or creates them in a new database. With a wrong root key, writes nothing. */
export async function unlock(sql: Sql, provider: RootKeyProvider, opening: Opening): Promise<InstallationSecrets> {
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

export async function openInstallationKey(sql: Queryable, storeKeys: StoreKeys): Promise<AuditKey> {
  const wrapped_audit_key = await findInstallationKey(sql)
  if (!wrapped_audit_key) {
    await assertWhole(sql)
    throw new RootKeyError("The key of the installation's own log is missing from the database. Restore a backup.")
  }
  return openAuditKey(storeKeys, { tenant_id: INSTALLATION_ID, wrapped_audit_key })
}

/** @throws RootKeyError unless the store keys of this database open it */
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

/** Checks that the root key opens the secrets in a database, before it is served or migrated. @throws RootKeyError */
export async function assertOpens(sql: Queryable, provider: RootKeyProvider): Promise<void> {
  const known = await findInstance(sql)
  if (!known) throw new RootKeyError('There is no installation whose secrets could be opened.')
  await openSigningKey(sql, await openStoreKeys(sql, provider), known)
}

const ASK_AGAIN_MS = 5_000 // the wait after the root key could not be used

/** Opens the root key from its settings again, since it may have been rotated since the start, into the same file. */
export function watchStoreKeys(sql: Sql, { storeKeys, ...secrets }: InstallationSecrets, config: Config) {
  const kind = config.rootKey?.kind ?? 'file'
  const isRemote = kind === 'exec' || kind === 'transit' || kind === 'aws-kms'
  let failedAt = Number.NEGATIVE_INFINITY
  let refusedPin: RefusedPinError | undefined
  return {
    /** Reads the store keys that a rotation added or deleted, and the secrets that it replaced. @throws RootKeyError */
    async refreshStoreKeys(): Promise<void> {
      if (performance.now() - failedAt < ASK_AGAIN_MS) return
      try {
        await refreshStoreKeys(sql, storeKeys, async () => {
          if (refusedPin) throw refusedPin // a device locks itself after a few wrong PINs
          return providerOf(config)
        })
        await followInstallation({ sql, storeKeys, ...secrets })
        failedAt = Number.NEGATIVE_INFINITY
      } catch (error) {
        if (error instanceof RootKeyError) {
          failedAt = performance.now()
          if (error instanceof RefusedPinError) refusedPin = error
          // Otherwise the rotation would seal secrets that this server, with an earlier root key, cannot open.
          await refuseStoreKeysAfter(sql, Math.max(...storeKeys.keys.keys()))
        }
        throw error
      }
    },
    /** The kind of the root key's provider, and whether its last call failed; `none` if this process holds the key. */
    describeRootKey(): string {
      if (!isRemote) return 'none'
      return failedAt === Number.NEGATIVE_INFINITY && !refusedPin ? kind : `${kind} failing`
    },
  }
}
