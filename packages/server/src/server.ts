/** The server put together: an installation, the application on it, and the work that is due without anybody asking. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { buildApp } from './app.js'
import { type LineFault, nameFaults } from './audit/kept-witnesses.js'
import type { Config } from './config.js'
import { isReadableByAll } from './crypto/root-key.js'
import { createMetrics, type Metrics } from './http/metrics.js'
import { type Installation, openInstallation, rootKeyFile } from './installation.js'
import { doDueWork } from './jobs/due-work.js'
import { createAlarmWitnessEmitter, createCheckpointEmitter } from './jobs/emit-checkpoints.js'
import { type Periodic, startPeriodic } from './jobs/periodic.js'
import { purgeTenants } from './jobs/retention.js'
import { loggerOptions, logWithoutApp } from './logger.js'

const MINUTE_MS = 60_000
/** Policies are carried out within a minute of their time. */
const DUE_WORK_MS = 20_000
/** How long an alarm that one process raised may be unknown to another. */
const CHAIN_WATCH_MS = 1_000
/** How late it may be told when an API key was last used. */
const API_KEY_USES_MS = MINUTE_MS
const RETENTION_MS = 24 * 60 * MINUTE_MS

export interface Server {
  /** Has /health turn callers away while everything is still served. */
  beginStopping(): void
  /** Closing it answers what is under way, commits, writes checkpoints, and closes the database. */
  app: FastifyInstance
  installation: Installation
  /** Writes the checkpoints of the logs that grew to where the configuration says. */
  emitCheckpoints(): Promise<void>
}

/** Opens the database that the configuration names and builds the application; listens to nothing yet. */
export async function openServer({
  config,
  now,
}: {
  config: Config
  now?: (() => number) | undefined
}): Promise<Server> {
  let app: FastifyInstance | undefined
  let isStopping = false
  const early: (() => void)[] = [] // alarms that stand already and warnings, before there is a log to write them to
  const logAlarm = (message: string, details: Record<string, unknown>) => {
    if (app) app.log.fatal(details, message)
    else early.push(() => logAlarm(message, details))
  }
  const logWarning = (message: string, details: Record<string, unknown>) => {
    if (app) app.log.warn(details, message)
    else early.push(() => logWarning(message, details))
  }
  const metrics = createMetrics()
  let keptFaults: readonly LineFault[] = []
  const installation = await openInstallation({
    config,
    wait: {
      seconds: config.startWaitSeconds,
      onWait: ({ error, ...details }) =>
        logWithoutApp(config.logLevel, { ...details, err: error }, 'waiting for the database'),
    },
    onAlarm: logAlarm,
    onWarning: logWarning,
    onKeptFaults: (faults) => {
      keptFaults = faults
    },
    observeCommit: metrics.observeCommit,
    ...(now === undefined ? {} : { now }),
  })
  const { services, durability, findDurability, probeCommit } = installation
  try {
    app = buildApp({
      services,
      findDurability,
      probeCommit,
      isStopping: () => isStopping,
      logger: loggerOptions(config.logLevel),
      trustProxy: config.trustProxy,
      corsOrigins: config.corsOrigins,
      metrics,
    })
  } catch (error) {
    await installation.close() // or the data directory stays locked
    throw error
  }
  for (const log of early) log()
  const { log } = app
  const emitCheckpoints = checkpointEmitter(config, installation, { metrics, log })
  const lookAtChains = chainLook(config, installation, log)
  const schedule = startSchedule(config, installation, { metrics, log, emitCheckpoints, lookAtChains })
  app.addHook('onClose', async () => {
    await Promise.all(schedule.map((periodic) => periodic.stop()))
    await services.committer.drain()
    await services.apiKeyUses
      .flush()
      .catch((error: unknown) => log.error({ err: error }, 'writing when API keys were last used failed'))
    await witnessLast(lookAtChains, emitCheckpoints).catch((error: unknown) =>
      log.error({ err: error }, 'writing the last checkpoints failed'),
    )
    await installation.close()
  })
  if (config.checkpointFile === undefined) {
    log.warn(
      'no checkpoints are kept: a database that goes back while no server runs will not be noticed. ' +
        'Set EAAS_CHECKPOINT_FILE to a file that outlives the database',
    )
  }
  if (keptFaults.length > 0) {
    log.warn(
      { file: config.checkpointFile, faults: nameFaults(keptFaults) },
      'the checkpoint file has lines that are not as a server wrote them, and prove nothing: a crash cut them short, or somebody ' +
        'edited the file. Compare the logs with checkpoints that are kept elsewhere (eaas audit verify --checkpoint), then take these lines out',
    )
  }
  const keyFile = rootKeyFile(config)
  if (keyFile !== undefined && (await isReadableByAll(keyFile))) {
    app.log.warn({ file: keyFile }, 'everybody on this machine can read the root key: chmod 600')
  }
  if (durability === 'asynchronous') {
    app.log.warn('commits are not synchronous: a power cut can lose acknowledged audit entries')
  }
  const beginStopping = () => {
    isStopping = true
  }
  return { app, installation, emitCheckpoints, beginStopping }
}

