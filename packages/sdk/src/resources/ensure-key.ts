/**
 * `keys.ensure`: gets the key of a name, or creates it if there is none, even if many processes do so at
 * once.
 */
import { ApiError, isEaasError } from '../errors.js'
import type { CallOptions, Key, KeyStatus, Keys } from './keys.js'

/** What the caller can do if the key of this name is not active. */
const REMEDIES: Record<Exclude<KeyStatus, 'active'>, string> = {
  disabled: 'Enable it with eaas.keys.enable(), or choose another name.',
  pending_destruction: 'Call keys.cancelDestruction() and keys.enable(), or choose another name.',
  destroyed: 'Choose another name: names are never reused.',
}

/**
 * Gets the active key of a name, or creates it.
 *
 * @throws ApiError E_STATE when the key of this name is not active, or what `list` and `create` throw
 */
export async function ensureKey(
  { list, create }: Pick<Keys, 'list' | 'create'>,
  name: string,
  { signal }: CallOptions,
): Promise<Key> {
  const find = async () => {
    const { keys } = await list({ name, signal }).catch(explainRights)
    return keys.find((key) => key.name === name)
  }
  const found = await find()
  if (found) return active(found)
  try {
    return await create({ name }, { signal })
  } catch (error) {
    if (!isRefused(error, 'E_NAME_TAKEN')) return explainRights(error)
    const createdMeanwhile = await find() // by another process, between the two requests
    if (!createdMeanwhile) throw error
    return active(createdMeanwhile)
  }
}

function active(key: Key): Key {
  const { id, status } = key
  if (status === 'active') return key
  const detail = `the key of this name, ${id}, must be active, and is ${status}`
  const refused = { httpStatus: 409, title: 'Conflict', detail, problem: 'E_STATE', requestId: undefined } as const
  throw new ApiError('keys.ensure()', refused, REMEDIES[status], false)
}

const RIGHTS_HINT =
  'Put the id of the key into the configuration, or grant the API key keys:read, and keys:create where the key may not exist.'

/** Says what a call needs that may do less than `ensure`: it may still encrypt. */
function explainRights(error: unknown): never {
  if (!isRefused(error, 'E_MISSING_PERMISSION')) throw error
  const { httpStatus, title, detail, problem, requestId } = error
  throw new ApiError('keys.ensure()', { httpStatus, title, detail, problem, requestId }, RIGHTS_HINT, false)
}

function isRefused(error: unknown, problem: string): error is ApiError {
  return isEaasError(error) && error.code === 'E_API' && error.problem === problem
}
