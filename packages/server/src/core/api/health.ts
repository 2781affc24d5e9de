/** Checks whether the database answers and commits, the clock is right, and no audit chain has an alarm. */
import { INSTALLATION_ID, type wire } from '@eaas/protocol'
import type { Services } from '../runner/operation.js'
import { DatabaseDeadlineError, withDeadline, withoutDeadlines } from '../store/deadline.js'
import { findLoginFault, isNotPrimary } from '../store/unreachable.js'
import { type Durability, findDatabaseTime, findWriteObstacle, probeCommit } from '../store/writability.js'

/** How long the checks may take in total, in milliseconds, before the database counts as failing. */
const PATIENCE_MS = 1_000
/** A commit within this many milliseconds shows that commits work; otherwise the check tries one. */
const FRESH_MS = 5_000
/** How long, in milliseconds, a batch that the database refused counts as a failure while no batch is committed. */
const REFUSAL_MS = 10_000

export interface HealthSources {
  findDurability: () => Promise<Durability>
  isStopping: () => boolean
  /** describes the root key's provider, and whether its last use failed; `none` if this process holds the key */
  describeRootKey?: (() => string) | undefined
  /** the number of tenants whose purge this process's last run refused; 0 by default */
  countUnpurged?: (() => number) | undefined
  /** the jobs of this process whose last run failed, with the reason; none by default */
  listFailedJobs?: (() => ReadonlyMap<string, unknown>) | undefined
}

/** `isReady`: whether calls can be served. An alarm about one tenant's chain stops the calls of that tenant only. */
export type CheckedHealth = { health: wire.Health; isReady: boolean }
export type HealthCheck = () => Promise<CheckedHealth>
type Failure = Pick<wire.Health, 'database'> & { detail: string }

