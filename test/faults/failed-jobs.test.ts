// A database that fails at the first run of the server's jobs: each of them is tried again within minutes, /health says meanwhile
// which failed and why, and nothing that could not be found out is stored as found.
import { setTimeout as sleep } from 'node:timers/promises'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { buildApp } from '../../packages/server/src/app.js'
import type { Services } from '../../packages/server/src/core/runner/operation.js'
import { TamperedRowError } from '../../packages/server/src/core/store/tampered-row.js'
import { createGrowthCover } from '../../packages/server/src/guard/jobs/rounds.js'
import { HeadWatches } from '../../packages/server/src/guard/watch/head-watch.js'
import { createMetrics, type Metrics } from '../../packages/server/src/observe/metrics.js'
import { createScheduledVerification } from '../../packages/server/src/operate/jobs/verify-all.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { startScheduleOf, UNMEASURED } from '../support/service/schedule.js'
import { type Service, startService } from '../support/service/service.js'

const HOURS = 24
const JOBS = [
  'reading the alarms',
  'reading the store keys',
  'writing digests of API keys under the new pepper',
  'writing when API keys were last used',
  'writing the counts of calls without an entry',
  'comparing the tables with what the migrations make',
  'writing checkpoints',
  'covering logs that grew',
  'listing the keys that are due',
  'counting what keys wrapped',
  'comparing what API keys open with what is usual',
  'counting what needs the former pepper or an earlier store key',
  'erasing what destroyed keys left in the files of the database',
  'verifying the audit logs',
  'purging old entries',
  'looking for what the purge left',
]

let service: Service
beforeEach(async () => {
  service = await startService()
})
afterEach(async () => {
  vi.useRealTimers()
  await service.close()
})

const tooMany = () => Object.assign(new Error('sorry, too many clients already'), { code: '53300' })

/** The services of a server whose database refuses every statement while `isDown` says so. */
function failing(services: Services, isDown: () => boolean): Services {
  const unlessDown = <T>(work: () => Promise<T>) => (isDown() ? Promise.reject(tooMany()) : work())
  const sql = new Proxy(services.sql, {
    apply(target, self, args) {
      const isStatement = Array.isArray(args[0]) && 'raw' in args[0]
      if (!isStatement || !isDown()) return Reflect.apply(target, self, args)
      const refused = Promise.reject(tooMany())
      refused.catch(() => undefined) // a part of a statement is not awaited
      return refused
    },
    get(target, name) {
      const value = Reflect.get(target, name)
      return name === 'begin' ? (...args: unknown[]) => unlessDown(() => value.apply(target, args)) : value
    },
  })
  return {
    ...services,
    sql,
    peppers: {
      flush: () => unlessDown(() => services.peppers.flush()),
      deleteFormer: (now: number) => unlessDown(() => services.peppers.deleteFormer(now)),
    } as Services['peppers'],
    apiKeyUses: { ...services.apiKeyUses, flush: () => unlessDown(services.apiKeyUses.flush) },
    unrecordedCalls: { ...services.unrecordedCalls, flush: () => unlessDown(services.unrecordedCalls.flush) },
    verifyLog: (options) => unlessDown(() => services.verifyLog(options)),
    states: { ...services.states, find: (id) => (isDown() ? Promise.reject(tooMany()) : services.states.find(id)) },
  }
}

/** Returns a function that asks /health of an application with these metrics. */
function createHealth(metrics: Metrics) {
  const app = buildApp({
    services: service.services,
    findDurability: async () => 'synchronous',
    logger: false,
    metrics,
  })
  onTestFinished(() => app.close())
  return async () => (await app.inject({ url: '/health' })).json() as Record<string, string>
}

it('each job is tried again within minutes of a first run that failed, and /health names it until then', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  await service.createTenant()
  let isDown = true
  const services = failing(service.services, () => isDown)
  const metrics = createMetrics({ anchors: true, checkpoints: true, purges: true, verifications: true })
  const { path: folder, remove } = guardedDir('eaas-failed-jobs')
  const unlessDown = async <T>(answer: T) => {
    if (isDown) throw tooMany()
    return answer
  }
  const schedule = startScheduleOf(
    { ...service, services },
    {
      config: {
        auditRetentionMonths: 1_000,
        auditVerifyHours: 1e-6, // always due
        checkpointMinutes: 60,
        checkpointFile: `${folder}/checkpoints`,
      },
      sharedAlarms: { compare: () => unlessDown([]) },
      compareAnchored: () => unlessDown([]),
      refreshStoreKeys: () => unlessDown(undefined),
      eraseDestroyed: () => unlessDown({ outcome: 'unchanged', versions: 0 } as const),
      measures: { ...UNMEASURED, ...metrics },
    },
  )
  const findHealth = createHealth(metrics)
  const failed = () => [...metrics.failedJobs().keys()]
  try {
    // What the purge left is looked at in the database only after a purge was refused; the growth of no log is covered.
    const idle = ['looking for what the purge left', 'covering logs that grew']
    await expect.poll(() => failed().sort()).toEqual(JOBS.filter((job) => !idle.includes(job)).sort())
    const health = await findHealth()
    expect([health.status, health.database]).toEqual(['degraded', 'job'])
    for (const job of failed()) expect(health.detail).toContain(`${job} (53300)`)
    isDown = false
    // In less than ten minutes, the shortest interval of those that would not be repeated each minute anyway.
    for (let minute = 0; minute < 9 && failed().length > 0; minute++) {
      vi.advanceTimersByTime(60_000)
      for (let pause = 0; pause < 10 && failed().length > 0; pause++) await sleep(100)
    }
    expect(failed()).toEqual([])
    expect(await findHealth()).toMatchObject({ status: 'healthy', database: 'up' })
  } finally {
    await schedule.stop()
    remove()
  }
})

