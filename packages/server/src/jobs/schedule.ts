/** Which job runs how often, and what the log says of it. */
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from '../core/config.js'
import { doDueWork, rotateAfterWraps } from '../core/jobs/due-work.js'
import { type Failed, isFinding, type Periodic, type PeriodicOptions, startPeriodic } from '../core/jobs/periodic.js'
import type { Services } from '../core/runner/operation.js'
import { STORE_KEYS_MS } from '../core/runner/store-keys.js'
import { describeMissingRights, findMissingRights } from '../core/store/grants.js'
import { countFormer, type Former } from '../core/store/peppers.js'
import { anchorNow } from '../guard/anchor-heads.js'
import { createWitnessRound, type WitnessOutcome } from '../guard/jobs/ask-witnesses.js'
import { createTableComparison } from '../guard/jobs/compare-tables.js'
import { createGrowthCover } from '../guard/jobs/cover-growth.js'
import { createCheckpointEmitter, createWitnessEmitter, type WrittenHeads } from '../guard/jobs/emit-checkpoints.js'
import type { KnownWitness } from '../guard/jobs/witness-client.js'
import { MISSING_INDEX } from '../guard/store/schema.js'
import { ChangedSessionError } from '../guard/store/session-watch.js'
import type { HeadWatch } from '../guard/watch/head-watch.js'
import { readAnchorTime } from '../guard/watch/newest-anchor.js'
import type { SharedAlarms } from '../guard/watch/shared-alarms.js'
import { createDoubledUsageJob } from '../operate/jobs/note-doubled-usage.js'
import { createUnpurged, purgeTenants } from '../operate/jobs/purge-tenants.js'
import { createScheduledVerification } from '../operate/jobs/scheduled-verification.js'
import { type Erase, MAY_NOT_VACUUM } from '../operate/store/erasure.js'

const MINUTE_MS = 60_000
/** Rotations and destructions are carried out within a minute of their time. */
const DUE_WORK_MS = 20_000
/** How long a key that wrapped as often as it may continues to wrap: at 10,000 wraps a second, 2^25 more. */
const WRAPS_MS = 60 * MINUTE_MS
/** How long the database's files may hold what a destroyed key left. */
const ERASURE_MS = MINUTE_MS
/** How long an alarm that one process raised may be unknown to another. */
const CHAIN_WATCH_MS = 1_000
/** How often digests are written again under a new pepper, in milliseconds. */
const DIGESTS_MS = 1_000
/** How late the time of an API key's last use may appear. */
const API_KEY_USES_MS = MINUTE_MS
/** How late calls without an entry may appear in their counts; what a killed process loses. */
const UNRECORDED_CALLS_MS = 5_000
/** How late it may be recorded that an API key opens more than is usual. */
const USAGE_MS = 10 * MINUTE_MS
/** How late a verification may begin. */
const VERIFICATION_DUE_MS = 10 * MINUTE_MS
/** How late a changed table may be reported. */
const TABLES_MS = 10 * MINUTE_MS
/** How often the growth of the logs is checked. */
const GROWTH_MS = 5_000
/** How long a round follows logs that other processes wrote before it anchors them; the next one continues. */
const FOLLOW_MS = 5_000
const PURGE_MS = 24 * 60 * MINUTE_MS
/** How long a few tenants may still be reported after a command has purged their entries. */
const UNPURGED_MS = 2_000

type Log = Pick<FastifyBaseLogger, 'info' | 'warn' | 'error' | 'fatal'>

