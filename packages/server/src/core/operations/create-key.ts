/** key.create: a new key with its first version and its hash key. */
import { MAX_KEYS, type wire } from '@eaas/protocol'
import { decision, type Operation } from '../runner/operation.js'
import { hasKeys, isKeyNameTaken } from '../store/keys.js'
import { viewKey } from './shared/key-rows.js'
import {
  creationEntry,
  mayCreate,
  nameTaken,
  newKey,
  outsideFolders,
  tooManyKeys,
  writeNewKeys,
} from './shared/new-keys.js'
import { assertNotDeleted } from './shared/tenant.js'

/** Creates a key. @throws Refusal E_STATE, E_MISSING_PERMISSION, E_NAME_TAKEN, E_LIMIT */
export function createKey({ name }: { name: string }): Operation<wire.Key> {
  return async (context) => {
    const { state, caller, sql } = context
    assertNotDeleted(state)
    if (!mayCreate(caller, name)) throw outsideFolders()
    const { tenant_id } = state.tenant
    if (await isKeyNameTaken(sql, tenant_id, name)) throw nameTaken()
    if (await hasKeys(sql, tenant_id, MAX_KEYS)) throw tooManyKeys()
    const key = newKey(context, name)
    return decision({
      entries: [creationEntry(key)],
      change: async (transaction, at) => ({ created: await writeNewKeys(context, transaction, { keys: [key], at }) }),
      release({ created: [made] }) {
        if (!made) throw new Error('the key was not created')
        return viewKey(made.row)
      },
    })
  }
}
