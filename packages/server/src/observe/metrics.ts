// GET /metrics: the metrics of this process, for Prometheus. No label is the id of a tenant or a key: that would show
// anybody with access to the page who does what, and create ever more series.
import {
  type LogAction,
  PROBLEMS,
  type ProblemCode,
  UNRECORDED_KINDS,
  type UnrecordedKind,
  type wire,
} from '@eaas/protocol'
import type { FastifyInstance } from 'fastify'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { HealthCheck } from '../core/api/health.js'
import { atCallEnd } from '../core/http/outcome.js'
import type { TlsListener } from '../core/http/tls-listener.js'
import type { Services } from '../core/runner/operation.js'
import { UNAUTHORIZED_REASONS, type UnauthorizedReason } from '../core/runner/refusal.js'
import { VERSION } from '../version.js'

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const ENTRIES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

/** The actions for operators' alerts: a rate needs the series before the first entry. */
const ALARMING: LogAction[] = ['api_key.create', 'budget.refused', 'key.destroy', 'key.export', 'usage.doubled']

/** The label of requests that match no route, since their path is the caller's text and must not become a label. */
const UNMATCHED = 'unmatched'
/** The label, instead of a status, of requests whose client left before the whole answer was sent. */
const UNANSWERED = 'unanswered'

/** The last run of a job, or before it the start of the process; `left` is the number that the run left undone, if known. */
type Run = { at: number; left?: number | undefined }

/** The value of a gauge, which is absent while it is undefined: 0 would read as "just now". */
type Reading = readonly [help: string, read: () => number | undefined]

type Former = { sealed: number; api_keys: number }

type Refused = { code: ProblemCode; reason?: UnauthorizedReason | undefined }

export type Metrics = ReturnType<typeof createMetrics>

/** In seconds; null for jobs that this process does not run. Before the first run, the time since the process started. */
type Ages = Record<'anchor' | 'checkpoint' | 'verification' | 'purge', number | null> & {
  witnesses: { name: string; cosignature: number; contradicted: boolean }[]
}

type MetricsOptions = Partial<Record<'anchors' | 'checkpoints' | 'purges' | 'verifications', boolean>> & {
  witnesses?: readonly string[]
}

/**
 * Creates the metrics of one application; several in a process do not collide. Before the first run of a configured
 * job, its age counts from now, so that an alert fires for a job that never succeeds.
 */
