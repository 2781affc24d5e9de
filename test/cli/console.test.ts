// eaas console: the link that it prints signs in at the console (test/browser/console.db.test.ts opens one).
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand } from '../support/service/command-host.js'
import { type RunningServer, startServer } from '../support/service/server.js'

const ACME = ['--tenant', 'acme']

describe('eaas console', { timeout: 120_000 }, () => {
  let database: TestDatabase
  let server: RunningServer

  beforeAll(async () => {
    ;({ database } = await databaseWithTenant())
    server = await startServer({ database })
  }, 60_000)
  afterAll(() => server?.stop())

  const link = (...args: string[]) => runCommand(['console', ...args], { database })
  const call = async (path: string, apiKey: string) =>
    (await fetch(`${server.url}${path}`, { headers: { authorization: `Bearer ${apiKey}` } })).json()

  it('has an API key of five minutes that may give what the session may do', async () => {
    const { code, stdout, stderr } = await link(
      ...ACME,
      '--permissions',
      'keys:read,keys:rotate',
      '--url',
      server.url,
      '--json',
    )
    expect([code, stderr]).toEqual([0, ''])
    const { url, expires_at, api_key_id } = JSON.parse(stdout)
    const [, apiKey = ''] = /\/console#\/sign-in\/(eaas_sk_\w+)$/.exec(url) ?? []
    const { api_keys } = await call('/v1/api-keys', apiKey)
    const own = api_keys.find(({ id }: { id: string }) => id === api_key_id)
    expect(own).toMatchObject({
      name: 'eaas console',
      permissions: ['keys:read', 'keys:rotate', 'api_keys:read', 'api_keys:manage'],
      expires_at,
    })
    const lasts = Date.parse(expires_at) - Date.now()
    expect([lasts > 120_000, lasts <= 300_000]).toEqual([true, true])
  })

  it('leads to where browsers reach the server, and says what it is', async () => {
    const { stdout } = await link(...ACME, '--url', 'https://eaas.example.org/keys/')
    expect(stdout).toMatch(/^Whoever opens this link first is signed in for an hour at the console of tenant acme/)
    expect(stdout).toContain('\n  https://eaas.example.org/keys/console#/sign-in/eaas_sk_')
  })

  it.each([
    ['http://eaas.example.org', /refuses to sign in: give the address with HTTPS/],
    ['http://10.0.0.7:8420', /refuses to sign in/],
    ['http://localhost:8420', /^$/],
    ['http://[::1]:8420', /^$/],
  ])('says whether the page signs in at %s', async (url, said) => {
    expect(await link(...ACME, '--url', url)).toMatchObject({ code: 0, stderr: expect.stringMatching(said) })
  })

  it.each([
    [[...ACME, '--permissions', 'api_keys:manage'], 2, 'paste an API key that does'],
    [[...ACME, '--url', 'eaas'], 2, 'It is not a URL'],
    [ACME, 1, 'say with --url'],
    [['--tenant', 'nobody', '--url', 'https://eaas.example.org'], 1, 'there is no tenant nobody'],
  ])('refuses %j', async (args, code, message) => {
    const refused = await link(...args)
    expect(refused).toMatchObject({ code, stdout: '' })
    expect(refused.stderr).toContain(message)
  })

  it('makes no link to a console that is off', async () => {
    const off = await runCommand(['console', ...ACME, '--url', server.url], {
      database,
      environment: { EAAS_CONSOLE: 'off' },
    })
    expect(off).toMatchObject({ code: 1, stderr: expect.stringContaining('EAAS_CONSOLE=off') })
  })
})
