// Attacks that no verification detects. packages/server/docs/auditing.md lists the same ones, so that nobody claims otherwise.
import { describe, expect, it } from 'vitest'
import { apiKeyMac } from '../../../packages/server/src/audit/row-mac.js'
import { readEvidence } from '../../../packages/server/src/store/audit-evidence.js'
import type { Target } from '../../support/audit-scene.js'
import { expectTold, LOGS, of, run, scene, takeCheckpoint, useScene } from './attacks.js'

useScene()

describe('what no verification notices', () => {
  /** Nobody who has only the log and the keys can tell. */
  async function expectUnnoticed(target: Target, attack: () => Promise<unknown>): Promise<void> {
    const kept = await takeCheckpoint(target)
    await attack()
    await expectTold(target, { valid: true }, kept)
  }

  it('is that a row is deleted whose entries a purge has taken', async () => {
    const { tenant_id, purged_through } = scene.purged
    const attack = async () => {
      for (const table of ['keys', 'key_versions', 'api_keys']) {
        const { count } = await run(`delete from ${table} where tenant_id = $1 and entry_id between 2 and $2`, [
          tenant_id,
          purged_through,
        ])
        expect(count).toBeGreaterThan(0)
      }
    }
    await expectUnnoticed(scene.purged, attack)
  })

  it('is that an older one, genuine with its MAC, is put back in the place of a row whose entries a purge has taken', async () => {
    const { tenant_id, purged_through, rowKey } = scene.purged
    const { rows } = await readEvidence(scene.service.services.sql, tenant_id)
    const row = rows.apiKeys.find(({ entry_id }) => entry_id > 2 && entry_id <= purged_through)
    if (!row) throw new Error('the scene has no such API key')
    // What the server wrote before: with more rights, and the entry of then.
    const older = { ...row, allowed_ips: [], revoked_at: null, entry_id: row.entry_id - 1 }
    const attack = () =>
      run("update api_keys set allowed_ips = '{}', revoked_at = null, entry_id = $2, mac = $3 where api_key_id = $1", [
        row.api_key_id,
        older.entry_id,
        apiKeyMac(rowKey, older),
      ])
    await expectUnnoticed(scene.purged, attack)
  })

  it.each(LOGS)('is that the last uses of API keys are edited, in a log that is %s', async (log) => {
    const target = of(log)
    const attack = () =>
      run("update api_keys set last_used_at = '2020-01-01T00:00:00Z' where tenant_id = $1", [target.tenant_id])
    await expectUnnoticed(target, attack)
  })

  it.each(LOGS)('is that the counts by day are edited, in a log that is %s', async (log) => {
    const target = of(log)
    const attack = () =>
      run('update audit_counts set entries = entries + 7, purged = purged + 1 where tenant_id = $1', [target.tenant_id])
    await expectUnnoticed(target, attack)
  })
})
