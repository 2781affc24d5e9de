// The long form of honest-histories.test.ts: the figures that the absence of false alarms is judged by.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findFalseAlarm, histories, newFigures, startWorld, verifyUnderLoad } from '../audit/verify/honest-history.js'
import { backend } from '../support/database/database.js'

const HISTORIES = 1_000
const VERIFICATIONS = 1_000
/** On two cores that others use too. */
const TIMEOUT_MS = 2 * 3_600_000

describe('a thousand honest histories', () => {
  it('verify, whatever failed, was rolled back, restarted, purged, rotated or called at once', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const world = await startWorld()
    const figures = newFigures()
    try {
      await fc.assert(
        fc.asyncProperty(histories, async (steps) => {
          expect(await findFalseAlarm(world, steps, figures)).toEqual([])
        }),
        { numRuns: HISTORIES },
      )
    } finally {
      await world.close()
    }
    console.log(`honest histories (${backend()}): ${JSON.stringify(figures)}`)
    expect(figures.histories).toBeGreaterThanOrEqual(HISTORIES)
  })
})

describe('a log that 32 clients append to', () => {
  it('gives no false alarm in a thousand verifications', { timeout: TIMEOUT_MS }, async () => {
    const figures = await verifyUnderLoad({ clients: 32, verifications: VERIFICATIONS })
    console.log(`verifications under load (${backend()}): ${JSON.stringify(figures)}`)
    expect(figures.falseAlarms).toEqual([])
    expect(figures.verifications).toBe(VERIFICATIONS)
  })
})
