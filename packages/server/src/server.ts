/** The complete server: an installation, its application, and the jobs that run without a call. */
import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { readWitnessKey } from '@eaas/audit/formats'
import { isOpenToAll, writeOrDrop } from '@eaas/audit/node'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { buildApp } from './app.js'
import type { Config } from './core/config.js'
import { createTlsListener } from './core/http/tls-listener.js'
import type { Services } from './core/runner/operation.js'
import { withDeadline } from './core/store/deadline.js'
import { recordAlone } from './guard/installation-log.js'
import { FAULTS_ADVICE, type LineFault, nameFaults } from './guard/watch/kept-witnesses.js'
import { type Installation, type OpenOptions, openInstallation } from './installation.js'
import { loggerOptions, logWithoutApp } from './observe/logger.js'
import { createMetrics } from './observe/metrics.js'
import { loadTracing } from './observe/tracing.js'
import { findConsoleDirectory } from './package-directory.js'
import { startReload } from './reload.js'
import { rootKeyFiles } from './root-keys/open-provider.js'
import { startSchedule } from './schedule.js'
import { VERSION } from './version.js'

export interface Server {
  /** Makes /health turn callers away, while every call is still served. */
  beginStopping(): void
  /** Reloads what can change while the server runs, and logs the result. */
  reload(read: () => Config): Promise<void>
  app: FastifyInstance // closing it answers the calls under way, commits, writes checkpoints, and closes the database
  installation: Installation
  emitCheckpoints(): Promise<unknown>
  /** Writes to the checkpoint file where this process saw each log end, without asking the database. */
  keepWitnessed(): Promise<void>
}

/** Without `openVerifier` and `openBlindHasher`, this thread does their work. */
interface ServerOptions extends Pick<OpenOptions, 'config' | 'now' | 'openVerifier' | 'openBlindHasher' | 'onOpening'> {
  log?: { write(line: string): unknown } // receives the lines of its log; by default standard error
  /** called when the embedded database has failed, after `keepWitnessed`; by default a rejection ends the process */
  onDatabaseFailure?: (error: Error) => void
  takesSchemas?: boolean // whether routes with Fastify schemas may be added; by default such a route is refused
}

/** Opens the configured database and builds the application; does not listen yet. */
export async function openServer({
  config,
  now,
  log: stream = { write: writeOrDrop },
  openVerifier,
  openBlindHasher,
  onDatabaseFailure,
  onOpening,
  takesSchemas = false,
}: ServerOptions): Promise<Server> {
  const tls = config.tls && createTlsListener(config.tls) // first, so that nothing is opened if its files cannot be used
  let app: FastifyInstance | undefined
  let isStopping = false
  const early: (() => void)[] = [] // alarms and warnings from before the log exists
  const logAs = (level: 'fatal' | 'warn') => (message: string, details: Record<string, unknown>) => {
    const write = () => app?.log[level](details, message)
    if (app) write()
    else early.push(write)
  }
  const logAlarm = logAs('fatal')
  const witnesses = config.witnesses.map(({ key, url }) => ({ key: readWitnessKey(key), url }))
  const metrics = createMetrics({
    witnesses: witnesses.map(({ key }) => key.name),
    anchors: true,
    checkpoints: config.checkpointFile !== undefined,
    purges: config.auditRetentionMonths > 0,
    verifications: config.auditVerifyHours > 0,
  })
  let keptFaults: readonly LineFault[] = []
  let keepWitnessed: Server['keepWitnessed'] = async () => undefined // until the schedule starts
  const tracing = await loadTracing()
  const installation = await openInstallation({
    config,
    wait: {
      seconds: config.startWaitSeconds,
      onWait: ({ error, ...details }) =>
        logWithoutApp(config.logLevel, 'warn', { ...details, err: error }, 'waiting for the database'),
    },
    // First writes where the logs end: otherwise an attacker who makes the database fail could truncate them unnoticed.
    onDatabaseFailure: (error) =>
      void keepWitnessed().then(() => (onDatabaseFailure ? onDatabaseFailure(error) : Promise.reject(error))),
    onMigrationLocked: (message) => logWithoutApp(config.logLevel, 'warn', {}, message),
    onAlarm: logAlarm,
    onWrongClock: (message) => logAlarm(message, {}),
    onWarning: logAs('warn'),
    onKeptFaults: (faults) => {
      keptFaults = faults
    },
    observeCommit: metrics.observeCommit,
    onOpening,
    openVerifier,
    openBlindHasher,
    observeUnrecorded: metrics.observeUnrecorded,
    now,
  })
  const { services, durability, findDurability } = installation
  try {
    app = buildApp({
      describeRootKey: installation.describeRootKey,
      services,
      findDurability,
      isStopping: () => isStopping,
      logger: loggerOptions(config.logLevel, stream),
      trustProxy: config.trustProxy,
      corsOrigins: config.corsOrigins,
      operatorApi: config.operatorApi,
      consoleDirectory: config.hasConsole ? findConsoleDirectory() : undefined,
      tls,
      tracing,
      metrics,
      takesSchemas,
    })
  } catch (error) {
    await installation.close() // releases the lock of the data directory
    throw error
  }
  for (const log of early) log()
  const { log } = app
  const recordRun = createRunRecorder(services, { config, database: installation.database, log })
  await recordRun('installation.start')
  const schedule = startSchedule({ ...installation, config, witnesses, measures: metrics, log })
  keepWitnessed = schedule.keepWitnessed
  const setLogLevel = (level: Config['logLevel']) => {
    log.level = level
  }
  const reload = startReload({ tls, config, setLogLevel, log })
  app.addHook('onClose', async () => {
    reload.stop()
    await schedule.stop()
    await services.committer.drain()
    const logFailure = (message: string) => (err: unknown) => log.error({ err }, message)
    await services.apiKeyUses.flush().catch(logFailure('writing when API keys were last used failed'))
    await services.unrecordedCalls.flush().catch(logFailure('writing the counts of calls without an entry failed'))
    await recordRun('installation.stop')
    await schedule.writeLastWitnesses().catch(logFailure('writing the last checkpoints failed'))
    await installation.close()
  })
  await logAdvice(log, config, { durability, keptFaults })
  const beginStopping = () => {
    isStopping = true
  }
  const { emitCheckpoints } = schedule
  return { app, installation, emitCheckpoints, keepWitnessed, beginStopping, reload: reload.now }
}

