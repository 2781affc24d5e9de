/** `keys.ensure`: gets the key of a name, or creates it if there is none, even if many processes do so at once. */
import { ApiError, isEaasError } from '../errors.js'
import type { CallOptions, Key, KeyStatus, Keys } from './keys.js'

const REMEDIES: Record<Exclude<KeyStatus, 'active'>, string> = {
  disabled: 'Enable it with eaas.keys.enable(), or choose another name.',
  pending_destruction: 'Call keys.cancelDestruction() and keys.enable(), or choose another name.',
  destroyed: 'Choose another name: names are never reused.',
}

/** Gets the active key of a name, or creates it. @throws ApiError E_STATE if it is not active; as `list`, `create` */
export async function ensureKey(
  keys: Pick<Keys, 'list' | 'create'>,
  name: string,
  { signal }: CallOptions,
): Promise<Key> {
  const found = await findKey(keys, name, signal)
  if (found) return active(found)
  try {
    return await keys.create({ name }, { signal })
  } catch (error) {
    if (!isRefused(error, 'E_NAME_TAKEN')) return explainRights(error)
    const createdMeanwhile = await findKey(keys, name, signal) // by another process, between the two requests
    if (createdMeanwhile) return active(createdMeanwhile)
    throw error
  }
}

/** Gets the key of a name, whatever its status; undefined where there is none. @throws what `list` throws */
export async function findKey(
  { list }: Pick<Keys, 'list'>,
  name: string,
  signal?: AbortSignal | undefined,
): Promise<Key | undefined> {
  const { keys } = await list({ name, signal }).catch(explainRights)
  return keys.find((key) => key.name === name)
}

function active(key: Key): Key {
  const { id, status } = key
  if (status === 'active') return key
  const detail = `the key of this name, ${id}, must be active, and is ${status}`
  const refused = { httpStatus: 409, title: 'Conflict', detail, problem: 'E_STATE', requestId: undefined } as const
  throw new ApiError('keys.ensure()', refused, REMEDIES[status], false)
}

/** Says what an API key needs if it may not look keys up: it may still encrypt and decrypt. */
function explainRights(error: unknown): never {
  if (!isRefused(error, 'E_MISSING_PERMISSION')) throw error
  const hint = 'Pass the id of the key, or grant the API key keys:read, and keys:create where the key may be missing.'
  throw Object.assign(error, { hint })
}

function isRefused(error: unknown, problem: string): error is ApiError {
  return isEaasError(error) && error.code === 'E_API' && error.problem === problem
}