/** Concurrent calls of the check share one run. */
export function createHealthCheck(
  { sql, committer }: Pick<Services, 'sql' | 'committer'>,
  {
    findDurability,
    isStopping,
    countUnpurged = () => 0,
    listFailedJobs = () => new Map(),
    describeRootKey = () => 'none',
  }: HealthSources,
): HealthCheck {
  let durability: Durability | 'unknown' = 'unknown' // until it is read
  let checking: Promise<CheckedHealth> | undefined
  // Kept until it ends: otherwise each check would add one connection to those that hang in a commit.
  let probing: Promise<void> | undefined
  let probedAt = Number.NEGATIVE_INFINITY

  async function findFailure(): Promise<Failure | undefined> {
    const until = performance.now() + PATIENCE_MS
    const inTime = <T>(work: Promise<T>) => withDeadline(work, until - performance.now())
    try {
      const [found, obstacle] = await inTime(Promise.all([findDurability(), findWriteObstacle(sql)]))
      durability = found
      if (obstacle) return { database: obstacle.part, detail: obstacle.detail }
      const fault = await inTime(committer.clock.findFault(() => findDatabaseTime(sql)))
      if (fault !== undefined) return { database: 'clock', detail: fault }
    } catch (error) {
      if (isNotPrimary(error)) return { database: 'read_only', detail: 'the database is a standby, or is read-only' }
      const code = findLoginFault(error)
      if (code !== undefined) return { database: 'login', detail: `the database refuses the login (SQLSTATE ${code})` }
      return { database: 'down', detail: 'the database does not answer' } // the calls that fail log the cause
    }
    return findOverdue() ?? findCommitFailure(inTime)
  }

  async function findCommitFailure(inTime: <T>(work: Promise<T>) => Promise<T>): Promise<Failure | undefined> {
    const { succeededAt, failedAt, refused } = committer.recent
    const now = performance.now()
    if (refused && now - refused.at < REFUSAL_MS) {
      return { database: 'failing', detail: `the database refuses to commit audit entries (SQLSTATE ${refused.code})` }
    }
    const shownAt = Math.max(succeededAt, probedAt)
    if (shownAt > failedAt && now - shownAt < FRESH_MS) return undefined
    probing ??= probe().finally(() => {
      probing = undefined
    })
    try {
      await inTime(probing)
      return undefined
    } catch (error) {
      probing?.catch(() => undefined)
      return { database: 'failing', detail: describeProbe(error) }
    }
  }

  async function probe(): Promise<void> {
    await probeCommit(withoutDeadlines(sql))
    probedAt = performance.now()
  }

  function findOverdue(): Failure | undefined {
    if (!committer.guard.comparisons.isOverdue) return undefined
    return {
      database: 'unwatched',
      detail:
        'the audit logs could not be compared with what the server wrote: a lock may keep it from reading them, or the root key is not that of this database; the log says why',
    }
  }

  function findUnreached(): Failure | undefined {
    const tenants = committer.guard.comparisons.overdueTenants
    if (tenants.length === 0) return undefined
    return {
      database: 'unwatched',
      detail: `${nameLogs(tenants, 'the log of a tenant')} could not be compared with what the server wrote, because a part of the database does not answer, or somebody put an audit key back: calls of ${tenants.length === 1 ? 'this tenant' : 'these tenants'} are refused meanwhile; the log says why`,
    }
  }

  function findAlarm(): Failure | undefined {
    const alarmed = committer.guard.alarmedTenants()
    if (alarmed.length === 0) return undefined
    return {
      database: 'alarm',
      detail: `${nameLogs(alarmed, 'the log of a tenant')} ${alarmed.length === 1 ? 'differs' : 'differ'} from what the server wrote; the server's own output says how`,
    }
  }

  function findAhead(): Failure | undefined {
    const ahead = committer.guard.ahead(committer.clock)
    const [furthest] = ahead
    if (!furthest) return undefined
    const tenants = ahead.map(({ tenant_id }) => tenant_id)
    const logs = nameLogs(tenants, "a tenant's log")
    return {
      database: 'clock',
      detail:
        `the last entries of ${logs} are in the future, until ${furthest.created_at}: a clock was wrong, or is. Until then new entries are refused, ` +
        'or dated then. eaas accept clock names the logs, and ends this',
    }
  }

  function findUnpurged(): Failure | undefined {
    const tenants = countUnpurged()
    if (tenants === 0) return undefined
    return {
      database: 'purge',
      detail: `entries of ${tenants === 1 ? 'a tenant' : `${tenants} tenants`} are older than EAAS_AUDIT_RETENTION_MONTHS, and kept until you act: eaas purge --dry-run says why`,
    }
  }

  function findFailedJobs(): Failure | undefined {
    const failed = [...listFailedJobs()].map(([job, error]) => withCode(job, error))
    if (failed.length === 0) return undefined
    return {
      database: 'job',
      detail: `the last time, this failed: ${failed.join('; ')}. It is tried again within minutes, and the server's log says why`,
    }
  }

  async function check(): Promise<CheckedHealth> {
    const stop = isStopping() ? { database: 'up', detail: 'the server is stopping' } : undefined
    const failure = (await findFailure()) ?? stop
    const fault = failure ?? findAlarm() ?? findUnreached() ?? findAhead() ?? findUnpurged() ?? findFailedJobs()
    const { database, detail } = fault ?? { database: 'up', detail: undefined }
    const rest = { database, cache: 'up', hsm: describeRootKey(), durability }
    if (detail === undefined) return { health: { status: 'healthy', ...rest }, isReady: true }
    const title = failure ? { title: 'Service Unavailable' } : {}
    return { health: { status: 'degraded', ...rest, ...title, detail }, isReady: failure === undefined }
  }

  return () => {
    checking ??= check().finally(() => {
      checking = undefined
    })
    return checking
  }
}

function describeProbe(error: unknown): string {
  if (error instanceof DatabaseDeadlineError) {
    return 'the database does not acknowledge writes in time: a synchronous standby may be missing, or somebody may hold a lock on a table'
  }
  return withCode('the database does not commit', error)
}

/** Names an error by its code alone, because everybody can read the answer. */
function withCode(text: string, error: unknown): string {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown }
  if (typeof code === 'string') return `${text} (${code})`
  return cause === undefined ? text : withCode(text, cause)
}

/** Says whose logs these are, without ids, since everybody can read it; `one` is used for the log of a single tenant. */
function nameLogs(tenant_ids: readonly string[], one: string): string {
  const own = tenant_ids.includes(INSTALLATION_ID) ? ["the installation's own log"] : []
  const others = tenant_ids.length - own.length
  const tenants = others > 0 ? [others === 1 ? one : `the logs of ${others} tenants`] : []
  return [...own, ...tenants].join(' and ')
}
