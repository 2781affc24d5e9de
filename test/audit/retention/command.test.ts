// eaas purge.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runCommand, runDoctor } from '../../support/service/command-host.js'
import { ROOT_KEY } from '../../support/service/service.js'
import { ALL, added, expectVerifies, folder, OLD, RESTATED, service, stored, tenant_id, useLog } from './scene.js'

useLog()

describe('eaas purge', () => {
  const eaas = (args: string[], environment: Record<string, string> = {}) =>
    runCommand(['purge', '--tenant', tenant_id, '--json', ...args], {
      database: service.database,
      rootKey: ROOT_KEY,
      environment: { EAAS_AUDIT_RETENTION_MONTHS: '12', ...environment },
    })

  it('prints in a dry run what it will do, and archives before it deletes', async () => {
    const before = await stored()
    const dry = await eaas(['--dry-run'])
    expect([dry.code, dry.stderr]).toEqual([0, ''])
    const plan = { tenant_id, purged_through: OLD, entries: OLD, restates: RESTATED, cutoff: expect.any(String) }
    expect(JSON.parse(dry.stdout)).toMatchObject({ dry_run: true, tenants: [plan] })
    expect(await stored()).toEqual(before)
    const archive = join(folder, 'cli')
    const real = await eaas(['--archive', archive])
    expect([real.code, real.stderr]).toEqual([0, ''])
    expect(JSON.parse(real.stdout)).toMatchObject({ dry_run: false, tenants: [plan] })
    expect(await readdir(archive)).toEqual([`${tenant_id}-through-${OLD}.ndjson`])
    await expectVerifies({ total: ALL - OLD + RESTATED + 1, purged: OLD })
    expect(JSON.parse((await eaas([])).stdout).tenants).toMatchObject([{ entries: 0 }])
  })

  const oneMonth = { EAAS_AUDIT_RETENTION_MONTHS: '1' }

  it('shows what is held back and why, changes nothing, and exits with 1', async () => {
    const before = await stored()
    const review = await eaas(['--dry-run'], oneMonth)
    expect([review.code, review.stderr]).toEqual([1, ''])
    const { tenants } = JSON.parse(review.stdout)
    expect(tenants).toMatchObject([{ tenant_id, held: expect.stringContaining('share'), cutoff: expect.any(String) }])
    expect(tenants[0].entries).toBeGreaterThan(ALL / 2)
    const kept = await eaas([], oneMonth)
    expect([kept.code, JSON.parse(kept.stdout).tenants]).toEqual([
      1,
      [expect.objectContaining({ tenant_id, refused: expect.stringContaining('eaas purge --resume') })],
    ])
    expect((await eaas([], { EAAS_AUDIT_RETENTION_MONTHS: '0' })).code).toBe(1)
    expect((await eaas(['--resume', ''], oneMonth)).code).toBe(2)
    expect(await stored()).toEqual(before)
  })

  it('eaas doctor warns of what is held back, and why, until it is resumed', async () => {
    const examine = async (environment: Record<string, string>) =>
      (await runDoctor({ database: service.database, rootKey: ROOT_KEY, environment })).found('purge')
    const held = { ok: true, warning: true, detail: expect.stringMatching(/: \d+ of 60 entries are due.*--dry-run$/) }
    expect(await examine(oneMonth)).toMatchObject(held)
    const overdue = `: ${OLD} entries are due, some for over two days, and no purge took them`
    const late = { EAAS_AUDIT_RETENTION_MONTHS: '12' }
    expect(await examine(late)).toMatchObject({ ok: true, warning: true, detail: expect.stringContaining(overdue) })
    await eaas(['--resume', 'the retention is one month now'], oneMonth)
    const nothing = { check: 'purge', ok: true, detail: 'nothing older than 1 month is held back' }
    expect(await examine(oneMonth)).toEqual(nothing)
    expect((await examine({ EAAS_AUDIT_RETENTION_MONTHS: '0' }))?.detail).toContain('nothing is ever purged')
  })

  it('resumes what is held back, and the log records who did so, and why', async () => {
    const { entries } = JSON.parse((await eaas(['--dry-run'], oneMonth)).stdout).tenants[0]
    const resumed = await eaas(['--resume', 'the retention is one month now'], oneMonth)
    expect([resumed.code, resumed.stderr]).toEqual([0, ''])
    expect(JSON.parse(resumed.stdout).tenants).toMatchObject([{ entries, purged_through: entries }])
    expect((await added()).find(({ action }) => action === 'audit.purge')).toMatchObject({
      actor: expect.stringMatching(/^operator:/),
      metadata: { purged_through: entries, reason: 'the retention is one month now' },
    })
    await expectVerifies({ total: ALL - entries + RESTATED + 1, purged: entries })
  })
})
