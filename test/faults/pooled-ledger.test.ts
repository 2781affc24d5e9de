// Everything that two servers behind one pgbouncer acknowledge is in the database: the clients keep the ledger.
import { describe, expect, it } from 'vitest'
import { isPooled } from '../support/database/database.js'
import { rounds } from '../support/run/rounds.js'
import { keepLedger } from './change-ledger.js'

const CHANGES = rounds(300, 10_000)
const TENANTS = rounds(5, 30)

describe.skipIf(!isPooled())('two servers behind pgbouncer', () => {
  it('lose no change that they acknowledged, and write an entry for each wrap', async () => {
    const { acknowledged, released, missing, surprises } = await keepLedger({ changes: CHANGES, tenants: TENANTS })
    console.log(`${acknowledged} changes acknowledged, ${released} wraps, ${missing.length} missing`)
    expect([missing.slice(0, 10), surprises]).toEqual([[], []])
    expect(acknowledged).toBeGreaterThanOrEqual(CHANGES)
  })
})
