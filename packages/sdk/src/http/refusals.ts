/** What the errors of a refused call say: what is shown of the refusal, what to do, and whether a refusal means tampering. */
import { type OperationId, PERMISSIONS } from '@eaas/protocol'
import { type ApiError, type ApiProblem, DecryptionError, type EaasError } from '../errors.js'
import type { Call } from './calls.js'

/** The calls that send or return keys or plaintexts, besides those that the client makes as part of others. */
const WITH_SECRETS: readonly OperationId[] = ['encrypt', 'decrypt', 'exportKey']
const MISSING = 'missing permission: '
type Texts = Pick<ApiProblem, 'title' | 'detail' | 'problem'>

/** What an error may show of a refusal: none of the service's sentences where secrets are sent or returned. */
export function shownOf({ operationId, sdk }: Call, { title, detail, problem }: Texts): Texts {
  const code = /^E_[A-Z_]{1,40}$/.test(problem) ? problem : 'E_UNKNOWN'
  if (sdk !== true && !WITH_SECRETS.includes(operationId)) return { title, detail, problem: code }
  const missing = PERMISSIONS.find((permission) => detail === MISSING + permission)
  const shown = missing ? MISSING + missing : 'not shown, since it could hold private data'
  return { title: 'Refused', detail: shown, problem: code }
}

/** What to do when the service or a broker refuses a call; by the problem's code where the status is vague. */
export function apiHint({
  httpStatus,
  problem,
  retryAfterSeconds,
}: Pick<ApiProblem, 'httpStatus' | 'problem' | 'retryAfterSeconds'>): string {
  switch (problem) {
    case 'E_ROUTE_NOT_FOUND':
      return 'Check the base URL: it needs the path prefix of a proxy or a broker, and no /v1.'
    case 'E_NAME_TAKEN':
      return 'Get the key by keys.ensure(), or choose another name: names are never reused.'
    case 'E_KEY_DESTROYED':
    case 'E_VERSION_DESTROYED':
      return 'Treat the data as deleted: the key is gone.'
    case 'E_VERSION_TOO_OLD':
      return 'Lower min_unwrap_version of the key, rewrap what is left, and raise it again.'
    case 'E_BUDGET':
      return retryAfterSeconds
        ? `Wait for ${retryAfterSeconds} s, or have the budget of the API key raised.`
        : 'The API key has expired: have it resumed.'
    case 'E_TOO_MANY_CALLS':
      return 'Wait for a minute.'
    case 'E_TENANT_SUSPENDED':
      return 'Ask the operator, who alone can resume the tenant. No data is lost.'
    case 'E_TENANT_MOVED':
      return 'Set the base URL to the new address of the tenant, which its operator knows. No data is lost.'
    case 'E_IP_NOT_ALLOWED':
      return 'Call from an address on the list of the API key, or have that list extended.'
    case 'E_BODY_TOO_LARGE':
      return 'Send less at once, or raise the limit of the service or proxy.'
    case 'E_WRAPPED_KEY':
      return 'Restore the envelope from a backup, and check its key_id.'
    case 'E_NOT_ALLOWED':
    case 'E_CROSS_SITE':
      return 'Check `allow` and `origins` of the broker.'
  }
  if (httpStatus === 401) return 'Check the API key: it is missing, unknown, expired or revoked. With a broker, log in.'
  if (httpStatus === 403) return 'Check the permissions and addresses of the API key and the tenant.'
  if (httpStatus === 404) return 'Check the id, and the tenant and `keys` of the API key.'
  if (httpStatus === 409) return 'Check the status of the key first.'
  if (httpStatus === 429) return 'Wait for the next month, or have the quota raised.'
  if (httpStatus >= 500) return 'Try again later, and quote the request id to the operator.'
  return 'Correct what the detail names, or update the service if it is older than the SDK.'
}

const OPENING: readonly OperationId[] = ['unwrap', 'rewrap', 'decrypt']

/** A DecryptionError for a refusal of an envelope that is not authentic, and any other error unchanged. */
export function asTampering(operation: OperationId, error: ApiError): EaasError {
  if (!OPENING.includes(operation)) return error
  if (error.problem === 'E_WRAPPED_KEY' || error.problem === 'E_DECRYPTION_FAILED')
    return new DecryptionError(undefined, { cause: error })
  if (error.problem !== 'E_NOT_FOUND') return error
  return new DecryptionError(undefined, {
    message: 'could not decrypt: the service has no key with this key_id',
    hint: 'Check its key_id, and the tenant and `keys` of the API key.',
    cause: error,
  })
}