export interface ScheduleOptions {
  config: Config
  services: Services
  sharedAlarms: SharedAlarms
  /** compares every tenant's log with the newest anchor */
  compareAnchored: () => Promise<unknown[]>
  /** reads the store keys that a rotation made or removed */
  refreshStoreKeys: () => Promise<void>
  /** removes from the database's files what destroyed keys left there */
  eraseDestroyed: Erase
  /** who cosigns the tree of the installation's log */
  witnesses: readonly KnownWitness[]
  /** what the jobs report to the metrics */
  measures: {
    anchored: (left: number | undefined) => void
    checkpointsWritten: () => void
    tablesCompared: (differences: number) => void
    custodyCounted: (former: Former) => void
    purgeRan: (refusedTenants: number) => void
    /** what each run of a job failed with; undefined if it did not */
    jobRan: (job: string, failure: unknown) => void
    /** how many of these tenants still have entries that were to be purged */
    purgeLeft: (tenants: number) => void
    verificationRan: (invalidLogs: number, run: { isComplete: boolean }) => void
    witnessesAsked: (outcomes: readonly Pick<WitnessOutcome, 'witness' | 'kind'>[]) => void
  }
  log: Log
}

export interface Schedule {
  /** Writes the checkpoints of the logs that grew to the configured file. */
  emitCheckpoints(): Promise<void>
  /** Begins no further run, and waits for those under way. */
  stop(): Promise<void>
  /**
   * Writes what must outlive this process: its alarms into the database and the file, and where it saw the logs
   * end into the file. To be called after `stop`, before the database is closed.
   */
  writeLastWitnesses(): Promise<void>
  /**
   * Writes into the file where this process saw each log end, whatever the database says; does not ask the
   * database.
   */
  keepWitnessed(): Promise<void>
}

/** One round of checkpoints. */
interface Round {
  /** the server has stopped serving */
  isLast?: boolean
  failed?: Failed
}

/** Starts every job. Their first runs begin now, most of them one after another. */
export function startSchedule(options: ScheduleOptions): Schedule {
  const written: WrittenHeads = new Map()
  const anchor = createAnchoring(options)
  const emit = createEmitter(options, written)
  const askWitnesses = createAsking(options)
  const { compareChains, keepWitnessed } = createComparison(options, written)
  const stopping = new AbortController()
  const emitCheckpoints = async ({ isLast = false, failed = ignoreFailure }: Round = {}) => {
    // First, because not all that a round reads is authenticated: an attacker may make it end this process.
    await keepWitnessed(undefined, failed)
    await anchor({ evenIfRecent: isLast, failed })
    const isWhole = await emit(failed)
    await askWitnesses({ isLast, signal: isLast ? undefined : stopping.signal, failed })
    return isWhole
  }
  const coverGrowth = createGrowthCover(options.services, {
    anchor: (failed) => anchor({ evenIfRecent: true, failed }),
    keep: keepWitnessed,
    written,
  })
  const jobs = startJobs(options, { emitCheckpoints, compareChains, coverGrowth })
  return {
    async emitCheckpoints() {
      await emitCheckpoints()
    },
    async stop() {
      stopping.abort()
      await Promise.all(jobs.map((job) => job.stop()))
    },
    async writeLastWitnesses() {
      // Entries that can't be compared or signed now could be cut off unnoticed once this process has ended.
      let isWhole = false
      try {
        const isCompared = await compareChains()
        const isKept = await emitCheckpoints({ isLast: true })
        isWhole = isCompared && isKept
      } finally {
        if (!isWhole) await keepWitnessed()
      }
    },
    keepWitnessed: () => keepWitnessed(),
  }
}

/** For work outside of a job's run, such as the last round of a server that stops: its failures are only logged. */
const ignoreFailure: Failed = () => undefined

