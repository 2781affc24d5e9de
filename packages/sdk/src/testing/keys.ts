/** /v1/keys in memory: keys, their states and their versions. */
import {
  changesNothing,
  DETAILS,
  encodeBase64,
  encodeHex,
  findRotationPause,
  findStateRefusal,
  folderOf,
  type KeyCall,
  MAX_KEY_VERSIONS,
  MAX_KEYS,
  readVersion,
  wire,
} from '@eaas/protocol'
import { random32 } from '../deks/random.js'
import type { Call, State, TestKey } from './state.js'
import { daysAfter, note, noteAsSystem, Refusal, randomId, refused } from './state.js'

export const keyFakes = {
  createKey,
  createKeys,
  listKeys,
  getKey: readKey,
  rotateKey,
  updateKey,
  setRotation,
  disableKey,
  enableKey,
  destroyKey,
  cancelDestruction,
  destroyVersion,
  exportKey,
}

const WARNING =
  'Whoever holds this export opens everything that this key ever protected, and computes its blind indexes. ' +
  'Keep it offline. The server cannot take it back.'

/** Gets a key whose state must allow a call. @throws Refusal E_NOT_FOUND, E_STATE, E_KEY_DESTROYED */
export function getKey({ state }: Call, key_id: string, call: KeyCall): TestKey {
  const key = state.keys.find((one) => one.key_id === key_id)
  if (!key) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.key)
  const refusal = findStateRefusal(call, key.status)
  if (refusal) throw new Refusal(refusal.code, refusal.detail)
  return key
}

export function currentVersion(key: TestKey): TestKey['versions'][number] {
  const version = key.versions.at(-1)
  if (!version) throw new Error('a key has at least one version')
  return version
}

function createKey(call: Call, { name }: { name: string }): wire.Key {
  const { state } = call
  if (state.keys.some((key) => key.name === name)) throw new Refusal('E_NAME_TAKEN', DETAILS.E_NAME_TAKEN.key)
  if (state.keys.length >= MAX_KEYS) throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.keys())
  const key_id = randomId()
  const metadata = { folder: folderOf(name), name }
  const created_at = note(call, { action: 'key.create', key_id, key_version: 1, metadata })
  const key: TestKey = {
    key_id,
    name,
    status: 'active',
    created_at,
    updated_at: created_at,
    interval_days: null,
    next_rotation_at: null,
    destroy_at: null,
    min_unwrap_version: 1,
    min_unwrap_since: null,
    versions: [{ version: 1, status: 'active', created_at, kek: random32() }],
    hashKey: random32(),
    hmac: undefined,
  }
  state.keys.push(key)
  return viewKey(key)
}

function createKeys(call: Call, { keys }: wire.CreateKeys): wire.BatchResults {
  const results = keys.map((key) => {
    try {
      return { status: 201, body: createKey(call, key) }
    } catch (error) {
      return refused(error)
    }
  })
  return { results }
}

function listKeys({ state }: Call, { status, name, limit, offset = 0 }: wire.Queries['listKeys']): wire.KeyList {
  const all = state.keys.filter((key) => (status ?? key.status) === key.status && (name ?? key.name) === key.name)
  const keys = all.slice(offset, limit === undefined ? undefined : offset + limit).map(viewKey)
  return { keys, count: keys.length }
}

async function readKey(call: Call): Promise<wire.KeyWithVersions> {
  const { state, id } = call
  const key = getKey(call, id, 'getKey')
  const versions = key.versions.map(({ version, status, created_at }) => {
    const used = state.entries.filter((entry) => entry.key_id === id && entry.key_version === version)
    const wraps = used.filter(({ action }) => action === 'key.wrap' || action === 'encrypt').length
    const opened = used.findLast(({ action }) => action === 'key.unwrap' || action === 'decrypt')
    const day = opened && `${opened.created_at.slice(0, 10)}T00:00:00.000Z`
    return { version, status, created_at, wraps, ...(day && { last_unwrapped_at: day }) }
  })
  const { deriveBlindHashKeys } = await import('@eaas/protocol/blind-hash')
  const isGone = key.status === 'destroyed'
  const blind_hash_public_key = isGone ? null : encodeBase64(deriveBlindHashKeys(key.hashKey).publicKey)
  return { ...viewKey(key), updated_at: key.updated_at, blind_hash_public_key, versions }
}

