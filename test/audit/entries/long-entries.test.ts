// Entries that somebody made as long as memory. Who can write rows can do that within the second between two comparisons, so no more is read of
// an entry than a server writes.
import { INSTALLATION_ID } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { readRecordedTenants } from '../../../packages/server/src/core/audit/recorded-tenants.js'
import { draftEntry } from '../../../packages/server/src/core/runner/entry-drafts.js'
import { systemCaller } from '../../../packages/server/src/core/runner/perform.js'
import { MAX_METADATA, readChain } from '../../../packages/server/src/core/store/audit.js'
import { readEvidence } from '../../../packages/server/src/core/store/audit-evidence.js'
import {
  findCurrentTenant,
  findTenant,
  listTenants,
  MOST_AUDIT_KEY_BYTES,
} from '../../../packages/server/src/core/store/tenants.js'
import { anchor, setInstallationScene, verify } from '../installation/installation-scene.js'

const { start, current, twoTenants } = setInstallationScene()

const LONG = 200_000

describe('the values of an entry', () => {
  it('are read up to one character or byte more than a server writes: one that was made longer is altered', async () => {
    const { other } = await twoTenants()
    const { sql } = current().services
    const { tenant_id } = other.tenant
    const where = sql`where tenant_id = ${tenant_id} and id = 2`
    const [row] = await sql`select * from audit_log ${where}`
    for (const column of ['action', 'actor', 'ip_address', 'metadata', 'hash', 'mac']) {
      const isText = typeof row?.[column] !== 'object' || row[column] === null
      await sql`update audit_log set ${sql({ [column]: isText ? 'x'.repeat(LONG) : Buffer.alloc(LONG) })} ${where}`
      const [entry] = await readChain(sql, { tenant_id, after_id: 1, through_id: 2, limit: 1 })
      expect(JSON.stringify({ ...entry, hash: entry?.hash.length, mac: entry?.mac.length }).length).toBeLessThan(20_000)
      expect([entry?.hash, entry?.mac].every((bytes) => bytes && bytes.length <= 33)).toBe(true)
      expect(await verify(current(), tenant_id)).toMatchObject({ valid: false, broken_at: 2 })
      await sql`update audit_log set ${sql({ [column]: row?.[column] })} ${where}`
    }
    expect(await verify(current(), tenant_id)).toMatchObject({ valid: true })
  })

  it('are never longer than what is read of them', async () => {
    await twoTenants()
    const draft = (characters: number) =>
      draftEntry(
        { action: 'installation.start', metadata: { host: 'x'.repeat(characters) } },
        systemCaller(current().services),
      )
    expect(draft(MAX_METADATA - '{"host":""}'.length).metadata).toHaveLength(MAX_METADATA)
    expect(() => draft(MAX_METADATA)).toThrow('the metadata of an entry is over')
  })
})

describe("an entry of the installation's log that says which tenants there are", () => {
  it('is not read if it is longer than any that a server writes, and raises the alarm, also before the newest anchor', async () => {
    const { victim } = await twoTenants()
    await anchor(current())
    const { sql } = current().services
    await sql`
      update audit_log set action = 'installation.tenant_create', metadata = repeat('x', ${LONG}::integer)
      where tenant_id = ${INSTALLATION_ID} and id = 1`
    const { altered_id, present } = await readRecordedTenants(sql)
    expect([altered_id, present.has(victim.tenant.tenant_id)]).toEqual([1, true])
    expect((await start()).alarms).toMatchObject([
      { tenant_id: INSTALLATION_ID, reason: "the installation's log is not valid: entry_altered, entry 1" },
    ])
  })
})

it("the values of a tenant's row are read up to one character or byte more than a server writes", async () => {
  const { victim } = await twoTenants()
  const { sql } = current().services
  const { tenant_id } = victim.tenant
  await sql`
    update tenants set name = repeat('x', ${LONG}::integer), wrapped_audit_key = ${Buffer.alloc(LONG)}, mac = ${Buffer.alloc(LONG)}
    where tenant_id = ${tenant_id}`
  const listed = (await listTenants(sql)).find((row) => row.tenant_id === tenant_id)
  const found = [(await findCurrentTenant(sql, tenant_id))?.tenant, await findTenant(sql, tenant_id), listed]
  for (const row of found)
    expect([row?.name.length, row?.wrapped_audit_key.length, row?.mac.length]).toEqual([
      256,
      MOST_AUDIT_KEY_BYTES + 1,
      33,
    ])
})

it('rows that nothing is compared with are not read', async () => {
  const { victim } = await twoTenants()
  const { sql } = current().services
  const { tenant_id } = victim.tenant
  const { rows: all } = await readEvidence(sql, tenant_id)
  const { rows: none } = await readEvidence(sql, tenant_id, { withRows: false })
  expect([all, none].map(({ tenant, keys, apiKeys }) => [tenant?.tenant_id, keys.length, apiKeys.length])).toEqual([
    [tenant_id, 2, 1],
    [undefined, 0, 0],
  ])
})
