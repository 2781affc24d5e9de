/** The table of jobs: how often each runs without a call, and what it reports to the log and the metrics. */
import type { Config } from './core/config.js'
import { doDueWork, rotateAfterWraps } from './core/jobs/due-work.js'
import { type Fail, type Log, type Periodic, type Run, startPeriodic } from './core/jobs/periodic.js'
import { STORE_KEYS_MS } from './core/runner/store-keys.js'
import { describeMissingRights, findMissingRights } from './core/store/grants.js'
import { countFormer } from './core/store/peppers.js'
import { createTableComparison, logTables } from './guard/jobs/compare-tables.js'
import { createRounds, type RoundOptions, type Rounds } from './guard/jobs/rounds.js'
import type { Installation } from './installation.js'
import type { Metrics } from './observe/metrics.js'
import { createDoubledUsageJob, DOUBLED } from './operate/jobs/note-doubled-usage.js'
import { createPurge, type PurgeJobOptions } from './operate/jobs/purge-tenants.js'
import { createScheduledVerification } from './operate/jobs/verify-all.js'
import { type Erasure, HELD, MAY_NOT_VACUUM } from './operate/store/erasure.js'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS

export interface ScheduleOptions extends RoundOptions, Pick<Installation, 'refreshStoreKeys' | 'eraseDestroyed'> {
  config: Config
  measures: RoundOptions['measures'] &
    PurgeJobOptions['measures'] &
    Pick<Metrics, 'tablesCompared' | 'custodyCounted' | 'verificationRan' | 'jobRan'>
}

export type Schedule = ReturnType<typeof startSchedule>

interface Job<Found> {
  name: string // its name in the log and the metrics
  everyMs: number
  after?: string // the job for whose first run its first run waits; by default it begins at once
  run: (run: Run) => Promise<Found>
  /** writes the result of a run to the log and the metrics */
  report?: (found: Found) => void
}

/** Starts every job. The first runs begin now, most of them one after another. */
export function startSchedule(options: ScheduleOptions) {
  const { measures, log } = options
  const rounds = createRounds(options)
  const logFailure: Fail = (err, message, details) => log.error({ err, ...details }, message)
  const stopping = new AbortController()
  const started = new Map<string, Periodic>()
  for (const { name, everyMs, after, run } of listJobs(options, rounds)) {
    const before = after === undefined ? undefined : started.get(after)
    if (after !== undefined && !before) throw new Error(`no job before "${name}" is named "${after}"`)
    const periodic = startPeriodic({
      intervalMs: everyMs,
      work: (signal, failed) =>
        run({
          signal,
          fail(error, ...logged) {
            failed(error)
            logFailure(error, ...logged)
          },
        }),
      onError: (error) => logFailure(error, `${name} failed; it will be retried`),
      onRun: (failure) => measures.jobRan(name, failure),
      ...(before && { after: before.firstRun }),
    })
    started.set(name, periodic)
  }
  return {
    emitCheckpoints: () => rounds.emitCheckpoints(logFailure, stopping.signal),
    async stop(): Promise<void> {
      stopping.abort()
      await Promise.all([...started.values()].map((job) => job.stop()))
    },
    /** Writes alarms and where this process saw logs end. Call it after `stop`, before the database closes. */
    async writeLastWitnesses(): Promise<void> {
      // Entries that can't be compared or signed now could be cut off unnoticed after this process has ended.
      let isWhole = false
      try {
        const isCompared = await rounds.compareChains(logFailure)
        const isKept = await rounds.emitCheckpoints(logFailure)
        isWhole = isCompared && isKept
      } finally {
        if (!isWhole) await rounds.keepWitnessed(logFailure)
      }
    },
    /** Writes to the file where this process saw each log end, without asking the database. */
    keepWitnessed: () => rounds.keepWitnessed(logFailure),
  }
}

function job<Found>({ run, report = () => undefined, ...row }: Job<Found>): Job<void> {
  return { ...row, run: async (each) => report(await run(each)) }
}

// Jobs with `after` begin one after another: in parallel, each would open a connection, at more CPU time than most of
// them take. Due work, verifications and purges may take long, so no other job waits for them.
function listJobs(options: ScheduleOptions, rounds: Rounds): Job<void>[] {
  const { config, services, refreshStoreKeys } = options
  const { apiKeyUses, unrecordedCalls, peppers } = services
  return [
    job({
      name: 'reading the alarms',
      everyMs: SECOND_MS, // how long other processes may not know of an alarm that one process raised
      run: ({ fail }) => rounds.compareChains(fail),
    }),
    job({ name: 'reading the store keys', everyMs: STORE_KEYS_MS, run: refreshStoreKeys }),
    job({ name: 'writing digests of API keys under the new pepper', everyMs: SECOND_MS, run: () => peppers.flush() }),
    job({ name: 'writing when API keys were last used', everyMs: MINUTE_MS, run: apiKeyUses.flush }),
    job({ name: 'writing the counts of calls without an entry', everyMs: 5 * SECOND_MS, run: unrecordedCalls.flush }),
    compareTables(options),
    job({
      name: 'writing checkpoints',
      everyMs: config.checkpointMinutes * MINUTE_MS,
      after: 'comparing the tables with what the migrations make',
      run: ({ fail, signal }) => rounds.emitCheckpoints(fail, signal),
    }),
    job({
      name: 'covering logs that grew',
      everyMs: 5 * SECOND_MS,
      after: 'writing checkpoints',
      run: ({ fail }) => rounds.coverGrowth(fail),
    }),
    ...listKeyJobs(options),
    ...(config.auditVerifyHours > 0 ? [verifyLogs(options)] : []),
    ...(config.auditRetentionMonths > 0 ? listPurgeJobs(options) : []),
  ]
}

