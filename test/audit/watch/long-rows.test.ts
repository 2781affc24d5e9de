// Rows of alarms and heads that somebody made long or many. A round reads all of them, so no more is read than a server writes.
import { describe, expect, it } from 'vitest'
import { compareWitnesses, listAlarms } from '../../../packages/server/src/store/alarms.js'
import { listAnchoredHeads, listCurrentHeads } from '../../../packages/server/src/store/anchors.js'
import { findHead, listHeads, listHeadsWithKeys, lockHead } from '../../../packages/server/src/store/audit.js'
import type { Transaction } from '../../../packages/server/src/store/db.js'
import { setWatchScene } from './scene.js'

const scene = setWatchScene()

describe('rows that somebody made long or many', () => {
  const long = Buffer.alloc(5_000)
  class Undo extends Error {}
  /** Works in a transaction that is rolled back. */
  const undone = (work: (sql: Transaction) => Promise<void>) =>
    scene.sql
      .begin(async (sql) => {
        await work(sql)
        throw new Undo()
      })
      .catch((error: unknown) => {
        if (!(error instanceof Undo)) throw error
      })
  const sizes = (row: object | undefined) =>
    Object.values(row ?? {}).flatMap((value) => (value instanceof Uint8Array ? [value.length] : []))

  it('are read of alarms up to what a server writes', () =>
    undone(async (sql) => {
      await sql`
        insert into chain_alarms select gen_random_uuid(), repeat('x', 5000), 0, ${long}, 0, now(), ${long} from generate_series(1, 3)`
      const rows = await listAlarms(sql, 2)
      expect(rows).toHaveLength(2)
      for (const row of rows) {
        expect(row.reason).toHaveLength(1_000)
        expect(sizes(row)).toEqual([33, 33])
      }
    }))

  it('are read of heads up to what a server writes', () =>
    undone(async (sql) => {
      const { tenant_id } = scene
      await sql`update heads set hash = ${long}, mac = ${long} where tenant_id = ${tenant_id}`
      await sql`update tenants set wrapped_audit_key = ${long} where tenant_id = ${tenant_id}`
      const witnesses = [scene.early]
      const [compared] = await compareWitnesses(sql, witnesses)
      expect(compared).toMatchObject({ tenant_id, is_contradicted: false })
      expect(sizes(compared?.head)).toEqual([33, 33])
      expect(sizes(await findHead(sql, tenant_id))).toEqual([33, 33])
      expect(sizes(await lockHead(sql, tenant_id))).toEqual([33, 33])
      expect(sizes((await listHeads(sql)).find((head) => head.tenant_id === tenant_id))).toEqual([33, 33])
      expect(sizes((await listHeadsWithKeys(sql, [tenant_id]))[0])).toEqual([33, 33, 256])
      expect(sizes((await listCurrentHeads(sql)).find((head) => head.tenant_id === tenant_id))).toEqual([33, 33, 256])
    }))

  it('are read of anchored heads up to what the anchor covers, and one more', () =>
    undone(async (sql) => {
      await sql`delete from anchored_heads`
      await sql`
        insert into anchored_heads select gen_random_uuid(), 1, ${long}, 1, now(), ${long} from generate_series(1, 3)`
      expect(await listAnchoredHeads(sql)).toHaveLength(3)
      const rows = await listAnchoredHeads(sql, 1)
      expect(rows.map(sizes)).toEqual([
        [33, 33],
        [33, 33],
      ])
    }))

  it('are not compared where they are more than the tenants: one of them could keep another from being read', () =>
    undone(async (sql) => {
      const { tenant_id } = scene
      await sql`alter table heads drop constraint heads_pkey cascade`
      await sql`insert into heads select h.* from heads as h, generate_series(1, 3) where tenant_id = ${tenant_id}`
      await expect(compareWitnesses(sql, [scene.early])).rejects.toThrow('more than once')
      await expect(findHead(sql, tenant_id)).rejects.toThrow('more than once')
    }))
})
