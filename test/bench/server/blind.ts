// Blind hashes: one search, a thousand values in four requests, what an element costs, and how long other calls wait meanwhile.
import { encodeBase64, MAX_BLINDED_ELEMENTS } from '@eaas/protocol'
import { blindValue } from '@eaas/protocol/blind-hash'
import { cpuMs, startServer } from '../lib/process.js'
import { type Findings, withSpread } from '../lib/report.js'
import { spread } from '../lib/rounds.js'
import { makeTenant, type Scene } from '../lib/scene.js'

const REQUESTS = 4
const SEARCHES = 40

export async function measureBlind(scene: Scene): Promise<Findings> {
  const database = await scene.database()
  const server = await startServer(scene.place, database, { environment: { EAAS_LOG_LEVEL: 'silent' } })
  try {
    const { keyId, post } = await makeTenant(database, server)
    const blinded = Array.from({ length: MAX_BLINDED_ELEMENTS }, (_, at) =>
      encodeBase64(blindValue(Uint8Array.of(at)).blinded),
    )
    const blindHash = (count: number) => post('/v1/hash/blind', { key_id: keyId, elements: blinded.slice(0, count) })
    const time = async (run: () => Promise<unknown>) => {
      const from = performance.now()
      await run()
      return performance.now() - from
    }
    const found: Record<'search' | 'thousand' | 'cpu' | 'hash', number[]> = {
      search: [],
      thousand: [],
      cpu: [],
      hash: [],
    }
    for (let round = -1; round < scene.options.rounds; round++) {
      await scene.options.turn()
      const searches: number[] = []
      for (let at = 0; at < SEARCHES; at++) searches.push(await time(() => blindHash(1)))
      const cpu = cpuMs(server.pid)
      let isDone = false
      const inRequests = async () => {
        for (let request = 0; request < REQUESTS; request++) await blindHash(250)
      }
      const thousand = time(inRequests).finally(() => {
        isDone = true
      })
      const hashes: number[] = []
      while (!isDone) hashes.push(await time(() => post('/v1/hash', { key_id: keyId, value: 'x' })))
      const whole = await thousand
      if (round < 0) continue // starts the thread
      found.search.push(spread(searches).median)
      found.thousand.push(whole)
      found.cpu.push((cpuMs(server.pid) - cpu) / (REQUESTS * 250))
      found.hash.push(spread(hashes).median)
    }
    const cell = (values: number[]) => withSpread(spread(values))
    return {
      bars: [],
      tables: [
        {
          title: 'Blind hashes, one process, PostgreSQL with fsync',
          columns: ['what', 'ms'],
          rows: [
            ['one element, p50 of one caller', cell(found.search)],
            ['1,000 elements in 4 requests, one after another', cell(found.thousand)],
            ['CPU of the server an element of these, with the hashes meanwhile', cell(found.cpu)],
            ['a hash meanwhile, p50', cell(found.hash)],
          ],
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}
