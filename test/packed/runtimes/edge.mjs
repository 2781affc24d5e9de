// Runs the suite in Vercel's edge-runtime, whose programs are scripts: the outcome is what it answers.
import vectors from './envelope.vectors.json' with { type: 'json' }
import { runSuite } from './suite.mjs'

const answer = async ({ url }) => Response.json(await runSuite(vectors, new URL(url).searchParams.get('redirecting')))

addEventListener('fetch', (event) => event.respondWith(answer(event.request)))
