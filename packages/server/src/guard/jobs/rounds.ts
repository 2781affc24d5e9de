/** The rounds of the guard: compare, anchor, write checkpoints, ask witnesses. */
import type { Config } from '../../core/config.js'
import type { Fail, Log } from '../../core/jobs/periodic.js'
import type { Services } from '../../core/runner/operation.js'
import { anchorNow } from '../anchor-heads.js'
import { ChangedSessionError } from '../store/session-watch.js'
import { type HeadWatch, watchesOf } from '../watch/head-watch.js'
import { readAnchorTime } from '../watch/newest-anchor.js'
import type { SharedAlarms } from '../watch/shared-alarms.js'
import { createWitnessRound, type WitnessOutcome } from './ask-witnesses.js'
import { createCheckpointEmitter, createWitnessEmitter, type WrittenHeads } from './emit-checkpoints.js'
import type { KnownWitness } from './witness-client.js'

const MINUTE_MS = 60_000
/** In milliseconds, how long a round follows other processes' logs before it anchors them; the next one continues. */
const FOLLOW_MS = 5_000
/** How many entries a start may have to follow beside those of some seconds: a slow machine follows 40,000 a second. */
const MOST_UNCOVERED = 50_000
const LEAST_PER_TENANT = 100 // an anchor covers all tenants, at a tenth of a millisecond of CPU time each

const NAMED_LOGS = 20

const CONTRADICTED =
  "a witness cosigned an installation's log that this one does not continue: the database went back or was rewritten, or the witness is wrong. Compare with " +
  'a checkpoint that is kept elsewhere (eaas audit verify --all --checkpoint)'
const CHANGED_SESSION =
  'somebody changed a session of this server, such as where names of tables lead or what a prepared statement does. A function that runs in the session, ' +
  'such as a trigger, can do that. The server ended the session. Verify every log (eaas audit verify --all); eaas doctor names what is still changed'
const OVERDUE =
  'for too long this server could not compare the audit logs in the database with what it witnessed: it carries out no call until they ' +
  'can be compared. If the database answers, another session may hold a lock on its tables'
const AHEAD =
  'the last entries of logs are in the future: a clock was wrong, or is. New entries are refused, or dated then, until you accept that it was ' +
  'wrong (eaas accept clock)'

export interface RoundOptions {
  config: Pick<Config, 'checkpointFile' | 'checkpointMinutes'>
  services: Services
  sharedAlarms: SharedAlarms
  compareAnchored: () => Promise<unknown[]> // compares every tenant's log with the newest anchor
  witnesses: readonly KnownWitness[] // they cosign the tree of the installation's log
  measures: {
    anchored: (left: number | undefined) => void
    checkpointsWritten: () => void
    witnessesAsked: (outcomes: readonly Pick<WitnessOutcome, 'witness' | 'kind'>[]) => void
  }
  log: Log
}

export type Rounds = ReturnType<typeof createRounds>

/** `fail` logs what could not be done or determined. */
export function createRounds(options: RoundOptions) {
  const written: WrittenHeads = new Map()
  const anchor = createAnchoring(options)
  const emit = createEmitter(options, written)
  const askWitnesses = createAsking(options)
  const { compareChains, keepWitnessed } = createComparison(options, written)
  return {
    compareChains,
    keepWitnessed,
    // Returns whether the file has the end of every log afterwards. A stopping server gives no signal.
    async emitCheckpoints(fail: Fail, signal?: AbortSignal): Promise<boolean> {
      // First, since part of what a round reads is not authenticated, and with that an attacker may crash this process.
      await keepWitnessed(fail)
      await anchor(fail, { evenIfRecent: signal === undefined })
      const isWhole = await emit(fail)
      await askWitnesses(fail, signal)
      return isWhole
    },
    coverGrowth: createGrowthCover(options.services, {
      anchor: (fail) => anchor(fail, { evenIfRecent: true }),
      keep: (grown, fail) => keepWitnessed(fail, grown),
      written,
    }),
  }
}

// Writes the anchor first, so that the checkpoint of the installation's log covers the other checkpoints.
function createAnchoring({ config, services, compareAnchored, measures, log }: RoundOptions) {
  // The next start must not have to follow again what this one followed.
  let isFirst = true
  return async (fail: Fail, { evenIfRecent }: { evenIfRecent: boolean }): Promise<boolean> => {
    try {
      for (const error of await compareAnchored()) fail(error, 'comparing an audit log with its anchor failed')
      // The anchor of one server is enough, unless a wrong clock dated it far ahead.
      const newest = await readAnchorTime(services.sql, services.installationKey)
      const age = newest === undefined ? Number.POSITIVE_INFINITY : services.now() - Date.parse(newest)
      const isRecent = Math.abs(age) < (config.checkpointMinutes * MINUTE_MS) / 2
      if (isRecent && !evenIfRecent && !isFirst) {
        measures.anchored(undefined)
        return true
      }
      let left = 0
      // One tenant must not prevent the anchor for the others.
      await anchorNow(services, {
        followMs: FOLLOW_MS,
        onLeft: (tenant_id, what) => {
          if (watchesOf(services.committer).get(tenant_id).alarm) return // the alarm is reported elsewhere
          left += 1
          log.error({ tenant_id }, `the new anchor does not cover the end of a log: ${what}`)
        },
      })
      isFirst = false
      measures.anchored(left)
      return true
    } catch (error) {
      fail(error, 'anchoring the heads of the audit logs failed; it is tried again')
      return false
    }
  }
}

