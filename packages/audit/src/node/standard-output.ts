/** Standard output of this process, written to the last byte. */
import { fstatSync, writeSync } from 'node:fs'

/**
 * Makes each write to standard output write everything or fail. If standard output is a file, Node.js writes each
 * chunk by one call and does not check how much was written: on a nearly full disk the rest would be missing without
 * an error.
 */
export function writeOutputWhole(): void {
  const { stdout } = process
  if (!fstatSync(stdout.fd).isFile()) return
  stdout._write = (chunk: Uint8Array, _, done) => {
    try {
      for (let at = 0; at < chunk.length; ) at += writeSync(stdout.fd, chunk, at)
    } catch (error) {
      return done(error as Error)
    }
    done()
  }
}
