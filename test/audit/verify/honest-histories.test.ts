// No false alarms: a log verifies after anything except tampering.
// In `npm run test:slow` these are the figures that the absence of false alarms is judged by.
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend } from '../../support/database/database.js'
import { rounds } from '../../support/run/rounds.js'
import {
  findFalseAlarm,
  histories,
  newFigures,
  startWorld,
  VERIFIED_A_TENANT,
  verifyUnderLoad,
  type World,
} from './honest-history.js'

const HISTORIES = rounds(6, 1_000)
/** Two while the log only grows, one while it is purged too, and two of what the purge left. */
const VERIFICATIONS = 5
/** On two cores that others use too. */
const TIMEOUT_MS = rounds(5, 120) * 60_000

describe('an honest history', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld()
  })
  afterAll(() => world?.close())

  it('verifies, whatever failed, was rolled back, restarted, purged, rotated or called at once', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const figures = newFigures()
    await fc.assert(
      fc.asyncProperty(histories, async (steps) => {
        expect(await findFalseAlarm(world, steps, figures)).toEqual([])
      }),
      { numRuns: HISTORIES },
    )
    console.log(`honest histories (${backend()}): ${JSON.stringify(figures)}`)
    expect(figures.histories).toBeGreaterThanOrEqual(HISTORIES)
  })
})

describe.each([
  [8, VERIFICATIONS],
  [32, rounds(VERIFICATIONS, 1_000)],
])('a log that %i clients append to', (clients, verifications) => {
  it('verifies at any moment, also while it is purged', { timeout: TIMEOUT_MS }, async () => {
    const figures = await verifyUnderLoad({ clients, verifications })
    console.log(`verifications under load of ${clients} (${backend()}): ${JSON.stringify(figures)}`)
    expect(figures.falseAlarms).toEqual([])
    expect(figures.verifications).toBe(verifications)
    expect(figures.purges).toBe(Math.ceil(verifications / VERIFIED_A_TENANT))
  })
})
