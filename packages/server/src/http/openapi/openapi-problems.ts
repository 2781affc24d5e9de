/** Which problems a route can answer with: what its operation refuses with, and what every call of its kind may get. */
import { PROBLEMS, type ProblemCode } from '@eaas/protocol'
import type { Route } from '../route.js'

/** The codes that a route can answer with, by status, in the order of the contract. */
export function problemsOf(row: Route): Map<number, ProblemCode[]> {
  const codes = new Set(codesOf(row))
  const byStatus = new Map<number, ProblemCode[]>()
  for (const code of Object.keys(PROBLEMS) as ProblemCode[]) {
    if (!codes.has(code)) continue
    const { status } = PROBLEMS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return byStatus
}

function codesOf({ method, path, permissions, body, query, serverMode, problems = [] }: Route): ProblemCode[] {
  const codes: ProblemCode[] = ['E_UNAUTHORIZED', 'E_IP_NOT_ALLOWED', 'E_TENANT_SUSPENDED', 'E_INTERNAL']
  codes.push('E_AUDIT_NOT_WRITTEN', 'E_TAMPERED', 'E_UNAVAILABLE', ...problems)
  if (permissions.length > 0) codes.push('E_MISSING_PERMISSION')
  if (serverMode) codes.push('E_ENVELOPE_ONLY')
  if (body || query) codes.push('E_VALIDATION')
  if (path.includes(':id')) codes.push('E_MALFORMED_REQUEST', 'E_URI_TOO_LONG')
  // The server reads a body even if the call needs none, and it must be JSON.
  if (method !== 'GET') codes.push('E_MALFORMED_REQUEST', 'E_BODY_TOO_LARGE', 'E_MEDIA_TYPE')
  return codes
}

/** What each code means, for the documentation; the `detail` of a real answer says more. */
export const PROBLEM_DETAILS: Record<ProblemCode, string> = {
  E_VALIDATION: 'name: must be 1 to 255 characters',
  E_MALFORMED_REQUEST: 'the body is not valid JSON in UTF-8',
  E_PLAINTEXT_TOO_LARGE: 'plaintext must be at most 65536 bytes, got 70000; encrypt it locally with the SDK',
  E_UNAUTHORIZED: 'a valid API key is required: Authorization: Bearer eaas_sk_…',
  E_IP_NOT_ALLOWED: 'ip_not_allowed: 198.51.100.7 is not on the allow-list of this API key',
  E_TENANT_SUSPENDED: 'the operator has suspended this tenant: all of its calls are refused',
  E_MISSING_PERMISSION: 'missing permission: keys:export',
  E_ENVELOPE_ONLY:
    'E_ENVELOPE_ONLY: this tenant encrypts on the client only. Use wrap and unwrap, or ask the operator to open server mode.',
  E_WRAPPED_KEY: 'wrapped_key is not authentic for this key',
  E_NOT_FOUND: 'key not found',
  E_ROUTE_NOT_FOUND: 'there is nothing at this path',
  E_METHOD_NOT_ALLOWED: 'this path does not support this method',
  E_REQUEST_TIMEOUT: 'the request did not arrive in time',
  E_NAME_TAKEN: 'a key with this name already exists; names are never reused',
  E_STATE: 'the key is disabled: to wrap it must be active',
  E_KEY_DESTROYED: 'the key was destroyed: what it protected can never be opened again',
  E_LIMIT: 'a tenant may have at most 10000 keys, including destroyed ones',
  E_BODY_TOO_LARGE: 'the body is larger than this call accepts',
  E_URI_TOO_LONG: 'the path is too long',
  E_MEDIA_TYPE: 'the body must be application/json in UTF-8',
  E_DECRYPTION_FAILED: 'the ciphertext is not authentic: altered, or encrypted under another key',
  E_QUOTA_EXCEEDED: 'the quota of 10000 encrypt calls a month is used up',
  E_HEADERS_TOO_LARGE: 'the headers are too large',
  E_INTERNAL:
    'unexpected error; the server logged it under this request id, or under that of an earlier request that failed alike',
  E_AUDIT_NOT_WRITTEN: 'the audit entry could not be written, so the call was not carried out',
  E_TAMPERED: 'entry 77 of the audit log is not as the server wrote it: the operator must verify the log',
  E_UNAVAILABLE: 'too many calls are waiting; try again later',
}
