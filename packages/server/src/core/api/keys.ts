/** Keys: creating them, one or many; reading, disabling and exporting them. */
import { type KeyObject, randomUUID } from 'node:crypto'
import {
  type Action,
  changesNothing,
  DETAILS,
  encodeHex,
  folderOf,
  isListed,
  type KeyCall,
  MAX_BATCH_BODY_BYTES,
  MAX_KEYS,
  partsOf,
  problemDocument,
  wire,
} from '@eaas/protocol'
import type { EntryPosition } from '../audit/append/tenant-log.js'
import { keyMac, keyVersionMac, withMac } from '../audit/formats/row-mac.js'
import { sealNewSecret } from '../crypto/key-hierarchy.js'
import { mapInStretches } from '../event-loop.js'
import { type OpenKey, openKey } from '../runner/load-key.js'
import { type Caller, type Context, decision, type EntryNote, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { isListedKey } from '../runner/tenant-state.js'
import type { Transaction } from '../store/db.js'
import {
  countKeys,
  insertKeys,
  insertKeyVersions,
  type KeyFilter,
  type KeyRow,
  listKeys as listRows,
  listTakenNames,
  type NewKeyRow,
  type NewKeyVersionRow,
} from '../store/keys.js'
import { isAsked, TamperedRowError } from '../store/tampered-row.js'
import { listVersionUses } from '../store/version-uses.js'
import { changeKey, viewKey } from './key-rows.js'
import { getKey, getKeyInState } from './key-use.js'
import { authenticated, type Page, Paged, readPages, whole } from './pages.js'
import { bindRoutes } from './route.js'
import { assertNotDeleted } from './tenant.js'

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
  listKeys: { summary: 'List the keys', operation: ({ query }) => listKeysInPages(query) },
  getKey: { summary: 'Read a key and its versions', operation: ({ id }) => readKey({ key_id: id }) },
  disableKey: {
    summary: 'Disable a key: it still decrypts, but encrypts nothing new',
    action: 'key.disable',
    operation: ({ id }) => disableKey({ key_id: id }),
  },
  enableKey: {
    summary: 'Enable a disabled key',
    action: 'key.enable',
    operation: ({ id }) => enableKey({ key_id: id }),
  },
  exportKey: {
    summary: 'Export the secrets of a key',
    action: 'key.export',
    operation: ({ id }) => exportKey({ key_id: id }),
  },
})

