// Attacks on rows whose entries a purge has taken: their MACs hold them still, and so does the digest of rights in the purge's entry.
import { describe, expect, it } from 'vitest'
import { apiKeyMac, keyVersionMac } from '../../../packages/server/src/audit/formats/row-mac.js'
import { readEvidence } from '../../../packages/server/src/store/audit-evidence.js'
import {
  expectNoticed,
  expectReported,
  judgeExport,
  lastId,
  readExport,
  run,
  scene,
  takeCheckpoint,
  tellsOf,
  useScene,
} from './attacks.js'

useScene()

describe('a row whose entry a purge has taken', () => {
  const oldRows = (table: string) =>
    run(`select * from ${table} where tenant_id = $1 and entry_id between 2 and $2 order by entry_id, mac`, [
      scene.purged.tenant_id,
      scene.purged.purged_through,
    ])

  it.each([
    ['keys', 'key_id'],
    ['key_versions', 'key_id'],
    ['api_keys', 'api_key_id'],
  ] as const)('is held to its MAC still: exchanged ids in %s are noticed', async (table, column) => {
    const [a, b] = (await oldRows(table))
      .map((row) => row[column] as string)
      .filter((id, at, all) => all.indexOf(id) === at)
    if (!a || !b) throw new Error('the scene has no two such rows')
    const attack = () =>
      run(`
        update ${table} set ${column} = '00000000-0000-0000-0000-00000000000f' where ${column} = '${a}' and entry_id <= ${scene.purged.purged_through};
        update ${table} set ${column} = '${a}' where ${column} = '${b}' and entry_id <= ${scene.purged.purged_through};
        update ${table} set ${column} = '${b}' where ${column} = '00000000-0000-0000-0000-00000000000f'`)
    await expectNoticed(scene.purged, attack, { reason: 'row_forged', broken_at: lastId(scene.purged) + 1 })
  })

  it.each(['keys', 'key_versions', 'api_keys'])(
    'is held to its MAC still: another entry id in %s is noticed',
    async (table) => {
      const attack = () =>
        run(`update ${table} set entry_id = entry_id - 1 where tenant_id = $1 and entry_id between 2 and $2`, [
          scene.purged.tenant_id,
          scene.purged.purged_through,
        ])
      await expectNoticed(scene.purged, attack, { reason: 'row_forged', broken_at: lastId(scene.purged) + 1 })
    },
  )
})

describe('the rights that a purge left behind', () => {
  /** The newest `audit.purge` entry, which holds their digest. */
  const purgeEntry = () => tellsOf(scene.purged, ({ action }) => action === 'audit.purge')
  const isOld = () =>
    `tenant_id = '${scene.purged.tenant_id}' and entry_id between 2 and ${scene.purged.purged_through}`

  it.each(['keys', 'api_keys'])('tell when a row of %s is deleted', async (table) => {
    const attack = async () => {
      const [row] = await run(`select entry_id from ${table} where ${isOld()} order by entry_id limit 1`)
      expect((await run(`delete from ${table} where ${isOld()} and entry_id = $1`, [row?.entry_id])).count).toBe(1)
    }
    await expectNoticed(scene.purged, attack, { reason: 'rights_mismatch', broken_at: purgeEntry() })
  })

  it('tell when a version of a key is deleted: its key says that it exists', async () => {
    const [row] = await run(
      `select v.key_id, v.version from key_versions v join keys k using (tenant_id, key_id)
      where v.tenant_id = $1 and v.entry_id <= $2 and k.entry_id <= $2 limit 1`,
      [scene.purged.tenant_id, scene.purged.purged_through],
    )
    const attack = () => run('delete from key_versions where key_id = $1 and version = $2', [row?.key_id, row?.version])
    await expectNoticed(scene.purged, attack, { reason: 'row_missing', broken_at: lastId(scene.purged) + 1 })
  })

  it('tell when an older row, genuine with its MAC, is put back', async () => {
    const { row, older } = await olderApiKey()
    const attack = () => putApiKey(row, older)
    await expectNoticed(scene.purged, attack, { reason: 'rights_mismatch', broken_at: purgeEntry() })
  })

  it('tell when an older row was put back and then changed by a server', async () => {
    const { row, older } = await olderApiKey()
    const server = scene.server()
    const { secret } = scene.purged
    const kept = await takeCheckpoint(scene.purged, server)
    await putApiKey(row, older)
    const { status } = await server.call(secret, 'PATCH', `/v1/api-keys/${row.api_key_id}`, { name: 'renamed' })
    expect(status).toBe(200) // its entries are gone, so no server can know
    const fault = { valid: false, reason: 'rights_mismatch', broken_at: purgeEntry() }
    await expectReported(scene.purged, fault)
    expect((await server.call(secret, 'GET', '/v1/audit/verify')).body).toMatchObject(fault)
    // An export has no rows, and what the log said of this one is purged (packages/server/docs/auditing.md).
    const verdict = await judgeExport((await readExport(server, scene.purged)) ?? '', kept)
    expect(verdict).toMatchObject({ valid: true, checkpoint_compared: true })
  })

  it('tell when a version of a destroyed key is put back', async () => {
    const { tenant_id, purged_through, rowKey } = scene.purged
    const { rows } = await readEvidence(scene.service.services.sql, tenant_id)
    const version = rows.versions.find(({ status, entry_id }) => status === 'destroyed' && entry_id <= purged_through)
    if (!version) throw new Error('the scene has no such version')
    const older = { ...version, status: 'retired' as const, wrapped_kek: Buffer.alloc(61, 1), entry_id: 3 }
    const attack = () =>
      run(
        "update key_versions set status = 'retired', wrapped_kek = $3, entry_id = 3, mac = $4 where key_id = $1 and version = $2",
        [version.key_id, version.version, older.wrapped_kek, keyVersionMac(rowKey, older)],
      )
    await expectNoticed(scene.purged, attack, { reason: 'row_replaced', broken_at: 3 })
  })

  /** An API key whose entries a purge has taken, and what the server wrote of it before: with more rights, and the entry of then. */
  async function olderApiKey() {
    const { tenant_id, purged_through } = scene.purged
    const { rows } = await readEvidence(scene.service.services.sql, tenant_id)
    const row = rows.apiKeys.find(({ entry_id }) => entry_id > 2 && entry_id <= purged_through)
    if (!row) throw new Error('the scene has no such API key')
    return { row, older: { ...row, allowed_ips: [], revoked_at: null, entry_id: row.entry_id - 1 } }
  }

  const putApiKey = (row: { api_key_id: string }, older: Parameters<typeof apiKeyMac>[1]) =>
    run("update api_keys set allowed_ips = '{}', revoked_at = null, entry_id = $2, mac = $3 where api_key_id = $1", [
      row.api_key_id,
      older.entry_id,
      apiKeyMac(scene.purged.rowKey, older),
    ])
})
