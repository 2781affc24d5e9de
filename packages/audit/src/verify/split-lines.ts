/** Splits an export into lines for verifyExport, without repairing anything (export.md 1). */
import { concatBytes } from '@eaas/protocol'

const LINE_FEED = 0x0a
const MAX_LINE_BYTES = 16 * 1_048_576
/** Replaces a line that is too long or not UTF-8. No line of a format contains it. */
export const NO_LINE = '\uFFFE'
/** Replaces a whole file that gzip compressed. */
export const COMPRESSED = `${NO_LINE}\u001f`
const GZIP_MAGIC = [0x1f, 0x8b]

/** Splits at line feeds. Not with readline, which also ends a line at a carriage return. Too long a line becomes `NO_LINE`. */
export async function* splitLines(chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let begun: Uint8Array[] = []
  let bytes = 0
  let isTooLong = false
  let isFirst = true
  for await (const chunk of chunks) {
    if (isFirst && GZIP_MAGIC.every((byte, at) => chunk[at] === byte)) {
      yield COMPRESSED
      return
    }
    isFirst = false
    let from = 0
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      const end = chunk.subarray(from, at)
      if (!isTooLong) yield decodeLine(decoder, begun.length === 0 ? end : concatBytes(...begun, end))
      begun = []
      bytes = 0
      isTooLong = false
      from = at + 1
    }
    if (from === chunk.length || isTooLong) continue
    begun.push(chunk.subarray(from))
    bytes += chunk.length - from
    if (bytes <= MAX_LINE_BYTES) continue
    yield NO_LINE
    isTooLong = true
    begun = []
  }
  if (bytes > 0 && !isTooLong) yield NO_LINE // the last line lacks its line feed
}

function decodeLine(decoder: TextDecoder, bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes)
  } catch {
    return NO_LINE // not UTF-8
  }
}