export function createKey({ name }: { name: string }): Operation<wire.Key> {
  return async (context) => {
    const [key] = await planKeys(context, [name])
    if (!key || key instanceof Refusal) throw key ?? new Error('the key was not planned')
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

/** Creates all possible keys in one transaction, each with its entry; the others are refused individually. */
function createKeys({ keys: given }: wire.CreateKeys): Operation<wire.BatchResults> {
  return async (context) => {
    const names = given.map(({ name }) => name)
    const planned = await planKeys(context, names)
    const keys = planned.filter((one): one is NewKey => !(one instanceof Refusal))
    if (keys.length === 0) return { entries: [], release: () => answer(planned, new Map()) }
    return decision({
      entries: keys.map(creationEntry),
      change: async (transaction, at) => ({ created: await writeNewKeys(context, transaction, { keys, at }) }),
      release: ({ created }) => answer(planned, new Map(created.map(({ row }) => [row.key_id, viewKey(row)]))),
    })
  }
}

/** Plans a key for each name, or gives the reason why it cannot be created. @throws Refusal E_STATE */
async function planKeys(context: Context, names: readonly string[]): Promise<(NewKey | Refusal)[]> {
  const { state, caller, sql } = context
  assertNotDeleted(state)
  const { tenant_id } = state.tenant
  const taken = await listTakenNames(sql, tenant_id, names)
  let room = MAX_KEYS - (await countKeys(sql, tenant_id))
  return mapInStretches(names, (name) => {
    if (!mayCreate(caller, name)) return new Refusal('E_MISSING_PERMISSION', DETAILS.E_MISSING_PERMISSION.createKey)
    if (taken.has(name)) return new Refusal('E_NAME_TAKEN', DETAILS.E_NAME_TAKEN.key)
    if (room <= 0) return new Refusal('E_LIMIT', DETAILS.E_LIMIT.keys(MAX_KEYS))
    taken.add(name) // for the next names of this call
    room -= 1
    return newKey(context, name)
  })
}

function answer(planned: readonly (NewKey | Refusal)[], created: ReadonlyMap<string, wire.Key>): wire.BatchResults {
  const results = planned.map((one) =>
    one instanceof Refusal
      ? { status: one.status, body: problemDocument(one.code, one.message) }
      : { status: 201, body: created.get(one.key_id) },
  )
  return { results }
}

type NewKey = ReturnType<typeof newKey>

/** Draws the id and the secrets of a new key, and seals these under the store key; writes nothing. */
function newKey({ state, services: { storeKeys } }: Context, name: string) {
  const { tenant_id } = state.tenant
  const id = randomUUID()
  const wrapped_kek = sealNewSecret(storeKeys, { purpose: 'kek', tenant_id, id, version: 1 })
  return {
    key_id: id,
    name,
    wrapped_kek,
    wrapped_hash_key: sealNewSecret(storeKeys, { purpose: 'hash-key', tenant_id, id }),
  }
}

function creationEntry({ key_id, name }: NewKey): EntryNote {
  return { action: 'key.create', key_id, key_version: 1, metadata: { folder: folderOf(name), name } }
}

/** Whether a caller may create a key of this name: a caller that is limited to keys may only do so in its own folders. */
function mayCreate({ apiKey }: Caller, name: string): boolean {
  return !apiKey || isListed(apiKey.keys, { key_id: '', folder: folderOf(name) })
}

/** Writes the rows of new keys. Their entries have the same order, and begin at `at`. */
async function writeNewKeys(
  { state, services }: Context,
  transaction: Transaction,
  { keys, at }: { keys: readonly NewKey[]; at: EntryPosition },
): Promise<OpenKey[]> {
  const { tenant_id } = state.tenant
  const rows: NewKeyRow[] = []
  const versions: NewKeyVersionRow[] = []
  const opened = await mapInStretches(keys.entries(), ([number, key]) => {
    const entry = { created_at: at.created_at, entry_id: at.entry_id + number }
    const { row, version } = rowsOf(key, { tenant_id, ...entry, rowKey: state.rowKey })
    rows.push(row)
    versions.push(version)
    return openKey(services.storeKeys, { row, versions: [version] })
  })
  await insertKeys(transaction, tenant_id, rows)
  await insertKeyVersions(transaction, tenant_id, versions)
  return opened
}

function rowsOf(
  { key_id, name, wrapped_kek, wrapped_hash_key }: NewKey,
  { rowKey, ...entry }: { tenant_id: string; created_at: string; entry_id: number; rowKey: KeyObject },
): { row: NewKeyRow; version: NewKeyVersionRow } {
  const unset = { rotation_interval_days: null, next_rotation_at: null, destroy_at: null, min_unwrap_since: null }
  const versions = { current_version: 1, min_unwrap_version: 1, destroyed_through: 0 } as const
  const state = { algorithm: wire.ALGORITHM, status: 'active' as const, ...versions, ...unset }
  const row = { key_id, name, ...state, wrapped_hash_key, updated_at: entry.created_at, ...entry }
  const version = { key_id, version: 1, status: 'active' as const, wrapped_kek, ...entry }
  return { row: withMac(row, keyMac, rowKey), version: withMac(version, keyVersionMac, rowKey) }
}

export function listKeys(filter: Omit<KeyFilter, 'on'>): Operation<wire.KeyList> {
  return whole(listKeysInPages(filter))
}

export function listKeysInPages({
  limit = MAX_KEYS,
  offset = 0,
  ...filter
}: Omit<KeyFilter, 'on'>): Operation<Paged<wire.KeyList>> {
  // Names are unique, so the caller can act on the key that a name finds.
  const asked = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
  return async ({ state, caller, services }) => ({
    entries: [],
    release() {
      const { keys = null } = caller.apiKey ?? {}
      const on = keys === null ? undefined : partsOf(keys)
      const readPage = (page: Page<KeyRow>) =>
        listRows(services.sql, state.tenant.tenant_id, { ...filter, on, ...page })
      const view = (key: KeyRow) => {
        if (!isAsked(key, asked) || !isListedKey(keys, key))
          throw new TamperedRowError(`the database listed key ${key.key_id}, which was not asked for`)
        return viewKey(key)
      }
      const pages = readPages({ limit, offset }, authenticated({ state, services }, keyMac, readPage), view)
      return new Paged<wire.KeyList>('keys', pages)
    },
  })
}

/** Reads one key with its versions, oldest first, and what each did. @throws Refusal E_NOT_FOUND */
export function readKey({ key_id }: { key_id: string }): Operation<wire.KeyWithVersions> {
  return async ({ state, sql }) => {
    const { row, versions, hashKey } = await getKey(state, key_id)
    const uses = new Map((await listVersionUses(sql, row)).map((use) => [use.version, use]))
    return {
      entries: [],
      release: async () => ({
        ...viewKey(row),
        updated_at: row.updated_at,
        blind_hash_public_key: hashKey ? await blindHashPublicKey(hashKey) : null,
        versions: await mapInStretches(versions.values(), ({ row: { version, status, created_at } }) => {
          const { wraps = 0, opened_on } = uses.get(version) ?? {}
          const opened = opened_on ? { last_unwrapped_at: `${opened_on}T00:00:00.000Z` } : {}
          return { version, status, created_at, wraps, ...opened }
        }),
      }),
    }
  }
}

// Loads the curve with the first key that is read, so that commands do not load it.
const blindHashPublicKey = async (hashKey: KeyObject) =>
  (await import('../crypto/blind-hash.js')).findPublicKey(hashKey)

/** Disables a key; changes nothing if it is disabled or waits for its destruction. @throws Refusal E_NOT_FOUND, E_STATE */
export function disableKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return setStatus(key_id, { status: 'disabled', action: 'key.disable', call: 'disableKey' })
}

/** Enables a key; changes nothing if it is active. @throws Refusal E_NOT_FOUND, E_STATE */
export function enableKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return setStatus(key_id, { status: 'active', action: 'key.enable', call: 'enableKey' })
}

