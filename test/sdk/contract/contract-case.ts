// A case of the contract: a rule, and the calls that show it, with what is expected of every service.
import { inspect } from 'node:util'
import { type ApiError, isEaasError } from '../../../packages/sdk/src/index.js'
import type { Scene, SceneOptions } from './scene.js'

export interface ContractCase {
  rule: string
  options?: SceneOptions
  run(scene: Scene): Promise<void>
}

/** The refusal that a call ends in, as status and code. */
export async function refusal(call: Promise<unknown>): Promise<string> {
  const { httpStatus, problem } = await apiError(call)
  return `${httpStatus} ${problem}`
}

/** The error of a call that the service refuses. @throws when it doesn't */
export async function apiError(call: Promise<unknown>): Promise<ApiError> {
  const error: unknown = await call.then(
    (value) => new Error(`succeeded with ${inspect(value)}`),
    (reason: unknown) => reason,
  )
  if (isEaasError(error) && error.code === 'E_API') return error
  // What the service found tampered with is E_DECRYPTION, as what the SDK finds is; the cause is what the service said.
  if (isEaasError(error) && error.code === 'E_DECRYPTION' && isEaasError(error.cause) && error.cause.code === 'E_API') {
    return error.cause
  }
  throw error
}
