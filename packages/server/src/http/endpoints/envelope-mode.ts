/** Envelope mode: wrapping the DEKs of clients that encrypt locally, and the blind index. */
import { hash } from '../../operations/hash.js'
import { rewrap } from '../../operations/rewrap.js'
import { unwrap } from '../../operations/unwrap.js'
import { wrap } from '../../operations/wrap.js'
import { bindRoutes } from '../route.js'

export const envelopeModeRoutes = bindRoutes({
  wrap: {
    summary: 'Wrap a DEK',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED'],
    action: 'key.wrap',
    operation: ({ id, body }) => wrap({ key_id: id, dek: body.dek }),
  },
  unwrap: {
    summary: 'Unwrap a DEK',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED', 'E_WRAPPED_KEY'],
    action: 'key.unwrap',
    operation: ({ id, body }) => unwrap({ key_id: id, wrapped_key: body.wrapped_key }),
  },
  rewrap: {
    summary: 'Rewrap a DEK under the current version, without revealing it',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED', 'E_WRAPPED_KEY'],
    action: 'key.wrap',
    operation: ({ id, body }) => rewrap({ key_id: id, wrapped_key: body.wrapped_key }),
  },
  hash: {
    summary: 'Compute the blind index of a value',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED'],
    operation: ({ body }) => hash(body),
  },
})
