// The operator's command line: every command has --help, --json and exit codes that scripts can rely on.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.js'
import { runCommandIn } from '../support/service/command-host.js'
import { ROOT_KEY } from '../support/service/service.js'
import { commandNames } from '../support/sources/commands.js'

const EAAS = fileURLToPath(new URL('../../packages/server/bin/eaas.mjs', import.meta.url))

let environment: Record<string, string>

beforeAll(async () => {
  const database = await freshDatabase()
  environment =
    database.backend === 'postgres' ? { EAAS_DATABASE_URL: database.url } : { EAAS_DATA_DIR: database.dataDir }
})

interface Run {
  code: number
  out: string
  error: string
}

function eaas(args: string, more: Record<string, string> = {}): Promise<Run> {
  return run(args.split(' ').filter(Boolean), more)
}

async function run(args: string[], more: Record<string, string> = {}): Promise<Run> {
  const { code, stdout, stderr } = await runCommandIn({ ...variables(), ...more }, args)
  return { code: Number(code), out: stdout, error: stderr }
}

/** Runs a command in a process of its own. */
function runAlone(args: string[]): Promise<Run> {
  const env = variables()
  return new Promise((resolve) => {
    execFile(process.execPath, [EAAS, ...args], { env }, (failure, out, error) => {
      resolve({ code: failure ? Number(failure.code) : 0, out, error })
    })
  })
}

function variables(): Record<string, string> {
  return { PATH: process.env.PATH ?? '', EAAS_ROOT_KEY: ROOT_KEY, ...environment }
}

async function json(args: string) {
  const { code, out, error } = await eaas(`${args} --json`)
  expect([args, code, error]).toEqual([args, 0, ''])
  return JSON.parse(out)
}

