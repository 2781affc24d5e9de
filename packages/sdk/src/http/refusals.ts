/** The errors of a refused call: what they show of the refusal, what to do, and which refusals mean tampering. */
import { type OperationId, PERMISSIONS } from '@eaas/protocol'
import { type ApiError, type ApiProblem, DecryptionError, type EaasError } from '../errors.js'
import type { Call } from './calls.js'

/** The calls that send or return keys or plaintexts, besides those that the client makes within others. */
const WITH_SECRETS: readonly OperationId[] = ['encrypt', 'decrypt', 'exportKey']
const MISSING = 'missing permission: '
type Texts = Pick<ApiProblem, 'title' | 'detail' | 'problem'>

/** Returns what an error shows of a refusal: no sentence of the service where secrets are sent or returned. */
export function shownOf({ operationId, sdk }: Call, { title, detail, problem }: Texts): Texts {
  const code = /^E_[A-Z_]{1,40}$/.test(problem) ? problem : 'E_UNKNOWN'
  if (sdk !== true && !WITH_SECRETS.includes(operationId)) return { title, detail, problem: code }
  const missing = PERMISSIONS.find((permission) => detail === MISSING + permission)
  const shown = missing ? MISSING + missing : 'not shown, since it could hold private data'
  return { title: 'Refused', detail: shown, problem: code }
}

const HINTS: Readonly<Partial<Record<string, string>>> = {
  E_ROUTE_NOT_FOUND: 'Check the base URL: it needs the path prefix of a proxy or a broker, and no /v1.',
  E_NAME_TAKEN: 'Get the key by keys.ensure(), or choose another name: names are never reused.',
  E_KEY_DESTROYED: 'Treat the data as deleted: the key is gone.',
  E_VERSION_DESTROYED: 'Treat the data as deleted: the key is gone.',
  E_VERSION_TOO_OLD: 'Lower min_unwrap_version of the key, rewrap what is left, and raise it again.',
  E_BUDGET: 'The API key has expired: have it resumed.',
  E_TOO_MANY_CALLS: 'Wait for a minute.',
  E_TENANT_SUSPENDED: 'Ask the operator, who alone can resume the tenant. No data is lost.',
  E_TENANT_MOVED: 'Set the base URL to the new address of the tenant, which its operator knows. No data is lost.',
  E_IP_NOT_ALLOWED: 'Call from an address on the list of the API key, or have that list extended.',
  E_BODY_TOO_LARGE: 'Send less at once, or raise the limit of the service or proxy.',
  E_WRAPPED_KEY: 'Restore the envelope from a backup, and check its key_id.',
  E_NOT_ALLOWED: 'Check `allow` and `origins` of the broker.',
  E_CROSS_SITE: 'Check `allow` and `origins` of the broker.',
  401: 'Check the API key: it is missing, unknown, expired or revoked. With a broker, log in.',
  403: 'Check the permissions and addresses of the API key and the tenant.',
  404: 'Check the id, and the tenant and `keys` of the API key.',
  409: 'Check the status of the key first.',
  429: 'Wait for the next month, or have the quota raised.',
}

/** What to do when the service or a broker refuses a call: by problem code where the status is too vague. */
export function apiHint(refused: Pick<ApiProblem, 'httpStatus' | 'problem' | 'retryAfterSeconds'>): string {
  const { httpStatus, problem, retryAfterSeconds } = refused
  if (problem === 'E_BUDGET' && retryAfterSeconds)
    return `Wait for ${retryAfterSeconds} s, or have the budget of the API key raised.`
  const hint = HINTS[problem] ?? HINTS[httpStatus]
  if (hint) return hint
  if (httpStatus >= 500) return 'Try again later, and quote the request id to the operator.'
  return 'Correct what the detail names, or update the service if it is older than the SDK.'
}

const OPENING: readonly OperationId[] = ['unwrap', 'rewrap', 'decrypt']

/** Makes a DecryptionError of a refusal that means that an envelope is not authentic. Other errors stay. */
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