function createEmitter(
  { config: { checkpointFile }, services, measures }: RoundOptions,
  written: WrittenHeads,
): (fail: Fail) => Promise<boolean> {
  if (checkpointFile === undefined) return async () => true
  let failures: { error: unknown; tenant_id: string }[] = []
  const onError = (error: unknown, tenant_id: string) => failures.push({ error, tenant_id })
  const emit = createCheckpointEmitter(services, checkpointFile, onError, written)
  return async (fail) => {
    failures = []
    await emit().finally(() => {
      for (const { error, ...details } of failures)
        fail(error, 'signing a checkpoint failed; it will be retried', details)
    })
    if (failures.length === 0) measures.checkpointsWritten()
    return failures.length === 0
  }
}

// Failures never keep the server from serving: docs/decisions, "A server asks its witnesses, and never waits for them".
function createAsking({ config, witnesses, services, measures, log }: RoundOptions) {
  const round = createWitnessRound(services, { witnesses, file: config.checkpointFile })
  const ask = async (fail: Fail, signal?: AbortSignal) => {
    try {
      const outcomes = await round({ isLast: signal === undefined, signal })
      if (!outcomes || signal?.aborted) return
      measures.witnessesAsked(outcomes)
      for (const { witness, kind, detail } of outcomes) {
        if (kind === 'contradicted') log.fatal({ witness, detail }, CONTRADICTED)
        if (kind === 'failed') log.error({ witness, detail }, 'a witness did not cosign; it will be asked again')
      }
    } catch (error) {
      if (!signal?.aborted) fail(error, 'asking the witnesses failed; it will be retried')
    }
  }
  // The round after the first tenant of a new database may begin while the round of the start waits for a witness.
  let last = Promise.resolve()
  return (fail: Fail, signal?: AbortSignal): Promise<void> => {
    last = last.then(() => ask(fail, signal))
    return last
  }
}

// Writes alarms even if the database can't be read, and what was witnessed of logs that could not be compared, because
// this process may be killed before it can compare them.
function createComparison(
  { config: { checkpointFile }, services, sharedAlarms, log }: RoundOptions,
  written: WrittenHeads,
) {
  const { clock } = services.committer
  const watches = watchesOf(services.committer)
  const emit = checkpointFile === undefined ? undefined : createWitnessEmitter(services, checkpointFile, written)
  const emitOrFail = (fail: Fail, which: Iterable<HeadWatch>) =>
    emit?.(which).catch((error: unknown) =>
      fail(error, 'writing the checkpoint of what was witnessed failed; it will be retried'),
    )
  // Comparisons do not wait for a stuck file.
  let emitting: Promise<void> | undefined
  const emitMeanwhile = (which: Iterable<HeadWatch>) => {
    const fail: Fail = (err, message) => log.error({ err }, message)
    emitting ??= emitOrFail(fail, which)?.finally(() => {
      emitting = undefined
    })
  }
  let wasOverdue = false
  let wereAhead = 0
  return {
    /** Returns whether all logs could be compared. */
    async compareChains(fail: Fail): Promise<boolean> {
      try {
        const errors = await sharedAlarms.compare({ findsUnseen: true })
        for (const error of errors) fail(error, 'comparing an audit log failed')
        return errors.length === 0
      } catch (error) {
        if (!(error instanceof ChangedSessionError)) throw error
        log.fatal({ err: error }, CHANGED_SESSION)
        return false
      } finally {
        const { isOverdue, unreached } = watches.comparisons
        if (isOverdue && !wasOverdue) log.fatal(OVERDUE)
        wasOverdue = isOverdue
        const ahead = watches.ahead(clock)
        if (ahead.length > wereAhead) log.error({ logs: ahead.slice(0, NAMED_LOGS) }, AHEAD)
        wereAhead = ahead.length
        const open = [...watches.alarmed(), ...unreached.map((tenant_id) => watches.get(tenant_id))]
        emitMeanwhile(isOverdue ? watches.all() : open)
      }
    },
    /** Writes where this process saw logs end, without asking the database. */
    async keepWitnessed(fail: Fail, which: Iterable<HeadWatch> = watches.all()): Promise<void> {
      await emitting
      await emitOrFail(fail, which)
    },
  }
}

interface GrowthCover {
  anchor: (fail: Fail) => Promise<boolean> // returns whether the anchor now covers the logs
  keep: (grown: readonly HeadWatch[], fail: Fail) => Promise<void>
  written: WrittenHeads
}

/** For logs that grew far: the next start follows each from its anchored head, and refuses the tenant's calls until then. */
export function createGrowthCover(
  { committer }: Pick<Services, 'committer'>,
  { anchor, keep, written }: GrowthCover,
): (fail: Fail) => Promise<void> {
  let anchoredAt = 0
  return async (fail) => {
    const { entries } = committer.recent
    const all = [...watchesOf(committer).all()]
    if (entries - anchoredAt >= Math.max(MOST_UNCOVERED, LEAST_PER_TENANT * all.length)) {
      if (await anchor(fail)) anchoredAt = entries
    }
    const isGrown = ({ tenant_id, known }: HeadWatch) =>
      known !== undefined && known.last_id - (written.get(tenant_id)?.[0]?.last_id ?? 0) >= MOST_UNCOVERED
    const grown = all.filter(isGrown)
    if (grown.length > 0) await keep(grown, fail)
  }
}
