/** Errors as the SDK and the server name them: RFC 9457 problem documents with a stable `code`. */

/** `retry`: a repeatable call may succeed within seconds. The union of the codes is part of the contract. */
export const PROBLEMS = {
  E_VALIDATION: { status: 400, title: 'Bad Request' },
  E_MALFORMED_REQUEST: { status: 400, title: 'Bad Request' },
  E_PLAINTEXT_TOO_LARGE: { status: 400, title: 'Bad Request' },
  E_UNAUTHORIZED: { status: 401, title: 'Unauthorized' },
  E_IP_NOT_ALLOWED: { status: 403, title: 'Forbidden' },
  E_TENANT_SUSPENDED: { status: 403, title: 'Forbidden' },
  E_MISSING_PERMISSION: { status: 403, title: 'Forbidden' },
  E_ENVELOPE_ONLY: { status: 403, title: 'Forbidden' },
  E_WRAPPED_KEY: { status: 403, title: 'Forbidden' },
  E_NOT_FOUND: { status: 404, title: 'Not Found' },
  E_ROUTE_NOT_FOUND: { status: 404, title: 'Not Found' },
  E_METHOD_NOT_ALLOWED: { status: 405, title: 'Method Not Allowed' },
  E_REQUEST_TIMEOUT: { status: 408, title: 'Request Timeout' },
  E_NAME_TAKEN: { status: 409, title: 'Conflict' },
  E_STATE: { status: 409, title: 'Conflict' },
  E_KEY_DESTROYED: { status: 409, title: 'Conflict' },
  E_VERSION_DESTROYED: { status: 409, title: 'Conflict' },
  E_VERSION_TOO_OLD: { status: 409, title: 'Conflict' },
  E_LIMIT: { status: 409, title: 'Conflict' },
  E_BODY_TOO_LARGE: { status: 413, title: 'Content Too Large' },
  E_URI_TOO_LONG: { status: 414, title: 'URI Too Long' },
  E_MEDIA_TYPE: { status: 415, title: 'Unsupported Media Type' },
  E_TENANT_MOVED: { status: 421, title: 'Misdirected Request' },
  E_DECRYPTION_FAILED: { status: 422, title: 'Decryption Failed' },
  E_QUOTA_EXCEEDED: { status: 429, title: 'Quota Exceeded' },
  E_BUDGET: { status: 429, title: 'Budget Exceeded' },
  E_HEADERS_TOO_LARGE: { status: 431, title: 'Request Header Fields Too Large' },
  E_INTERNAL: { status: 500, title: 'Internal Server Error', retry: true },
  E_AUDIT_NOT_WRITTEN: { status: 500, title: 'Internal Server Error', retry: true },
  E_TAMPERED: { status: 500, title: 'Internal Server Error', retry: true },
  E_UNAVAILABLE: { status: 503, title: 'Service Unavailable', retry: true },
} as const satisfies Readonly<Record<string, { status: number; title: string; retry?: true }>>

export type ProblemCode = keyof typeof PROBLEMS
export const PROBLEM_CONTENT_TYPE = 'application/problem+json'

export interface ProblemDocument {
  type: 'about:blank'
  title: string
  status: number
  detail: string
  code: ProblemCode
  /** after how many seconds the call may succeed, if known; unless in a batch, the answer has Retry-After as well */
  retry_after?: number
}

export function problemDocument(code: ProblemCode, detail: string, retry_after?: number): ProblemDocument {
  const { status, title } = PROBLEMS[code]
  return { type: 'about:blank', title, status, detail, code, ...(retry_after === undefined ? {} : { retry_after }) }
}
