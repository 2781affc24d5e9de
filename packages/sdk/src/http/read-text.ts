/** Reads the body of a request or an answer as text. */
import type { FetchBody } from './fetch.js'

/**
 * Reads a stream to its end as UTF-8, and zeroes its bytes, which may hold a DEK. A byte order mark is kept.
 *
 * @throws what `refuse` makes of text that is not UTF-8, and of more than `maxBytes`, without waiting for the
 * end; the stream's own error
 */
export async function readText(
  stream: Pick<FetchBody, 'getReader'> | null,
  maxBytes: number,
  refuse: (fault: 'not UTF-8' | `longer than ${number} bytes`) => Error,
): Promise<string> {
  const reader = stream?.getReader()
  const refuseAll: typeof refuse = (fault) => {
    reader?.cancel().catch(() => undefined) // the body is refused in any case, so a failed cancel is ignored
    return refuse(fault)
  }
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined })
    } catch {
      throw refuseAll('not UTF-8')
    }
  }
  let text = ''
  let length = 0
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    length += value.length
    if (length > maxBytes) throw refuseAll(`longer than ${maxBytes} bytes`)
    text += decode(value)
    value.fill(0)
  }
  return text + decode()
}
