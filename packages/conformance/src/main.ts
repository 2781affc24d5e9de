#!/usr/bin/env node
/** The command `eaas-conformance`: hands the process to `run`. */
import { run } from './run.js'

const interruption = new AbortController()
// Once each: a second signal of the same kind ends the process at once.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interruption.abort(name))
// The reader of the output may stop early, as `head` does. The run still finishes and cleans up.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)

process.exitCode = await run(process.argv.slice(2), {
  folder: process.cwd(),
  print: (text) => void process.stdout.write(text),
  tell: (line) => void process.stderr.write(`${line}\n`),
  signal: interruption.signal,
})