it('what a job finds out about the data is no failure of the job', async () => {
  const ran = new Map<string, unknown>()
  const schedule = startScheduleOf(service, {
    config: { checkpointFile: undefined },
    compareAnchored: async () => [new TamperedRowError('a row was edited')],
    measures: { ...UNMEASURED, jobRan: (job, failure) => ran.set(job, failure) },
  })
  try {
    await expect.poll(() => ran.has('writing checkpoints')).toBe(true)
    expect(ran.get('writing checkpoints')).toBeUndefined()
  } finally {
    await schedule.stop()
  }
})

it('logs that grew are anchored again if the anchor failed, and then not until they grow again', async () => {
  const outcomes = [false, true]
  const anchor = vi.fn(async () => outcomes.shift() ?? false)
  const guard = new HeadWatches(() => undefined)
  const committer = { recent: { entries: 1_000_000 }, guard } as unknown as Services['committer']
  const cover = createGrowthCover({ committer }, { anchor, keep: async () => undefined, written: new Map() })
  for (let run = 0; run < 3; run++) await cover(() => undefined)
  expect(anchor).toHaveBeenCalledTimes(2)
})

it('a verification in which a log could not be read puts none off, and counts no log as invalid', async () => {
  const { tenant } = await service.createTenant()
  let now = Date.now() + 2 * HOURS * 3_600_000
  let isDown = true
  const due = { ...service.services, now: () => now }
  const verifyLog: Services['verifyLog'] = async (options) => {
    if (isDown && options.tenant_id === tenant.tenant_id) throw tooMany()
    return due.verifyLog(options)
  }
  const verify = createScheduledVerification({ ...due, verifyLog }, { hours: HOURS })
  const verifyElsewhere = createScheduledVerification(due, { hours: HOURS })
  const { signal } = new AbortController()
  expect(await verify(signal)).toMatchObject({ invalid: [], unverified: [{ tenant_id: tenant.tenant_id }] })
  isDown = false
  expect(await verify(signal)).toMatchObject({ invalid: [], unverified: [] })
  expect(await verify(signal)).toBeUndefined()
  now = Date.now() // of the entry
  expect(await verifyElsewhere(signal)).toBeUndefined()
  const metrics = createMetrics({ verifications: true })
  metrics.verificationRan(1, { isComplete: true })
  metrics.verificationRan(0, { isComplete: false })
  expect(metrics.invalidLogs()).toBe(1)
  metrics.verificationRan(2, { isComplete: false })
  expect(metrics.invalidLogs()).toBe(2)
})

it('a verification that another server could not complete is due here, too', async () => {
  await service.createTenant()
  let now = Date.now() + 2 * HOURS * 3_600_000
  const due = { ...service.services, now: () => now }
  const verifyLog: Services['verifyLog'] = async (options) => {
    if (options.tenant_id !== INSTALLATION_ID) throw tooMany()
    return due.verifyLog(options)
  }
  const { signal } = new AbortController()
  const half = createScheduledVerification({ ...due, verifyLog }, { hours: HOURS })
  expect(await half(signal)).toMatchObject({ unverified: [expect.anything()] })
  now = Date.now() // of the entry
  const whole = createScheduledVerification(due, { hours: HOURS })
  expect(await whole(signal)).toMatchObject({ logs: 2, unverified: [] })
  expect(await createScheduledVerification(due, { hours: HOURS })(signal)).toBeUndefined()
})

it('/health says while no checkpoint can be written, and why', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const { path: folder, remove } = guardedDir('eaas-failed-checkpoints')
  const metrics = createMetrics({ checkpoints: true })
  const findHealth = createHealth(metrics)
  const schedule = startScheduleOf(service, {
    config: { auditRetentionMonths: 0, checkpointMinutes: 60, checkpointFile: `${folder}/none/checkpoints` },
    measures: { ...UNMEASURED, ...metrics },
  })
  try {
    await expect.poll(findHealth).toMatchObject({
      status: 'degraded',
      database: 'job',
      detail: expect.stringMatching(/writing checkpoints \(ENOENT\)/),
    })
  } finally {
    await schedule.stop()
    remove()
  }
})
