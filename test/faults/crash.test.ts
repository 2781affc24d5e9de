// kill -9 of the server under load: everything that it acknowledged is kept.
// In `npm run test:slow` these are the figures that the reliability of a release is judged by.
import { describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { rounds } from '../support/run/rounds.js'
import { crashRepeatedly, describeFigures } from './crash-run.js'

const KILLS = rounds(2, backend() === 'postgres' ? 100 : 50)
const LEAST_ACKED = rounds(200, 50_000)
const BETWEEN_MS: [number, number] = [rounds(100, 200), rounds(400, 3_000)]
const TIMEOUT_MS = rounds(5, 30) * 60_000

describe('a server that is killed under load', () => {
  it('loses no acknowledged call, and leaves no gap, no half of a change and no broken chain', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const figures = await crashRepeatedly({ kills: KILLS, betweenMs: BETWEEN_MS, leastAcked: LEAST_ACKED })
    console.log(describeFigures(`kill -9 of the server (${backend()})`, figures))
    expect(figures.violations).toEqual([])
    expect(figures.kills).toBeGreaterThanOrEqual(KILLS)
    expect(figures.acked).toBeGreaterThanOrEqual(LEAST_ACKED)
  })
})
