// Attacks on rows whose entries a purge has taken: it restated the rows first, so the log has an entry about each of them. Versions are
// not restated: their MACs hold them, and the rows of their keys.

import { describe, expect, it } from 'vitest'
import { apiKeyMac, keyVersionMac } from '../../../packages/server/src/core/audit/formats/row-mac.js'
import { sealNewSecret } from '../../../packages/server/src/core/crypto/key-hierarchy.js'
import { readEvidence } from '../../../packages/server/src/core/store/audit-evidence.js'
import { expectNoticed, expectReported, lastId, run, scene, tellsOf, useScene } from './attacks.js'

useScene()

const isPurged = () =>
  `tenant_id = '${scene.purged.tenant_id}' and entry_id between 2 and ${scene.purged.purged_through}`
/** The last entry of a row that a purge restated. */
const isRestated = (table: string) => {
  const ids = scene.purged.entries.filter(({ action }) => action.endsWith('.restate')).map(({ id }) => id)
  expect(['keys', 'api_keys', 'tenants']).toContain(table)
  return `tenant_id = '${scene.purged.tenant_id}' and entry_id in (${ids})`
}

describe('a version whose entry a purge has taken', () => {
  it('is held to its MAC still: exchanged keys are noticed', async () => {
    // Of keys that are not destroyed: the status of another's version would not be the one that such a key demands.
    const of = `${isPurged()} and version = 1 and status <> 'destroyed'`
    const rows = await run(`select key_id from key_versions where ${of} order by key_id`)
    const [a, b] = rows.map(({ key_id }) => key_id as string)
    if (!a || !b) throw new Error('the scene has no two such keys')
    const none = '00000000-0000-0000-0000-00000000000f'
    const attack = () =>
      run(`
        update key_versions set key_id = '${none}' where key_id = '${a}' and version = 1;
        update key_versions set key_id = '${a}' where key_id = '${b}' and version = 1;
        update key_versions set key_id = '${b}' where key_id = '${none}' and version = 1`)
    await expectNoticed(scene.purged, attack, { reason: 'row_forged', broken_at: lastId(scene.purged) + 1 })
  })

  it('is held to its MAC still: another entry id is noticed', async () => {
    const attack = () => run(`update key_versions set entry_id = entry_id - 1 where ${isPurged()}`)
    await expectNoticed(scene.purged, attack, { reason: 'row_forged', broken_at: lastId(scene.purged) + 1 })
  })

  it('is missed when it is deleted: its key says that it exists', async () => {
    const [row] = await run(`select key_id, version from key_versions where ${isPurged()} limit 1`)
    const attack = () => run('delete from key_versions where key_id = $1 and version = $2', [row?.key_id, row?.version])
    const broken_at = tellsOf(scene.purged, ({ key_id, action }) => key_id === row?.key_id && isChange(action))
    await expectNoticed(scene.purged, attack, { reason: 'row_missing', broken_at })
  })

  it('is noticed when its key was destroyed and it is put back', async () => {
    const { tenant_id, purged_through, rowKey } = scene.purged
    const { rows } = await readEvidence(scene.service.services.sql, tenant_id)
    const version = rows.versions.find(({ status, entry_id }) => status === 'destroyed' && entry_id <= purged_through)
    if (!version) throw new Error('the scene has no such version')
    const { storeKeys } = scene.service.services
    const { key_id: id } = version
    const wrapped_kek = sealNewSecret(storeKeys, { purpose: 'kek', tenant_id, id, version: version.version })
    const older = { ...version, status: 'retired' as const, wrapped_kek, entry_id: 3 }
    const attack = () =>
      run(
        "update key_versions set status = 'retired', wrapped_kek = $3, entry_id = 3, mac = $4 where key_id = $1 and version = $2",
        [version.key_id, version.version, older.wrapped_kek, keyVersionMac(rowKey, older)],
      )
    await expectNoticed(scene.purged, attack, { reason: 'row_replaced', broken_at: 3 })
  })

  const isChange = (action: string) =>
    /^key\.(create|rotate|enable|disable|destroy|rotation_policy|restate)$/.test(action)
})

