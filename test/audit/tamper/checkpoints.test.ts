// Attacks that the log alone does not show, but a checkpoint kept elsewhere does.
import { describe, expect, it } from 'vitest'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { entryMac, extendChain, type Head } from '../../../packages/server/src/core/audit/formats/chain.js'
import { readChain } from '../../../packages/server/src/core/store/audit.js'
import { readEvidence } from '../../../packages/server/src/core/store/audit-evidence.js'
import { restoreTables, type Target } from '../../support/audit/audit-scene.js'
import {
  editHead,
  expectReported,
  type Fault,
  judgeExport,
  type Kept,
  LOGS,
  lastId,
  middleId,
  of,
  readExport,
  remove,
  reportOf,
  run,
  scene,
  takeCheckpoint,
  useScene,
} from './attacks.js'

useScene()

/** Expects that verification alone finds no fault, and that with the checkpoint every way of verifying names the same entry. */
async function expectNoticedByCheckpointOnly(target: Target, kept: Kept, fault: Fault): Promise<void> {
  const server = scene.server()
  const expected = { valid: false, ...fault }
  expect((await server.call(target.secret, 'GET', '/v1/audit/verify')).body.valid).toBe(true)
  await expectReported(target, { valid: true })
  const answer = await server.call(target.secret, 'GET', `/v1/audit/verify?checkpoint=${encodeURIComponent(kept.note)}`)
  expect([answer.status, reportOf(answer.body)]).toEqual([200, expected])
  await expectReported(target, expected, { kept })
  const { publicKey } = kept
  const file = (await readExport(server, target)) ?? ''
  expect(await verifyExport(splitLines([Buffer.from(file)]), { publicKey })).toMatchObject({
    valid: true,
    trusted_key: true,
  })
  const verdict = await judgeExport(file, kept)
  expect([verdict.valid, verdict.broken_at]).toEqual([false, fault.broken_at])
}

/** Rewrites the log from an entry on, as an attacker who has the keys can. */
async function rewriteFrom(target: Target, from: number): Promise<void> {
  const { tenant_id, auditKey } = target
  const { sql } = scene.service.services
  const chain = await readChain(sql, { tenant_id, after_id: from - 2, through_id: lastId(target), limit: 1_000 })
  const [before, ...rest] = chain
  const { head } = await readEvidence(sql, tenant_id)
  if (!before || !head) throw new Error('there is nothing to rewrite')
  let end: Head = { ...head, last_id: before.id, hash: before.hash, created_at: before.created_at }
  for (const [at, entry] of rest.entries()) {
    const draft = at === 0 ? { ...entry, actor: 'somebody else' } : entry
    const next = extendChain(end, [draft], { auditKey, now: Date.parse(entry.created_at) })
    const [made] = next.entries
    if (!made) throw new Error('nothing was chained')
    expect(Buffer.from(made.mac).equals(Buffer.from(entryMac(auditKey, made.id, made.hash)))).toBe(true)
    await run('update audit_log set actor = $3, hash = $4, mac = $5 where tenant_id = $1 and id = $2', [
      tenant_id,
      entry.id,
      made.actor,
      made.hash,
      made.mac,
    ])
    end = next.head
  }
  await run('update heads set hash = $2, mac = $3 where tenant_id = $1', [tenant_id, end.hash, end.mac])
}

describe.each(LOGS)('what needs a checkpoint that is kept elsewhere, in a log that is %s:', (log) => {
  it('a tail cut off, and the genuine head of then put back', async () => {
    const target = of(log)
    const kept = await takeCheckpoint(target)
    await remove(target.tenant_id, 'id > $2', lastId(target) - 4)
    await restoreTables(scene.sql, 'late', ['heads'])
    const fault = { reason: 'behind_checkpoint', broken_at: lastId(target) - 3 }
    await expectNoticedByCheckpointOnly(target, kept, fault)
  })

  it.each(['late', 'early'] as const)('an older snapshot restored whole (%s)', async (moment) => {
    const target = of(log)
    const kept = await takeCheckpoint(target)
    await scene.restore(moment)
    const [row] = await run('select max(id)::int as end from audit_log where tenant_id = $1', [target.tenant_id])
    await expectNoticedByCheckpointOnly(target, kept, { reason: 'behind_checkpoint', broken_at: row?.end + 1 })
  })

  it('everything written anew by someone who holds the keys', async () => {
    const target = of(log)
    const kept = await takeCheckpoint(target)
    // The installation's log states the hashes of the entries that it names.
    const named = Math.max(
      0,
      ...target.entries.filter(({ action }) => action.startsWith('tenant.')).map(({ id }) => id),
    )
    await rewriteFrom(target, Math.max(middleId(target), named + 1))
    await expectNoticedByCheckpointOnly(target, kept, { reason: 'checkpoint_mismatch', broken_at: kept.last_id })
  })

  it('and even it says nothing of what was written anew after it', async () => {
    const target = of(log)
    await scene.restore('early')
    const kept = await takeCheckpoint(target)
    await scene.restore('final')
    await rewriteFrom(target, kept.last_id + 1)
    await expectReported(target, { valid: true }, { kept })
  })
})

describe('a checkpoint', () => {
  it('of an honest log agrees with it, then and later', async () => {
    for (const target of [scene.whole, scene.purged]) {
      for (const moment of ['early', 'late', 'final'] as const) {
        await scene.restore(moment)
        const kept = await takeCheckpoint(target)
        await scene.restore('final')
        await expectReported(target, { valid: true }, { kept })
        const verdict = await judgeExport((await readExport(scene.server(), target)) ?? '', kept)
        expect([verdict.valid, verdict.whole]).toEqual([true, true])
      }
    }
  })

  it('is not signed on a head that the server did not write', async () => {
    const { whole } = scene
    await editHead(whole, "created_at = created_at + interval '1 ms'")
    expect((await scene.server().call(whole.secret, 'GET', '/v1/audit/checkpoint')).status).toBe(500)
  })
})