describe('eaas', () => {
  it.each(commandNames())('%s explains itself with --help', async (command) => {
    const { code, out } = await eaas(`${command} --help`)
    expect(code).toBe(0)
    expect(out).toMatch(new RegExp(`^Usage: eaas ${command}`))
  })

  it.each([
    'nope',
    'tenant xyzzy',
    'tenant create',
    'tenant create --name x --envelope-only=maybe',
    'start --port 1',
    'api-key list',
  ])('tells with exit code 2 that it does not understand: %s', async (args) => {
    const { code, out, error } = await runAlone(args.split(' '))
    expect([code, out]).toEqual([2, ''])
    expect(error).toMatch(/^error: .*\nRun the command with --help to see its options.\n$/)
  })

  it('names an option that does not exist, rather than the required one that was meant', async () => {
    const { code, error } = await eaas('key list --tenat main')
    expect([code, error.split('\n')]).toEqual([
      2,
      expect.arrayContaining(["error: unknown option '--tenat'", '(Did you mean --tenant?)']),
    ])
    expect((await eaas('key list')).error).toContain("error: required option '--tenant <tenant>' not specified")
  })

  it('lists, shows and sets tenants, and writes what was set into their log', async () => {
    const created = await json('tenant create --name acme')
    expect(created).toEqual({
      tenant_id: expect.any(String),
      name: 'acme',
      envelope_only: true,
      created_at: expect.any(String),
      api_key: expect.objectContaining({ id: expect.any(String), secret: expect.stringMatching(/^eaas_sk_/) }),
    })
    const open = await json('tenant create --name open --envelope-only=false')
    expect(open.envelope_only).toBe(false)
    const { api_key: _, ...tenant } = created
    const status = 'active'
    expect((await json('tenant list')).tenants).toContainEqual({ ...tenant, monthly_encrypt_quota: null, status })
    const set = await json('tenant set acme --envelope-only false --monthly-encrypt-quota 1000')
    expect(set).toEqual({ ...tenant, envelope_only: false, monthly_encrypt_quota: 1000, status })
    expect(await json(`tenant show ${created.tenant_id}`)).toEqual(set)
    expect((await json('tenant set acme --monthly-encrypt-quota none')).monthly_encrypt_quota).toBeNull()
    const twice = await eaas('tenant create --name acme')
    expect([twice.code, twice.error]).toEqual([
      1,
      'eaas: a tenant named acme already exists, perhaps as a deleted one: choose another name\n',
    ])
    expect((await eaas('tenant show nobody')).code).toBe(1)
  })

  it('creates, lists and revokes API keys', async () => {
    const tenant = (await json('tenant create --name keys')).tenant_id
    const created = await json(
      `api-key create --tenant keys --name ci --permissions encrypt,decrypt --allowed-ips 10.0.0.0/8`,
    )
    expect(created).toMatchObject({ name: 'ci', permissions: ['encrypt', 'decrypt'], allowed_ips: ['10.0.0.0/8'] })
    const { api_keys } = await json(`api-key list --tenant ${tenant}`)
    expect(JSON.stringify(api_keys)).not.toContain(created.secret)
    await json(`api-key revoke ${created.id} --tenant keys`)
    const after = (await json('api-key list --tenant keys')).api_keys
    expect(after.find((apiKey: { id: string }) => apiKey.id === created.id).status).toBe('revoked')
    expect((await eaas('api-key create --tenant keys --name x --permissions root')).code).toBe(2)
    expect((await eaas('api-key create --tenant keys --name x --permissions all --allowed-ips 1.2.3.4/')).code).toBe(2)
  })

  it('limits API keys to keys and by budgets, and changes both', async () => {
    const { tenant_id } = await json('tenant create --name limits')
    const create = 'api-key create --tenant limits --name import --permissions decrypt'
    const created = await json(
      `${create} --keys customers/*,orders/* --budgets unwrap=600/minute,unwrap=50000/day,hash=9/day --when-over expire`,
    )
    const budgets = { unwrap: { per_minute: 600, per_day: 50_000 }, hash: { per_day: 9 }, when_over: 'expire' }
    expect(created).toMatchObject({ keys: ['customers/*', 'orders/*'], budgets, tenant_id })
    const { out } = await eaas('api-key list --tenant limits')
    expect(out).toMatch(
      /customers\/\* orders\/\* +unwrap=600\/minute,unwrap=50000\/day,hash=9\/day \(then expires\) +decrypt/,
    )
    const update = `api-key update ${created.id} --tenant limits`
    const { secret: _, budgets: __, keys: ___, ...kept } = created
    expect(await json(`${update} --budgets hash=1/minute --keys all`)).toEqual({
      ...kept,
      budgets: { hash: { per_minute: 1 } },
    })
    expect(await json(`${update} --budgets none --name b --permissions wrap --allowed-ips ::1`)).toEqual({
      ...kept,
      name: 'b',
      permissions: ['wrap'],
      allowed_ips: ['::1'],
    })
    expect(await json(update)).toMatchObject({ name: 'b', permissions: ['wrap'] })
    const later = '2099-01-01T00:00:00.000Z'
    expect(await json(`${update} --allowed-ips any --expires-at ${later}`)).toMatchObject({ expires_at: later })
    expect(await json(`${update} --expires-at never`)).toEqual({ ...kept, name: 'b', permissions: ['wrap'] })
    expect((await eaas(`api-key update ${tenant_id} --tenant limits --name x`)).code).toBe(1)
  })

  it.each([
    ['--budgets', 'unwrap=600', 'unwrap=600 is no budget'],
    ['--budgets', 'unwrap=0/day', 'budgets.unwrap.per_day'],
    ['--budgets', 'unwrap=1.5/day', 'is no budget'],
    ['--budgets', 'wrap=1/day', 'wrap=1/day is no budget'],
    ['--budgets', 'unwrap=5/hour', 'unwrap=5/hour is no budget; write a list per minute or day, such as'],
    ['--budgets', 'hash=1/day,hash=2/day', 'two budgets of hash a day'],
    ['--budgets', 'hash=1/day,', 'An empty item is no budget'],
    ['--budgets', '', 'is no budget'],
    ['--budgets', 'none', 'none is no budget'],
    ['--when-over', 'expire', '--when-over needs --budgets'],
    ['--when-over', 'ignore', 'Allowed choices are refuse, expire'],
    ['--keys', 'customers', 'keys'],
    ['--keys', '*', 'keys'],
    ['--keys', '', 'keys'],
    ['--allowed-ips', '1.2.3', 'allowed_ips'],
    ['--expires-at', 'tomorrow', 'RFC 3339'],
  ])('refuses an API key with %s %s, with exit code 2', async (option, value, said) => {
    const { code, error } = await run([
      'api-key',
      'create',
      '--tenant',
      'x',
      '--name',
      'x',
      '--permissions',
      'hash',
      option,
      value,
    ])
    expect([code, error]).toEqual([2, expect.stringContaining(said)])
  })

  it('takes lists with blanks after the commas', async () => {
    await json('tenant create --name blanks')
    const lists = ['--permissions', 'encrypt, decrypt', '--allowed-ips', '10.0.0.0/8, ::1']
    const { code, out } = await run(['api-key', 'create', '--tenant', 'blanks', '--name', 'x', ...lists, '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ permissions: ['encrypt', 'decrypt'], allowed_ips: ['10.0.0.0/8', '::1'] })
  })

  it('prints its version, and the public key as JSON', async () => {
    expect(await eaas('--version')).toEqual({
      code: 0,
      out: expect.stringMatching(/^\d+\.\d+\.\d+(?:\+[0-9a-f]{12}(?:-dirty)?)?\n$/),
      error: '',
    })
    expect(await json('audit public-key')).toEqual({ public_key: expect.stringMatching(/^eaas-audit\+/) })
  })

  it('migrate says which schema the database has', async () => {
    expect(await json('migrate')).toEqual({ schema_before: expect.any(Number), schema: expect.any(Number) })
  })

  it('tells of a variable that it does not know, so that a misspelt one is not overlooked', async () => {
    const { code, error } = await eaas('tenant list', { EAAS_ROOTKEY: 'a secret' })
    expect([code, error]).toEqual([0, 'eaas: the server has no variable EAAS_ROOTKEY; see eaas start --help\n'])
  })
})