function checkpointEmitter(
  { checkpointFile }: Config,
  { services }: Installation,
  { metrics, log }: { metrics: Metrics; log: FastifyBaseLogger },
): () => Promise<void> {
  if (checkpointFile === undefined) return async () => undefined
  let failures = 0
  const emit = createCheckpointEmitter(services, checkpointFile, (error, tenant_id) => {
    failures += 1
    log.error({ err: error, tenant_id }, 'signing a checkpoint failed; it is tried again')
  })
  return async () => {
    failures = 0
    await emit()
    if (failures === 0) metrics.checkpointsWritten()
  }
}

// What this process saw must outlive it: its alarms in the database and in the file, and where the logs ended in the file.
async function witnessLast(lookAtChains: () => Promise<void>, emitCheckpoints: () => Promise<void>): Promise<void> {
  await lookAtChains()
  await emitCheckpoints()
}

// An alarm gets into the file also where the database can't be asked.
function chainLook(
  { checkpointFile }: Config,
  { services, chainWatch }: Installation,
  log: FastifyBaseLogger,
): () => Promise<void> {
  const emitWitnesses =
    checkpointFile === undefined ? async () => undefined : createAlarmWitnessEmitter(services, checkpointFile)
  return async () => {
    try {
      for (const error of await chainWatch.look())
        log.error({ err: error }, 'comparing the audit chain of a tenant failed')
    } finally {
      await emitWitnesses().catch((error: unknown) =>
        log.error({ err: error }, 'writing the checkpoint of an alarm failed; it is tried again'),
      )
    }
  }
}

function startSchedule(
  config: Config,
  { services }: Installation,
  {
    metrics,
    log,
    emitCheckpoints,
    lookAtChains,
  }: {
    metrics: Metrics
    log: FastifyBaseLogger
    emitCheckpoints: () => Promise<void>
    lookAtChains: () => Promise<void>
  },
): Periodic[] {
  const failed = (what: string) => (error: unknown) => log.error({ err: error }, `${what} failed; it is tried again`)
  const schedule = [
    startPeriodic({
      intervalMs: DUE_WORK_MS,
      work: async (signal) => {
        const onError = (error: unknown, key_id: string) =>
          log.error({ err: error, key_id }, 'rotating or destroying a key failed; it is tried again')
        const changed = await doDueWork(services, { onError, signal })
        if (changed > 0) log.info({ keys: changed }, 'rotated or destroyed keys that were due')
      },
      onError: failed('looking for keys that are due'),
    }),
    startPeriodic({
      intervalMs: CHAIN_WATCH_MS,
      work: lookAtChains,
      onError: failed('reading the alarms'),
    }),
    startPeriodic({
      intervalMs: API_KEY_USES_MS,
      work: services.apiKeyUses.flush,
      onError: failed('writing when API keys were last used'),
    }),
    startPeriodic({
      intervalMs: config.checkpointMinutes * MINUTE_MS,
      work: emitCheckpoints,
      onError: failed('writing checkpoints'),
    }),
  ]
  if (config.auditRetentionMonths > 0) {
    const work = async (signal: AbortSignal) => {
      let failed = 0
      await purgeTenants(services, {
        retentionMonths: config.auditRetentionMonths,
        archiveDir: config.auditArchiveDir,
        signal,
        onPurged: (tenant_id, plan) => log.info({ tenant_id, ...plan }, 'purged audit entries'),
        onRefused: (tenant_id, error) => {
          failed += 1
          log.error({ err: error, tenant_id }, 'purging the audit log failed')
        },
      })
      if (!signal.aborted) metrics.purgeRan(failed)
    }
    schedule.push(startPeriodic({ intervalMs: RETENTION_MS, work, onError: failed('retention') }))
  }
  return schedule
}
