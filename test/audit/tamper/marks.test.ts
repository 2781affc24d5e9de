// Attacks on the marks that purges leave.
import { describe, expect, it } from 'vitest'
import type { Target } from '../../support/audit/audit-scene.js'
import { columnsOf } from '../../support/database/migrations.js'
import { expectNoticed, firstId, remove, run, scene, useScene } from './attacks.js'

useScene()

describe('the marks of purges', () => {
  const MARK_EDITS: [column: string, set: string][] = [
    ['purged_through', 'purged_through + 1'],
    ['purged_through', 'purged_through + 1000000'],
    ['purged_through', '9223372036854775807'],
    ['entries', '-9223372036854775808'],
    ['cutoff', "'infinity'"],
    ['created_at', "'-infinity'"],
    ['hash', 'set_byte(hash, 0, get_byte(hash, 0) # 1)'],
    ['entries', 'entries + 1'],
    ['cutoff', "cutoff + interval '1 ms'"],
    ['created_at', "created_at - interval '1 ms'"],
    ['previous_mac', 'set_byte(previous_mac, 0, get_byte(previous_mac, 0) # 1)'],
    ['previous_mac', "decode(repeat('00', 32), 'hex')"],
    ['mac', 'set_byte(mac, 0, get_byte(mac, 0) # 1)'],
    ['mac', "''"],
    ['mac', 'previous_mac'],
  ]
  const editMark = ({ tenant_id, purged_through }: Target, column: string, set: string) =>
    run(`update purge_marks set ${column} = ${set} where tenant_id = $1 and purged_through = $2`, [
      tenant_id,
      purged_through,
    ])

  it.each(MARK_EDITS)('tell when their %s is edited: %s', async (column, set) => {
    await expectNoticed(scene.purged, () => editMark(scene.purged, column, set), {
      reason: 'mark_forged',
      broken_at: 1,
    })
  })

  it('tell when the newest is given to another tenant: the one before it takes its place', async () => {
    const fault = { reason: 'entry_missing', broken_at: scene.purged.purgedBefore + 1, isBeyondChain: true }
    await expectNoticed(scene.purged, () => editMark(scene.purged, 'tenant_id', 'gen_random_uuid()'), fault)
  })

  it('tell when the newest is set before the one before it', async () => {
    const fault = { reason: 'mark_forged', broken_at: 1 }
    await expectNoticed(scene.purged, () => editMark(scene.purged, 'purged_through', '1'), fault)
  })

  it('tell when one between the first and the newest, or the first, is deleted or edited', async () => {
    const { tenant_id, purgedBefore } = scene.purged
    const where = `where tenant_id = '${tenant_id}' and purged_through = ${purgedBefore}`
    const fault = { reason: 'mark_forged', broken_at: 1 }
    await expectNoticed(scene.purged, () => run(`delete from purge_marks ${where}`), fault)
    await scene.restore('final')
    await expectNoticed(scene.purged, () => run(`update purge_marks set entries = entries + 1 ${where}`), fault)
  })

  it('tell when one is deleted, and the next is linked to the one before it', async () => {
    const { tenant_id, purgedBefore, purged_through } = scene.purged
    const attack = async () => {
      await run(
        `update purge_marks set previous_mac = before.previous_mac from purge_marks as before
         where purge_marks.tenant_id = $1 and purge_marks.purged_through = $2
           and before.tenant_id = $1 and before.purged_through = $3`,
        [tenant_id, purged_through, purgedBefore],
      )
      await run('delete from purge_marks where tenant_id = $1 and purged_through = $2', [tenant_id, purgedBefore])
    }
    await expectNoticed(scene.purged, attack, { reason: 'mark_forged', broken_at: 1 })
  })

  it('cover every column among the edits', () => {
    expect([...new Set([...MARK_EDITS.map(([column]) => column), 'tenant_id'])].sort()).toEqual(
      columnsOf('purge_marks').sort(),
    )
  })

  it('tell when the newest is deleted, so that an older one counts again', async () => {
    const { tenant_id, purged_through, purgedBefore } = scene.purged
    const attack = () =>
      run('delete from purge_marks where tenant_id = $1 and purged_through = $2', [tenant_id, purged_through])
    const fault = { reason: 'entry_missing', broken_at: purgedBefore + 1, isBeyondChain: true }
    await expectNoticed(scene.purged, attack, fault)
  })

  it('tell when all of them are deleted', async () => {
    const attack = () => run('delete from purge_marks where tenant_id = $1', [scene.purged.tenant_id])
    await expectNoticed(scene.purged, attack, { reason: 'entry_missing', broken_at: 1, isBeyondChain: true })
  })

  it('tell when more was deleted than they say', async () => {
    const { tenant_id } = scene.purged
    const attack = () => remove(tenant_id, 'id <= $2', firstId(scene.purged) + 2)
    const fault = { reason: 'entry_missing', broken_at: firstId(scene.purged), isBeyondChain: true }
    await expectNoticed(scene.purged, attack, fault)
  })
})
