// Logs of a million and of five million entries on PostgreSQL: that everything holds there, and how long it takes. The figures
// are printed, not asserted: they say something of one machine only.
import { execFile } from 'node:child_process'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LongLog, makeLongLog } from '../support/audit/long-log.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { EAAS_AUDIT, type EaasProcess, ROOT_KEY, runEaas, startEaas } from '../support/service/eaas-process.js'
import { type Latencies, measureLatencies, peakMiB, residentMiB } from '../support/service/latency.js'

const DAY_MS = 86_400_000
const MILLION = 1_000_000
const FILL_TIMEOUT_MS = 20 * 60_000
/** Clients that call on while the log is verified or purged, and the pause of each between two calls. */
const LOAD = { clients: 16, pauseMs: 20 }
const RUNS = 3

interface Scene {
  database: TestDatabase
  log: LongLog
  eaas: EaasProcess
  folder: string
}

async function setScene(entries: number, days: number): Promise<Scene> {
  const database = await freshDatabase('scale')
  if (database.backend !== 'postgres') throw new Error('long logs are filled on PostgreSQL')
  const now = Date.now()
  const [from, to] = [now - days * DAY_MS, now - 60_000]
  const log = await makeLongLog({ url: database.url, rootKey: ROOT_KEY, name: 'scale', entries, from, to })
  const eaas = await startEaas({ database, environment: { EAAS_AUDIT_RETENTION_MONTHS: '0' } })
  return { database, log, eaas, folder: await mkdtemp(join(tmpdir(), 'eaas-scale-')) }
}

async function endScene(scene: Scene | undefined): Promise<void> {
  await scene?.eaas.stop()
  if (scene) await rm(scene.folder, { recursive: true, force: true })
  await scene?.database.drop()
}

// Not by `callsOf`, which takes a call of 40 s for one that hangs.
async function get({ eaas, log }: Scene, path: string) {
  const response = await fetch(eaas.url + path, { headers: { authorization: `Bearer ${log.secret}` } })
  return { status: response.status, body: await response.json() }
}

async function timed<T>(work: () => Promise<T>): Promise<{ seconds: number; result: T }> {
  const from = performance.now()
  const result = await work()
  return { seconds: Math.round(performance.now() - from) / 1_000, result }
}

function describeLatencies({ calls, failed, p50, p99, max }: Latencies): string {
  return `${calls} calls, ${failed} failed, p50 ${p50} ms, p99 ${p99} ms, max ${max} ms`
}

/** The total by counting every row. */
async function countOf({ database, log }: Scene, query: string): Promise<number> {
  if (database.backend !== 'postgres') throw new Error('only PostgreSQL is counted')
  const sql = postgres(database.url, { max: 1 })
  const asked = new URLSearchParams(query)
  const when = (name: string, condition: (value: string) => ReturnType<typeof sql>) => {
    const value = asked.get(name)
    return value === null ? sql`` : condition(value)
  }
  try {
    const [row] = await sql`
      select count(*)::int as total from audit_log where tenant_id = ${log.tenant_id}
      ${when('action', (value) => sql`and action = ${value}`)}
      ${when('key_id', (value) => sql`and key_id = ${value}`)}
      ${when('after_id', (value) => sql`and id > ${value}`)}
      ${when('date_from', (value) => sql`and created_at >= ${value}::timestamptz`)}
      ${when('date_to', (value) => sql`and created_at <= ${value}::timestamptz`)}`
    return row?.total
  } finally {
    await sql.end()
  }
}

const onPostgres = describe.skipIf(backend() === 'embedded')

