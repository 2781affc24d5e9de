// What a fresh process pays until its first value is encrypted, against what Node's own `fetch` costs there. The service is
// a stub, so that nothing of a server is measured.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BarRow, Findings } from '../lib/report.js'
import { interleave, ratios, spread } from '../lib/rounds.js'
import type { Scene } from '../lib/scene.js'
import { runWorker } from '../lib/worker.js'

const KEY_ID = '00000000-0000-4000-8000-000000000000'
const LEAST_ROUNDS = 15
/** Before zod was bundled and ky dropped it was 2.9. */
const MOST = 2

interface First {
  import: number
  all: number
  cpu: number
}

export async function measureFirst(scene: Scene): Promise<Findings> {
  const stub = createServer((request, response) => {
    request.resume().once('end', () => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ wrapped_key: 'AAAA', key_id: KEY_ID, key_version: 1 }))
    })
  })
  await new Promise<void>((resolve) => stub.listen(0, '127.0.0.1', resolve))
  const baseUrl = `http://127.0.0.1:${(stub.address() as AddressInfo).port}`
  const runs: Record<string, First[]> = { eaas: [], fetch: [] }
  const run = async (what: 'eaas' | 'fetch') => {
    const target = { baseUrl, apiKey: 'eaas_sk_stub', keyId: KEY_ID, what }
    const first: First = await runWorker(scene, 'sdk/first.mjs', target)
    runs[what]?.push(first)
    return first.cpu
  }
  try {
    const rounds = scene.options.quick ? 5 : Math.max(LEAST_ROUNDS, scene.options.rounds)
    const cases = { eaas: () => run('eaas'), fetch: () => run('fetch') }
    const cpu = await interleave(cases, { rounds, warmUp: false })
    const of = (what: string, figure: keyof First) => spread((runs[what] ?? []).map((one) => one[figure]))
    const bars: BarRow[] = [
      { what: "import '@eaas/sdk'", against: '', measured: of('eaas', 'import'), unit: 'ms' },
      { what: 'import and first encrypt', against: '', measured: of('eaas', 'all'), unit: 'ms' },
      { what: 'import and first encrypt: CPU', against: '', measured: of('eaas', 'cpu'), unit: 'ms' },
      { what: 'a first fetch alone', against: '', measured: of('fetch', 'all'), unit: 'ms' },
      { what: 'a first fetch alone: CPU', against: '', measured: of('fetch', 'cpu'), unit: 'ms' },
      {
        what: 'import and first encrypt: CPU',
        against: 'a first fetch alone',
        measured: spread(ratios(cpu.eaas, cpu.fetch)),
        atMost: MOST,
      },
    ]
    return { bars, tables: [], plots: [] }
  } finally {
    stub.closeAllConnections()
    stub.close()
  }
}
