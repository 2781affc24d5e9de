/** key.rotate: a new version wraps from now on; the one before is retired and still opens what it wrapped. */
import { DETAILS, findRotationPause, MAX_KEY_VERSIONS, type wire } from '@eaas/protocol'
import { keyVersionMac, withMac } from '../audit/formats/row-mac.js'
import { sealedUnder, sealNewSecret } from '../crypto/key-hierarchy.js'
import type { OpenKey } from '../runner/load-key.js'
import { type Context, type Decision, decision, type Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { insertKeyVersion } from '../store/keys.js'
import { countWraps } from '../store/version-uses.js'
import { nextRotation, viewKey, writeKey, writeKeyVersions } from './shared/key-rows.js'
import { currentVersion, getKeyInState } from './shared/key-use.js'

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

/**
 * Rotates a key if its policy says that it is due. Does nothing if another process rotated it first, or if
 * the tenant is suspended.
 */
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

/**
 * Rotates a key whose current version wrapped `rotateAfterWraps` DEKs or more; the entry says how many. Does nothing if
 * another process rotated it first, or if the tenant is suspended. @throws Refusal E_LIMIT
 */
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

/**
 * Rotates an active key whose current version is sealed under a store key before a number. Does nothing if another
 * process rotated it first.
 */
export function rotateKeyUnderEarlier({ key_id, number }: { key_id: string; number: number }): Operation<unknown> {
  return async (context) => {
    const key = await context.state.findKey(key_id)
    const sealed = key?.row.status === 'active' ? currentVersion(key).row.wrapped_kek : null
    const isUnderEarlier = sealed !== null && sealedUnder(sealed) < number
    return key && isUnderEarlier ? rotation(context, key) : { entries: [], release: () => undefined }
  }
}

function rotation(
  { state, services }: Context,
  { row, ...key }: OpenKey,
  told: { wraps?: number } = {},
): Decision<wire.Key> {
  const { tenant_id } = state.tenant
  const { rowKey } = state
  const { key_id } = row
  const version = row.current_version + 1
  if (version > MAX_KEY_VERSIONS) {
    throw new Refusal('E_LIMIT', DETAILS.E_LIMIT.versions)
  }
  const wrapped_kek = sealNewSecret(services.storeKeys, { purpose: 'kek', tenant_id, id: key_id, version })
  return decision({
    entries: [{ action: 'key.rotate', key_id, key_version: version, metadata: { ...told, replaces: row.entry_id } }],
    async change(sql, at) {
      const { created_at, entry_id } = at
      const changes = {
        current_version: version,
        next_rotation_at: nextRotation(row.rotation_interval_days, created_at),
      }
      const changed = await writeKey(sql, { row, changes, at, rowKey })
      const retired = await writeKeyVersions(sql, {
        key: row,
        versions: [currentVersion({ row, ...key })],
        changes: { status: 'retired' },
        at,
        rowKey,
      })
      const added = withMac(
        { tenant_id, key_id, version, status: 'active' as const, wrapped_kek, created_at, entry_id },
        keyVersionMac,
        rowKey,
      )
      await insertKeyVersion(sql, added)
      return { key: changed, versions: [...retired, added] }
    },
    release: (written) => viewKey(written.key),
  })
}
