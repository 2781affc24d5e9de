/** `keys.createMany`: many keys in one request, of which each may fail by itself. */
import { MAX_BATCH_OPERATIONS } from '@eaas/protocol'
import { type EaasError, InvalidInputError, isEaasError, ProtocolError } from '../errors.js'
import type { Http } from '../http/calls.js'
import { toCall } from '../http/to-call.js'
import { assertOptions, kindOf } from '../input.js'
import { assertName } from './input.js'
import type { CreatedKeys } from './keys.js'
import type { Key } from './wire-types.js'

/** Creates keys. @throws InvalidInputError naming the first that is invalid, before the network is used */
export async function createManyKeys(
  http: Http,
  list: readonly { name: string }[],
  signal: AbortSignal | undefined,
): Promise<CreatedKeys> {
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_BATCH_OPERATIONS) {
    const got = Array.isArray(list) ? `${list.length}` : kindOf(list)
    const message = `keys must be an array of 1 to ${MAX_BATCH_OPERATIONS}, got ${got}`
    throw new InvalidInputError(message, 'Create more by other calls.')
  }
  const keys = Array.from(list as readonly { name: string }[], (key, index) => {
    assertOptions(`keys.${index}`, key, ['name'])
    assertName(key.name, `keys.${index}.name`)
    return { name: key.name }
  })
  const parts = keys.map((body) => toCall('createKey', { body }))
  const outcomes = await http(toCall('createKeys', { body: { keys }, parts, signal }))
  const created: CreatedKeys = { ok: [], failed: [] }
  for (const [index, outcome] of outcomes.entries()) {
    const key = 'value' in outcome ? (outcome.value as Key) : undefined // send.ts parsed it as the answer of its part
    if (key && key.name === keys[index]?.name) created.ok.push(key)
    else created.failed.push({ index, error: errorOf(outcome) })
  }
  return created
}

/** A key of another name would encrypt what belongs to somebody else. */
function errorOf(outcome: object): EaasError {
  if ('error' in outcome && isEaasError(outcome.error)) return outcome.error
  return new ProtocolError('POST /v1/batch/keys: the answer is about another name', 200)
}
