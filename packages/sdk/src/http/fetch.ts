/** The part of `fetch` that the SDK uses, so that an application can pass its own, and how a body is read. */

/** All plain values. */
export interface FetchInit {
  method: string
  headers: Record<string, string>
  body?: string
  signal: AbortSignal
  redirect: 'error' | 'manual'
  cache?: 'no-store'
  credentials?: 'omit' | 'include'
  referrerPolicy?: 'no-referrer'
}

export interface FetchBody {
  getReader(): {
    read(): Promise<{ done: false; value: Uint8Array } | { done: true; value?: unknown }>
    cancel(): Promise<void>
  }
  cancel(): Promise<void>
}

export interface FetchResponse {
  readonly status: number
  readonly type: string
  readonly redirected: boolean
  readonly headers: { get(name: string): string | null }
  readonly body: FetchBody | null
}

/** The global `fetch`, undici's, or the application's own function. Gets the URL as text. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>
export type BodyFault = 'not UTF-8' | `longer than ${number} bytes`

/**
 * Reads a body as UTF-8 with its byte order mark, and zeroes the bytes, which may contain a DEK. `onPiece` gets the
 * length so far. @throws what `refuse` makes of other bytes or more than `maxBytes`; what `onPiece` throws; the
 * stream's error
 */
export async function readText(
  stream: Pick<FetchBody, 'getReader'> | null,
  maxBytes: number,
  refuse: (fault: BodyFault) => Error,
  onPiece?: (length: number) => void,
): Promise<string> {
  const reader = stream?.getReader()
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined })
    } catch {
      throw refuse('not UTF-8')
    }
  }
  let text = ''
  let length = 0
  try {
    while (reader) {
      const { done, value } = await reader.read()
      if (done) break
      length += value.length
      if (length > maxBytes) throw refuse(`longer than ${maxBytes} bytes`)
      onPiece?.(length)
      text += decode(value)
      value.fill(0)
    }
    return text + decode()
  } catch (error) {
    reader?.cancel().catch(() => undefined) // the body is refused anyway, so a failed cancel is ignored
    throw error
  }
}
