import { expect, it } from 'vitest'
import type { KeptHead } from '../../core/audit/formats/chain.js'
import { createPortions } from './compare-logs.js'

const KEPT: KeptHead = {
  last_id: 1,
  hash: new Uint8Array(32),
  policy_version: 1,
  created_at: '2026-11-27T00:00:00.000Z',
  mac: new Uint8Array(32),
}

it('one round compares each log, though a run leaves one point of the logs that had two', () => {
  const logs = Array.from({ length: 2_000 }, (_, at) => ({ tenant_id: String(at), held: { all: [KEPT, KEPT] } }))
  const next = createPortions({ all: () => logs })
  const compared = new Set<string>()
  for (let isWhole = false; !isWhole; ) {
    const { points, ends } = next()
    for (const { tenant_id } of points) {
      compared.add(tenant_id)
      const log = logs[Number(tenant_id)]
      if (log) log.held.all = [KEPT]
    }
    isWhole = ends
  }
  expect(compared.size).toBe(2_000)
})
