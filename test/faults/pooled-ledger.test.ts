// Everything that two servers behind one pgbouncer acknowledge is in the database: the clients keep the ledger. The long form is in slow/.
import { describe, expect, it } from 'vitest'
import { isPooled } from '../support/database/database.js'
import { keepLedger } from './change-ledger.js'

const CHANGES = 300

describe.skipIf(!isPooled())('two servers behind pgbouncer', () => {
  it('lose no change that they acknowledged, and write an entry for each wrap', async () => {
    const { acknowledged, missing, surprises } = await keepLedger({ changes: CHANGES, tenants: 5 })
    expect([missing, surprises]).toEqual([[], []])
    expect(acknowledged).toBeGreaterThanOrEqual(CHANGES)
  }, 60_000)
})