describe('no key, API key or tenant', () => {
  it('is left without an entry by a purge', async () => {
    const { purged_through } = scene.purged
    for (const table of ['keys', 'api_keys', 'tenants']) {
      const [old] = await run(`select count(*)::int as count from ${table} where ${isPurged()}`)
      expect([table, old?.count]).toEqual([table, 0])
    }
    const [versions] = await run(`select count(*)::int as count from key_versions where entry_id <= ${purged_through}`)
    expect(versions?.count).toBeGreaterThan(0)
  })
})

describe('a row that a purge restated', () => {
  it.each(['keys', 'api_keys'])('is missed when it is deleted from %s', async (table) => {
    const [row] = await run(
      `select entry_id::int from ${table} where ${isRestated(table)} order by entry_id desc limit 1`,
    )
    const attack = () => run(`delete from ${table} where ${isRestated(table)} and entry_id = $1`, [row?.entry_id])
    await expectNoticed(scene.purged, attack, { reason: 'row_missing', broken_at: row?.entry_id })
  })

  it('is noticed when an older one, genuine with its MAC, is put back', async () => {
    const { row, older } = await olderApiKey()
    await expectNoticed(scene.purged, () => putApiKey(older), { reason: 'row_replaced', broken_at: row.entry_id })
  })

  it('is noticed when one is put back that names no entry of the log', async () => {
    const { row, older } = await olderApiKey()
    const attack = async () => {
      await putApiKey(older)
      // With the entry that restates it gone too, nothing in the log tells of the row: then the entry is what is missing.
      await run('delete from audit_log where tenant_id = $1 and id = $2', [scene.purged.tenant_id, row.entry_id])
    }
    await expectNoticed(scene.purged, attack, { reason: 'entry_missing', broken_at: row.entry_id })
  })

  it('is noticed when another one is put in that no entry tells of', async () => {
    const { older } = await olderApiKey()
    const digest = `${older.digest.slice(0, -8)}00000000`
    const extra = { ...older, api_key_id: '00000000-0000-4000-8000-00000000000f', digest }
    const attack = () =>
      run(
        `insert into api_keys select tenant_id, $2, $3, name, prefix, permissions, '{}', expires_at, null, created_at, $4, $5
         from api_keys where api_key_id = $1`,
        [older.api_key_id, extra.api_key_id, digest, extra.entry_id, apiKeyMac(scene.purged.rowKey, extra)],
      )
    await expectNoticed(scene.purged, attack, { reason: 'row_replaced', broken_at: extra.entry_id })
  })

  it('is not changed by a server once an older one was put back', async () => {
    const { row, older } = await olderApiKey()
    await putApiKey(older)
    const server = scene.server()
    const { status } = await server.call(scene.purged.secret, 'PATCH', `/v1/api-keys/${row.api_key_id}`, { name: 'x' })
    expect(status).toBe(500)
    await expectReported(scene.purged, { valid: false, reason: 'row_replaced', broken_at: row.entry_id })
  })

  /** A revoked API key that a purge restated, and what the server wrote of it before: with more rights, and an entry that is gone. */
  async function olderApiKey() {
    const { tenant_id, purged_through } = scene.purged
    const { rows } = await readEvidence(scene.service.services.sql, tenant_id)
    const restated = new Set(
      scene.purged.entries.flatMap(({ id, action }) => (action === 'api_key.restate' ? [id] : [])),
    )
    const row = rows.apiKeys.find(({ entry_id, revoked_at }) => restated.has(entry_id) && revoked_at !== null)
    if (!row) throw new Error('the scene has no such API key')
    return { row, older: { ...row, allowed_ips: [], revoked_at: null, entry_id: purged_through - 1 } }
  }

  const putApiKey = (older: Parameters<typeof apiKeyMac>[1]) =>
    run("update api_keys set allowed_ips = '{}', revoked_at = null, entry_id = $2, mac = $3 where api_key_id = $1", [
      older.api_key_id,
      older.entry_id,
      apiKeyMac(scene.purged.rowKey, older),
    ])
})
