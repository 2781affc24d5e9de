/** Reads the body of a request or an answer as text. */
import type { FetchBody } from '../http/fetch.js'

/**
 * Reads a stream to its end as UTF-8, and zeroes its bytes, which may hold a DEK. A byte order mark is kept.
 *
 * @throws `tooLong` beyond `maxBytes`, without waiting for the end; the stream's own error; TypeError when it
 * is not UTF-8
 */
export async function readText(
  stream: Pick<FetchBody, 'getReader'> | null,
  maxBytes: number,
  tooLong: Error,
): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const reader = stream?.getReader()
  let text = ''
  let length = 0
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    length += value.length
    if (length > maxBytes) {
      reader.cancel().catch(() => undefined) // the body is refused in any case, so a failed cancel is ignored
      throw tooLong
    }
    text += decoder.decode(value, { stream: true })
    value.fill(0)
  }
  return text + decoder.decode()
}
