// Ten thousand changes by two servers behind one pgbouncer, counted by their clients.
import { describe, expect, it } from 'vitest'
import { keepLedger } from '../faults/change-ledger.js'
import { isPooled } from '../support/database/database.js'

const CHANGES = 10_000

describe.skipIf(!isPooled())('two servers behind pgbouncer', () => {
  it('lose none of 10,000 changes of 30 tenants that they acknowledged', async () => {
    const { acknowledged, released, missing, surprises } = await keepLedger({ changes: CHANGES, tenants: 30 })
    console.log(`${acknowledged} changes acknowledged, ${released} wraps, ${missing.length} missing`)
    expect([missing.slice(0, 10), surprises]).toEqual([[], []])
    expect(acknowledged).toBeGreaterThanOrEqual(CHANGES)
  })
})
