/** Standard output of this process, written to the last byte. */
import { fstatSync, writeSync } from 'node:fs'
import { Writable } from 'node:stream'

const FD = 1

/**
 * Returns standard output, which writes each chunk whole or fails. If standard output is a file, Node.js writes a
 * chunk by one call and does not check how much was written: on a nearly full disk the rest would be missing without
 * an error.
 */
export function openStandardOutput(): Writable & { isTTY?: boolean } {
  if (!fstatSync(FD).isFile()) return process.stdout
  return new Writable({
    write(chunk: Uint8Array, _, done) {
      try {
        for (let at = 0; at < chunk.length; ) at += writeSync(FD, chunk, at)
      } catch (error) {
        return done(error as Error)
      }
      done()
    },
  })
}
