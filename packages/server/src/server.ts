/** The server put together: an installation, the application on it, and the work that is due without anybody asking. */
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { buildApp } from './app.js'
import type { Config } from './config.js'
import { isReadableByAll } from './crypto/root-key.js'
import { doDueWork } from './due-work.js'
import { createCheckpointEmitter } from './emit-checkpoints.js'
import { createMetrics } from './http/metrics.js'
import { type Installation, openInstallation, rootKeyFile } from './installation.js'
import { loggerOptions } from './logger.js'
import { type Periodic, startPeriodic } from './periodic.js'
import { purgeTenants } from './retention.js'

const MINUTE_MS = 60_000
/** Policies are carried out within a minute of their time. */
const DUE_WORK_MS = 20_000
const RETENTION_MS = 24 * 60 * MINUTE_MS

export interface Server {
  /** Closing it answers what is under way, commits, and closes the database. */
  app: FastifyInstance
  installation: Installation
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
  const metrics = createMetrics()
  const installation = await openInstallation({
    config,
    onAlarm: (message, details) => app?.log.fatal(details, message),
    observeCommit: metrics.observeCommit,
    ...(now === undefined ? {} : { now }),
  })
  const { services, durability, findDurability } = installation
  try {
    app = buildApp({
      services,
      findDurability,
      logger: loggerOptions(config.logLevel),
      trustProxy: config.trustProxy,
      corsOrigins: config.corsOrigins,
      metrics,
    })
  } catch (error) {
    await installation.close() // or the data directory stays locked
    throw error
  }
  const schedule = startSchedule(config, installation, app.log)
  app.addHook('onClose', async () => {
    await Promise.all(schedule.map((periodic) => periodic.stop()))
    await installation.close()
  })
  const keyFile = rootKeyFile(config)
  if (keyFile !== undefined && (await isReadableByAll(keyFile))) {
    app.log.warn({ file: keyFile }, 'everybody on this machine can read the root key: chmod 600')
  }
  if (durability === 'asynchronous') {
    app.log.warn('commits are not synchronous: a power cut can lose acknowledged audit entries')
  }
  return { app, installation }
}

function startSchedule(config: Config, { services }: Installation, log: FastifyBaseLogger): Periodic[] {
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
  ]
  if (config.checkpointFile !== undefined) {
    const emit = createCheckpointEmitter(services, config.checkpointFile, (error, tenant_id) =>
      log.error({ err: error, tenant_id }, 'signing a checkpoint failed; it is tried again'),
    )
    const onError = failed('writing checkpoints')
    schedule.push(startPeriodic({ intervalMs: config.checkpointMinutes * MINUTE_MS, work: emit, onError }))
  }
  if (config.auditRetentionMonths > 0) {
    const work = (signal: AbortSignal) =>
      purgeTenants(services, {
        retentionMonths: config.auditRetentionMonths,
        archiveDir: config.auditArchiveDir,
        signal,
        onPurged: (tenant_id, plan) => log.info({ tenant_id, ...plan }, 'purged audit entries'),
        onRefused: (tenant_id, error) => log.error({ err: error, tenant_id }, 'purging the audit log failed'),
      })
    schedule.push(startPeriodic({ intervalMs: RETENTION_MS, work, onError: failed('retention') }))
  }
  return schedule
}
