// Transit of OpenBao and our server, in the same rounds: one process on one core, 64 connections, each call audited. OpenBao has raft storage and a
// file audit device, as it is commonly run; it never syncs that file, while our entries are in PostgreSQL with fsync before the answer.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { findOrInstallOpenbao } from '../../support/openbao/find-openbao.js'
import { type Openbao, startOpenbao } from '../../support/openbao/openbao.js'
import type { Target } from '../lib/load.js'
import { startServer } from '../lib/process.js'
import type { BarRow, Findings } from '../lib/report.js'
import { short } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { batchTarget, makeTenant, measure, recorder, type Scene, unwrapTarget } from '../lib/scene.js'

const ITEMS = 100
const DEK_BYTES = 32

export async function measurePeer(scene: Scene): Promise<Findings> {
  const program = findOrInstallOpenbao()
  if (program === undefined) return { bars: [], tables: [], plots: [] } // it said so
  const version = execFileSync(program, ['version'], { encoding: 'utf8' }).split(' (')[0]
  const { place, options, pinning } = scene
  const under = pinning ? ['taskset', '-c', pinning.tested] : []
  const database = await scene.database()
  const ours = await startServer(place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  const audited = await startOpenbao({ program, under, audit: true })
  try {
    const tenant = await makeTenant(database, ours)
    const { keyId, secret } = tenant
    const dek = randomBytes(DEK_BYTES).toString('base64')
    const peer = await transitTargets(audited, dek)
    const { costs, record, figures, cells } = recorder()
    const cases = {
      unwrap: [ours, unwrapTarget(ours, tenant)],
      decrypt: [audited, peer.decrypt],
      wrap: [ours, { url: ours.url, path: `/v1/keys/${keyId}/wrap`, secret, bodies: [JSON.stringify({ dek })] }],
      encrypt: [audited, peer.encrypt],
      'batch of 100 unwraps': [ours, batchTarget(ours, tenant, ITEMS)],
      'batch of 100 decrypts': [audited, peer.batch],
    } satisfies Record<string, [{ pid: number }, Target]>
    type Name = keyof typeof cases
    const measured = await interleave(
      Object.fromEntries(
        Object.entries(cases).map(([name, [server, target]]) => [
          name,
          () => record(name, measure(scene, server, target)),
        ]),
      ) as Record<Name, () => Promise<number>>,
      options,
    )
    const against = (name: Name, other: Name, atLeast: number): BarRow => ({
      what: `${name}, calls for the same CPU time of the process`,
      against: `${version} ${other}`,
      measured: spread(ratios(figures(other, 'cpuUs'), figures(name, 'cpuUs'))),
      atLeast,
      note: `by rate: ${short(spread(ratios(measured[name], measured[other])).median)}`,
    })
    return {
      bars: [
        against('unwrap', 'decrypt', 2.5),
        against('wrap', 'encrypt', 3),
        against('batch of 100 unwraps', 'batch of 100 decrypts', 1.2),
      ],
      tables: [
        {
          title: `EaaS on PostgreSQL with fsync, log silent, against ${version}, raft, file audit; one core, 64 connections`,
          columns: ['call', 'of', 'requests a second', 'p50 ms', 'p99 ms', 'CPU µs a request', 'failed'],
          rows: [...costs.keys()].map((name) => [
            name,
            cases[name as Name][0] === ours ? 'EaaS' : 'OpenBao',
            ...cells(name, ['perSecond', 'p50', 'p99', 'cpuUs', 'failed']),
          ]),
          note: 'CPU of the process alone: PostgreSQL, on the other core with the load, is not counted.',
        },
      ],
      plots: [],
    }
  } finally {
    await Promise.all([ours.stop(), audited.remove()])
  }
}

/** The calls of transit that correspond to ours, on a key of AES-256-GCM. Its API takes the token as a bearer, too. */
async function transitTargets({ url, token, send }: Openbao, plaintext: string) {
  await send('POST', 'transit/keys/bench', {})
  const { status, body } = await send('POST', 'transit/encrypt/bench', { plaintext })
  if (status !== 200) throw new Error(`transit answered ${status}: ${JSON.stringify(body)}`)
  const { ciphertext } = body.data
  const to = (verb: string, given: unknown): Target => ({
    url,
    path: `/v1/transit/${verb}/bench`,
    secret: token,
    bodies: [JSON.stringify(given)],
  })
  return {
    encrypt: to('encrypt', { plaintext }),
    decrypt: to('decrypt', { ciphertext }),
    batch: to('decrypt', { batch_input: Array.from({ length: ITEMS }, () => ({ ciphertext })) }),
  }
}
