/** Reports refusals to the operator with their true reason: counts by reason, and the fields of log lines. */
import { findRefusedKind, foldUuid, isOnBehalfOf, isUuid, type ProblemCode } from '@eaas/protocol'
import type { FastifyRequest } from 'fastify'
import { type Refusals, refusalsOf } from '../core/http/outcome.js'
import { clientAddress } from '../core/http/request-head.js'
import type { Services } from '../core/runner/operation.js'
import type { RefusedCaller } from '../core/runner/refusal.js'
import type { Metrics } from './metrics.js'

export interface RefusalLine extends RefusedCaller {
  code?: ProblemCode
  refused?: Partial<Record<ProblemCode, number>> // of a batch: how many operations were refused, by code
  ip_address: string
  tenant_id?: string // for an unknown API key, the tenant that it claims
  key_id?: string
  on_behalf_of?: string
}

/** Counts the refusals in a request; returns the fields of its log line, if it was refused. Call it once. */
export function countRefusals(
  request: FastifyRequest,
  { unrecordedCalls, now }: Pick<Services, 'unrecordedCalls' | 'now'>,
  { observeRefusal }: Pick<Metrics, 'observeRefusal'>,
): RefusalLine | undefined {
  const found = refusalsOf(request)
  if (!found) return undefined
  const line = describeRefusal(request, found)
  const { tenant_id, api_key_id, ip_address, reason } = line
  for (const [code, calls] of found.counts) {
    observeRefusal({ code, reason }, calls)
    const kind = findRefusedKind(code)
    if (!kind || tenant_id === undefined || api_key_id === undefined) continue
    unrecordedCalls.count(kind, { tenant_id, api_key_id, ip_address }, now(), calls)
  }
  return line
}

function describeRefusal(request: FastifyRequest, { code, counts, caller }: Refusals): RefusalLine {
  const { credentials, admitted } = request
  const { tenant_id, on_behalf_of } = credentials ?? {}
  const api_key_id = admitted?.api_key_id ?? caller.api_key_id
  const key_id = findNamedKey(request)
  return {
    ...(code === undefined ? { refused: Object.fromEntries(counts) } : { code }),
    ...(caller.reason !== undefined && { reason: caller.reason }),
    ip_address: clientAddress(request.ip),
    ...(tenant_id !== undefined && { tenant_id }),
    ...(api_key_id !== undefined && { api_key_id }),
    ...(key_id !== undefined && { key_id }),
    ...(on_behalf_of !== undefined && isOnBehalfOf(on_behalf_of) && { on_behalf_of }),
  }
}

// The id is the caller's text, so only a UUID is logged: other text may contain a secret by mistake.
function findNamedKey({ routeOptions: { url = '' }, params, body }: FastifyRequest): string | undefined {
  const { id } = (params ?? {}) as { id?: unknown }
  const { key_id } = (body ?? {}) as { key_id?: unknown }
  const named = url.startsWith('/v1/keys/') ? id : key_id
  const folded = typeof named === 'string' ? foldUuid(named) : ''
  return isUuid(folded) ? folded : undefined
}
