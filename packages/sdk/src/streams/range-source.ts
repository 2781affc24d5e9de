/** Where a part of a stored stream is read from. */
import { InvalidInputError } from '../errors.js'
import { type Binary, readBinary } from '../input.js'

/**
 * The source of a stored stream: a `Blob` or `File`, or a function that reads its bytes from `start` up to but not
 * including `end`. Such a function returns fewer bytes only where the stored stream ends. Its `signal` is aborted
 * when the part is no longer read.
 */
export type RangeSource =
  | {
      readonly size: number
      slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> }
    }
  | ((start: number, end: number, signal: AbortSignal) => Binary | Promise<Binary>)

/** Reads bytes, fewer only at the end of the source. */
export type ReadSource = (start: number, end: number) => Promise<Uint8Array>

/** Makes a function that reads a source. @throws InvalidInputError when it is not one */
export function createReader(source: RangeSource): (signal: AbortSignal) => ReadSource {
  if (typeof source === 'function') {
    return (signal) => async (start, end) => {
      const bytes = readBinary(await source(start, end, signal))
      if (!bytes) throw new InvalidInputError('the source of a range must return bytes')
      if (bytes.length <= end - start) return bytes
      throw new InvalidInputError(
        `the source returned ${bytes.length} bytes for a range of ${end - start}`,
        'Check that the server honours Range: it answers with status 206 then, and with 200 if not.',
      )
    }
  }
  if (typeof source?.slice !== 'function' || typeof source.size !== 'number') {
    throw new InvalidInputError('the source of a range must be a Blob, or a function that reads a range')
  }
  return () => async (start, end) => new Uint8Array(await source.slice(start, end).arrayBuffer())
}
