// The suite in vitest, whose environment is given on the command line.
import { expect, it } from 'vitest'
import vectors from '../envelope.vectors.json' with { type: 'json' }
import { runSuite } from '../suite.mjs'
import { report, without } from './report.cjs'

it('passes', async () => {
  const outcome = await runSuite(vectors, 'http://127.0.0.1:9', without)
  report(outcome)
  expect(outcome.failed).toEqual([])
}, 120_000)
