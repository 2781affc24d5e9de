/** The part of `fetch` that the SDK uses, small enough for undici's fetch and an application's own function to fit. */

/** The options of a request, all plain values. */
export interface FetchInit {
  method: string
  headers: Record<string, string>
  /** Left out where there is none. */
  body?: string
  signal: AbortSignal
  redirect: 'error' | 'manual'
  cache?: 'no-store'
  credentials?: 'omit' | 'include'
  referrerPolicy?: 'no-referrer'
}

/** The part of a body that is read. */
export interface FetchBody {
  getReader(): {
    read(): Promise<{ done: false; value: Uint8Array } | { done: true; value?: unknown }>
    cancel(): Promise<void>
  }
  cancel(): Promise<void>
}

/** The part of an answer that is read. */
export interface FetchResponse {
  readonly status: number
  readonly type: string
  readonly redirected: boolean
  readonly headers: { get(name: string): string | null }
  readonly body: FetchBody | null
}

/** The global `fetch`, that of undici, or the application's own function. Receives the URL as text. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>
