// What the installation's log says that a tenant had when an operator accepted that it is gone: believed only of the entry that says so.
import { createSecretKey, randomBytes, randomUUID } from 'node:crypto'
import { decodeHex, INSTALLATION_ID, type LogAction } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readRecordedTenants } from '../../../packages/server/src/core/audit/recorded-tenants.js'
import { recordAlone } from '../../../packages/server/src/guard/installation-log.js'
import { readLostHead } from '../../../packages/server/src/guard/named-entries.js'
import { type Service, startService } from '../../support/service/service.js'

const HASH = 'a1'.repeat(32)
const [ACME, BETA, GAMMA, DELTA] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()]

let service: Service
/** the entries that the server wrote, by what they are */
const ids = { gone: 0, goneOfBeta: 0, accepted: 0, unproven: 0, unknown: 0 }

async function record(action: LogAction, metadata: Record<string, unknown>): Promise<number> {
  const { services } = service
  await recordAlone(services, [{ action, metadata: { witnessed_hash: HASH, reason: 'a drill', ...metadata } }])
  const [row] = await services.sql<
    { id: number }[]
  >`select last_id as id from heads where tenant_id = ${INSTALLATION_ID}`
  return row?.id ?? 0
}

beforeAll(async () => {
  service = await startService()
  ids.gone = await record('installation.tenant_gone', { tenant_id: ACME, witnessed_id: 7 })
  ids.goneOfBeta = await record('installation.tenant_gone', { tenant_id: BETA, witnessed_id: 9 })
  ids.accepted = await record('installation.rollback_accepted', { tenant_id: ACME, witnessed_id: 5 })
  ids.unproven = await record('installation.tenant_gone', { tenant_id: DELTA, is_alarm_proven: false, witnessed_id: 7 })
  ids.unknown = await record('installation.tenant_gone', { tenant_id: GAMMA, witnessed_id: 0 })
})
afterAll(() => service?.close())

const lostHead = (id: number, { tenant_id = ACME, auditKey = service.services.installationKey } = {}) =>
  readLostHead(service.services.sql, { auditKey, tenant_id, id })

describe('the head that was known of a tenant that is gone', () => {
  it('is what the entry says by which an operator accepted it', async () => {
    const { gone } = await readRecordedTenants(service.services.sql)
    expect(gone.get(BETA)).toBe(ids.goneOfBeta)
    expect(await lostHead(ids.gone)).toEqual({ last_id: 7, hash: decodeHex(HASH), policy_version: 0 })
    expect(await lostHead(ids.goneOfBeta, { tenant_id: BETA })).toMatchObject({ last_id: 9 })
  })

  it.each([
    ['of another tenant', () => lostHead(ids.goneOfBeta)],
    ['of another action', () => lostHead(ids.accepted)],
    ['of a tenant of which nothing was known', () => lostHead(ids.unknown, { tenant_id: GAMMA })],
    ['by an alarm that was not proven', () => lostHead(ids.unproven, { tenant_id: DELTA })],
    ['that is missing', () => lostHead(ids.unknown + 9)],
    ['by another key', () => lostHead(ids.gone, { auditKey: createSecretKey(randomBytes(32)) })],
  ])('is not that of an entry %s', async (_, read) => {
    expect(await read()).toBeUndefined()
  })

  it.each([
    [
      'that somebody edited',
      `update audit_log set metadata = replace(metadata, '"witnessed_id":7', '"witnessed_id":1')`,
    ],
    ['whose MAC somebody edited', `update audit_log set mac = decode(repeat('00', 32), 'hex')`],
    ['that somebody deleted', 'delete from audit_log'],
  ])('is not that of an entry %s', async (_, statement) => {
    const { sql } = service.services
    const where = `where tenant_id = '${INSTALLATION_ID}' and id = ${ids.gone}`
    const [row] = await sql.unsafe(`select * from audit_log ${where}`)
    expect(await sql.unsafe(`${statement} ${where}`)).toMatchObject({ count: 1 })
    expect(await lostHead(ids.gone)).toBeUndefined()
    await sql.unsafe(`delete from audit_log ${where}`)
    await sql`insert into audit_log ${sql(row as unknown as Record<string, never>)}`
    expect(await lostHead(ids.gone)).toMatchObject({ last_id: 7 })
  })
})
