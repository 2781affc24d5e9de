/** For each call, a request that succeeds on a key of its own. */
import { encodeBase64, type OperationId, type wire } from '@eaas/protocol'
import { blindValue } from '@eaas/protocol/blind-hash'
import type { Said, Session } from '../session.js'
import { check, needs, randomBase64, Skip } from './case.js'

export interface Ground {
  id: string
  key: wire.Key
  wrapped_key: string
  bundle: object
  apiKeyId: string
  apiKeySecret: string // that API key's secret
}

const NOTHING = { ciphertext: randomBase64(16), iv: randomBase64(12), wrapped_key: randomBase64(65), key_version: 1 }

export async function makeGround(session: Session): Promise<Ground> {
  const key = await session.newKey()
  const { id } = key
  const { wrapped_key } = await session.ok('wrap', { id, body: { dek: randomBase64() } })
  const bundle = session.isOpen
    ? await session.ok('encrypt', { body: { key_id: id, plaintext: 'x' } })
    : { ...NOTHING, key_id: id }
  const { id: apiKeyId, secret: apiKeySecret } = await session.newApiKey({ permissions: [] })
  return { id, key, wrapped_key, bundle, apiKeyId, apiKeySecret }
}

/** The request of each call. Its key must be in a state that the call accepts; a new key is `active`. */
export const READY: Readonly<Record<OperationId, (ground: Ground, session: Session) => Said>> = {
  createKey: (_, { newName }) => ({ body: { name: newName() } }),
  createKeys: (_, { newName }) => ({ body: { keys: [{ name: newName() }] } }),
  listKeys: () => ({}),
  getKey: ({ id }) => ({ id }),
  updateKey: ({ id }) => ({ id, body: { min_unwrap_version: 1 } }),
  rotateKey: ({ id }) => ({ id }),
  setRotation: ({ id }) => ({ id, body: { interval_days: 30 } }),
  disableKey: ({ id }) => ({ id }),
  enableKey: ({ id }) => ({ id }),
  destroyKey: ({ id, key }) => ({ id, body: { confirm: key.name } }),
  cancelDestruction: ({ id }) => ({ id }),
  destroyVersion: ({ id, key }) => ({ id, version: 1, body: { confirm: key.name } }),
  exportKey: ({ id }) => ({ id }),
  wrap: ({ id }) => ({ id, body: { dek: randomBase64() } }),
  unwrap: ({ id, wrapped_key }) => ({ id, body: { wrapped_key } }),
  rewrap: ({ id, wrapped_key }) => ({ id, body: { wrapped_key } }),
  indexSecret: ({ id }) => ({ id, body: { name: 'customers' } }),
  hash: ({ id }) => ({ body: { key_id: id, value: 'x' } }),
  blindHash: ({ id }) => ({ body: { key_id: id, elements: [encodeBase64(blindValue(Uint8Array.of(1)).blinded)] } }),
  encrypt: ({ id }) => ({ body: { key_id: id, plaintext: 'x' } }),
  decrypt: ({ bundle }) => ({ body: bundle }),
  batch: ({ id }) => ({ body: { operations: [{ op: 'hash', key_id: id, value: 'x' }] } }),
  listAudit: ({ id }) => ({ query: { key_id: id } }),
  verifyAudit: () => ({}),
  readAuditCheckpoint: () => ({}),
  exportAudit: () => ({}),
  listApiKeys: () => ({}),
  createApiKey: (_, { newName }) => ({ body: { name: newName(), permissions: [] } }),
  updateApiKey: ({ apiKeyId }) => ({ id: apiKeyId, body: { permissions: ['hash'] } }),
  revokeSelf: ({ apiKeySecret }) => ({ apiKey: apiKeySecret }),
  revokeApiKey: ({ apiKeyId }) => ({ id: apiKeyId }),
  getTenant: () => ({}),
  getUsage: () => ({}),
  getHealth: () => ({ apiKey: null }),
}

/** What must be done before a call can succeed. */
export const BEFORE: Partial<Record<OperationId, (session: Session, ground: Ground) => Promise<unknown>>> = {
  encrypt: async (session) => needs(session, 'open'),
  decrypt: async (session) => needs(session, 'open'),
  enableKey: (session, { id }) => session.ok('disableKey', { id }),
  destroyKey: (session, { id }) => session.ok('disableKey', { id }),
  async cancelDestruction(session, { id, key }) {
    if ((await awaitDestruction(session, id, key.name)) === 'destroyed') throw new Skip('there is no waiting period')
  },
  async destroyVersion(session, { id, key }) {
    await session.ok('rotateKey', { id })
    await session.ok('updateKey', { id, body: { min_unwrap_version: 2 } })
    const { status } = await session.call('destroyVersion', { id, version: 1, body: { confirm: key.name } })
    if (status === 409) throw new Skip('the waiting period is longer than this run')
  },
}

/** Destroys a key. Returns its state, since the service may destroy at once or let it wait. */
export async function awaitDestruction(session: Session, id: string, confirm: string): Promise<string> {
  await session.ok('disableKey', { id })
  const { status } = await session.ok('destroyKey', { id, body: { confirm } })
  check(status === 'pending_destruction' || status === 'destroyed', `destroyKey answers the state ${status}`)
  return status
}