// The anchor is written first, so that the checkpoint of the installation's log covers what the others state.
function createAnchoring({
  config: { checkpointMinutes },
  services,
  compareAnchored,
  measures,
  log,
}: ScheduleOptions): (run: { evenIfRecent: boolean; failed: Failed }) => Promise<boolean> {
  // What this start followed must not have to be followed again by the next one.
  let isFirst = true
  return async ({ evenIfRecent, failed }) => {
    try {
      for (const error of await compareAnchored()) {
        failed(error)
        log.error({ err: error }, 'comparing an audit log with its anchor failed')
      }
      // If several servers share an installation, the anchor of one of them is enough. An anchor that a wrong
      // clock dated far ahead does not count.
      const newest = await readAnchorTime(services.sql, services.installationKey)
      const age = newest === undefined ? Number.POSITIVE_INFINITY : services.now() - Date.parse(newest)
      const isRecent = Math.abs(age) < (checkpointMinutes * MINUTE_MS) / 2
      if (isRecent && !evenIfRecent && !isFirst) {
        measures.anchored(undefined)
        return true
      }
      let left = 0
      // One tenant must not keep the others from being covered.
      await anchorNow(services, {
        followMs: FOLLOW_MS,
        onLeft: (tenant_id, what) => {
          if (services.committer.watches.get(tenant_id).alarm) return // the alarm is reported separately
          left += 1
          log.error({ tenant_id }, `the new anchor does not cover the end of a log: ${what}`)
        },
      })
      isFirst = false
      measures.anchored(left)
      return true
    } catch (error) {
      failed(error)
      log.error({ err: error }, 'anchoring the heads of the audit logs failed; it is tried again')
      return false
    }
  }
}

/**
 * Creates the function that writes the checkpoints of the logs that grew; it returns whether the file then has
 * the end of every log.
 */
function createEmitter(
  { config: { checkpointFile }, services, measures, log }: ScheduleOptions,
  written: WrittenHeads,
): (failed: Failed) => Promise<boolean> {
  if (checkpointFile === undefined) return async () => true
  let failures: unknown[] = []
  const onError = (error: unknown, tenant_id: string) => {
    failures.push(error)
    log.error({ err: error, tenant_id }, 'signing a checkpoint failed; it will be retried')
  }
  const emit = createCheckpointEmitter(services, checkpointFile, onError, written)
  return async (failed) => {
    failures = []
    await emit()
    for (const failure of failures) failed(failure)
    if (failures.length === 0) measures.checkpointsWritten()
    return failures.length === 0
  }
}

interface Asking {
  isLast: boolean
  signal: AbortSignal | undefined
  failed: Failed
}

// No failure keeps the server from serving: see "A server asks its witnesses, and never waits for them" in
// docs/decisions.
function createAsking({
  config: { checkpointFile },
  witnesses,
  services,
  measures,
  log,
}: ScheduleOptions): (run: Asking) => Promise<void> {
  const round = createWitnessRound(services, { witnesses, file: checkpointFile })
  const ask = async ({ isLast, signal, failed }: Asking) => {
    try {
      const outcomes = await round({ isLast, signal })
      if (!outcomes || signal?.aborted) return
      measures.witnessesAsked(outcomes)
      for (const { witness, kind, detail } of outcomes) {
        if (kind === 'contradicted') log.fatal({ witness, detail }, CONTRADICTED)
        if (kind === 'failed') log.error({ witness, detail }, 'a witness did not cosign; it will be asked again')
      }
    } catch (error) {
      if (signal?.aborted) return
      failed(error)
      log.error({ err: error }, 'asking the witnesses failed; it will be retried')
    }
  }
  // The round after the first tenant of a new database may begin while the round of the start waits for a witness.
  let turn = Promise.resolve()
  return (run) => {
    turn = turn.then(() => ask(run))
    return turn
  }
}

const CONTRADICTED =
  "a witness cosigned an installation's log that this one does not continue: the database went back or was rewritten, or the witness is wrong. Compare with " +
  'a checkpoint that is kept elsewhere (eaas audit verify --all --checkpoint)'

const OTHER_VERSION =
  'the tables are not compared with what the migrations make: the database has the schema of another version. Unless a newer server ' +
  'has migrated it, somebody changed schema_version'

const AS_MADE = 'the tables are as the migrations make them again'

const HARMLESS_TABLES = 'how the tables differ from what the migrations make changes no answer and no entry'

const ACCEPTED_TABLES = 'the tables differ from what the migrations make, as an operator accepted on record'

const REFUSING_TABLES =
  'the owner of the tables added something that can refuse writes, but changes no answer and no entry: drop it, or accept it on record (eaas schema accept)'

const CHANGED_TABLES =
  'the owner of the tables changed them outside eaas. Verify every log (eaas audit verify --all); eaas doctor says what to undo'

