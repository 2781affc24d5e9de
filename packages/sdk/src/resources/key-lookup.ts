/** Finds the keys that models name. */
import type { Http } from '../http/calls.js'
import type { KeyLookup } from '../records/blocks.js'
import { findKey } from './ensure-key.js'
import createKeys from './keys.js'

export function createKeyLookup(http: Http): KeyLookup {
  const keys = createKeys(http)
  return {
    getKey: (keyId, signal) => keys.get(keyId, { signal }),
    findKey: async (name) => (await findKey(keys, name))?.id,
    ensureKey: async (name) => (await keys.ensure({ name })).id,
  }
}
