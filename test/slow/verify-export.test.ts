// Exports with single bits flipped, thousands of them, in a file of a hundred thousand lines.
import { randomInt } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { splitLines } from '../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../packages/audit/src/verify/verify-export.js'
import { findObstacleToVerifier, verifyElsewhere } from '../audit/verify/other-verifier.js'
import { makeLongLog } from '../support/audit/long-log.js'
import { backend, freshDatabase } from '../support/database/database.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const LINES = 100_000
/** Before a flip in the midst, an export begins so many lines earlier at most: what is before need not be read each time. */
const RUN_UP = 400
const FLIPS = 4_000

let service: Service
let owner: Caller
let file: Buffer
/** where each line begins, and where the file ends */
let starts: number[]
let publicKey: string

describe.skipIf(backend() === 'embedded')('an export of 100,000 lines', () => {
  beforeAll(async () => {
    const database = await freshDatabase('flips')
    if (database.backend !== 'postgres') throw new Error('long logs are filled on PostgreSQL')
    const [from, to] = [Date.now() - 90 * 86_400_000, Date.now() - 60_000]
    const made = { url: database.url, rootKey: ROOT_KEY, name: 'flips', from, to }
    const { secret } = await makeLongLog({ ...made, entries: LINES - 2 - 51 })
    service = await startService({ database })
    owner = service.caller(secret)
    file = Buffer.from((await owner.call('GET', '/v1/audit/export')).body as string)
    starts = [0]
    for (let at = file.indexOf(10); at >= 0; at = file.indexOf(10, at + 1)) starts.push(at + 1)
    publicKey = JSON.parse(lineAt(LINES - 1).toString()).public_key
  })
  afterAll(() => service?.close())

  const lineAt = (line: number) => file.subarray(starts[line], starts[line + 1])
  const lineOf = (at: number) => {
    let [low, high] = [0, LINES - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((starts[middle] ?? 0) <= at) low = middle
      else high = middle - 1
    }
    return low
  }
  const verify = (bytes: Buffer) => verifyExport(splitLines([bytes]), { publicKey })

  /** The file with one bit flipped: whole, or as the export that begins some lines before. */
  function flipped(at: number, { whole }: { whole: boolean }): Buffer {
    const bit = 1 << randomInt(8)
    const line = lineOf(at)
    const from = whole ? 0 : Math.max(0, line - randomInt(2, RUN_UP))
    if (from < 2) {
      const altered = Buffer.from(line < LINES / 2 && !whole ? file.subarray(0, starts[line + RUN_UP]) : file)
      altered[at] = (file[at] ?? 0) ^ bit
      return altered
    }
    const { format, tenant_id } = JSON.parse(lineAt(0).toString())
    const { id, hash } = JSON.parse(lineAt(from - 1).toString())
    const header = Buffer.from(`${JSON.stringify({ format, tenant_id, after_id: id, after_hash: hash })}\n`)
    const start = starts[from] ?? 0
    const rest = Buffer.from(file.subarray(start, starts[Math.min(LINES, line + 3)]))
    rest[at - start] = (file[at] ?? 0) ^ bit
    return Buffer.concat([header, rest])
  }

  it('is valid as it is', async () => {
    expect(starts).toHaveLength(LINES + 1)
    expect(await verify(file)).toMatchObject({ valid: true, whole: true, verified_entries: LINES - 2 })
  })

  it('is refused with any one of thousands of bits flipped: in header, entries, trailer and line feeds', async () => {
    const within = (line: number, count: number) =>
      Array.from({ length: count }, () => randomInt(starts[line] ?? 0, starts[line + 1] ?? 0))
    const places = [
      ...within(0, 300),
      ...within(LINES - 1, 300),
      ...Array.from({ length: 400 }, () => (starts[randomInt(1, LINES + 1)] ?? 1) - 1),
      ...Array.from({ length: FLIPS }, () => randomInt(file.length)),
    ]
    for (const at of places) expect([at, (await verify(flipped(at, { whole: false }))).valid]).toEqual([at, false])
    console.log(`${places.length} single bits flipped in an export of ${LINES} lines: all refused`)
  })

  it('is refused with a bit flipped, read from its beginning, by both programs', async () => {
    const obstacle = findObstacleToVerifier()
    if (obstacle) console.warn(`The second verifier did not run: ${obstacle}`)
    for (let round = 0; round < 40; round++) {
      const altered = flipped(randomInt(file.length), { whole: true })
      const { valid, line } = await verify(altered)
      expect(valid).toBe(false)
      if (!obstacle)
        expect(await verifyElsewhere([{ file: altered, publicKey }])).toMatchObject([{ valid: false, line }])
    }
  })

  it('is refused with every byte altered once in its first 100 lines, which are an export too', async () => {
    const short = Buffer.from((await owner.call('GET', '/v1/audit/export?through_id=98')).body as string)
    expect(await verify(short)).toMatchObject({ valid: true, verified_entries: 98 })
    for (let at = 0; at < short.length; at++) {
      const altered = Buffer.from(short)
      altered[at] = (short[at] ?? 0) ^ (1 << randomInt(8))
      expect([at, (await verify(altered)).valid]).toEqual([at, false])
    }
    console.log(`every byte of an export of 100 lines altered once, ${short.length} files: all refused`)
  })
})
