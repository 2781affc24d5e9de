/** Asks the service on a broker's behalf, and lets nothing of its answer through but what the contract has. */
import { PROBLEM_CONTENT_TYPE } from '@eaas/protocol'
import { BrokerRefusal } from './problem.js'

/** The longest answer is the one to a batch of a thousand. */
const MAX_ANSWER_BYTES = 16 * 1_048_576
const ON_BEHALF_OF_HEADER = 'eaas-on-behalf-of'

export interface Upstream {
  base: URL
  fetch: typeof fetch
  timeoutMs: number
}

export interface UpstreamCall {
  path: string
  body: string
  apiKey: string
  onBehalfOf: string
  /** Of the page's request. */
  signal: AbortSignal
}

/** An answer of the contract. */
export interface UpstreamAnswer {
  status: number
  contentType: string
  requestId: string | undefined
  text: string
}

/** Why the service was not heard, for whoever runs the broker. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
}

/**
 * Sends one call, and reads its answer to the end. Nothing of the page's request goes with it but what is given.
 *
 * @throws BrokerRefusal E_UNAVAILABLE when no answer comes, E_BAD_GATEWAY when it is not one that a page may see; the cause
 * says more, and is not for the page
 */
export async function askService(upstream: Upstream, call: UpstreamCall): Promise<UpstreamAnswer> {
  const deadline = AbortSignal.timeout(upstream.timeoutMs)
  try {
    const response = await upstream.fetch(new URL(call.path, upstream.base), {
      method: 'POST',
      headers: {
        accept: `application/json, ${PROBLEM_CONTENT_TYPE}`,
        authorization: `Bearer ${call.apiKey}`,
        'content-type': 'application/json',
        [ON_BEHALF_OF_HEADER]: call.onBehalfOf,
      },
      body: call.body,
      redirect: 'manual', // not 'error', which some runtimes lack: a redirect is refused below
      signal: AbortSignal.any([deadline, call.signal]),
    })
    return await readAnswer(response, call)
  } catch (error) {
    if (error instanceof BrokerRefusal) throw error
    const refusal = new BrokerRefusal('E_UNAVAILABLE', 'the service does not answer; try again later')
    throw Object.assign(refusal, { cause: error })
  }
}

async function readAnswer(response: Response, call: UpstreamCall): Promise<UpstreamAnswer> {
  const { status } = response
  const contentType = (response.headers.get('content-type') ?? '').replace(/;.*$/s, '').trim().toLowerCase()
  const expected = status === 200 ? 'application/json' : PROBLEM_CONTENT_TYPE
  const isError = status >= 400 && status <= 599
  if (response.redirected || (status !== 200 && !isError) || contentType !== expected) {
    await response.body?.cancel()
    throw badGateway(`the service answered ${status} as ${JSON.stringify(contentType)}`)
  }
  const text = await readText(response)
  // Not the session's fault: a page told 401 would send its user to log in.
  if (status === 401 || (status === 403 && text.includes('E_IP_NOT_ALLOWED')))
    throw badGateway("the service refused the broker's API key")
  if (text.includes(call.apiKey)) throw badGateway("the service's answer holds the broker's API key")
  const requestId = response.headers.get('x-request-id') ?? ''
  return { status, contentType, text, requestId: /^[\x21-\x7e]{1,128}$/.test(requestId) ? requestId : undefined }
}

async function readText(response: Response): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const reader = response.body?.getReader()
  let text = ''
  let length = 0
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    length += value.length
    if (length > MAX_ANSWER_BYTES) {
      await reader.cancel()
      throw badGateway(`the service's answer is longer than ${MAX_ANSWER_BYTES} bytes`)
    }
    text += decoder.decode(value, { stream: true })
    value.fill(0) // it may hold a DEK
  }
  return text + decoder.decode()
}

/** The refusal of an answer that a page must not see. */
export function badGateway(cause: string): BrokerRefusal {
  const refusal = new BrokerRefusal('E_BAD_GATEWAY', "the service's answer cannot be passed on")
  return Object.assign(refusal, { cause: new UpstreamError(cause) })
}
