/**
 * Which problems a route can answer with: what its operation refuses with, and what every call of its kind
 * may get.
 */
import { PROBLEMS, type ProblemCode } from '@eaas/protocol'
import type { ServedRoute } from '../../packages/server/src/core/api/route.js'

/** The codes that a route can answer with, by status, in the order of the contract. */
export function problemsOf(row: ServedRoute): Map<number, ProblemCode[]> {
  const codes = new Set(codesOf(row))
  const byStatus = new Map<number, ProblemCode[]>()
  for (const code of Object.keys(PROBLEMS) as ProblemCode[]) {
    if (!codes.has(code)) continue
    const { status } = PROBLEMS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return byStatus
}

function codesOf({ isOperators, method, path, body, query, ...row }: ServedRoute): ProblemCode[] {
  const { serverMode, problems = [] } = row
  // In any call, naming an end user needs a permission and a valid name.
  const codes: ProblemCode[] = ['E_UNAUTHORIZED', 'E_IP_NOT_ALLOWED', 'E_MISSING_PERMISSION', 'E_INTERNAL']
  // The installation is never suspended or moved, and its operators get no permission to name an end user.
  if (!isOperators) codes.push('E_TENANT_SUSPENDED', 'E_TENANT_MOVED', 'E_VALIDATION')
  codes.push('E_AUDIT_NOT_WRITTEN', 'E_TAMPERED', 'E_UNAVAILABLE', ...problems)
  if (serverMode) codes.push('E_ENVELOPE_ONLY')
  if (body || query) codes.push('E_VALIDATION')
  if (path.includes(':id')) codes.push('E_MALFORMED_REQUEST', 'E_URI_TOO_LONG')
  // The server reads a body even if the call needs none, and it must be JSON.
  if (method !== 'GET') codes.push('E_MALFORMED_REQUEST', 'E_BODY_TOO_LARGE', 'E_MEDIA_TYPE')
  return codes
}
