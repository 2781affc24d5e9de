/** Server mode: the server sees the plaintext. Closed to envelope-only tenants. */
import { wire } from '@eaas/protocol'
import { decrypt } from '../operations/decrypt.js'
import { encrypt } from '../operations/encrypt.js'
import { type Route, route } from './route.js'

export const serverModeRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/encrypt',
    operationId: 'encrypt',
    summary: 'Encrypt on the server',
    problems: ['E_PLAINTEXT_TOO_LARGE', 'E_NOT_FOUND', 'E_STATE', 'E_QUOTA_EXCEEDED'],
    permissions: ['encrypt'],
    serverMode: 'encrypt',
    status: 200,
    body: wire.encrypt,
    answer: wire.bundle,
    action: 'encrypt',
    operation: ({ body }) => encrypt(body),
  }),
  route({
    method: 'POST',
    path: '/v1/decrypt',
    operationId: 'decrypt',
    summary: 'Decrypt on the server',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_DECRYPTION_FAILED'],
    permissions: ['decrypt'],
    serverMode: 'decrypt',
    status: 200,
    body: wire.decrypt,
    answer: wire.decrypted,
    action: 'decrypt',
    operation: ({ body }) => decrypt(body),
  }),
]