export function createMetrics({ witnesses = [], ...expected }: MetricsOptions = {}) {
  const registry = new Registry()
  const registers = [registry]
  const entries = new Counter({
    name: 'eaas_audit_entries_total',
    help: 'Audit entries committed by this process.',
    labelNames: ['action'],
    registers,
  })
  for (const action of ALARMING) entries.inc({ action }, 0)
  const unrecorded = new Counter({
    name: 'eaas_unrecorded_calls_total',
    help: 'Calls of an API key without an audit entry: hashes, and refused calls and operations of batches, by reason.',
    labelNames: ['kind'],
    registers,
  })
  for (const kind of UNRECORDED_KINDS) unrecorded.inc({ kind }, 0) // a rate needs the series before the first call
  const refusals = createRefusalCounter(registers)
  const batchEntries = new Histogram({
    name: 'eaas_audit_batch_entries',
    help: 'Audit entries per commit.',
    buckets: ENTRIES,
    registers,
  })
  const commitSeconds = new Histogram({
    name: 'eaas_audit_commit_seconds',
    help: 'Time that the commit of a group of audit entries took.',
    buckets: SECONDS,
    registers,
  })
  const begin = (isExpected = false): Run | undefined => (isExpected ? { at: performance.now() } : undefined)
  let anchors = begin(expected.anchors)
  let checkpoints = begin(expected.checkpoints)
  let verification = begin(expected.verifications)
  let purge = begin(expected.purges)
  const failedJobs = new Map<string, unknown>()
  let differences: number | undefined
  let former: Former | undefined
  addGauges(registry, {
    eaas_audit_anchor_age_seconds: [
      'Seconds since this process last wrote an anchor of the logs, or found a recent one of another server, or since its start until then.',
      () => anchors && secondsSince(anchors.at),
    ],
    eaas_audit_unanchored_tenants: [
      'Tenants whose newest entries the last anchor does not cover, because the head is missing, forged or behind its entries; absent until this process writes an anchor, and while another server does.',
      () => anchors?.left,
    ],
    eaas_audit_checkpoint_age_seconds: [
      'Seconds since this process last had the end of every log in a written checkpoint, or since its start until then; absent without a checkpoint file.',
      () => checkpoints && secondsSince(checkpoints.at),
    ],
    eaas_audit_purge_age_seconds: [
      'Seconds since this process last ran the purge, or since its start until then; absent without a retention.',
      () => purge && secondsSince(purge.at),
    ],
    eaas_audit_purge_failed_tenants: [
      'Tenants whose purge was refused in the last run, and which still keep entries older than the retention; absent until the first run.',
      () => purge?.left,
    ],
    eaas_audit_verification_age_seconds: [
      'Seconds since this process last verified every log, or since its start until then; absent if it never verifies.',
      () => verification && secondsSince(verification.at),
    ],
    eaas_audit_verification_failed_logs: [
      'Logs that were not valid when this process last verified; absent until then.',
      () => verification?.left,
    ],
    eaas_schema_differences: [
      'Differences between the tables and what the migrations make, in columns, constraints, triggers and the like; absent until this process has compared them.',
      () => differences,
    ],
    eaas_secrets_under_former_store_key: [
      'Rows with a secret that a rotation of the store key has not sealed again yet; absent until this process has counted them.',
      () => former?.sealed,
    ],
    eaas_api_keys_under_former_pepper: [
      'API keys that were neither used nor revoked since the last rotation of the store key, and have not expired; the server keeps the former pepper while there are any.',
      () => former?.api_keys,
    ],
  })
  const { witnessesAsked, witnessAges } = createWitnessMetrics(registry, witnesses)
  const ageOf = (run: Run | undefined) => (run ? secondsSince(run.at) : null)
  return {
    registry,
    witnessesAsked,
    ages: (): Ages => ({
      anchor: ageOf(anchors),
      checkpoint: ageOf(checkpoints),
      verification: ageOf(verification),
      purge: ageOf(purge),
      witnesses: witnessAges(),
    }),
    observeUnrecorded(kind: UnrecordedKind, calls: number): void {
      unrecorded.inc({ kind }, calls)
    },
    /** Notes refused calls, operations of batches and requests; only E_UNAUTHORIZED has a `reason`. */
    observeRefusal({ code, reason }: Refused, calls: number): void {
      refusals.inc({ code, reason: reason ?? '' }, calls)
    },
    /** Notes how many logs a verification found invalid; it is incomplete if a log could not be verified. */
    verificationRan(invalid: number, { isComplete }: { isComplete: boolean }): void {
      if (isComplete) verification = { at: performance.now(), left: invalid }
      // The logs that could not be verified now may be those that were invalid before.
      else if (verification && invalid > (verification.left ?? 0)) verification.left = invalid
    },
    /** Notes that written checkpoints cover the end of every log. */
    checkpointsWritten(): void {
      checkpoints = { at: performance.now() }
    },
    /** Notes how many tenants without an alarm have newest entries that an anchor misses; undefined for another server's anchor. */
    anchored(left: number | undefined): void {
      anchors = { at: performance.now(), left }
    },
    custodyCounted(found: Former): void {
      former = found
    },
    tablesCompared(found: number): void {
      differences = found
    },
    /** Notes for how many tenants a run through every log had its purge refused. */
    purgeRan(failed: number): void {
      purge = { at: performance.now(), left: failed }
    },
    /** Notes how many of these tenants still keep such entries, since another purge may have deleted them. */
    purgeLeft(left: number): void {
      if (purge) purge.left = left
    },
    invalidLogs: (): number | null => verification?.left ?? null,
    unpurged: (): number => purge?.left ?? 0,
    failedJobs: (): ReadonlyMap<string, unknown> => failedJobs,
    jobRan(job: string, failure: unknown): void {
      if (failure === undefined) failedJobs.delete(job)
      else failedJobs.set(job, failure)
    },
    observeCommit({ actions, seconds }: { actions: readonly LogAction[]; seconds: number }): void {
      for (const action of actions) entries.inc({ action })
      batchEntries.observe(actions.length)
      commitSeconds.observe(seconds)
    },
  }
}

