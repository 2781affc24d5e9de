// That ivs do not repeat, over as many as tell a broken source from a good one.
import { describe, expect, it } from 'vitest'
import { createIvPool } from '../../packages/sdk/src/deks/random.js'

const IVS = 10_000_000

describe('an iv', () => {
  // By their first eight bytes: that two of 10^7 share those by chance comes once in 370,000 runs.
  it('is never handed out twice: 10,000,000 are distinct', () => {
    const take = createIvPool()
    const seen = new BigUint64Array(IVS)
    for (let at = 0; at < IVS; at++) seen[at] = new DataView(take().buffer).getBigUint64(0)
    seen.sort()
    let repeats = 0
    for (let at = 1; at < IVS; at++) if (seen[at] === seen[at - 1]) repeats += 1
    expect(repeats).toBe(0)
  })
})