function setStatus(
  key_id: string,
  { status, action, call }: { status: 'active' | 'disabled'; action: Action; call: KeyCall },
): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyInState(state, key_id, call)
    if (changesNothing(call, key.row.status)) return { entries: [], release: () => viewKey(key.row) }
    const entry = { action, key_id, key_version: key.row.current_version }
    return changeKey(state, key, { entry, changes: () => ({ status }) })
  }
}

const WARNING =
  'Whoever holds this export opens everything that this key ever protected, and computes its blind indexes. ' +
  'Keep it offline. The server cannot take it back.'

/** Exports the KEKs of all versions that are not destroyed, and the hash key. @throws Refusal E_NOT_FOUND, E_STATE */
export function exportKey({ key_id }: { key_id: string }): Operation<wire.KeyExport> {
  return async ({ state, services }) => {
    const key = await getKeyInState(state, key_id, 'exportKey')
    const { hashKey } = key
    if (!hashKey) throw new Error(`key ${key_id} has no hash key`)
    const left = [...key.versions.values()].filter(({ row }) => row.version > key.row.destroyed_through)
    const versions = await mapInStretches(left, ({ row, kek }) => {
      if (!kek) throw new Error(`version ${row.version} of key ${key_id} has no KEK`)
      return { row, secret: kek.export() }
    })
    const hashSecret = hashKey.export()
    return {
      entries: [{ action: 'key.export', key_id, key_version: key.row.current_version }],
      release: async () => ({
        tenant_id: state.tenant.tenant_id, // the wrapped keys are bound to the tenant, as they are to the fields that follow
        key_id,
        name: key.row.name,
        algorithm: wire.ALGORITHM,
        versions: await mapInStretches(versions, ({ row: { version, status }, secret }) => ({
          version,
          dek_hex: encodeHex(secret),
          status,
        })),
        hash_key_hex: encodeHex(hashSecret),
        exported_at: new Date(services.now()).toISOString(),
        warning: WARNING,
      }),
      secrets: [hashSecret, ...versions.map(({ secret }) => secret)],
    }
  }
}
