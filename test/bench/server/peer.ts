// Transit of OpenBao and our server, in the same rounds: one process on one core, 64 connections, each call audited. OpenBao has raft storage and a
// file audit device, as it is commonly run; it never syncs that file, while our entries are in PostgreSQL with fsync before the answer.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { findOrInstallOpenbao } from '../../support/openbao/find-openbao.js'
import { type Openbao, startOpenbao } from '../../support/openbao/openbao.js'
import type { Target } from '../lib/load.js'
import { type Running, startServer } from '../lib/process.js'
import type { BarRow, Findings } from '../lib/report.js'
import { short } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import { batchTarget, callTargets, makeTenant, measure, recorder, type Scene, unwrapTarget } from '../lib/scene.js'

const ITEMS = 100
const DEK_BYTES = 32
const SILENT = { environment: { EAAS_LOG_LEVEL: 'silent' } }

interface Side {
  call: string
  server: Pick<Running, 'pid'>
  target: Target
}

export async function measurePeer(scene: Scene): Promise<Findings> {
  const program = findOrInstallOpenbao()
  if (program === undefined) return { bars: [], tables: [], plots: [] } // it said so
  const version = execFileSync(program, ['version'], { encoding: 'utf8' }).split(' (')[0]
  const { place, options, pinning } = scene
  const under = pinning ? ['taskset', '-c', pinning.tested] : []
  const [database, loggingOn, embeddedOn] = [await scene.database(), await scene.database(), scene.dataDir()]
  const ours = await startServer(place, database, SILENT)
  const logging = await startServer(place, loggingOn)
  const embedded = await startServer(place, embeddedOn, SILENT)
  const openbao = await startOpenbao({ program, under, audit: true })
  try {
    const tenant = await makeTenant(database, ours)
    const our = await callTargets(ours, tenant)
    const logged = unwrapTarget(logging, await makeTenant(loggingOn, logging))
    const unsynced = unwrapTarget(embedded, await makeTenant(embeddedOn, embedded))
    const their = await transitTargets(openbao, randomBytes(DEK_BYTES).toString('base64'))
    const side = (call: string, server: Pick<Running, 'pid'>, target: Target): Side => ({ call, server, target })
    const [unwrap, decrypt] = [side('unwrap', ours, our.unwrap), side('decrypt', openbao, their.decrypt)]
    const alone = (one: Side) => ({ ...one, call: `${one.call}, 1 connection` })
    const pairs: [Side, Side, atLeast: number, figure?: 'perSecond'][] = [
      [unwrap, decrypt, 2.7],
      [side('unwrap, log at info', logging, logged), side('decrypt, policy', openbao, their.byPolicy), 6.2],
      [side('wrap', ours, our.wrap), side('encrypt', openbao, their.encrypt), 2.5],
      [side('hash', ours, our.hash), side('hmac', openbao, their.hmac), 4],
      [
        side('batch of 100 unwraps', ours, batchTarget(ours, tenant, ITEMS)),
        side('batch of 100 decrypts', openbao, their.batch),
        1,
      ],
      [side('unwrap, embedded', embedded, unsynced), decrypt, 1.4],
      [alone(unwrap), alone(decrypt), 0.6, 'perSecond'],
    ]
    const { record, figures, cells } = recorder()
    const sides = new Map(pairs.flat().flatMap((one) => (typeof one === 'object' ? [[one.call, one] as const] : [])))
    const connections = (call: string) => (call.endsWith('1 connection') ? { connections: 1 } : {})
    await interleave(
      Object.fromEntries(
        [...sides].map(([call, { server, target }]) => [
          call,
          () => record(call, measure(scene, server, target, connections(call))),
        ]),
      ),
      options,
    )
    const bars = pairs.map(([{ call }, { call: other }, atLeast, figure]): BarRow => {
      const byCpu = spread(ratios(figures(other, 'cpuUs'), figures(call, 'cpuUs')))
      const byRate = spread(ratios(figures(call, 'perSecond'), figures(other, 'perSecond')))
      return {
        what: `${call}, ${figure ? 'calls a second' : 'calls for the same CPU time of the process'}`,
        against: `${version} ${other}`,
        measured: figure ? byRate : byCpu,
        atLeast,
        note: figure ? `by CPU: ${short(byCpu.median)}` : `by rate: ${short(byRate.median)}`,
      }
    })
    return {
      bars,
      tables: [
        {
          title: `EaaS, log silent, on PostgreSQL with fsync, against ${version}, raft, file audit; one core, 64 connections`,
          columns: ['call', 'of', 'requests a second', 'p50 ms', 'p99 ms', 'CPU µs a request', 'failed'],
          rows: [...sides].map(([call, { server }]) => [
            call,
            server === openbao ? 'OpenBao' : 'EaaS',
            ...cells(call, ['perSecond', 'p50', 'p99', 'cpuUs', 'failed']),
          ]),
          note: 'CPU of the process alone: PostgreSQL, on the other core with the load, is not counted.',
        },
      ],
      plots: [],
    }
  } finally {
    await Promise.all([ours.stop(), logging.stop(), embedded.stop(), openbao.remove()])
  }
}

/** The calls of transit that correspond to ours, on a key of AES-256-GCM. Its API takes the token as a bearer, too. */
async function transitTargets({ url, token, send }: Openbao, plaintext: string) {
  const must = async (...request: Parameters<typeof send>) => {
    const { status, body } = await send(...request)
    if (status > 299) throw new Error(`transit answered ${status}: ${JSON.stringify(body)}`)
    return body
  }
  await must('POST', 'transit/keys/bench', {})
  const { ciphertext } = (await must('POST', 'transit/encrypt/bench', { plaintext })).data
  // An application's token: it has the policy `default` besides its own.
  const policy = 'path "transit/*" { capabilities = ["update"] }'
  await must('PUT', 'sys/policies/acl/bench', { policy })
  const { auth } = await must('POST', 'auth/token/create', { policies: ['bench'] })
  const to = (verb: string, given: unknown, secret = token): Target => ({
    url,
    path: `/v1/transit/${verb}/bench`,
    secret,
    bodies: [JSON.stringify(given)],
  })
  return {
    encrypt: to('encrypt', { plaintext }),
    decrypt: to('decrypt', { ciphertext }),
    byPolicy: to('decrypt', { ciphertext }, auth.client_token),
    hmac: to('hmac', { input: Buffer.from('ada@example.org').toString('base64') }),
    batch: to('decrypt', { batch_input: Array.from({ length: ITEMS }, () => ({ ciphertext })) }),
  }
}
