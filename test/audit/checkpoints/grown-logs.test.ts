// A log that grew far is anchored, and its end is in the checkpoint file, long before the next round of checkpoints: a start
// follows each log from there, and a server that was killed would refuse calls for as long as that takes.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { watchesOf } from '../../../packages/server/src/guard/watch/head-watch.js'
import { keptEntries } from '../../support/audit/checkpoint-file.js'
import { startScheduleOf } from '../../support/service/schedule.js'
import { type Caller, startService } from '../../support/service/service.js'

const GROWTH = 50_000
const MORE = 10_000
const AT_ONCE = 1_000
const DRAFT = {
  action: 'key.unwrap',
  key_id: null,
  key_version: 1,
  actor: 'a',
  ip_address: null,
  metadata: null,
} as const

async function scene() {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-grown-'))
  const checkpointFile = join(folder, 'checkpoints')
  const service = await startService()
  onTestFinished(async () => {
    await service.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const { committer, states, sql } = service.services
  const start = () => {
    const schedule = startScheduleOf(service, { config: { checkpointFile } })
    onTestFinished(() => schedule.stop())
    return schedule
  }

  const append = async ({ tenant: { tenant_id } }: Caller, entries: number) => {
    const { auditKey, policy_version } = (await states.find(tenant_id)) ?? expect.unreachable()
    const decided = { entries: Array.from({ length: entries }, () => DRAFT) }
    await committer.append({ tenant_id, auditKey, policy_version, decide: async () => undefined, ...decided })
  }
  const anchored = async ({ tenant: { tenant_id } }: Caller) => {
    const [row] = await sql<{ last_id: number }[]>`select last_id from anchored_heads where tenant_id = ${tenant_id}`
    return row?.last_id ?? 0
  }
  const kept = async ({ tenant: { tenant_id } }: Caller) => (await keptEntries(checkpointFile, tenant_id)).at(-1) ?? 0
  const endOf = ({ tenant: { tenant_id } }: Caller) => watchesOf(committer).get(tenant_id).known?.last_id ?? 0
  return { createTenant: service.createTenant, start, append, anchored, kept, endOf }
}

it('a log that grew far is covered within seconds, and one that did not waits for the round', async () => {
  const { createTenant, start, append, anchored, kept, endOf } = await scene()
  const [busy, quiet] = [await createTenant(), await createTenant()]
  start()
  await expect.poll(() => kept(busy)).toBe(endOf(busy)) // the round of the start
  for (let at = 0; at < GROWTH + MORE; at += AT_ONCE) await append(busy, AT_ONCE)
  const before = endOf(quiet)
  await append(quiet, 1)
  const uncovered = async () => endOf(busy) - Math.min(await anchored(busy), await kept(busy))
  await expect.poll(uncovered, { timeout: 20_000 }).toBeLessThan(GROWTH)
  expect(await kept(quiet)).toBe(before)
}, 120_000)

it('a start leaves what it followed to no other one, however recent the newest anchor is', async () => {
  const { createTenant, start, append, anchored, endOf } = await scene()
  const tenant = await createTenant()
  const first = start()
  await expect.poll(() => anchored(tenant), { timeout: 20_000 }).toBe(endOf(tenant))
  await first.stop()
  await append(tenant, 1)
  start()
  await expect.poll(() => anchored(tenant), { timeout: 20_000 }).toBe(endOf(tenant))
}, 120_000)
