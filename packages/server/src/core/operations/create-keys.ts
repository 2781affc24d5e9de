/**
 * Many key.create in one call: all keys that can be created are, in one transaction, each with its own entry.
 * A name that is taken or that the caller may not give, or a key beyond the limit, fails by itself.
 */
import { MAX_KEYS, PROBLEMS, problemDocument, type wire } from '@eaas/protocol'
import { createStretches } from '../event-loop.js'
import { decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { countKeys, listTakenNames } from '../store/keys.js'
import { viewKey } from './shared/key-rows.js'
import {
  creationEntry,
  mayCreate,
  type NewKey,
  nameTaken,
  newKey,
  outsideFolders,
  tooManyKeys,
  writeNewKeys,
} from './shared/new-keys.js'
import { assertNotDeleted } from './shared/tenant.js'

/** Creates keys; answers with one result for each, in order. @throws Refusal E_STATE */
export function createKeys({ keys: given }: wire.CreateKeys): Operation<wire.BatchResults> {
  return async (context) => {
    const { state, caller, sql } = context
    assertNotDeleted(state)
    const { tenant_id } = state.tenant
    const names = given.map(({ name }) => name)
    const taken = await listTakenNames(sql, tenant_id, names)
    let room = MAX_KEYS - (await countKeys(sql, tenant_id))
    const planned: (NewKey | Refusal)[] = []
    const pause = createStretches()
    for (const name of names) {
      const due = pause()
      if (due) await due
      if (!mayCreate(caller, name)) planned.push(outsideFolders())
      else if (taken.has(name)) planned.push(nameTaken())
      else if (room <= 0) planned.push(tooManyKeys())
      else {
        planned.push(newKey(context, name))
        taken.add(name) // for the next of this call
        room -= 1
      }
    }
    const keys = planned.filter((one): one is NewKey => !(one instanceof Refusal))
    if (keys.length === 0) return { entries: [], release: () => answer(planned, new Map()) }
    return decision({
      entries: keys.map(creationEntry),
      change: async (transaction, at) => ({ created: await writeNewKeys(context, transaction, { keys, at }) }),
      release: ({ created }) => answer(planned, new Map(created.map(({ row }) => [row.key_id, viewKey(row)]))),
    })
  }
}

function answer(planned: readonly (NewKey | Refusal)[], created: ReadonlyMap<string, wire.Key>): wire.BatchResults {
  const results = planned.map((one) =>
    one instanceof Refusal
      ? { status: PROBLEMS[one.code].status, body: problemDocument(one.code, one.message) }
      : { status: 201, body: created.get(one.key_id) },
  )
  return { results }
}