const CHANGED_SESSION =
  'somebody changed a session of this server, such as where names of tables lead or what a prepared statement does. A function that runs in the session, ' +
  'such as a trigger, can do that. The server ended the session. Verify every log (eaas audit verify --all); eaas doctor names what is still changed'

interface Comparison {
  /** returns whether every chain that was due could be compared */
  compareChains: (failed?: Failed) => Promise<boolean>
  keepWitnessed: (which?: Iterable<HeadWatch>, failed?: Failed) => Promise<void>
}

// Alarms are written to the file even if the database cannot be read. Once that lasts too long, so is everything
// that was witnessed: this process may be killed before it can compare.
function createComparison(
  { config: { checkpointFile }, services, sharedAlarms, log }: ScheduleOptions,
  written: WrittenHeads,
): Comparison {
  const { watches } = services.committer
  const emit =
    checkpointFile === undefined ? async () => undefined : createWitnessEmitter(services, checkpointFile, written)
  const emitOrLog = (which: Iterable<HeadWatch>, failed: Failed) =>
    emit(which).catch((error: unknown) => {
      failed(error)
      log.error({ err: error }, 'writing the checkpoint of what was witnessed failed; it will be retried')
    })
  // Comparisons do not wait for a file that takes nothing.
  let emitting: Promise<void> | undefined
  const emitMeanwhile = (which: Iterable<HeadWatch>) => {
    emitting ??= emitOrLog(which, ignoreFailure).finally(() => {
      emitting = undefined
    })
  }
  let wasOverdue = false
  let wereAhead = 0
  return {
    async compareChains(failed = ignoreFailure) {
      try {
        const errors = await sharedAlarms.compare({ findsUnseen: true })
        for (const error of errors) {
          failed(error)
          log.error({ err: error }, 'comparing an audit log failed')
        }
        return errors.length === 0
      } catch (error) {
        if (!(error instanceof ChangedSessionError)) throw error
        log.fatal({ err: error }, CHANGED_SESSION)
        return false
      } finally {
        const { isOverdue } = watches.comparisons
        if (isOverdue && !wasOverdue) log.fatal(OVERDUE)
        wasOverdue = isOverdue
        const ahead = watches.ahead(services.committer.clock)
        if (ahead.length > wereAhead) log.error({ logs: ahead.slice(0, NAMED_LOGS) }, AHEAD)
        wereAhead = ahead.length
        emitMeanwhile(isOverdue ? watches.all() : watches.alarmed())
      }
    },
    async keepWitnessed(which = watches.all(), failed = ignoreFailure) {
      await emitting
      await emitOrLog(which, failed)
    },
  }
}

const OVERDUE =
  'for too long this server could not compare the audit logs in the database with what it witnessed: it carries out no call until they ' +
  'can be compared. If the database answers, another session may hold a lock on its tables'

const DOUBLED =
  'an API key opened or hashed more than twice as many values today as is usual for it: find out whether its owner knows why, and revoke it if not'

const NAMED_LOGS = 20
const AHEAD =
  'the last entries of logs are in the future: a clock was wrong, or is. New entries are refused, or dated then, until you accept that it was ' +
  'wrong (eaas audit accept-clock)'

