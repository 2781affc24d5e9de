// Each call of the API as the SDK makes it: the one list of the tests that go through every call, so that a new call has a line here
// and nowhere else.
import { type Envelope, type OperationId, ROUTES, type RouteRow } from '@eaas/protocol'
import { type CallOptions, type Client, text as textField } from '../index.js'
import { readSignal } from '../input.js'
import { CLIENT_PARTS, type PartsOwner } from '../records/client-parts.js'
import type { TestOperation } from '../testing.js'

/** The calls that the SDK does not make: they are for auditors, who use the command line, and for the console. */
export const NOT_OF_THE_SDK = Object.entries<RouteRow>(ROUTES).flatMap(([id, { sdk }]) =>
  sdk ? [] : [id as OperationId],
)

/** What the calls are made on. */
export interface On {
  keyId: string
  /** the key's name */
  name: string
  /** what is encrypted and hashed */
  text: string
  /** that text, encrypted under the key */
  stored: Envelope
  apiKeyId: string
}

export type ApiCall = readonly [
  /** whether the SDK may repeat it by itself */
  repeatable: boolean,
  /** makes the call with options `o` */
  run: (eaas: Client, on: On, o?: CallOptions) => Promise<unknown>,
]

/** By `operationId`, in an order in which all succeed. A batch and its answers are made of these. */
export const API_CALLS: Record<Exclude<TestOperation, 'batch' | 'createKeys'>, ApiCall> = {
  wrap: [true, (eaas, { keyId, text }, o) => eaas.encrypt(text, { keyId, ...o })],
  unwrap: [true, (eaas, { stored }, o) => eaas.decrypt(stored, o)],
  rewrap: [true, (eaas, { stored }, o) => eaas.rewrap(stored, o)],
  indexSecret: [true, (eaas, { keyId, text }, o) => modelOf(eaas, keyId).index({ name: text }, o)],
  hash: [true, (eaas, { keyId, text }, o) => eaas.hash(text, { keyId, ...o })],
  blindHash: [true, blindHash],
  encrypt: [true, (eaas, { keyId, text }, o) => eaas.server.encrypt(text, { keyId, ...o })],
  decrypt: [true, (eaas, { stored }, o) => eaas.server.decrypt(stored, o)],
  createKey: [false, (eaas, _, o) => eaas.keys.create({ name: 'another' }, o)],
  listKeys: [true, (eaas, _, o) => eaas.keys.list(o)],
  getKey: [true, (eaas, { keyId }, o) => eaas.keys.get(keyId, o)],
  rotateKey: [false, (eaas, { keyId }, o) => eaas.keys.rotate(keyId, o)],
  setRotation: [false, (eaas, { keyId }, o) => eaas.keys.setRotation(keyId, 30, o)],
  updateKey: [false, (eaas, { keyId }, o) => eaas.keys.update(keyId, { min_unwrap_version: 2 }, o)],
  destroyVersion: [false, (eaas, { keyId, name }, o) => eaas.keys.destroyVersion(keyId, 1, name, o)],
  exportKey: [false, (eaas, { keyId }, o) => eaas.keys.export(keyId, o)],
  disableKey: [false, (eaas, { keyId }, o) => eaas.keys.disable(keyId, o)],
  destroyKey: [false, (eaas, { keyId, name }, o) => eaas.keys.destroy(keyId, name, o)],
  cancelDestruction: [false, (eaas, { keyId }, o) => eaas.keys.cancelDestruction(keyId, o)],
  enableKey: [false, (eaas, { keyId }, o) => eaas.keys.enable(keyId, o)],
  listAudit: [true, (eaas, _, o) => eaas.audit.list(o)],
  verifyAudit: [true, (eaas, _, o) => eaas.audit.verify(o)],
  createApiKey: [false, (eaas, _, o) => eaas.apiKeys.create({ name: 'y', permissions: ['decrypt'] }, o)],
  listApiKeys: [true, (eaas, _, o) => eaas.apiKeys.list(o)],
  updateApiKey: [false, (eaas, { apiKeyId }, o) => eaas.apiKeys.update(apiKeyId, { name: 'z' }, o)],
  revokeApiKey: [false, (eaas, { apiKeyId }, o) => eaas.apiKeys.revoke(apiKeyId, o)],
  getTenant: [true, (eaas, _, o) => eaas.tenant(o)],
  getUsage: [true, (eaas, _, o) => eaas.usage(undefined, o)],
  getHealth: [true, (eaas, _, o) => eaas.health(o)],
}

const modelOf = (eaas: Client, keyId: string) =>
  eaas.model({ name: 'people', keyId, bind: false, fields: { name: textField({ index: 'name_index' }) } })

/** The generator of ristretto255 (RFC 9496 A.1): an element that every service accepts. */
const ELEMENT = '4vKuCmq8TnGohKlhxQBRX1jjC2qlgt2NtqZZReCNLXY='

/** What a model with an oblivious index calls, which blinds each value anew: so no answer can be played again to it. */
async function blindHash(eaas: Client, { keyId }: On, options?: CallOptions): Promise<unknown> {
  const signal = readSignal('blindHash()', options)
  const { records } = await (eaas as Client & PartsOwner)[CLIENT_PARTS]()
  const body = { elements: [ELEMENT], key_id: keyId }
  return records.batcher.run({ op: 'blindHash', name: 'blind_hash', key_id: keyId, body, signal })
}
