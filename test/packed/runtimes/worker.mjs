// Runs the suite in workerd, which has no command line: the outcome is what it answers.
import vectors from './envelope.vectors.json' with { type: 'json' }
import { runSuite } from './suite.mjs'

export default {
  async fetch(request) {
    return Response.json(await runSuite(vectors, new URL(request.url).searchParams.get('redirecting')))
  },
}
