// Ends with the run, also where that has died (Ctrl-C, SIGKILL): a vitest worker, which otherwise would continue its test, and what its
// tests left in the temp folder, which is the folder of the run.
import { inject } from 'vitest'

process.env.TMPDIR = inject('runDir')
const end = () => process.exit(1)
// A worker loads this for each of its files.
if (!process.listeners('disconnect').some(({ name }) => name === end.name)) process.on('disconnect', end)
