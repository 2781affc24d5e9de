// The suite in jest, whose environment is given on the command line.
const vectors = require('../envelope.vectors.json')
const { runSuite } = require('../suite.cjs')
const { report, without } = require('./report.cjs')

it('passes', async () => {
  const outcome = await runSuite(vectors, 'http://127.0.0.1:9', without)
  report(outcome)
  expect(outcome.failed).toEqual([])
}, 120_000)