// Begins all series at 0, since a rate needs a series before its first refusal.
function createRefusalCounter(registers: Registry[]): Counter<'code' | 'reason'> {
  const refusals = new Counter({
    name: 'eaas_refusals_total',
    help: 'Calls, operations of batches and malformed requests that were refused, by code; E_UNAUTHORIZED also by what was wrong with the API key.',
    labelNames: ['code', 'reason'],
    registers,
  })
  for (const [code, { status }] of Object.entries(PROBLEMS)) {
    if (status >= 500) continue
    const reasons = code === 'E_UNAUTHORIZED' ? UNAUTHORIZED_REASONS : ['']
    for (const reason of reasons) refusals.inc({ code, reason }, 0)
  }
  return refusals
}

type Outcome = { witness: string; kind: string }

type WitnessMetrics = { witnessesAsked: (outcomes: readonly Outcome[]) => void; witnessAges: () => Ages['witnesses'] }

function createWitnessMetrics(registry: Registry, names: readonly string[]): WitnessMetrics {
  if (names.length === 0) return { witnessesAsked: () => undefined, witnessAges: () => [] }
  const cosignedAt = new Map<string, number>()
  const contradicting = new Set<string>()
  const cosignatureAge = (witness: string) => secondsSince(cosignedAt.get(witness) ?? startedAt)
  const registers = [registry]
  new Gauge({
    name: 'eaas_witness_cosignature_age_seconds',
    help: "Seconds since the witness last cosigned the installation's log for this process, or since its start until then.",
    labelNames: ['witness'],
    registers,
    collect() {
      for (const witness of names) this.set({ witness }, cosignatureAge(witness))
    },
  })
  const contradicted = new Gauge({
    name: 'eaas_witness_contradicted',
    help: '1 if the witness, by its newest answer, cosigned a log that this one does not continue, 0 otherwise.',
    labelNames: ['witness'],
    registers,
  })
  for (const witness of names) contradicted.set({ witness }, 0)
  const startedAt = performance.now()
  return {
    witnessesAsked(outcomes) {
      for (const { witness, kind } of outcomes) {
        if (kind === 'cosigned' || kind === 'overtaken') cosignedAt.set(witness, performance.now())
        if (kind === 'failed') continue
        contradicted.set({ witness }, kind === 'contradicted' ? 1 : 0)
        if (kind === 'contradicted') contradicting.add(witness)
        else contradicting.delete(witness)
      }
    },
    witnessAges: () =>
      names.map((name) => ({ name, cosignature: cosignatureAge(name), contradicted: contradicting.has(name) })),
  }
}

function addGauges(registry: Registry, gauges: Readonly<Record<string, Reading>>): void {
  for (const [name, [help, read]] of Object.entries(gauges)) {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        const value = read()
        this.reset()
        if (value === undefined) this.remove()
        else this.set(value)
      },
    })
  }
}

function secondsSince(at: number): number {
  return (performance.now() - at) / 1_000
}

function addTlsGauges(registry: Registry, tls: TlsListener): void {
  addGauges(registry, {
    eaas_tls_certificate_expiry_timestamp_seconds: [
      'When the certificate that the server shows expires, in seconds since 1970.',
      () => tls.state().expiresAt / 1_000,
    ],
    eaas_tls_certificate_stale: [
      '1 while the TLS files cannot be used and the server keeps an earlier certificate, 0 otherwise.',
      () => Number(tls.state().isStale),
    ],
  })
}

