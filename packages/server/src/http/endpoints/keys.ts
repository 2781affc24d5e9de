/** /v1/keys: keys and their life cycle. */
import { MAX_BATCH_BODY_BYTES } from '@eaas/protocol'
import { createKey } from '../../operations/create-key.js'
import { createKeys } from '../../operations/create-keys.js'
import { cancelDestruction, destroyKey } from '../../operations/destroy-key.js'
import { disableKey, enableKey } from '../../operations/disable-key.js'
import { exportKey } from '../../operations/export-key.js'
import { listKeysInPages } from '../../operations/list-keys.js'
import { readKey } from '../../operations/read-key.js'
import { rotateKey } from '../../operations/rotate-key.js'
import { setRotation } from '../../operations/set-rotation.js'
import { bindRoutes } from '../route.js'

export const keyRoutes = bindRoutes({
  createKey: {
    summary: 'Create a key',
    problems: ['E_NAME_TAKEN', 'E_LIMIT'],
    action: 'key.create',
    operation: ({ body }) => createKey(body),
  },
  createKeys: {
    summary: 'Create many keys in one request',
    bodyLimit: MAX_BATCH_BODY_BYTES,
    countOperations: ({ keys }) => keys.length,
    operation: ({ body }) => createKeys(body),
  },
  listKeys: {
    summary: 'List the keys',
    operation: ({ query }) => listKeysInPages(query),
  },
  getKey: {
    summary: 'Read a key and its versions',
    problems: ['E_NOT_FOUND'],
    operation: ({ id }) => readKey({ key_id: id }),
  },
  rotateKey: {
    summary: 'Rotate a key: a new version encrypts, older ones only decrypt',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED', 'E_LIMIT'],
    action: 'key.rotate',
    operation: ({ id }) => rotateKey({ key_id: id }),
  },
  setRotation: {
    summary: 'Set how often a key is rotated, or stop rotating it',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED'],
    action: 'key.rotation_policy',
    operation: ({ id, body }) => setRotation({ key_id: id, interval_days: body.interval_days }),
  },
  disableKey: {
    summary: 'Disable a key: it still decrypts, but encrypts nothing new',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED'],
    action: 'key.disable',
    operation: ({ id }) => disableKey({ key_id: id }),
  },
  enableKey: {
    summary: 'Enable a disabled key',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED'],
    action: 'key.enable',
    operation: ({ id }) => enableKey({ key_id: id }),
  },
  destroyKey: {
    summary: 'Destroy a disabled key for good, after a waiting period',
    problems: ['E_NOT_FOUND', 'E_STATE'],
    action: 'key.destroy',
    operation: ({ id, body }) => destroyKey({ key_id: id, confirm: body.confirm }),
  },
  cancelDestruction: {
    summary: 'Cancel a pending destruction',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED'],
    action: 'key.destroy',
    operation: ({ id }) => cancelDestruction({ key_id: id }),
  },
  exportKey: {
    summary: 'Export the secrets of a key',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_KEY_DESTROYED'],
    action: 'key.export',
    operation: ({ id }) => exportKey({ key_id: id }),
  },
})
