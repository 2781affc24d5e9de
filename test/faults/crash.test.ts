// kill -9 of the server under load: everything that it acknowledged is kept. The long form is ../slow/crash.test.ts.
import { describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { crashRepeatedly, describeFigures } from './crash-run.js'

describe('a server that is killed under load', () => {
  it('loses no acknowledged call, and leaves no gap, no half of a change and no broken chain', {
    timeout: 300_000,
  }, async () => {
    const figures = await crashRepeatedly({ kills: 2, betweenMs: [100, 400], leastAcked: 200 })
    console.log(describeFigures(`kill -9 of the server (${backend()})`, figures))
    expect(figures.violations).toEqual([])
    expect(figures.acked).toBeGreaterThanOrEqual(200)
  })
})
