// eaas purge.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { runCommand } from '../../support/command-host.js'
import { ROOT_KEY } from '../../support/service.js'
import { ALL, expectVerifies, folder, OLD, RESTATED, service, stored, tenant_id, useLog } from './scene.js'

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

  it('exits with 1 if it would delete more than --max-share, and with 2 if --max-share is not a number from 0 to 1', async () => {
    const before = await stored()
    const refused = await eaas(['--max-share', '0.2'])
    expect(refused.code).toBe(1)
    expect(JSON.parse(refused.stdout).tenants).toMatchObject([
      { tenant_id, refused: expect.stringContaining('--max-share') },
    ])
    for (const share of ['2', '-1', '1.5', 'half', ''])
      expect([share, (await eaas(['--max-share', share])).code]).toEqual([share, 2])
    expect((await eaas([], { EAAS_AUDIT_RETENTION_MONTHS: '0' })).code).toBe(1)
    expect(await stored()).toEqual(before)
  })
})
