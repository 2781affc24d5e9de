/** Standard output of this process, written to the last byte. */
import { fstatSync, writeSync } from 'node:fs'

/**
 * Has whatever is written to standard output written whole, or fail. Where that is a file, Node.js writes each chunk by
 * one call and does not check how much of it was taken: on a disk that is nearly full the rest would be missing,
 * without an error.
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
