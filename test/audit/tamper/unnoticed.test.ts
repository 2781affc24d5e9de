// Attacks that no verification detects. packages/server/docs/what-is-detected.md lists the same ones, so that nobody claims otherwise.
import { describe, expect, it } from 'vitest'
import type { Target } from '../../support/audit/audit-scene.js'
import { expectReported, judgeExport, LOGS, of, readExport, run, scene, takeCheckpoint, useScene } from './attacks.js'

useScene()

describe('what no verification notices', () => {
  /** Nobody who has only the log and the keys can tell, in place or from an export. */
  async function expectUnnoticed(target: Target, attack: () => Promise<unknown>): Promise<void> {
    const kept = await takeCheckpoint(target)
    await attack()
    await expectReported(target, { valid: true }, { kept })
    const server = scene.server()
    expect((await server.call(target.secret, 'GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    const verdict = await judgeExport((await readExport(server, target)) ?? '', kept)
    expect(verdict).toMatchObject({ valid: true, checkpoint_compared: true })
  }

  it.each(LOGS)('is that the last uses of API keys are edited, in a log that is %s', async (log) => {
    const target = of(log)
    const attack = () =>
      run("update api_keys set last_used_at = '2020-01-01T00:00:00Z' where tenant_id = $1", [target.tenant_id])
    await expectUnnoticed(target, attack)
  })

  it.each(LOGS)('is that the number of the pepper of API keys is edited, in a log that is %s', async (log) => {
    const target = of(log)
    await expectUnnoticed(target, () =>
      run('update api_keys set pepper = 7 - pepper where tenant_id = $1', [target.tenant_id]),
    )
  })

  it.each(LOGS)('is that the counts of calls without an entry are deleted, in a log that is %s', async (log) => {
    const target = of(log)
    const attack = () => run('delete from unrecorded_calls where tenant_id = $1', [target.tenant_id])
    await expectUnnoticed(target, attack)
  })

  it.each(LOGS)('is that the counts by day are edited, in a log that is %s', async (log) => {
    const target = of(log)
    const attack = () =>
      run('update audit_counts set entries = entries + 7, purged = purged + 1 where tenant_id = $1', [target.tenant_id])
    await expectUnnoticed(target, attack)
  })
})
