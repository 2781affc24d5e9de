/** The refusals of a broker, as problem documents of the contract's shape. */
import { PROBLEM_CONTENT_TYPE, PROBLEMS } from '@eaas/protocol'

/** The contract's problems that a broker uses, and its own. */
const BROKER_PROBLEMS = {
  E_VALIDATION: PROBLEMS.E_VALIDATION,
  E_MALFORMED_REQUEST: PROBLEMS.E_MALFORMED_REQUEST,
  E_UNAUTHORIZED: PROBLEMS.E_UNAUTHORIZED,
  E_CROSS_SITE: { status: 403, title: 'Forbidden' },
  E_NOT_ALLOWED: { status: 403, title: 'Forbidden' },
  E_ROUTE_NOT_FOUND: PROBLEMS.E_ROUTE_NOT_FOUND,
  E_METHOD_NOT_ALLOWED: PROBLEMS.E_METHOD_NOT_ALLOWED,
  E_BODY_TOO_LARGE: PROBLEMS.E_BODY_TOO_LARGE,
  E_MEDIA_TYPE: PROBLEMS.E_MEDIA_TYPE,
  E_TOO_MANY_CALLS: { status: 429, title: 'Too Many Requests' },
  E_INTERNAL: PROBLEMS.E_INTERNAL,
  E_BAD_GATEWAY: { status: 502, title: 'Bad Gateway' },
  E_UNAVAILABLE: PROBLEMS.E_UNAVAILABLE,
} as const

export type BrokerProblemCode = keyof typeof BROKER_PROBLEMS

/** Its message becomes the `detail`, so it must hold nothing secret. */
export class BrokerRefusal extends Error {
  override readonly name = 'BrokerRefusal'
  readonly code: BrokerProblemCode
  readonly headers: Readonly<Record<string, string>>

  constructor(code: BrokerProblemCode, detail: string, headers: Readonly<Record<string, string>> = {}) {
    super(detail)
    this.code = code
    this.headers = headers
  }
}

export function problemOf({ code, message }: BrokerRefusal): { status: number; body: object } {
  const { status, title } = BROKER_PROBLEMS[code]
  return { status, body: { type: 'about:blank', title, status, detail: message, code } }
}

export function refusalResponse(refusal: BrokerRefusal): Response {
  const { status, body } = problemOf(refusal)
  return answerResponse({ status, text: JSON.stringify(body), contentType: PROBLEM_CONTENT_TYPE }, refusal.headers)
}

export function answerResponse(
  { status, text, contentType }: { status: number; text: string; contentType: string },
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(new TextEncoder().encode(text), {
    status,
    headers: {
      'content-type': contentType,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    },
  })
}
