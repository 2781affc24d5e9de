/** The versions of a key: creates a new one, sets how often the server does, and sets the oldest one that still opens. */
import { DETAILS, findRotationPause, MAX_KEY_VERSIONS, type wire } from '@eaas/protocol'
import { keyVersionMac, withMac } from '../audit/formats/row-mac.js'
import { sealedUnder, sealNewSecret } from '../crypto/key-hierarchy.js'
import { recordChanges } from '../runner/entry-drafts.js'
import type { OpenKey } from '../runner/load-key.js'
import { type Context, type Decision, decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { insertKeyVersions } from '../store/keys.js'
import { countWraps } from '../store/version-uses.js'
import { changeKey, nextRotation, viewKey, writeKey, writeKeyVersions } from './key-rows.js'
import { currentVersion, getKeyInState } from './key-use.js'
import { bindRoutes } from './route.js'

export const rotationRoutes = bindRoutes({
  rotateKey: {
    summary: 'Rotate a key: a new version encrypts, older ones only decrypt',
    problems: ['E_LIMIT'],
    action: 'key.rotate',
    operation: ({ id }) => rotateKey({ key_id: id }),
  },
  setRotation: {
    summary: 'Set how often a key is rotated, or stop rotating it',
    action: 'key.rotation_policy',
    operation: ({ id, body }) => setRotation({ key_id: id, interval_days: body.interval_days }),
  },
  updateKey: {
    summary: 'Set the oldest version of a key that still opens',
    action: 'key.update',
    operation: ({ id, body }) => updateKey({ key_id: id, min_unwrap_version: body.min_unwrap_version }),
  },
})

/** Rotates a key for a caller, within the limits for callers. @throws Refusal E_NOT_FOUND, E_STATE, E_LIMIT */
export function rotateKey({ key_id }: { key_id: string }): Operation<wire.Key> {
  return async (context) => {
    const key = await getKeyInState(context.state, key_id, 'rotateKey')
    const createdAt = (version: number) => key.versions.get(version)?.row.created_at
    const pause = findRotationPause(key.row.current_version, { createdAt, now: context.services.now() })
    if (pause) throw new Refusal(pause.code, pause.detail)
    return rotation(context, key)
  }
}

/** Rotates a key that is due by its policy, unless another process did first or the tenant is suspended. */
export function rotateKeyIfDue({ key_id }: { key_id: string }): Operation<wire.Key | undefined> {
  return async (context) => {
    const key = await context.state.findKey(key_id)
    const isDue =
      context.state.tenant.status === 'active' &&
      key?.row.status === 'active' &&
      key.row.next_rotation_at !== null &&
      Date.parse(key.row.next_rotation_at) <= context.services.now()
    return isDue ? rotation(context, key) : { entries: [], release: () => undefined }
  }
}

/** Rotates a key whose version wrapped `rotateAfterWraps` DEKs; the entry has their number. @throws Refusal E_LIMIT */
export function rotateKeyAfterWraps({ key_id }: { key_id: string }): Operation<wire.Key | undefined> {
  return async (context) => {
    const { state, services, sql } = context
    const key = state.tenant.status === 'active' ? await state.findKey(key_id) : undefined
    const wraps = key?.row.status === 'active' ? await countWraps(sql, key.row) : 0
    return key && wraps >= services.rotateAfterWraps
      ? rotation(context, key, { wraps })
      : { entries: [], release: () => undefined }
  }
}

/** Rotates a key whose current version is sealed under a store key before `number`, unless its tenant was moved. */
export function rotateKeyUnderEarlier({ key_id, number }: { key_id: string; number: number }): Operation<unknown> {
  return async (context) => {
    const { state } = context
    const key = state.tenant.status === 'moved' ? undefined : await state.findKey(key_id)
    const sealed = key?.row.status === 'active' ? currentVersion(key).row.wrapped_kek : null
    const isUnderEarlier = sealed !== null && sealedUnder(sealed) < number
    return key && isUnderEarlier ? rotation(context, key) : { entries: [], release: () => undefined }
  }
}

/** From now on, a new version wraps; the one before is retired, and still opens what it wrapped. */
function rotation({ state, services }: Context, key: OpenKey, told: { wraps?: number } = {}): Decision<wire.Key> {
  const { rowKey } = state
  const { row } = key
  const { tenant_id, key_id } = row
  const version = row.current_version + 1
  if (version > MAX_KEY_VERSIONS) throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.versions)
  const wrapped_kek = sealNewSecret(services.storeKeys, { purpose: 'kek', tenant_id, id: key_id, version })
  return decision({
    entries: [{ action: 'key.rotate', key_id, key_version: version, metadata: { ...told, replaces: row.entry_id } }],
    async change(sql, at) {
      const { created_at, entry_id } = at
      const next_rotation_at = nextRotation(row.rotation_interval_days, created_at)
      const changes = { current_version: version, next_rotation_at }
      const changed = await writeKey(sql, { row, changes, at, rowKey })
      const before = { key: row, versions: [currentVersion(key)], changes: { status: 'retired' as const } }
      const retired = await writeKeyVersions(sql, { ...before, at, rowKey })
      const fields = { tenant_id, key_id, version, status: 'active' as const, wrapped_kek, created_at, entry_id }
      const added = withMac(fields, keyVersionMac, rowKey)
      await insertKeyVersions(sql, tenant_id, [added])
      return { key: changed, versions: [...retired, added] }
    },
    release: (written) => viewKey(written.key),
  })
}

/** Sets how often the server itself rotates a key, counted from now; null ends the policy. */
function setRotation({ key_id, interval_days }: { key_id: string; interval_days: number | null }): Operation<wire.Key> {
  return async ({ state }) => {
    const key = await getKeyInState(state, key_id, 'setRotation')
    const { row } = key
    const { current_version: key_version, rotation_interval_days: interval_days_before, status } = row
    if (interval_days === null && interval_days_before === null) return { entries: [], release: () => viewKey(row) }
    const metadata = { interval_days, interval_days_before, status }
    return changeKey(state, key, {
      entry: { action: 'key.rotation_policy', key_id, key_version, metadata },
      changes: ({ created_at }) => ({
        rotation_interval_days: interval_days,
        next_rotation_at: nextRotation(interval_days, created_at),
      }),
    })
  }
}

type Update = wire.Bodies['updateKey'] & { key_id: string }

/**
 * Sets the oldest version whose wrapped keys open. Until the versions are destroyed, an operator who missed rows while
 * rewrapping may lower it again. @throws Refusal E_NOT_FOUND, E_STATE, E_VALIDATION
 */
export function updateKey({ key_id, min_unwrap_version }: Update): Operation<wire.Key> {
  return async ({ state, services, sql }) => {
    const key = await getKeyInState(state, key_id, 'updateKey')
    const { row } = key
    const { current_version: key_version, status, destroyed_through } = row
    if (min_unwrap_version > key_version)
      throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.minUnwrapVersion(key_version))
    if (min_unwrap_version <= destroyed_through)
      throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.destroyedThrough(destroyed_through))
    if (min_unwrap_version === row.min_unwrap_version) return { entries: [], release: () => viewKey(row) }
    const changes = { min_unwrap_version }
    // By the later clock, as for the beginning of a destruction's waiting period.
    const min_unwrap_since = new Date(Math.max(services.now(), await services.databaseNow(sql))).toISOString()
    return changeKey(state, key, {
      entry: { action: 'key.update', key_id, key_version, metadata: { ...recordChanges(row, changes), status } },
      changes: () => ({ ...changes, min_unwrap_since }),
    })
  }
}
