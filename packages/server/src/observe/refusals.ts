/**
 * Reports refusals to the operator, whatever their callers are told: counts by reason, and the fields of the request's
 * log line.
 */
import { findRefusedKind, foldUuid, isOnBehalfOf, isUuid, PROBLEMS, type ProblemCode, type wire } from '@eaas/protocol'
import type { FastifyRequest } from 'fastify'
import { clientAddress } from '../core/http/request-head.js'
import type { Services } from '../core/runner/operation.js'
import type { Refusal, RefusedCaller } from '../core/runner/refusal.js'
import type { Metrics } from './metrics.js'

interface Noted {
  /** the code of the answer; undefined if the call succeeded and only operations in it were refused */
  code?: ProblemCode
  /** how often each code was the reason */
  counts: ReadonlyMap<ProblemCode, number>
  caller: RefusedCaller
}

const noted = new WeakMap<FastifyRequest, Noted>()

/**
 * Notes that a call is refused. The first note of a request counts; a failure of the server is no refusal.
 */
export function noteRefusal(
  request: FastifyRequest,
  { code, caller = {} }: Pick<Refusal, 'code'> & Partial<Pick<Refusal, 'caller'>>,
): void {
  if (isRefusal(code) && !noted.has(request)) noted.set(request, { code, counts: new Map([[code, 1]]), caller })
}

/** Notes which operations of a batch were refused: in its answer they are parts of a success. */
export function noteRefusedItems(request: FastifyRequest, { results }: wire.BatchResults): void {
  const counts = new Map<ProblemCode, number>()
  for (const { status, body } of results) {
    if (status < 400) continue
    const { code } = body as { code: ProblemCode }
    if (isRefusal(code)) counts.set(code, (counts.get(code) ?? 0) + 1)
  }
  if (counts.size > 0) noted.set(request, { counts, caller: {} })
}

/** What a log line says about a refusal. */
export interface RefusalLine extends RefusedCaller {
  code?: ProblemCode
  /** of a batch: how many operations were refused, by code */
  refused?: Partial<Record<ProblemCode, number>>
  ip_address: string
  /** for an API key that is not known, the tenant that it claims */
  tenant_id?: string
  key_id?: string
  on_behalf_of?: string
}

/**
 * Counts what was refused in a request, and returns what its log line says about it; undefined if nothing was. Call it
 * once.
 */
export function countRefusals(
  request: FastifyRequest,
  { unrecordedCalls, now }: Pick<Services, 'unrecordedCalls' | 'now'>,
  { observeRefusal }: Pick<Metrics, 'observeRefusal'>,
): RefusalLine | undefined {
  const found = noted.get(request)
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

function describeRefusal(request: FastifyRequest, { code, counts, caller }: Noted): RefusalLine {
  const { credentials, admitted } = request
  const { tenant_id, on_behalf_of } = credentials ?? {}
  const api_key_id = admitted?.api_key_id ?? caller.api_key_id
  const key_id = findNamedKey(request)
  return {
    ...(code === undefined ? { refused: Object.fromEntries(counts) } : { code }),
    ...(caller.reason === undefined ? {} : { reason: caller.reason }),
    ip_address: clientAddress(request.ip),
    ...(tenant_id === undefined ? {} : { tenant_id }),
    ...(api_key_id === undefined ? {} : { api_key_id }),
    ...(key_id === undefined ? {} : { key_id }),
    ...(on_behalf_of !== undefined && isOnBehalfOf(on_behalf_of) ? { on_behalf_of } : {}),
  }
}

// The id is the caller's text, so only a UUID is logged: any other text may contain a secret by mistake.
function findNamedKey({ routeOptions: { url = '' }, params, body }: FastifyRequest): string | undefined {
  const { id } = (params ?? {}) as { id?: unknown }
  const { key_id } = (body ?? {}) as { key_id?: unknown }
  const named = url.startsWith('/v1/keys/') ? id : key_id
  const folded = typeof named === 'string' ? foldUuid(named) : ''
  return isUuid(folded) ? folded : undefined
}

function isRefusal(code: ProblemCode): boolean {
  return PROBLEMS[code].status < 500
}