function startJobs(
  { config, services, refreshStoreKeys, eraseDestroyed, measures, log }: ScheduleOptions,
  {
    emitCheckpoints,
    compareChains,
    coverGrowth,
  }: {
    emitCheckpoints: (round: Round) => Promise<unknown>
    compareChains: (failed: Failed) => Promise<unknown>
    coverGrowth: (failed: Failed) => Promise<void>
  },
): Periodic[] {
  // What a run found is no failure of the run: repeating it would find the same.
  const start = (job: string, { work, ...options }: Pick<PeriodicOptions, 'intervalMs' | 'work' | 'after'>) =>
    startPeriodic({
      ...options,
      work: (signal, failed) => work(signal, (error) => void (isFinding(error) || failed(error))),
      onError: (error) => log.error({ err: error }, `${job} failed; it will be retried`),
      onRun: (failure) => measures.jobRan(job, failure),
    })
  const chainWatch = start('reading the alarms', {
    intervalMs: CHAIN_WATCH_MS,
    work: async (_, failed) => void (await compareChains(failed)),
  })
  const jobs = [
    chainWatch,
    start('reading the store keys', { intervalMs: STORE_KEYS_MS, work: refreshStoreKeys }),
    start('writing digests of API keys under the new pepper', {
      intervalMs: DIGESTS_MS,
      work: () => services.peppers.flush(),
    }),
    start('writing when API keys were last used', { intervalMs: API_KEY_USES_MS, work: services.apiKeyUses.flush }),
    start('writing the counts of calls without an entry', {
      intervalMs: UNRECORDED_CALLS_MS,
      work: services.unrecordedCalls.flush,
    }),
  ]
  // One after another: in parallel, each would open a connection, which costs more CPU than most of these runs.
  const compareTables = createTableComparison(services)
  const tables = start('comparing the tables with what the migrations make', {
    intervalMs: TABLES_MS,
    work: async () => {
      const rights = await findMissingRights(services.sql)
      if (rights.missing.length > 0) log.error(describeMissingRights(rights))
      const { differences, isNews, hasNewHarmless, accepted, isOtherVersion, ...found } = await compareTables()
      const { missing, added, refusing, harmless, settings } = found
      measures.tablesCompared(differences)
      if (isOtherVersion) return log.error(OTHER_VERSION)
      const isSlow = harmless.some((line) => line.startsWith(MISSING_INDEX))
      if (hasNewHarmless) log[isSlow ? 'warn' : 'info']({ harmless }, HARMLESS_TABLES)
      if (!isNews) return
      const changed = { missing, added: [...added, ...settings], refusing }
      if (differences === 0) log.info({ ...changed, accepted }, accepted ? ACCEPTED_TABLES : AS_MADE)
      else if (missing.length + changed.added.length > 0) log.fatal(changed, CHANGED_TABLES)
      else log.error(changed, REFUSING_TABLES)
    },
    after: chainWatch.firstRun,
  })
  const checkpoints = start('writing checkpoints', {
    intervalMs: config.checkpointMinutes * MINUTE_MS,
    work: async (_, failed) => void (await emitCheckpoints({ failed })),
    after: tables.firstRun,
  })
  // Due work, verifications and purges may take long, so none of these waits for another.
  const after = checkpoints.firstRun
  const growth = start('covering logs that grew', {
    intervalMs: GROWTH_MS,
    work: (_, failed) => coverGrowth(failed),
    after,
  })
  const dueWork = start('listing the keys that are due', {
    intervalMs: DUE_WORK_MS,
    work: async (signal, failed) => {
      const onError = (error: unknown, key_id: string) => {
        failed(error)
        log.error({ err: error, key_id }, 'rotating or destroying a key failed; it will be retried')
      }
      const changed = await doDueWork(services, { onError, signal })
      if (changed > 0) log.info({ keys: changed }, 'rotated or destroyed keys that were due')
    },
    after,
  })
  const wraps = start('counting what keys wrapped', {
    intervalMs: WRAPS_MS,
    work: async (signal, failed) => {
      const onError = (error: unknown, key_id: string) => {
        failed(error)
        log.error({ err: error, key_id }, 'rotating a key that wrapped as often as it may failed; it will be retried')
      }
      const rotated = await rotateAfterWraps(services, { onError, signal })
      if (rotated > 0) log.info({ keys: rotated }, 'rotated keys that had wrapped as often as they may')
    },
    after: dueWork.firstRun,
  })
  const noteDoubledUsage = createDoubledUsageJob(services)
  const usage = start('comparing what API keys open with what is usual', {
    intervalMs: USAGE_MS,
    work: (signal, failed) =>
      noteDoubledUsage({
        onDoubled: (found) => log.warn(found, DOUBLED),
        onError: (error, of) => {
          failed(error)
          log.error({ err: error, ...of }, 'comparing or recording what API keys open failed; it will be retried')
        },
        signal,
      }),
    after: wraps.firstRun,
  })
  const former = start('counting what needs the former pepper or an earlier store key', {
    intervalMs: MINUTE_MS,
    work: async () => {
      await services.peppers.deleteFormer(services.now())
      measures.custodyCounted(await countFormer(services.sql, services.now()))
    },
    after: wraps.firstRun,
  })
  const erasure = start('erasing what destroyed keys left in the files of the database', {
    intervalMs: ERASURE_MS,
    work: createLoggedErasure(eraseDestroyed, log),
    after: dueWork.firstRun,
  })
  jobs.push(tables, checkpoints, growth, dueWork, wraps, usage, former, erasure)
  if (config.auditVerifyHours > 0) {
    const verify = createScheduledVerification(services, { hours: config.auditVerifyHours })
    const work = async (signal: AbortSignal, failed: Failed) => {
      const run = await verify(signal)
      if (!run) return
      for (const { tenant_id, reason, broken_at } of run.invalid) {
        log.fatal({ tenant_id, reason, broken_at }, 'the audit log is not as the server wrote it')
      }
      for (const { tenant_id, error } of run.unverified) {
        failed(error)
        log.error({ err: error, tenant_id }, 'an audit log could not be verified to its end; it will be retried')
      }
      if (run.notRecorded) log.error({ err: run.notRecorded }, "writing into the installation's log failed")
      measures.verificationRan(run.invalid.length, { isComplete: run.unverified.length === 0 })
    }
    jobs.push(start('verifying the audit logs', { intervalMs: VERIFICATION_DUE_MS, work, after }))
  }
  if (config.auditRetentionMonths > 0) {
    const retentionMonths = config.auditRetentionMonths
    const unpurged = createUnpurged(services, { retentionMonths })
    const work = async (signal: AbortSignal, failed: Failed) => {
      const refused: string[] = []
      let isComplete = true
      await purgeTenants(services, {
        retentionMonths,
        archiveDir: config.auditArchiveDir,
        signal,
        onPurged: (tenant_id, plan) => log.info({ tenant_id, ...plan }, 'purged audit entries'),
        onRefused: (tenant_id, error) => {
          refused.push(tenant_id)
          log.error({ err: error, tenant_id }, 'purging the audit log failed')
        },
        onFailed: (tenant_id, error) => {
          isComplete = false
          failed(error)
          log.error({ err: error, tenant_id }, 'it could not be found out what to purge; it will be retried')
        },
      })
      if (signal.aborted) return
      unpurged.note(refused)
      if (isComplete) measures.purgeRan(refused.length)
      else measures.purgeLeft(refused.length)
    }
    const look = async () => {
      if (unpurged.count() === 0) return
      await unpurged.look()
      measures.purgeLeft(unpurged.count())
    }
    const purge = start('purging old entries', { intervalMs: PURGE_MS, work, after })
    jobs.push(purge)
    jobs.push(start('looking for what the purge left', { intervalMs: UNPURGED_MS, work: look, after: purge.firstRun }))
  }
  return jobs
}

// An obstacle is logged once for each number of destroyed versions: an operator may have the owner of the tables
// vacuum them.
function createLoggedErasure(eraseDestroyed: Erase, log: Log): () => Promise<void> {
  let logged = 0
  return async () => {
    const { outcome, versions } = await eraseDestroyed()
    if (outcome === 'erased')
      log.info({ versions }, 'erased what destroyed key versions had left in the files of the database')
    if (outcome === 'erased' || outcome === 'unchanged' || versions === logged) return
    logged = versions
    log.warn({ versions }, outcome === 'held' ? HELD : MAY_NOT_VACUUM)
  }
}

const HELD =
  'the tables may still hold what destroyed keys left, because a transaction that began before is open (pg_stat_activity, pg_prepared_xacts, ' +
  'pg_replication_slots) or another process vacuums them; it is tried again every minute'