onPostgres('a log of a million entries', () => {
  let scene: Scene

  beforeAll(async () => {
    scene = await setScene(MILLION, 456)
  }, FILL_TIMEOUT_MS)
  afterAll(() => endScene(scene), FILL_TIMEOUT_MS)

  const verify = () => timed(() => get(scene, '/v1/audit/verify'))
  const load = (during: number | Promise<unknown>) =>
    measureLatencies({ ...LOAD, url: scene.eaas.url, secret: scene.log.secret, during })

  it('is valid, in flat memory, while other calls go on', async () => {
    await load(5_000) // what a server that is warm needs
    const before = residentMiB(scene.eaas.pid)
    for (let run = 0; run < RUNS; run++) {
      const alone = verify()
      const peak = await peakMiB(() => scene.eaas.pid, alone)
      const { seconds, result } = await alone
      expect(result).toMatchObject({ status: 200, body: { valid: true } })
      console.log(
        `verify alone: ${result.body.verified_entries} entries in ${seconds} s, memory ${Math.round(before)} to ${peak} MiB`,
      )

      const without = await load(8_000)
      const verifying = verify()
      const meanwhile = await load(verifying)
      const { seconds: under, result: busy } = await verifying
      expect(busy).toMatchObject({ status: 200, body: { valid: true } })
      expect([without.failed, meanwhile.failed]).toEqual([0, 0])
      console.log(
        `verify under load: ${under} s; other calls without it: ${describeLatencies(without)}; with it: ` +
          `${describeLatencies(meanwhile)}; p99 × ${(meanwhile.p99 / without.p99).toFixed(2)}`,
      )
    }
  })

  it('is exported and verified offline, in flat memory', async () => {
    const out = join(scene.folder, 'log.ndjson')
    const exporting = await timed(() =>
      runEaas(['audit', 'export', '--tenant', 'scale', '--out', out], { database: scene.database }),
    )
    expect(exporting.result.code).toBe(0)
    const key = (await runEaas(['audit', 'public-key'], { database: scene.database })).stdout.trim()
    let pid = 0
    const offline = timed(
      () =>
        new Promise<string>((resolve, reject) => {
          const args = [EAAS_AUDIT, 'verify', out, '--public-key', key, '--json']
          const child = execFile(process.execPath, args, { env: {} }, (error, stdout) =>
            error ? reject(error) : resolve(stdout),
          )
          pid = child.pid ?? 0
        }),
    )
    const peak = await peakMiB(() => pid, offline)
    const { seconds, result } = await offline
    const verdict = JSON.parse(result)
    expect(verdict).toMatchObject({ valid: true, whole: true, trusted_key: true })
    expect(verdict.verified_entries).toBeGreaterThan(MILLION)
    const mib = Math.round((await stat(out)).size / 1_048_576)
    console.log(
      `export: ${exporting.seconds} s, ${mib} MiB; verified offline in ${seconds} s, memory at most ${peak} MiB`,
    )
  })

  it('loses a fifth of its entries to a purge under load, and is valid during it and after it', async () => {
    const without = await load(8_000)
    const oldest = new Date(Date.now() - 13 * 30 * DAY_MS).toISOString().slice(0, 7)
    const usage = await get(scene, `/v1/usage?month=${oldest}`)
    expect(JSON.stringify(usage.body)).toMatch(/[1-9]\d{4}/)
    let isOver = false
    const purging = timed(() =>
      runEaas(['purge', '--tenant', 'scale', '--json'], {
        database: scene.database,
        environment: { EAAS_AUDIT_RETENTION_MONTHS: '12' },
      }),
    ).finally(() => {
      isOver = true
    })
    const meanwhile = await load(purging)
    const { seconds, result } = await purging
    expect([result.code, result.stderr, isOver]).toEqual([0, '', true])
    const [plan] = JSON.parse(result.stdout).tenants
    expect(plan.entries).toBeGreaterThan(150_000)
    expect(meanwhile.failed).toBe(0)
    console.log(
      `purge of ${plan.entries} entries: ${seconds} s; other calls without it: ${describeLatencies(without)}; with it: ` +
        `${describeLatencies(meanwhile)}; p99 × ${(meanwhile.p99 / without.p99).toFixed(2)}`,
    )
    const after = await verify()
    expect(after.result.body).toMatchObject({ valid: true, purged_through: plan.purged_through })
    const list = await get(scene, '/v1/audit?order=asc&limit=1')
    expect(list.body.logs[0].id).toBe(plan.purged_through + 1)
    const { body } = await get(scene, `/v1/usage?month=${oldest}`)
    expect(body.operations).toEqual(usage.body.operations)
    const until = new Date(Date.now() - 300 * DAY_MS).toISOString()
    for (const filter of ['', 'action=key.wrap', `key_id=${scene.log.bigKey}`, `action=key.wrap&date_to=${until}`]) {
      const { total } = (await get(scene, `/v1/audit?limit=1&${filter}`)).body
      expect([filter, total]).toEqual([filter, await countOf(scene, filter)])
    }
  })
})

