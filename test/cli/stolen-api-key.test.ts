// The commands of docs/stolen-api-key.md: what an API key made and opened, by row too, where its thief hid the rows.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
})
afterAll(() => service?.close())

const eaas = (...args: string[]) => runCommand(args, { database: service.database, rootKey: ROOT_KEY })

async function list(...args: string[]): Promise<{ action: string; metadata: Record<string, unknown> }[]> {
  const { stdout, stderr } = await eaas('audit', 'list', '--tenant', owner.tenant.tenant_id, '--json', ...args)
  if (!stdout) throw new Error(stderr)
  return JSON.parse(stdout).logs
}

it('finds what a stolen API key made and opened', async () => {
  const { tenant_id } = owner.tenant
  const permissions = ['wrap', 'unwrap', 'api_keys:manage', 'audit:on_behalf_of']
  const stolen = (await owner.call('POST', '/v1/api-keys', { name: 'web', permissions })).body
  const thief = service.caller(stolen.secret)
  const child = (await thief.call('POST', '/v1/api-keys', { name: 'web', permissions: ['unwrap'] })).body
  const { id } = (await owner.call('POST', '/v1/keys', { name: 'customers' })).body
  const context = { model: 'customers', row: '7' }
  const { wrapped_key } = (
    await owner.call('POST', `/v1/keys/${id}/wrap`, { dek: randomBytes(32).toString('base64'), context })
  ).body
  const hidden = { wrapped_key, context, record: 'digests' }
  await thief.call('POST', `/v1/keys/${id}/unwrap`, hidden, { 'eaas-on-behalf-of': 'J%C3%BCrgen%20Gro%C3%9F' })

  const [made, ...others] = await list('--actor', stolen.id, '--action', 'api_key.create')
  expect([made?.metadata.api_key_id, others]).toEqual([child.id, []])
  const opened = await list('--actor', stolen.id, '--action', 'key.unwrap')
  expect(opened).toHaveLength(1)
  expect(opened[0]?.metadata).not.toHaveProperty(['context.row'])
  const ofRow = ['--context', 'row=7', '--context', 'model=customers', '--purpose', 'data']
  expect(await list('--actor', stolen.id, ...ofRow)).toEqual(opened)
  // The user's id as the application has it, and as a broker escapes it and the log has it.
  for (const user of ['Jürgen Groß', 'J%C3%BCrgen%20Gro%C3%9F'])
    expect(await list('--on-behalf-of', user)).toEqual(opened)
  expect(await list('--actor', stolen.id, '--context', 'row=8')).toEqual([])
  expect(await list('--actor', stolen.id, '--to', '2026-01-01T00:00:00Z')).toEqual([])
  expect(await list('--actor', stolen.id, '--from', '2026-01-01T00:00:00Z')).toHaveLength(2)
  for (const form of [['--json'], []]) {
    const ofThief = ['audit', 'list', '--tenant', tenant_id, '--actor', stolen.id, ...form]
    expect((await eaas(...ofThief, '--limit', '1')).stderr).toContain('only the newest 1 of 2 entries are shown')
    expect((await eaas(...ofThief, '--limit', '2')).stderr).toBe('')
  }
  for (const [code, ...wrong] of [
    [1, '--context', 'row'],
    [2, '--from', 'yesterday'],
    [2, '--purpose', 'x'],
  ] as const)
    expect((await eaas('audit', 'list', '--tenant', tenant_id, ...wrong)).code).toBe(code)

  const named = await eaas('api-key', 'revoke', 'web', '--tenant', tenant_id)
  expect([named.code, named.stderr]).toEqual([2, expect.stringContaining('must be a UUID')])
  for (const one of [stolen.id, child.id])
    expect((await eaas('api-key', 'revoke', one, '--tenant', tenant_id)).code).toBe(0)
  const { stdout } = await eaas('audit', 'rights', '--tenant', tenant_id, '--json') // now, if not told
  const [, ...revoked] = JSON.parse(stdout).api_keys.map(({ status }: { status: string }) => status)
  expect(revoked).toEqual(['revoked', 'revoked'])
})

it('says by which options a search of too many entries becomes shorter', async () => {
  const { tenant_id } = (await service.createTenant()).tenant
  await service.services.sql`
    insert into audit_log (tenant_id, id, action, actor, created_at, hash, mac)
    values (${tenant_id}, 600000, 'key.wrap', 'test', now(), '', '')`
  const { code, stderr } = await eaas('audit', 'list', '--tenant', tenant_id, '--actor', tenant_id)
  expect([code, stderr]).toEqual([1, expect.stringMatching(/ at most 500000 \(options: --from and --to\)\n$/)])
})
