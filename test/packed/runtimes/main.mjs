// Runs the suite where there is a command line, Node, Deno and Bun, and prints its outcome as JSON. Takes the
// address of a server that redirects.
import process from 'node:process'
import { runSuite } from './suite.mjs'

const { default: vectors } = await import('./envelope.vectors.json', { with: { type: 'json' } })
console.log(JSON.stringify(await runSuite(vectors, process.argv[2])))
