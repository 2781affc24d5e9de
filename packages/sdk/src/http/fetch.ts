/** What is called in place of the global `fetch`: so little is asked of it that undici's own and an application's function fit. */

/** The options of a request, all plain values. */
export interface FetchInit {
  method: string
  headers: Record<string, string>
  /** Left out where there is none. */
  body?: string
  signal: AbortSignal
  redirect: 'error' | 'manual'
  cache?: 'no-store'
  credentials?: 'omit' | 'same-origin'
  referrerPolicy?: 'no-referrer'
}

/** What is read of a body. */
export interface FetchBody {
  getReader(): {
    read(): Promise<{ done: false; value: Uint8Array } | { done: true; value?: unknown }>
    cancel(): Promise<void>
  }
  cancel(): Promise<void>
}

/** What is read of an answer. */
export interface FetchResponse {
  readonly status: number
  readonly type: string
  readonly redirected: boolean
  readonly headers: { get(name: string): string | null }
  readonly body: FetchBody | null
}

/** The global `fetch`, that of undici, or a function of the application's own. Gets the URL as text. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>
