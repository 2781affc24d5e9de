/** Runs cases one after another. First checks that the API key may do everything, and cleans up at the end. */
import { findMissingPermission, PERMISSIONS, type wire } from '@eaas/protocol'
import { ANSWER_CASES, CLOSED_CASES, PERMISSION_CASES, STATE_CASES } from './cases/answers.js'
import { API_KEY_CASES } from './cases/api-keys.js'
import { AUDIT_CASES } from './cases/audit.js'
import { type Case, callsIn, Fault, redact, Skip } from './cases/case.js'
import { EVERY_CALL_CASES } from './cases/every-call.js'
import { KEY_CASES } from './cases/keys.js'
import { VALUE_CASES } from './cases/values.js'
import { type Answer, createSession, refusalOf, type Session, type SessionOptions } from './session.js'

/** All cases, in the order in which they run. */
export const CASES: readonly Case[] = [
  ...Object.entries(EVERY_CALL_CASES),
  ...ANSWER_CASES,
  ...PERMISSION_CASES,
  ...Object.entries(KEY_CASES),
  ...STATE_CASES,
  ...Object.entries(VALUE_CASES),
  ...CLOSED_CASES,
  ...Object.entries(API_KEY_CASES),
  ...Object.entries(AUDIT_CASES),
]

/** Thrown where a run cannot begin: the server does not answer, or the API key lacks a permission. */
export class UnreadyError extends Error {
  override readonly name = 'UnreadyError'
}

export interface Result {
  name: string
  operations: readonly string[]
  outcome: 'passed' | 'failed' | 'skipped'
  message?: string
}

/** Opens a run on the tenant of an API key. @throws UnreadyError */
export async function openSession(options: Omit<SessionOptions, 'isOpen'>): Promise<Session> {
  const probe = createSession({ ...options, isOpen: false })
  const tenant: wire.Tenant = await ask(probe.call('getTenant'), 'GET /v1/tenant')
  const { api_keys }: wire.ApiKeyList = await ask(probe.call('listApiKeys'), 'GET /v1/api-keys')
  if (typeof tenant.envelope_only !== 'boolean' || !Array.isArray(api_keys))
    throw new UnreadyError('what answers at this URL is no server of this API')
  const own = api_keys.find(({ prefix, status }) => status === 'active' && options.apiKey.startsWith(prefix))
  if (!own) throw new UnreadyError('GET /v1/api-keys does not list the API key of this run')
  const missing = PERMISSIONS.filter((one) => findMissingPermission(own.permissions, [one]))
  if (missing.length > 0) throw new UnreadyError(`the API key lacks permissions: ${missing.join(', ')}`)
  if (own.keys !== undefined) throw new UnreadyError('the API key is limited to some keys: use one that is not')
  if (own.budgets !== undefined) throw new UnreadyError('the API key has budgets: use one that has none')
  return createSession({ ...options, isOpen: !tenant.envelope_only })
}

async function ask(call: Promise<Answer>, name: string): Promise<Answer['body']> {
  const { status, body } = await call.catch((error: unknown) => {
    throw new UnreadyError(`${name} was not answered: ${reasonOf(error)}`)
  })
  if (status === 200 && typeof body === 'object' && body !== null) return body
  const detail = typeof body?.detail === 'string' ? `: ${redact(body.detail)}` : ''
  throw new UnreadyError(`${name} was answered ${refusalOf(status, body)}${detail}`)
}

/** Runs cases until the signal aborts. Calls `onResult` after each one. */
export async function runCases(
  session: Session,
  { cases, signal, onResult }: { cases: readonly Case[]; signal?: AbortSignal; onResult?: (result: Result) => void },
): Promise<Result[]> {
  const results: Result[] = []
  for (const [name, run] of cases) {
    const outcome = await runCase(session, run)
    if (signal?.aborted) break
    const result = { name, operations: callsIn(name), ...outcome }
    results.push(result)
    onResult?.(result)
  }
  return results
}

async function runCase(session: Session, run: Case[1]): Promise<Pick<Result, 'outcome' | 'message'>> {
  try {
    await run(session)
    return { outcome: 'passed' }
  } catch (error) {
    if (error instanceof Skip) return { outcome: 'skipped', message: error.message }
    return { outcome: 'failed', message: redact(error instanceof Fault ? error.message : reasonOf(error)) }
  }
}

/** Says what went wrong, with the cause if a call got no answer. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, cause } = error
  const reason = (cause as NodeJS.ErrnoException | undefined)?.code ?? (cause as Error | undefined)?.message
  return reason === undefined ? message : `${message} (${reason})`
}
