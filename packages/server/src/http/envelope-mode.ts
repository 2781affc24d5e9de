/** Envelope mode: wrapping the DEKs of clients that encrypt locally, and the blind index. */
import { wire } from '@eaas/protocol'
import { hash } from '../operations/hash.js'
import { rewrap } from '../operations/rewrap.js'
import { unwrap } from '../operations/unwrap.js'
import { wrap } from '../operations/wrap.js'
import { type Route, route } from './route.js'

export const envelopeModeRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/keys/:id/wrap',
    operationId: 'wrap',
    summary: 'Wrap a DEK',
    problems: ['E_NOT_FOUND', 'E_STATE'],
    permissions: ['encrypt'],
    status: 200,
    body: wire.wrap,
    answer: wire.wrapped,
    action: 'key.wrap',
    operation: ({ id, body }) => wrap({ key_id: id, dek: body.dek }),
  }),
  route({
    method: 'POST',
    path: '/v1/keys/:id/unwrap',
    operationId: 'unwrap',
    summary: 'Unwrap a DEK',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_WRAPPED_KEY'],
    permissions: ['decrypt'],
    status: 200,
    body: wire.unwrap,
    answer: wire.unwrapped,
    action: 'key.unwrap',
    operation: ({ id, body }) => unwrap({ key_id: id, wrapped_key: body.wrapped_key }),
  }),
  route({
    method: 'POST',
    path: '/v1/keys/:id/rewrap',
    operationId: 'rewrap',
    summary: 'Wrap a DEK anew under the current version, without showing it',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_WRAPPED_KEY'],
    permissions: ['encrypt', 'decrypt'],
    status: 200,
    body: wire.unwrap,
    answer: wire.wrapped,
    action: 'key.wrap',
    operation: ({ id, body }) => rewrap({ key_id: id, wrapped_key: body.wrapped_key }),
  }),
  route({
    method: 'POST',
    path: '/v1/hash',
    operationId: 'hash',
    summary: 'Compute the blind index of a value',
    problems: ['E_NOT_FOUND', 'E_STATE'],
    permissions: ['encrypt'],
    status: 200,
    body: wire.hash,
    answer: wire.hashed,
    operation: ({ body }) => hash(body),
  }),
]
