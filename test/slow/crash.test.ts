// The long form of crash.test.ts: the figures that the reliability of a release is judged by.
import { describe, expect, it } from 'vitest'
import { crashRepeatedly, describeFigures } from '../faults/crash-run.js'
import { backend } from '../support/database/database.js'

describe('a server that is killed a hundred times under load', () => {
  it('loses no acknowledged call, and leaves no gap, no half of a change and no broken chain', async () => {
    const kills = backend() === 'postgres' ? 100 : 50
    const figures = await crashRepeatedly({ kills, betweenMs: [200, 3_000], leastAcked: 50_000 })
    console.log(describeFigures(`kill -9 of the server (${backend()})`, figures))
    expect(figures.violations).toEqual([])
    expect(figures.kills).toBeGreaterThanOrEqual(kills)
    expect(figures.acked).toBeGreaterThanOrEqual(50_000)
  })
})