function compareTables({ services, measures, log }: ScheduleOptions): Job<void> {
  const compare = createTableComparison(services)
  return job({
    name: 'comparing the tables with what the migrations make',
    everyMs: 10 * MINUTE_MS, // how late a changed table may be reported
    after: 'reading the alarms',
    async run() {
      const rights = await findMissingRights(services.sql)
      if (rights.missing.length > 0) log.error(describeMissingRights(rights))
      return compare()
    },
    report(found) {
      measures.tablesCompared(found.differences)
      logTables(log, found)
    },
  })
}

function listKeyJobs({ services, eraseDestroyed, measures, log }: ScheduleOptions): Job<void>[] {
  const noteDoubledUsage = createDoubledUsageJob(services)
  const changeKeys = (change: typeof doDueWork, failure: string): Job<number>['run'] => {
    return ({ signal, fail }) =>
      change(services, { onError: (error, key_id) => fail(error, failure, { key_id }), signal })
  }
  return [
    job({
      name: 'listing the keys that are due',
      everyMs: 20 * SECOND_MS, // carries out rotations and destructions within a minute of their time
      after: 'writing checkpoints',
      run: changeKeys(doDueWork, 'rotating or destroying a key failed; it will be retried'),
      report: (keys) => keys > 0 && log.info({ keys }, 'rotated or destroyed keys that were due'),
    }),
    job({
      name: 'counting what keys wrapped',
      everyMs: 60 * MINUTE_MS, // a spent key continues for this long: 2^25 wraps at 10,000 a second
      after: 'listing the keys that are due',
      run: changeKeys(rotateAfterWraps, 'rotating a key that wrapped as often as it may failed; it will be retried'),
      report: (keys) => keys > 0 && log.info({ keys }, 'rotated keys that had wrapped as often as they may'),
    }),
    job({
      name: 'comparing what API keys open with what is usual',
      everyMs: 10 * MINUTE_MS, // how late an unusual use of an API key may be recorded
      after: 'counting what keys wrapped',
      run: ({ signal, fail }) =>
        noteDoubledUsage({
          onDoubled: (found) => log.warn(found, DOUBLED),
          onError: (error, of) =>
            fail(error, 'comparing or recording what API keys open failed; it will be retried', of),
          signal,
        }),
    }),
    job({
      name: 'counting what needs the former pepper or an earlier store key',
      everyMs: MINUTE_MS,
      after: 'counting what keys wrapped',
      async run() {
        await services.peppers.deleteFormer(services.now())
        return countFormer(services.sql, services.now())
      },
      report: measures.custodyCounted,
    }),
    job({
      name: 'erasing what destroyed keys left in the files of the database',
      everyMs: MINUTE_MS, // how long the files may hold destroyed keys
      after: 'listing the keys that are due',
      run: eraseDestroyed,
      report: createErasureReport(log),
    }),
  ]
}

function verifyLogs({ config, services, measures, log }: ScheduleOptions): Job<void> {
  const verify = createScheduledVerification(services, { hours: config.auditVerifyHours })
  return job({
    name: 'verifying the audit logs',
    everyMs: 10 * MINUTE_MS, // how late a verification may begin
    after: 'writing checkpoints',
    async run({ signal, fail }) {
      const found = await verify(signal)
      for (const { tenant_id, error } of found?.unverified ?? [])
        fail(error, 'an audit log could not be verified to its end; it will be retried', { tenant_id })
      return found
    },
    report(found) {
      if (!found) return
      for (const { tenant_id, reason, broken_at } of found.invalid)
        log.fatal({ tenant_id, reason, broken_at }, 'the audit log is not as the server wrote it')
      if (found.notRecorded) log.error({ err: found.notRecorded }, "writing into the installation's log failed")
      measures.verificationRan(found.invalid.length, { isComplete: found.unverified.length === 0 })
    },
  })
}

// Logs an obstacle once for each number of destroyed versions: the owner of the tables may vacuum them.
function createErasureReport(log: Log): (erasure: Erasure) => void {
  let logged = 0
  return ({ outcome, versions }) => {
    if (outcome === 'erased')
      log.info({ versions }, 'erased what destroyed key versions had left in the files of the database')
    if (outcome === 'erased' || outcome === 'unchanged' || versions === logged) return
    logged = versions
    log.warn({ versions }, outcome === 'held' ? HELD : MAY_NOT_VACUUM)
  }
}

function listPurgeJobs(options: ScheduleOptions): Job<void>[] {
  const { purge, look } = createPurge(options)
  return [
    job({ name: 'purging old entries', everyMs: 24 * 60 * MINUTE_MS, after: 'writing checkpoints', run: purge }),
    // For this long, a few tenants may still be reported after a command has purged their entries.
    job({ name: 'looking for what the purge left', everyMs: 2 * SECOND_MS, after: 'purging old entries', run: look }),
  ]
}
