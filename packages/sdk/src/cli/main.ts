#!/usr/bin/env node
/** The command `eaas-sdk`: hands the process to `run`. */
import { run } from './run.js'

const interruption = new AbortController()
// Once each: a second signal of the same kind ends the process at once.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interruption.abort(name))
// Writing tells of the error too, and ends the command.
process.stdout.on('error', () => undefined)
process.stderr.on('error', () => undefined)

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  folder: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: interruption.signal,
})
// Standard input that nobody read to its end would keep the process alive.
process.stdin.destroy()
