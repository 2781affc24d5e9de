/**
 * Envelope mode: the client encrypts under its own DEK, and a key's KEK wraps that DEK. This mode also computes blind
 * indexes, evaluates blinded values, and derives secrets with which clients make indexes. A DEK or such a secret leaves
 * the process only after its entry is committed.
 */
import { decodeBase64, encodeBase64, wire } from '@eaas/protocol'
import { blindIndex, deriveIndexSecret } from '../crypto/blind-index.js'
import { wrapDek } from '../crypto/wrapped-key.js'
import { costOfElements } from '../runner/blind-hashing.js'
import { assertBudget, ONE_HASH } from '../runner/budgets.js'
import type { Operation } from '../runner/operation.js'
import { decideWithKey, openWrappedKey, readStatedUse, wrappingFor, wrappingVersion } from './key-use.js'
import { bindRoutes } from './route.js'

export const envelopeModeRoutes = bindRoutes({
  wrap: {
    summary: 'Wrap a DEK',
    problems: ['E_LIMIT'],
    action: 'key.wrap',
    operation: ({ id, body }) => wrap(id, body),
  },
  unwrap: {
    summary: 'Unwrap a DEK',
    problems: ['E_WRAPPED_KEY', 'E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD', 'E_BUDGET'],
    action: 'key.unwrap',
    operation: ({ id, body }) => unwrap(id, body),
  },
  rewrap: {
    summary: 'Rewrap a DEK under the current version, without revealing it',
    problems: ['E_WRAPPED_KEY', 'E_VERSION_DESTROYED', 'E_VERSION_TOO_OLD', 'E_LIMIT'],
    action: 'key.wrap',
    operation: ({ id, body }) => rewrap(id, body),
  },
  indexSecret: {
    summary: 'Derive the secret with which a client makes the indexes of a name itself',
    problems: ['E_BUDGET'],
    action: 'key.index_secret',
    operation: ({ id, body }) => indexSecret(id, body),
  },
  hash: {
    summary: 'Compute the blind index of a value',
    problems: ['E_BUDGET'],
    operation: ({ body }) => hash(body),
  },
  blindHash: {
    summary: 'Evaluate blinded values, of which the server learns nothing',
    problems: ['E_BUDGET'],
    hashingCost: ({ elements }) => costOfElements(elements.length),
    operation: ({ body }) => blindHash(body),
  },
})

/** Wraps a DEK, base64 of 32 bytes, under the current version of a key, for the stated use. */
function wrap(key_id: string, call: wire.Wrap): Operation<wire.Wrapped> {
  return ({ state, services }) =>
    decideWithKey({ state, key_id, call: 'wrap' }, (key) => {
      const version = wrappingVersion(key, services)
      const { kek, row } = version
      const { use, recorded } = readStatedUse(state, call)
      const secret = decodeBase64(call.dek)
      const wrapped = wrapDek(kek, row.version, wrappingFor(version, use), secret)
      return {
        entries: [{ action: 'key.wrap', key_id, key_version: row.version, ...(recorded && { metadata: recorded }) }],
        release: () => ({ wrapped_key: encodeBase64(wrapped), key_id, key_version: row.version }),
        secrets: [secret],
      }
    })
}

function unwrap(key_id: string, call: wire.Unwrap): Operation<wire.Unwrapped> {
  return ({ state, allowances }) =>
    decideWithKey({ state, key_id, call: 'unwrap' }, (key) => {
      assertBudget(allowances, 'unwrap')
      const { use, recorded } = readStatedUse(state, call)
      const { dek, version } = openWrappedKey(key, call.wrapped_key, use)
      return {
        entries: [{ action: 'key.unwrap', key_id, key_version: version, ...(recorded && { metadata: recorded }) }],
        release: () => ({ dek: encodeBase64(dek), key_id, key_version: version }),
        secrets: [dek],
      }
    })
}

/** Wraps the DEK of a wrapped key again under the current version, for the same use; recorded as a key.wrap. */
function rewrap(key_id: string, call: wire.Unwrap): Operation<wire.Wrapped> {
  return ({ state, services }) =>
    decideWithKey({ state, key_id, call: 'rewrap' }, (key) => {
      const current = wrappingVersion(key, services)
      const { kek, row } = current
      const { use, recorded } = readStatedUse(state, call)
      const { dek, version } = openWrappedKey(key, call.wrapped_key, use)
      const wrapped = wrapDek(kek, row.version, wrappingFor(current, use), dek)
      const metadata = { ...recorded, rewrapped_from: version }
      return {
        entries: [{ action: 'key.wrap', key_id, key_version: row.version, metadata }],
        release: () => ({ wrapped_key: encodeBase64(wrapped), key_id, key_version: row.version }),
        secrets: [dek],
      }
    })
}

/** Derives the index secret of a name, with an entry: its holder can make the index of any value without a call. */
function indexSecret(key_id: string, { name }: { name: string }): Operation<wire.DerivedSecret> {
  return ({ state, allowances }) =>
    decideWithKey({ state, key_id, call: 'indexSecret' }, ({ hashKey, row }) => {
      assertBudget(allowances, 'unwrap')
      if (!hashKey) throw new Error(`key ${key_id} has no hash key`)
      const secret = deriveIndexSecret(hashKey, name)
      return {
        entries: [{ action: 'key.index_secret', key_id, key_version: row.current_version, metadata: { name } }],
        release: () => ({ secret: encodeBase64(secret), key_id }),
        secrets: [secret],
      }
    })
}

/** Computes the blind index of a value under the key's hash key, which never rotates. Counted, not recorded. */
function hash({ key_id, value }: { key_id: string; value: string }): Operation<wire.Hashed> {
  return ({ state, allowances }) =>
    decideWithKey({ state, key_id, call: 'hash' }, ({ hashKey }) => {
      assertBudget(allowances, 'hash')
      if (!hashKey) throw new Error(`key ${key_id} has no hash key`)
      return { entries: [], unrecorded: ONE_HASH, release: () => ({ hash: blindIndex(hashKey, value), key_id }) }
    })
}

/** Evaluates blinded values (blind-hash.md 4) after the decision, so that a call with an invalid element also counts. */
function blindHash({ key_id, elements }: wire.Bodies['blindHash']): Operation<wire.BlindHashed> {
  return ({ state, allowances, services }) =>
    decideWithKey({ state, key_id, call: 'blindHash' }, ({ hashKey }) => {
      assertBudget(allowances, 'hash', elements.length)
      if (!hashKey) throw new Error(`key ${key_id} has no hash key`)
      const evaluate = () => services.blindHashing.evaluate(hashKey, elements)
      return {
        entries: [],
        unrecorded: new Map([['hash', elements.length]]),
        release: async () => ({ ...(await evaluate()), key_id, suite: wire.BLIND_HASH_SUITE }),
      }
    })
}
