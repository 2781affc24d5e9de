// A tenant's wraps while the long log of another tenant is verified again and again on the same server. Not pinned.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { makeLongLog } from '../../support/audit/long-log.js'
import { ROOT_KEY, startServer } from '../lib/process.js'
import { type Findings, short, withSpread } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { makeTenant, type Scene } from '../lib/scene.js'
import { call, type Timed } from './neighbours.js'

const DAY_MS = 86_400_000
const EVERY_MS = 5

export async function measureVerification(scene: Scene): Promise<Findings> {
  const { quick, full, seconds } = scene.options
  const entries = quick ? 20_000 : full ? 1_000_000 : 200_000
  const database = await scene.database()
  const to = Date.now() - DAY_MS
  const from = to - 300 * DAY_MS
  const long = await makeLongLog({ url: database.url ?? '', rootKey: ROOT_KEY, name: 'long', entries, from, to })
  const place = { ...scene.place, cpus: undefined }
  const server = await startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const tenant = await makeTenant(database, server)
    const file = `${scene.guard.path}/verified-wrap.json`
    writeFileSync(file, JSON.stringify({ dek: randomBytes(32).toString('base64') }))
    const wrap = [{ method: 'POST', path: `/v1/keys/${tenant.keyId}/wrap`, file }]
    const verify = [{ method: 'GET', path: '/v1/audit/verify' }]
    const found = new Map<string, { timed: Timed; verified: Timed | undefined }[]>()
    const measure = (kind: string, isVerifying: boolean) => async () => {
      const verifying = isVerifying && call(server, { secret: long.secret, calls: verify, clients: 1, seconds })
      const timed = await call(server, { secret: tenant.secret, calls: wrap, clients: 1, seconds, everyMs: EVERY_MS })
      found.set(kind, [...(found.get(kind) ?? []), { timed, verified: (await verifying) || undefined }])
      return timed.p99
    }
    const measured = await interleave(
      { quiet: measure('quiet', false), verifying: measure('verifying', true) },
      scene.options,
    )
    return {
      bars: [
        {
          what: `p99 of a wrap while ${entries.toLocaleString('en')} entries are verified`,
          against: 'nobody verifies',
          measured: spread(ratios(measured.verifying, measured.quiet)),
          atMost: 2,
        },
      ],
      tables: [
        {
          title: `A tenant's wraps, one each ${EVERY_MS} ms, while the log of another one is verified without pause`,
          columns: ['', 'p50 ms', 'p99 ms', 'slowest ms', 'failed', 'verifications', 'failed'],
          rows: [...found].map(([kind, runs]) => {
            const counted = runs.slice(1)
            const of = (figure: keyof Timed) => counted.map(({ timed }) => timed[figure])
            const sum = (values: number[]) => String(values.reduce((all, value) => all + value, 0))
            return [
              kind,
              short(spread(of('p50')).median),
              withSpread(spread(of('p99'))),
              short(spread(of('most')).median),
              sum(of('failed')),
              sum(counted.map(({ verified }) => verified?.calls ?? 0)),
              sum(counted.map(({ verified }) => verified?.failed ?? 0)),
            ]
          }),
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}