onPostgres('a log that is purged while it is verified', () => {
  let scene: Scene

  beforeAll(async () => {
    scene = await setScene(200_000, 456)
  }, FILL_TIMEOUT_MS)
  afterAll(() => endScene(scene), FILL_TIMEOUT_MS)

  it('is valid in each verification, from before the mark to after the last row is gone', async () => {
    const verdict = async () => (await get(scene, '/v1/audit/verify')).body
    const verdicts: { valid: boolean; purged_through: number; reason?: string }[] = [await verdict()]
    let isOver = false
    const verifying = (async () => {
      while (!isOver) verdicts.push(await verdict())
    })()
    const { code } = await runEaas(['purge', '--tenant', 'scale'], {
      database: scene.database,
      environment: { EAAS_AUDIT_RETENTION_MONTHS: '12' },
    })
    isOver = true
    await verifying
    verdicts.push(await verdict())
    expect(code).toBe(0)
    expect(verdicts.filter(({ valid }) => !valid)).toEqual([])
    expect(verdicts.at(0)?.purged_through).toBe(0)
    expect(verdicts.at(-1)?.purged_through).toBeGreaterThan(30_000)
    console.log(`purge of a log of 200,000 entries: ${verdicts.length} verifications meanwhile, all valid`)
  })
})

onPostgres('a log of five million entries', () => {
  let scene: Scene

  beforeAll(async () => {
    scene = await setScene(5 * MILLION, 100)
  }, FILL_TIMEOUT_MS)
  afterAll(() => endScene(scene), FILL_TIMEOUT_MS)

  it('is listed with exact totals, whatever is asked for', async () => {
    const { bigKey, rareAction } = scene.log
    const [from, to] = [71.3, 11.7].map((days) => new Date(Date.now() - days * DAY_MS).toISOString())
    const range = `date_from=${from}&date_to=${to}`
    const lines: string[] = []
    for (const [name, query] of [
      ['unfiltered', ''],
      ['by action', 'action=key.wrap'],
      ['by rare action', `action=${rareAction}`],
      ['by key', `key_id=${bigKey}`],
      ['by action and key', `action=key.wrap&key_id=${bigKey}`],
      ['by rare action and key', `action=${rareAction}&key_id=${bigKey}`],
      ['by a ragged range', range],
      ['by a ragged range and action', `${range}&action=key.wrap`],
      ['by a ragged range and key', `${range}&key_id=${bigKey}`],
      ['by a ragged range, rare action and key', `${range}&action=${rareAction}&key_id=${bigKey}`],
      ['after an id, by action', 'after_id=123456&action=key.wrap'],
      ['deep offset', 'offset=4000000'],
      ['deep offset by key', `offset=10000&key_id=${bigKey}`],
    ] as const) {
      for (const order of ['desc', 'asc']) {
        const times: number[] = []
        let total = 0
        for (let run = 0; run < 7; run++) {
          const { seconds, result } = await timed(() => get(scene, `/v1/audit?order=${order}&${query}`))
          expect({ name, order, status: result.status }).toEqual({ name, order, status: 200 })
          times.push(seconds * 1_000)
          total = result.body.total
        }
        const [first = 0] = times
        times.sort((a, b) => a - b)
        lines.push(`${name}, ${order}: ${times[3]?.toFixed(1)} ms (first ${first.toFixed(1)}), total ${total}`)
        expect([name, total]).toEqual([name, await countOf(scene, query)])
      }
    }
    console.log(`first pages of 5,000,000 entries, HTTP included:\n${lines.join('\n')}`)
  })
})