export function serveMetrics(
  app: FastifyInstance,
  { committer }: Services,
  sources: { metrics: Metrics; checkHealth: HealthCheck; tls: TlsListener | undefined },
): void {
  const { checkHealth, tls } = sources
  const { registry } = sources.metrics
  const registers = [registry]
  const ofProcess = processRegistry() // now, so that its observations begin with the server
  const requests = new Counter({
    name: 'eaas_http_requests_total',
    help: 'Requests, by the status of the answer.',
    labelNames: ['method', 'route', 'status'],
    registers,
  })
  const requestSeconds = new Histogram({
    name: 'eaas_http_request_duration_seconds',
    help: 'Time from a request to the end of its answer.',
    labelNames: ['route'],
    buckets: SECONDS,
    registers,
  })
  new Gauge({
    name: 'eaas_build_info',
    help: 'The running version; always 1.',
    labelNames: ['version'],
    registers,
  }).set({ version: VERSION }, 1)
  let health: wire.Health | undefined
  addGauges(registry, {
    eaas_audit_alarmed_tenants: [
      "Logs, the installation's own included, that differ in the database from what the server wrote; their tenants are no longer served.",
      () => committer.guard.alarmedTenants().length,
    ],
    eaas_audit_watch_age_seconds: [
      'Seconds since this process last began to compare every audit chain in the database with what it witnessed, or since its start until then.',
      () => committer.guard.comparisons.age / 1_000,
    ],
    eaas_degraded: ['1 while /health answers degraded, 0 while healthy.', () => Number(health?.status === 'degraded')],
    eaas_durability_synchronous: [
      '1 while a commit is on disk when it is acknowledged, 0 otherwise; absent while that is unknown.',
      () => (health?.durability === 'unknown' ? undefined : Number(health?.durability === 'synchronous')),
    ],
    eaas_clock_ahead_seconds: [
      "How far this server's clock was ahead of the database's when they were last compared; negative when it was behind.",
      () => committer.clock.ahead() / 1_000,
    ],
    eaas_clock_wrong: [
      '1 while nothing is written because the clock is wrong, 0 otherwise.',
      () => Number(committer.clock.isWrong()),
    ],
    eaas_clock_ahead_logs: [
      "Logs whose last entry is in this server's future, because a clock was wrong: their new entries are refused or get that time.",
      () => committer.guard.ahead(committer.clock).length,
    ],
    eaas_audit_queue_entries: ['Audit entries that are waiting for a commit.', () => committer.waiting()],
  })

  if (tls) addTlsGauges(registry, tls)

  atCallEnd(app, (request, reply, isAnswered) => {
    const route = request.routeOptions.url ?? UNMATCHED
    requests.inc({ method: request.method, route, status: isAnswered ? reply.statusCode : UNANSWERED })
    requestSeconds.observe({ route }, reply.elapsedTime / 1_000)
  })
  app.get('/metrics', async (_, reply) => {
    health = (await checkHealth()).health
    const texts = await Promise.all([registry.metrics(), ofProcess.metrics()])
    return reply.header('cache-control', 'no-store').type(registry.contentType).send(texts.join('\n'))
  })
}

/** Gauges with names of counters, which tools refuse; they are sums of other gauges. */
const MISNAMED = ['active_handles', 'active_requests', 'active_resources'].map((name) => `nodejs_${name}_total`)

// Once per process, however many applications: the observers of these metrics cannot be removed.
let ofThisProcess: Registry | undefined

function processRegistry(): Registry {
  if (!ofThisProcess) {
    ofThisProcess = new Registry()
    collectDefaultMetrics({ register: ofThisProcess })
    for (const name of MISNAMED) ofThisProcess.removeSingleMetric(name)
  }
  return ofThisProcess
}
