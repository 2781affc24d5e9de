/**
 * A tenant as seen by an API key that is limited to some keys: it finds only these. Operations get this state, so none
 * can use another key.
 */
import { folderOf, isListed, type KeyList, partsOf } from '@eaas/protocol'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { KeyRow } from '../store/keys.js'
import type { OpenKey } from './load-key.js'
import type { MaybeLoading } from './opened-keys.js'
import type { TenantState } from './tenant-state.js'

/** by state, then by API key */
const seen = new WeakMap<TenantState, WeakMap<ApiKeyRow, TenantState>>()

/** The state as an API key sees it; unchanged for the server, its operator and an API key without a list. */
export function asSeenBy(state: TenantState, apiKey: ApiKeyRow | undefined): TenantState {
  if (!apiKey || apiKey.keys === null) return state
  const views = seen.get(state) ?? new WeakMap<ApiKeyRow, TenantState>()
  seen.set(state, views)
  const known = views.get(apiKey)
  if (known) return known
  const view = { ...state, findKey: limitedFinder(state, apiKey.keys) }
  views.set(apiKey, view)
  return view
}

/** Whether a key is on the list of an API key. */
export function isListedKey(list: KeyList, { key_id, name }: Pick<KeyRow, 'key_id' | 'name'>): boolean {
  return isListed(list, { key_id, folder: folderOf(name) })
}

/**
 * Finds keys of a list. Neither the answer nor its time shows whether a key that is not on it exists: each key not yet
 * found on the list is looked up by one statement that finds only listed ones.
 */
function limitedFinder(state: TenantState, list: readonly string[]): TenantState['findKey'] {
  const { ids } = partsOf(list)
  const found = new Set<string>() // names never change

  async function findByName(key_id: string): Promise<OpenKey | undefined> {
    if (!(await state.isListed(key_id, list))) return undefined
    const key = await state.findKey(key_id)
    if (!key || !isListedKey(list, key.row)) return undefined
    found.add(key_id)
    return key
  }

  return (key_id): MaybeLoading<OpenKey> =>
    ids.has(key_id) || found.has(key_id) ? state.findKey(key_id) : findByName(key_id)
}
