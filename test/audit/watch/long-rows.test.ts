// Rows that somebody made long or many. A round reads all alarms and heads, and a call the rows of its keys: no more is read than a server writes.
import { MAX_ALLOWED_IPS } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { findApiKey, findApiKeyByDigest, listApiKeys } from '../../../packages/server/src/core/store/api-keys.js'
import { findHead, listHeads, lockHead } from '../../../packages/server/src/core/store/audit.js'
import type { Transaction } from '../../../packages/server/src/core/store/db.js'
import {
  findKey,
  listKeys,
  listKeyVersions,
  listTenantKeyVersions,
} from '../../../packages/server/src/core/store/keys.js'
import { MOST_AUDIT_KEY_BYTES } from '../../../packages/server/src/core/store/tenants.js'
import { compareWitnesses, listAlarms } from '../../../packages/server/src/guard/store/alarms.js'
import {
  listAnchoredHeads,
  listCurrentHeads,
  listHeadsWithKeys,
} from '../../../packages/server/src/guard/store/anchors.js'
import { setWatchScene } from './scene.js'

const scene = setWatchScene()

describe('rows that somebody made long or many', () => {
  const long = Buffer.alloc(20_000)
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
      expect(sizes(compared?.head)).toEqual([33, 33, MOST_AUDIT_KEY_BYTES + 1])
      expect(sizes(await findHead(sql, tenant_id))).toEqual([33, 33])
      expect(sizes(await lockHead(sql, tenant_id))).toEqual([33, 33])
      expect(sizes((await listHeads(sql)).find((head) => head.tenant_id === tenant_id))).toEqual([33, 33])
      expect(sizes((await listHeadsWithKeys(sql, [tenant_id]))[0])).toEqual([33, 33, MOST_AUDIT_KEY_BYTES + 1])
      expect(sizes((await listCurrentHeads(sql)).find((head) => head.tenant_id === tenant_id))).toEqual([
        33,
        33,
        MOST_AUDIT_KEY_BYTES + 1,
      ])
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

  it('are read of keys and their versions up to what a server writes', () =>
    undone(async (sql) => {
      const { tenant_id } = scene
      await sql`
        update keys set name = repeat('x', 5000), algorithm = repeat('x', 5000), wrapped_hash_key = ${long}, mac = ${long}
        where tenant_id = ${tenant_id}`
      await sql`update key_versions set wrapped_kek = ${long}, mac = ${long} where tenant_id = ${tenant_id}`
      const [listed] = await listKeys(sql, tenant_id, {})
      const key_id = listed?.key_id ?? ''
      for (const row of [listed, await findKey(sql, tenant_id, key_id)]) {
        expect([row?.name.length, row?.algorithm.length, ...sizes(row)]).toEqual([256, 33, 256, 33])
      }
      const versions = await listKeyVersions(sql, { tenant_id, key_id }, { after: 0, limit: 1 })
      for (const row of [...versions, ...(await listTenantKeyVersions(sql, tenant_id))]) {
        expect(sizes(row)).toEqual([256, 33])
      }
    }))

  it('are read of API keys up to what a server writes, and of lists that are longer nothing', () =>
    undone(async (sql) => {
      const { tenant_id } = scene
      const many = sql`array_fill('x'::text, array[1000000])`
      await sql`
        update api_keys set name = repeat('x', 5000), prefix = repeat('x', 5000), mac = ${long}, permissions = ${many}, allowed_ips = ${many}
        where tenant_id = ${tenant_id}`
      const [listed] = await listApiKeys(sql, tenant_id)
      const { api_key_id = '', digest = '' } = listed ?? {}
      const found = [
        listed,
        await findApiKey(sql, tenant_id, api_key_id),
        await findApiKeyByDigest(sql, tenant_id, digest),
      ]
      for (const row of found) {
        expect(row).toMatchObject({ permissions: [], allowed_ips: [] })
        expect([row?.name.length, row?.prefix.length, ...sizes(row)]).toEqual([256, 65, 33])
      }
      const most = Array.from(
        { length: MAX_ALLOWED_IPS },
        (_, at) => `2001:db8:ffff:ffff:ffff:ffff:ffff:${(at + 4096).toString(16)}/128`,
      )
      await sql`update api_keys set allowed_ips = ${most} where tenant_id = ${tenant_id}`
      expect((await listApiKeys(sql, tenant_id))[0]?.allowed_ips).toEqual(most)
    }))
})
