/** `eaas doctor`: checks what a start needs and what auditors ask about. Only the installation's log records the run. */
import { existsSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { counted } from '@eaas/protocol'
import type { Command } from 'commander'
import { createClock } from '../../core/audit/append/clock.js'
import { createCommitter } from '../../core/audit/append/committer.js'
import type { Config } from '../../core/config.js'
import { randomKey } from '../../core/crypto/aead.js'
import type { StoreKeys } from '../../core/crypto/key-hierarchy.js'
import { openStoreKeys } from '../../core/runner/store-keys.js'
import { withDeadline } from '../../core/store/deadline.js'
import type { Store } from '../../core/store/open-store.js'
import { countFormer } from '../../core/store/peppers.js'
import { recordAlone } from '../../guard/installation-log.js'
import { findAcceptedSchema } from '../../guard/operations/accept.js'
import type { SchemaDifferences } from '../../guard/store/schema.js'
import { HeadWatches } from '../../guard/watch/head-watch.js'
import { STANDARD_OUTPUT } from '../../guard/watch/kept-witnesses.js'
import { findOwnInstance, openInstallationKey, openSigningKey } from '../../installation-secrets.js'
import { providerOf, rootKeyFiles } from '../../root-keys/open-provider.js'
import { withAdvice } from './advice.js'
import { commandConfig, JSON_OPTION, SAME_ENVIRONMENT, succeed } from './command.js'
import * as database from './examine-database.js'
import { examineFile, examineFolder, examineKeyFile, examineTls } from './examine-files.js'
import * as logs from './examine-logs.js'
import { type Finding, type Found, print, printJson, type Result, warn, wrong } from './output.js'
import { messageOf, operatorName } from './with-services.js'

/** The checks that must pass before the log is extended, since the log may have gone back. */
const SOUND = ['writes', 'alarms', 'checkpoints', 'audit chains', 'anchor', 'witnesses']

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

async function doctor(config: Config, { json }: { json: boolean }): Promise<boolean> {
  const findings = await examine(config)
  const isWell = findings.every(({ ok }) => ok)
  if (json) printJson({ ok: isWell, findings })
  else {
    print(...findings.map((finding) => `${mark(finding)}  ${finding.check.padEnd(15)}  ${finding.detail}`))
    print('', conclude(findings))
  }
  return isWell
}

/** Records the run, which proves that a commit reaches the disk. */
async function record(
  { sql, isEmbedded }: Store,
  { storeKeys, maxClockSkewMs, ok }: { storeKeys: StoreKeys; maxClockSkewMs: number; ok: boolean },
): Promise<Result> {
  try {
    const clock = createClock({ now: Date.now, toleranceMs: maxClockSkewMs, isDatabaseLocal: isEmbedded })
    const committer = createCommitter({ sql, clock, guard: new HeadWatches(() => undefined) })
    const installationKey = await openInstallationKey(sql, storeKeys)
    const services = { sql, committer, installationKey, actor: operatorName() }
    await withDeadline(recordAlone(services, [{ action: 'installation.doctor', metadata: { ok } }]))
    return { detail: "the installation's log records this run" }
  } catch (error) {
    return wrong(`the installation's log does not record this run: ${messageOf(error)}`)
  }
}

function conclude(findings: readonly Finding[]): string {
  if (findings.some(({ ok }) => !ok)) return 'A check failed: see the lines marked WRONG.'
  if (findings.some(({ warning }) => warning)) return 'No check failed, but see the lines marked WARN.'
  return 'All checks passed.'
}

function mark({ ok, warning }: Finding): string {
  if (!ok) return 'WRONG'
  return warning ? 'WARN ' : 'ok   '
}

async function examine(config: Config): Promise<Finding[]> {
  const findings: Finding[] = []
  const examineOne = async <T>(check: string, work: () => Promise<Result<T> | Found<T>>) => {
    try {
      const { found, ok = true, detail, ...more } = await work()
      if (detail !== undefined) findings.push({ check, ok, detail, ...more })
      return found
    } catch (error) {
      findings.push({ check, ok: false, detail: withAdvice(error, messageOf(error)) })
      return undefined
    }
  }

  for (const file of rootKeyFiles(config).filter((name) => existsSync(name))) {
    await examineOne('root key file', () => examineKeyFile(file))
  }
  const { checkpointFile, auditArchiveDir, tls } = config
  if (tls) await examineOne('TLS', () => examineTls(tls))
  let checkpoints: 'directory' | undefined
  if (checkpointFile !== undefined && checkpointFile !== STANDARD_OUTPUT) {
    checkpoints = await examineOne('checkpoint file', () => examineCheckpointFile(config, checkpointFile))
  }
  if (auditArchiveDir !== undefined) {
    await examineOne('audit archive', () => examineFolder('EAAS_AUDIT_ARCHIVE_DIR', auditArchiveDir))
  }

  const store = await examineOne('database', () => database.examineDatabase(config))
  if (!store) return findings
  try {
    // Before any table is read, since a superuser would execute the functions that a view or a policy calls.
    const differences = await examineOne('tables', () => database.findDifferences(store))
    if (!differences) return findings
    if (store.isPooled) await examineOne('pooler', () => database.examineLimits(store.sql))
    const schema = await examineOne('schema', () => database.examineSchema(store))
    // The search path of the embedded database is fixed.
    if (!store.isEmbedded) await examineOne('other schemas', () => database.examineOtherSchemas(store.sql))
    if (schema === 'current') {
      await examineOne('writes', () => database.examineWrites(store))
      if (!store.isEmbedded) await examineOne('rights', () => database.examineRights(store, config))
      if (!store.isEmbedded) await examineOne('erasure', () => database.examineErasure(store.sql))
      await examineOne('alarms', () => logs.examineAlarms(store.sql))
      await examineOne('moves', () => logs.examineMoves(store.sql))
    }
    if (store.isSpread) await examineOne('machines', () => database.examineMachines(store))
    await examineOne('durability', async () => database.examineDurability(store))
    await examineOne('clock', () => database.examineClock(store))
    const storeKeys = await examineOne('root key', () => examineRootKey(store, config, schema === 'current'))
    if (schema === 'current') await examineOne('tables', () => examineAccepted(store, { differences, storeKeys }))
    if (checkpointFile !== undefined && checkpoints !== 'directory') {
      if (!storeKeys) await examineOne('checkpoints', () => logs.examineUnused(store.sql, checkpointFile))
      else if (schema === 'current') {
        await examineOne('checkpoints', () => logs.examineCheckpoints(store.sql, storeKeys, checkpointFile))
      }
    }
    if (storeKeys && schema === 'current') {
      await examineOne('audit chains', () => logs.examineChains(store.sql, storeKeys))
      await examineOne('anchor', () => logs.examineAnchor(store.sql, storeKeys, config))
      await examineOne('purge', () => logs.examinePurge(store.sql, storeKeys, config))
      // Whatever the earlier checks found: a witness is shown no more of the log than it has cosigned.
      if (config.witnesses.length > 0) {
        await examineOne('witnesses', () => logs.examineWitnesses(store.sql, storeKeys, config.witnesses))
      }
      // Before the first start there is no log.
      const isSound = findings.every(({ check, ok }) => ok || !SOUND.includes(check))
      if (isSound && (await findOwnInstance(store.sql))) {
        const ok = findings.every(({ ok }) => ok)
        await examineOne('record', () => record(store, { storeKeys, maxClockSkewMs: config.maxClockSkewMs, ok }))
      }
    }
  } finally {
    await store.close()
  }
  return findings
}

// The first start creates the data directory, and this file in it.
async function examineCheckpointFile({ databaseUrl, dataDir }: Config, path: string): Promise<Result<'directory'>> {
  const found = await stat(path).catch(() => undefined) // examineFile says what is wrong
  if (found && !found.isFile() && !found.isDirectory()) {
    return warn(`${path} is no regular file: a start compares the database with nothing in it`)
  }
  const directory = dirname(resolve(path))
  const isCreated = databaseUrl === undefined && directory === resolve(dataDir) && !existsSync(directory)
  return isCreated ? examineFolder('EAAS_DATA_DIR', directory) : examineFile('EAAS_CHECKPOINT_FILE', path)
}

// Without the root key, no entry proves that an operator accepted the differences.
async function examineAccepted(
  { sql }: Store,
  { differences, storeKeys }: { differences: SchemaDifferences; storeKeys: StoreKeys | undefined },
): Promise<Result> {
  if (!storeKeys || differences.digest === '') return database.examineTables(differences)
  const accepted = await findAcceptedSchema(sql, await openInstallationKey(sql, storeKeys), differences)
  return database.examineTables(differences, accepted)
}

async function examineRootKey(store: Store, config: Config, isCurrent: boolean) {
  const instance = await findOwnInstance(store.sql)
  const [file] = rootKeyFiles(config)
  if (!instance && store.isEmbedded && !config.rootKey && file !== undefined && !existsSync(file)) {
    return { detail: 'the database is new; the first start creates a root key' }
  }
  const provider = await providerOf(config)
  if (!instance) return { detail: 'the database is new; the first start binds it to this root key' }
  const storeKeys = await openStoreKeys(store.sql, provider)
  await openSigningKey(store.sql, storeKeys, instance)
  await provider.wrap(randomKey()) // as a rotation of the store key does
  const rotation = storeKeys.keys.size > 1
  const { sealed, api_keys } = isCurrent ? await countFormer(store.sql, Date.now()) : { sealed: 0, api_keys: 0 }
  const waiting = api_keys > 0 ? `; ${counted(api_keys, 'API key needs', 'API keys need')} the former pepper` : ''
  return {
    found: storeKeys,
    detail: rotation
      ? `opens this database, whose store key is being rotated: ${counted(sealed, 'row is', 'rows are')} left. If eaas store-key rotate does not run, it was interrupted: repeat it. If no operator began one, an attacker added a store key: verify every log first`
      : `opens this database (${provider.kind} ${provider.name})${waiting}`,
    ...(rotation && { warning: true as const }),
  }
}
