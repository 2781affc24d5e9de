#!/usr/bin/env node
/** The command `eaas-cli`: hands the process to `run`. */
import type { Writable } from 'node:stream'
import { run } from './run.js'
import { openStandardOutput } from './standard-output.js'

const interruption = new AbortController()
// Once each: a second signal of the same kind ends the process at once.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interruption.abort(name))
// The write reports the error too, and ends the command.
const stdout = openStandardOutput()
stdout.on('error', () => undefined)
process.stderr.on('error', () => undefined)

const exitCode = await run(process.argv.slice(2), {
  env: process.env,
  folder: process.cwd(),
  stdin: process.stdin,
  stdout,
  stderr: process.stderr,
  signal: interruption.signal,
})
// Otherwise standard input that was not read to its end, or a module that `backfill` loaded, would keep the process
// alive.
await Promise.all([stdout, process.stderr].map(drained))
process.exit(exitCode)

/** Resolves when everything written has been taken, or when the reader is gone. */
function drained(stream: Writable): Promise<void> {
  return new Promise((resolve) => stream.write('', () => resolve()))
}
