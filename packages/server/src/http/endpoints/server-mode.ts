/** Server mode: the server sees the plaintext. Closed to envelope-only tenants. */
import { decrypt } from '../../operations/decrypt.js'
import { encrypt } from '../../operations/encrypt.js'
import { bindRoutes } from '../route.js'

export const serverModeRoutes = bindRoutes({
  encrypt: {
    summary: 'Encrypt on the server',
    problems: ['E_PLAINTEXT_TOO_LARGE', 'E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED', 'E_QUOTA_EXCEEDED'],
    action: 'encrypt',
    operation: ({ body }) => encrypt(body),
  },
  decrypt: {
    summary: 'Decrypt on the server',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED', 'E_DECRYPTION_FAILED'],
    action: 'decrypt',
    operation: ({ body }) => decrypt(body),
  },
})