/** How long recording may delay a start or a stop. */
const RECORD_DEADLINE_MS = 1_500

/** Records starts and stops. If the database takes no writes, the server logs that, and starts and stops anyway. */
function createRunRecorder(
  services: Services,
  { config, database, log }: { config: Config; database: string; log: FastifyBaseLogger },
): (action: 'installation.start' | 'installation.stop') => Promise<void> {
  const configuration = digestConfig(config, database)
  const metadata = { version: VERSION, host: hostname(), configuration }
  return async (action) => {
    try {
      await withDeadline(recordAlone(services, [{ action, metadata }]), RECORD_DEADLINE_MS)
    } catch (error) {
      log.error({ err: error, action }, "writing into the installation's log failed")
    }
  }
}

async function logAdvice(
  log: FastifyBaseLogger,
  config: Config,
  { durability, keptFaults }: Pick<Installation, 'durability'> & { keptFaults: readonly LineFault[] },
): Promise<void> {
  if (config.checkpointFile === undefined) {
    log.warn(
      'no checkpoints are kept: if the database is rolled back while no server runs, nobody will notice. ' +
        'Set EAAS_CHECKPOINT_FILE to a file that is kept apart from the database',
    )
    if (config.witnesses.length > 0) {
      log.warn('what witnesses cosign is not kept, so eaas audit verify --witness has nothing to read: see above')
    }
  }
  if (keptFaults.length > 0) {
    log.warn(
      { file: config.checkpointFile, faults: nameFaults(keptFaults) },
      `the checkpoint file has lines that no server wrote as they are, which prove nothing. ${FAULTS_ADVICE}`,
    )
  }
  for (const file of rootKeyFiles(config)) {
    // Operators remove the files of shares once the root key is open.
    if (!existsSync(file) || !(await isOpenToAll(file))) continue
    log.warn({ file }, 'everybody on this machine can read or change the root key, or what opens it: chmod 600')
  }
  if (config.tls && (await isOpenToAll(config.tls.keyFile))) {
    log.warn({ file: config.tls.keyFile }, 'everybody on this machine can read or change the key of TLS: chmod 600')
  }
  if (durability === 'asynchronous') {
    log.warn('commits are not synchronous: a power cut can lose acknowledged audit entries')
  }
}

// SHA-256 over the settings, for the installation's log. It covers only the sources of the root key and of the
// database's URL, which contains a password, so nothing secret can be guessed from it.
function digestConfig(
  {
    rootKey,
    transitLogin: _login,
    databaseUrl,
    databaseUrlFile: _file,
    unknownVariables: _,
    serviceManager: _manager,
    journalStream: _journal,
    configFile: _config,
    ...settings
  }: Config,
  database: string,
): string {
  const root_key = rootKey?.kind === 'file' ? rootKey.value : (rootKey?.kind ?? 'data directory')
  const named = { ...settings, database, root_key, maxClockSkewMs: String(settings.maxClockSkewMs) }
  const sorted = Object.entries(named).sort(([a], [b]) => (a < b ? -1 : 1))
  return hash('sha256', JSON.stringify(sorted))
}
