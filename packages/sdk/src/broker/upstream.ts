/** Sends a broker's calls to the service, and returns only answers that fit the contract. */
import { ON_BEHALF_OF_HEADER, PROBLEM_CONTENT_TYPE } from '@eaas/protocol'
import { type Fetch, type FetchResponse, readText } from '../http/fetch.js'
import { causeOf, hide, spellingsOf } from '../http/secrets.js'
import { isObject } from '../input.js'
import { BrokerRefusal } from './problem.js'

/** Enough for the longest answer, to a batch of a thousand operations. */
const MAX_ANSWER_BYTES = 16 * 1_048_576
/** Codes that, like any 401, mean that the service refused the broker's own API key. */
const OWN_FAULTS = ['E_IP_NOT_ALLOWED', 'E_TENANT_SUSPENDED', 'E_TENANT_MOVED', 'E_MISSING_PERMISSION']

export type Upstream = { findBase: () => URL; fetch: Fetch; timeoutMs: number }

export interface UpstreamCall {
  path: string
  body: string
  apiKey: string
  onBehalfOf: string
  signal: AbortSignal
}

export interface UpstreamAnswer {
  status: number
  contentType: string
  requestId: string | undefined
  body: Readonly<Record<string, unknown>>
  text: string
}

/** Why the service's answer cannot be passed on, for the broker's operator. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
}

/** @throws BrokerRefusal E_UNAVAILABLE, or E_BAD_GATEWAY for an answer that no page may see, with a cause for operators */
export async function askService(upstream: Upstream, call: UpstreamCall): Promise<UpstreamAnswer> {
  const base = upstream.findBase()
  const deadline = AbortSignal.timeout(upstream.timeoutMs)
  try {
    const response = await upstream.fetch(new URL(call.path, base).href, {
      method: 'POST',
      headers: {
        accept: `application/json, ${PROBLEM_CONTENT_TYPE}`,
        authorization: `Bearer ${call.apiKey}`,
        'content-type': 'application/json',
        [ON_BEHALF_OF_HEADER]: call.onBehalfOf,
      },
      body: call.body,
      redirect: 'manual', // some runtimes lack 'error'; the code below refuses a redirect
      signal: AbortSignal.any?.([deadline, call.signal]) ?? deadline, // Vercel's edge-runtime has no `any`
    })
    return await readAnswer(response, call)
  } catch (error) {
    if (error instanceof BrokerRefusal) throw error
    const refusal = new BrokerRefusal('E_UNAVAILABLE', 'the service does not answer; try again later')
    throw Object.assign(refusal, { cause: causeOf(error, spellingsOf(secretsOf(call))) })
  }
}

/** Lists what must not appear in the application's log: the API key, data keys and values. */
function secretsOf({ apiKey, body }: UpstreamCall): string[] {
  const secrets = [apiKey]
  JSON.parse(body, (name, value) => {
    if ((name === 'dek' || name === 'value') && typeof value === 'string') secrets.push(value)
    return value
  })
  return secrets
}

async function readAnswer(response: FetchResponse, call: UpstreamCall): Promise<UpstreamAnswer> {
  const { status } = response
  const sentType = response.headers.get('content-type') ?? ''
  const contentType = sentType.replace(/;.*$/s, '').trim().toLowerCase()
  const expected = status === 200 ? 'application/json' : PROBLEM_CONTENT_TYPE
  const isError = status >= 400 && status <= 599
  if (response.redirected || (status !== 200 && !isError) || contentType !== expected) {
    await response.body?.cancel()
    throw badGateway(
      `the service answered ${status} as ${JSON.stringify(hide(sentType, spellingsOf(secretsOf(call))))}`,
    )
  }
  const refuse = (fault: string) => badGateway(`the service's answer is ${fault}`)
  const { body, text } = readJson(await readText(response.body, MAX_ANSWER_BYTES, refuse))
  const ownFault = findOwnFault({ status, body })
  if (ownFault) throw ownFault
  const sentId = response.headers.get('x-request-id') ?? ''
  const requestId = /^[\x21-\x7e]{1,128}$/.test(sentId) ? sentId : undefined
  const passedOn = `${text} ${requestId}`
  if (hide(passedOn, spellingsOf([call.apiKey])) !== passedOn)
    throw badGateway("the service's answer contains the broker's API key")
  return { status, contentType, requestId, body, text }
}

/** Returns the refusal if the service refused the broker's own API key. Never 401: the page would ask the user to log in. */
export function findOwnFault(result: unknown): BrokerRefusal | undefined {
  const { status, body } = (result ?? {}) as { status?: unknown; body?: { code?: unknown } | null }
  const fault = status === 401 ? 'E_UNAUTHORIZED' : OWN_FAULTS.find((own) => own === body?.code)
  return fault === undefined ? undefined : badGateway(`the service refused the broker's API key: ${fault}`)
}

/** Parses an answer and serialises it again, so that each character has one spelling. @throws BrokerRefusal */
function readJson(sent: string): Pick<UpstreamAnswer, 'body' | 'text'> {
  try {
    const body: unknown = JSON.parse(sent)
    if (isObject(body) && !Array.isArray(body))
      return { body: body as UpstreamAnswer['body'], text: JSON.stringify(body) }
  } catch {
    // Without the parser's message, which quotes the text and may contain a DEK.
  }
  throw badGateway('the answer is not a JSON object')
}

export function badGateway(cause: string): BrokerRefusal {
  const refusal = new BrokerRefusal('E_BAD_GATEWAY', "the service's answer cannot be passed on")
  return Object.assign(refusal, { cause: new UpstreamError(cause) })
}
