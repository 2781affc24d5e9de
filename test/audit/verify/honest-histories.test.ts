// No false alarms: a log verifies after anything except tampering. The long form is ../../slow/honest-histories.test.ts.
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend } from '../../support/database/database.js'
import { findFalseAlarm, histories, newFigures, startWorld, verifyUnderLoad, type World } from './honest-history.js'

const HISTORIES = 6
/** Two while the log only grows, one while it is purged too, and two of what the purge left. */
const VERIFICATIONS = 5

describe('an honest history', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld()
  })
  afterAll(() => world?.close())

  it('verifies, whatever failed, was rolled back, restarted, purged, rotated or called at once', {
    timeout: 300_000,
  }, async () => {
    const figures = newFigures()
    await fc.assert(
      fc.asyncProperty(histories, async (steps) => {
        expect(await findFalseAlarm(world, steps, figures)).toEqual([])
      }),
      { numRuns: HISTORIES },
    )
    console.log(`honest histories (${backend()}): ${JSON.stringify(figures)}`)
  })
})

describe.each([8, 32])('a log that %i clients append to', (clients) => {
  it('verifies at any moment, also while it is purged', { timeout: 300_000 }, async () => {
    const figures = await verifyUnderLoad({ clients, verifications: VERIFICATIONS })
    console.log(`verifications under load of ${clients} (${backend()}): ${JSON.stringify(figures)}`)
    expect(figures.falseAlarms).toEqual([])
    expect(figures.purges).toBe(1)
  })
})
