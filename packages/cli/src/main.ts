#!/usr/bin/env node
/** The command `eaas-cli`: hands the process to `run`. */
import { fstatSync, writeSync } from 'node:fs'
import { Writable } from 'node:stream'
import { run } from './run.js'

const STANDARD_OUTPUT = 1

const interruption = new AbortController()
// Once each: a second signal of the same kind ends the process at once.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interruption.abort(name))
// `write` also reports the error, and ends the command.
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
// Otherwise unread standard input, or a module that `backfill` loaded, would keep the process alive.
await Promise.all([stdout, process.stderr].map(drained))
process.exit(exitCode)

/** Resolves when all output was taken, or its reader is gone. */
function drained(stream: Writable): Promise<void> {
  return new Promise((resolve) => stream.write('', () => resolve()))
}

/**
 * Writes each chunk completely, or fails. Node.js writes a chunk to a file with one call and does not check how much
 * was written: on a nearly full disk, the rest would be missing.
 */
function openStandardOutput(): Writable & { isTTY?: boolean } {
  if (!fstatSync(STANDARD_OUTPUT).isFile()) return process.stdout
  return new Writable({
    write(chunk: Uint8Array, _, done) {
      try {
        for (let at = 0; at < chunk.length; ) at += writeSync(STANDARD_OUTPUT, chunk, at)
      } catch (error) {
        return done(error as Error)
      }
      done()
    },
  })
}
