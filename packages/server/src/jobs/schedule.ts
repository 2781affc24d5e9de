/** Which job runs how often, and what the log says of it. */
import type { FastifyBaseLogger } from 'fastify'
import type { ChainWatch } from '../audit/chain-watch.js'
import type { Config } from '../config.js'
import type { Services } from '../runner/operation.js'
import { doDueWork } from './due-work.js'
import { createAlarmWitnessEmitter, createCheckpointEmitter } from './emit-checkpoints.js'
import { type Periodic, startPeriodic } from './periodic.js'
import { purgeTenants } from './retention.js'

const MINUTE_MS = 60_000
/** Rotations and destructions are carried out within a minute of their time. */
const DUE_WORK_MS = 20_000
/** How long an alarm that one process raised may be unknown to another. */
const CHAIN_WATCH_MS = 1_000
/** How late the time of an API key's last use may appear. */
const API_KEY_USES_MS = MINUTE_MS
/** How late calls without an entry may appear in their counts; what a killed process loses. */
const UNRECORDED_CALLS_MS = 5_000
const RETENTION_MS = 24 * 60 * MINUTE_MS

type Log = Pick<FastifyBaseLogger, 'info' | 'error'>

export interface ScheduleOptions {
  config: Config
  services: Services
  chainWatch: ChainWatch
  /** what the jobs report to the metrics */
  measures: { checkpointsWritten: () => void; purgeRan: (failedTenants: number) => void }
  log: Log
}

export interface Schedule {
  /** Writes the checkpoints of the logs that grew to the configured file. */
  emitCheckpoints(): Promise<void>
  /** Begins no further run, and waits for those under way. */
  stop(): Promise<void>
  /**
   * Writes what this process saw and must outlive it: its alarms into the database and the file, and where the logs ended into the
   * file. To be called after `stop`, before the database is closed.
   */
  writeLastWitnesses(): Promise<void>
}

/** Starts every job with a first run at once. */
export function startSchedule(options: ScheduleOptions): Schedule {
  const emitCheckpoints = createEmitter(options)
  const compareChains = createComparison(options)
  const jobs = startJobs(options, { emitCheckpoints, compareChains })
  return {
    emitCheckpoints,
    async stop() {
      await Promise.all(jobs.map((job) => job.stop()))
    },
    async writeLastWitnesses() {
      await compareChains()
      await emitCheckpoints()
    },
  }
}

function createEmitter({ config: { checkpointFile }, services, measures, log }: ScheduleOptions): () => Promise<void> {
  if (checkpointFile === undefined) return async () => undefined
  let failures = 0
  const emit = createCheckpointEmitter(services, checkpointFile, (error, tenant_id) => {
    failures += 1
    log.error({ err: error, tenant_id }, 'signing a checkpoint failed; it will be retried')
  })
  return async () => {
    failures = 0
    await emit()
    if (failures === 0) measures.checkpointsWritten()
  }
}

// An alarm is written to the file even if the database cannot be read.
function createComparison({
  config: { checkpointFile },
  services,
  chainWatch,
  log,
}: ScheduleOptions): () => Promise<void> {
  const emitWitnesses =
    checkpointFile === undefined ? async () => undefined : createAlarmWitnessEmitter(services, checkpointFile)
  return async () => {
    try {
      for (const error of await chainWatch.compare())
        log.error({ err: error }, 'comparing the audit chain of a tenant failed')
    } finally {
      await emitWitnesses().catch((error: unknown) =>
        log.error({ err: error }, 'writing the checkpoint of an alarm failed; it will be retried'),
      )
    }
  }
}

function startJobs(
  { config, services, measures, log }: ScheduleOptions,
  { emitCheckpoints, compareChains }: { emitCheckpoints: () => Promise<void>; compareChains: () => Promise<void> },
): Periodic[] {
  const failed = (what: string) => (error: unknown) => log.error({ err: error }, `${what} failed; it will be retried`)
  const jobs = [
    startPeriodic({
      intervalMs: DUE_WORK_MS,
      work: async (signal) => {
        const onError = (error: unknown, key_id: string) =>
          log.error({ err: error, key_id }, 'rotating or destroying a key failed; it will be retried')
        const changed = await doDueWork(services, { onError, signal })
        if (changed > 0) log.info({ keys: changed }, 'rotated or destroyed keys that were due')
      },
      onError: failed('listing the keys that are due'),
    }),
    startPeriodic({
      intervalMs: CHAIN_WATCH_MS,
      work: compareChains,
      onError: failed('reading the alarms'),
    }),
    startPeriodic({
      intervalMs: API_KEY_USES_MS,
      work: services.apiKeyUses.flush,
      onError: failed('writing when API keys were last used'),
    }),
    startPeriodic({
      intervalMs: UNRECORDED_CALLS_MS,
      work: services.unrecordedCalls.flush,
      onError: failed('writing the counts of calls without an entry'),
    }),
    startPeriodic({
      intervalMs: config.checkpointMinutes * MINUTE_MS,
      work: emitCheckpoints,
      onError: failed('writing checkpoints'),
    }),
  ]
  if (config.auditRetentionMonths > 0) {
    const work = async (signal: AbortSignal) => {
      let failedTenants = 0
      await purgeTenants(services, {
        retentionMonths: config.auditRetentionMonths,
        archiveDir: config.auditArchiveDir,
        signal,
        onPurged: (tenant_id, plan) => log.info({ tenant_id, ...plan }, 'purged audit entries'),
        onRefused: (tenant_id, error) => {
          failedTenants += 1
          log.error({ err: error, tenant_id }, 'purging the audit log failed')
        },
      })
      if (!signal.aborted) measures.purgeRan(failedTenants)
    }
    jobs.push(startPeriodic({ intervalMs: RETENTION_MS, work, onError: failed('retention') }))
  }
  return jobs
}
