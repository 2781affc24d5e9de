// The operator's command line with a tampered tenant: commands report it, and still process the other tenants.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

let service: Service
let tampered: Caller
let broken: Caller
let exchanged: Caller
let sound: Caller

beforeAll(async () => {
  service = await startService()
  const { sql } = service.services
  ;[tampered, broken, exchanged, sound] = [
    await service.createTenant({ name: 'tampered' }),
    await service.createTenant({ name: 'broken' }),
    await service.createTenant({ name: 'exchanged' }),
    await service.createTenant({ name: 'sound' }),
  ]
  await sql`update tenants set envelope_only = false where tenant_id = ${tampered.tenant.tenant_id}`
  await sql`
    update tenants set wrapped_audit_key = (select wrapped_audit_key from tenants where tenant_id = ${sound.tenant.tenant_id})
    where tenant_id = ${exchanged.tenant.tenant_id}`
  await sql`update heads set mac = ${Buffer.alloc(32)} where tenant_id = ${broken.tenant.tenant_id}`
})
afterAll(() => service?.close())

const eaas = (...args: string[]) =>
  runCommand(args, {
    database: service.database,
    rootKey: ROOT_KEY,
    environment: { EAAS_AUDIT_RETENTION_MONTHS: '1' },
  })
const STACK = /\n\s+at /

describe('beside a tenant that was tampered with', () => {
  it('tenant list prints the others, and names it', async () => {
    const ids = [tampered, exchanged].map(({ tenant }) => tenant.tenant_id)
    const listed = await eaas('tenant', 'list', '--json')
    const { tenants, count, failed } = JSON.parse(listed.stdout)
    expect([listed.code, count, tenants.map(({ name }: { name: string }) => name).sort()]).toEqual([
      1,
      2,
      ['broken', 'sound'],
    ])
    expect(failed).toHaveLength(2)
    for (const tenant_id of ids)
      expect(failed).toContainEqual({ tenant_id, error: expect.stringContaining('changed outside the server') })
    const { code, stdout, stderr } = await eaas('tenant', 'list')
    expect([code, stdout.includes(sound.tenant.tenant_id)]).toEqual([1, true])
    for (const tenant_id of ids) {
      expect(stdout).not.toContain(tenant_id)
      expect(stderr).toMatch(new RegExp(`^eaas: tenant ${tenant_id}: .*changed outside the server`, 'm'))
    }
    expect(stderr).not.toMatch(STACK)
  })

  it('purge goes on with the others', async () => {
    const { code, stdout } = await eaas('purge', '--json')
    const { tenants } = JSON.parse(stdout)
    expect(code).toBe(1)
    expect(tenants).toMatchObject([
      { tenant: 'tampered', refused: expect.stringContaining('changed outside the server') },
      { tenant: 'broken', refused: expect.stringContaining('head of the audit chain') },
      { tenant: 'exchanged', refused: expect.stringContaining('changed outside the server') },
      { tenant: 'sound', entries: 0 },
    ])
  })

  it('doctor names all that were', async () => {
    const { code, stdout } = await eaas('doctor')
    expect(code).toBe(1)
    const chains = stdout.split('\n').find((line) => line.includes('audit chains'))
    for (const name of ['tampered', 'broken', 'exchanged']) expect(chains).toContain(`${name}: `)
    expect(chains).not.toContain('sound')
  })

  it('audit verify says in one sentence that the log is not valid', async () => {
    const { code, stderr } = await eaas('audit', 'verify', '--tenant', 'exchanged')
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^eaas: the audit key of tenant .* was changed outside/m)])
    expect(stderr).not.toMatch(STACK)
  })

  it('audit verify --all counts it among the logs that are not valid', async () => {
    const { code, stdout, stderr } = await eaas('audit', 'verify', '--all', '--json')
    expect([code, stderr]).toEqual([1, ''])
    const { valid, logs, unverified } = JSON.parse(stdout)
    expect([valid, unverified]).toEqual([false, []])
    expect(logs).toContainEqual(expect.objectContaining({ name: 'exchanged', valid: false, reason: 'row_forged' }))
  })

  it.each([
    ['tenant', 'show', 'tampered'],
    ['tenant', 'set', 'tampered', '--envelope-only', 'true'],
    ['tenant', 'set', 'broken', '--envelope-only', 'false'],
    ['api-key', 'create', '--tenant', 'broken', '--name', 'x', '--permissions', 'encrypt'],
  ])('%s %s says what is wrong in one sentence', async (...args) => {
    const { code, stderr } = await eaas(...args)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^eaas: .*(changed outside the server|head of the audit chain)/m)
    expect(stderr).not.toMatch(STACK)
  })
})
