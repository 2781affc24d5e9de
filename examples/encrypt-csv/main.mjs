// `npm run demo`: reads the command line and runs the demo.
import { runExample } from '../lib/run-example.mjs'
import { HELP, readArguments } from './arguments.mjs'

// npm runs scripts in the root of the project; paths are relative to the folder that it was called from.
const calledFrom = process.env.npm_lifecycle_event === 'demo' ? process.env.INIT_CWD : undefined

await runExample({
  help: HELP,
  readArguments: (argv) => readArguments(argv, calledFrom ?? process.cwd()),
  run: async (choice, stage) => (await import('./demo.mjs')).demo(choice, stage),
  success: 'All came back as it was.',
})