function rotateKey(call: Call): wire.Key {
  const key = getKey(call, call.id, 'rotateKey')
  const createdAt = (version: number) => key.versions[version - 1]?.created_at
  const pause = findRotationPause(key.versions.length, { createdAt, now: call.state.now() })
  if (pause) throw new Refusal(pause.code, pause.detail)
  return rotate(key, (key_version) => note(call, { action: 'key.rotate', key_id: key.key_id, key_version }))
}

function setRotation(call: Call, { interval_days }: { interval_days: number | null }): wire.Key {
  const key = getKey(call, call.id, 'setRotation')
  if (interval_days === null && key.interval_days === null) return viewKey(key)
  const metadata = { interval_days, interval_days_before: key.interval_days, status: key.status }
  const at = note(call, { action: 'key.rotation_policy', ...named(key), metadata })
  const next_rotation_at = interval_days === null ? null : daysAfter(at, interval_days)
  return viewKey(Object.assign(key, { interval_days, next_rotation_at, updated_at: at }))
}

function updateKey(call: Call, { min_unwrap_version }: { min_unwrap_version: number }): wire.Key {
  const key = getKey(call, call.id, 'updateKey')
  const { version: current } = currentVersion(key)
  if (min_unwrap_version > current) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.minUnwrapVersion(current))
  const destroyed = destroyedThrough(key)
  if (min_unwrap_version <= destroyed)
    throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.destroyedThrough(destroyed))
  const { min_unwrap_version: min_unwrap_version_before, status } = key
  if (min_unwrap_version === min_unwrap_version_before) return viewKey(key)
  const metadata = { min_unwrap_version, min_unwrap_version_before, status }
  const updated_at = note(call, { action: 'key.update', ...named(key), metadata })
  return viewKey(Object.assign(key, { min_unwrap_version, min_unwrap_since: updated_at, updated_at }))
}

function disableKey(call: Call): void {
  const key = getKey(call, call.id, 'disableKey')
  if (changesNothing('disableKey', key.status)) return
  const updated_at = note(call, { action: 'key.disable', ...named(key) })
  Object.assign(key, { status: 'disabled', updated_at })
}

function enableKey(call: Call): wire.Key {
  const key = getKey(call, call.id, 'enableKey')
  if (changesNothing('enableKey', key.status)) return viewKey(key)
  const updated_at = note(call, { action: 'key.enable', ...named(key) })
  return viewKey(Object.assign(key, { status: 'active' as const, updated_at }))
}

function destroyKey(call: Call, { confirm }: { confirm: string }): wire.Key {
  const { state } = call
  const key = getKey(call, call.id, 'destroyKey')
  if (confirm !== key.name) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.confirm)
  if (changesNothing('destroyKey', key.status)) return viewKey(key)
  if (state.destroyWindowDays === 0)
    return complete(key, (metadata) => note(call, { action: 'key.destroy', ...named(key), metadata }))
  const destroy_at = daysAfter(new Date(state.now()).toISOString(), state.destroyWindowDays)
  const updated_at = note(call, { action: 'key.destroy', ...named(key), metadata: { step: 'scheduled', destroy_at } })
  return viewKey(Object.assign(key, { status: 'pending_destruction' as const, destroy_at, updated_at }))
}

function cancelDestruction(call: Call): wire.Key {
  const key = getKey(call, call.id, 'cancelDestruction')
  const updated_at = note(call, { action: 'key.destroy', ...named(key), metadata: { step: 'cancelled' } })
  return viewKey(Object.assign(key, { status: 'disabled' as const, destroy_at: null, updated_at }))
}

function destroyVersion(call: Call, { confirm }: { confirm: string }): wire.Key {
  const { state } = call
  const key = getKey(call, call.id, 'destroyVersion')
  const number = readVersion(call.version)
  const version = key.versions.find((one) => one.version === number)
  if (!version) throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.version)
  if (confirm !== key.name) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.confirm)
  if (version.status === 'destroyed') return viewKey(key)
  assertDestroyable(state, key, version.version)
  const metadata = { step: 'version', version: version.version, status: key.status }
  const updated_at = note(call, { action: 'key.destroy', ...named(key), metadata })
  version.status = 'destroyed'
  version.kek.fill(0)
  return viewKey(Object.assign(key, { updated_at }))
}

function assertDestroyable(state: State, key: TestKey, version: number): void {
  if (version >= key.min_unwrap_version) throw new Refusal('E_STATE', DETAILS.E_STATE.versionOpens(version))
  const next = destroyedThrough(key) + 1
  if (version !== next) throw new Refusal('E_STATE', DETAILS.E_STATE.versionOrder(next))
  const until = daysAfter(key.min_unwrap_since ?? key.updated_at, state.destroyWindowDays)
  if (Date.parse(until) > state.now()) throw new Refusal('E_STATE', DETAILS.E_STATE.versionWaits(until))
}

/** The last version that was destroyed on its own; 0 if none was. */
function destroyedThrough(key: TestKey): number {
  return key.versions.filter(({ status }) => status === 'destroyed').length
}

function exportKey(call: Call): wire.KeyExport {
  const key = getKey(call, call.id, 'exportKey')
  const { key_id, name } = key
  const { version: key_version } = currentVersion(key)
  const exported_at = note(call, { action: 'key.export', key_id, key_version })
  return {
    tenant_id: call.state.tenant.tenant_id,
    key_id,
    name,
    algorithm: wire.ALGORITHM,
    versions: key.versions
      .filter(({ status }) => status !== 'destroyed')
      .map(({ version, status, kek }) => ({ version, dek_hex: encodeHex(kek), status })),
    hash_key_hex: encodeHex(key.hashKey),
    exported_at,
    warning: WARNING,
  }
}

/** Runs due rotations and destructions. A key that may have no more versions is not rotated. */
export function doDueWork(state: State): void {
  const isDue = (time: string | null) => time !== null && Date.parse(time) <= state.now()
  for (const key of state.keys) {
    const { key_id } = key
    const mayRotate = key.status === 'active' && key.versions.length < MAX_KEY_VERSIONS
    if (mayRotate && isDue(key.next_rotation_at)) {
      rotate(key, (key_version) => noteAsSystem(state, { action: 'key.rotate', key_id, key_version }))
    }
    if (key.status === 'pending_destruction' && isDue(key.destroy_at)) {
      complete(key, (metadata) => noteAsSystem(state, { action: 'key.destroy', ...named(key), metadata }))
    }
  }
}

function rotate(key: TestKey, write: (version: number) => string): wire.Key {
  const current = currentVersion(key)
  const version = current.version + 1
  if (version > MAX_KEY_VERSIONS) throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.versions)
  const created_at = write(version)
  current.status = 'retired'
  key.versions.push({ version, status: 'active', created_at, kek: random32() })
  const next_rotation_at = key.interval_days === null ? null : daysAfter(created_at, key.interval_days)
  return viewKey(Object.assign(key, { next_rotation_at, updated_at: created_at }))
}

function complete(key: TestKey, write: (metadata: Record<string, unknown>) => string): wire.Key {
  const updated_at = write({ step: 'completed', versions: key.versions.length })
  for (const version of key.versions) {
    version.status = 'destroyed'
    version.kek.fill(0)
  }
  key.hashKey.fill(0)
  const changes = { status: 'destroyed' as const, destroy_at: null, interval_days: null, next_rotation_at: null }
  return viewKey(Object.assign(key, { ...changes, hmac: undefined, updated_at }))
}

function named(key: TestKey): { key_id: string; key_version: number } {
  return { key_id: key.key_id, key_version: currentVersion(key).version }
}

function viewKey(key: TestKey): wire.Key {
  const { key_id, name, status, created_at, interval_days, next_rotation_at, destroy_at, min_unwrap_version } = key
  const { version } = currentVersion(key)
  return {
    id: key_id,
    key_id,
    name,
    algorithm: wire.ALGORITHM,
    status,
    current_version: version,
    key_version: version,
    min_unwrap_version,
    created_at,
    rotation: interval_days === null || next_rotation_at === null ? null : { interval_days, next_rotation_at },
    ...(destroy_at === null ? {} : { destroy_at }),
  }
}
