// eaas config: what it shows of variables and of the file, and what it refuses. No database is needed.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand, runCommandIn } from '../support/service/command-host.js'
import { startEaas } from '../support/service/eaas-process.js'

let folder: string
let file: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-config-command-'))
  file = join(folder, 'config.json')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const SECRETS = {
  EAAS_DATABASE_URL: 'postgres://eaas:hunter2@db:5432/eaas',
  EAAS_ROOT_KEY_COMMAND: 'unlock --pin hunter2',
}

describe('eaas config', () => {
  it('shows each setting with its source, and no secret', async () => {
    writeFileSync(file, JSON.stringify({ port: 9000, log_level: 'warn' }))
    const environment = { EAAS_CONFIG: file, EAAS_LOG_LEVEL: 'debug', ...SECRETS }
    const { code, stdout } = await runCommandIn(environment, ['config', 'show'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^file +EAAS_PORT +9000$/m)
    expect(stdout).toMatch(/^variable +EAAS_LOG_LEVEL +debug$/m)
    expect(stdout).toMatch(/^default +EAAS_HOST +127\.0\.0\.1$/m)
    expect(stdout).toMatch(/^variable +EAAS_DATABASE_URL +\(set, not shown: db:5432\/eaas\)$/m)
    expect(stdout).not.toContain('hunter2')
    const transit = { EAAS_ROOT_KEY_TRANSIT: 'https://eaas:hunter2@bao.example.org/v1/transit/keys/eaas' }
    const ofTransit = await runCommandIn(transit, ['config', 'show'])
    expect(ofTransit.stdout).toMatch(/_TRANSIT +\(not shown\)@bao\.example\.org\/v1\/transit\/keys\/eaas$/m)
    const { stdout: json } = await runCommandIn(environment, ['config', 'show', '--json'])
    expect(json).not.toContain('hunter2')
    expect(JSON.parse(json)).toMatchObject({
      config_file: file,
      settings: expect.arrayContaining([{ name: 'EAAS_PORT', value: '9000', source: 'file' }]),
    })
  })

  it('checks values, and the files that they name', async () => {
    writeFileSync(file, JSON.stringify({ port: 9000 }))
    expect(await runCommandIn({ EAAS_CONFIG: file }, ['config', 'check'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('is valid'),
    })
    const lacking = { EAAS_TLS_CERT_FILE: '/nowhere', EAAS_TLS_KEY_FILE: '/nowhere', EAAS_ROOT_KEY_FILE: '/nothing' }
    const { code, stdout } = await runCommandIn(lacking, ['config', 'check'])
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/^WRONG +EAAS_TLS_CERT_FILE .*\nWRONG +\/nothing can't be read/),
    ])
    writeFileSync(file, JSON.stringify({ port: 'x' }))
    const refused = await runCommandIn({ EAAS_CONFIG: file }, ['config', 'check'])
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^eaas: port in /)])
  })

  it('is not in the way of a command that does not listen, where Kubernetes sets EAAS_PORT to a URL', async () => {
    const environment = { EAAS_PORT: 'tcp://10.96.12.7:8420' }
    const { database } = await databaseWithTenant()
    expect(await runCommand(['tenant', 'list'], { database, environment })).toMatchObject({ code: 0, stderr: '' })
    for (const args of [
      ['start'],
      ['dev', '--file', join(folder, 'env')],
      ['config', 'check'],
      ['console', '--tenant', 'acme'],
    ])
      expect([args, await runCommandIn(environment, args)]).toEqual([
        args,
        { code: 1, stdout: '', stderr: expect.stringContaining('enableServiceLinks: false') },
      ])
    const bySocket = { ...environment, EAAS_SOCKET: join(folder, 'socket') }
    expect((await runCommandIn(bySocket, ['config', 'check'])).code).toBe(0)
  })

  it('opens the root key where that takes no program, no person and no network, and shows no secret', async () => {
    const garbage = join(folder, 'root.key')
    writeFileSync(garbage, 'hunter2')
    const login = { EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE: garbage }
    const wrong: [Record<string, string>, string][] = [
      [{ EAAS_ROOT_KEY: 'hunter2' }, 'EAAS_ROOT_KEY is not standard base64'],
      [{ EAAS_ROOT_KEY_FILE: garbage }, 'root.key is not standard base64'],
      [{ EAAS_DATA_DIR: folder }, 'root.key is not standard base64'],
      [{ EAAS_ROOT_KEY_SHARES: garbage }, 'is not a share of a root key'],
      [{ EAAS_ROOT_KEY_COMMAND: '["hunter2"' }, 'EAAS_ROOT_KEY_COMMAND must be a program'],
      [{ EAAS_ROOT_KEY_EXEC: '["hunter2"' }, 'EAAS_ROOT_KEY_EXEC must be a program'],
      [{ EAAS_ROOT_KEY_TRANSIT: 'http://hunter2@bao.example.org/nonsense', ...login }, 'The address of a Transit key'],
      [{ EAAS_ROOT_KEY_AWS_KMS: 'nonsense' }, 'must be named by its ARN'],
      [{ EAAS_DATABASE_URL: SECRETS.EAAS_DATABASE_URL }, 'no variable says where the root key is'],
    ]
    for (const [environment, message] of wrong) {
      const { code, stdout, stderr } = await runCommandIn(environment, ['config', 'check'])
      expect([code, stdout]).toEqual([1, expect.stringMatching(new RegExp(`^WRONG .*${message}`, 'm'))])
      expect(stdout + stderr).not.toContain('hunter2')
    }
    const ran = join(folder, 'ran')
    for (const environment of [
      { EAAS_ROOT_KEY: Buffer.alloc(32).toString('base64'), EAAS_DATABASE_URL: SECRETS.EAAS_DATABASE_URL },
      { EAAS_ROOT_KEY_SHARES: 'ask' },
      { EAAS_ROOT_KEY_COMMAND: `touch ${ran}` },
      { EAAS_ROOT_KEY_EXEC: `touch ${ran}` },
      { EAAS_ROOT_KEY_TRANSIT: 'http://127.0.0.1:1/v1/transit/keys/eaas', ...login },
      { EAAS_ROOT_KEY_AWS_KMS: 'arn:aws:kms:eu-central-1:111122223333:key/eaas' },
    ])
      expect([environment, (await runCommandIn(environment, ['config', 'check'])).code]).toEqual([environment, 0])
    expect(existsSync(ran)).toBe(false)
  })

  it('finds a misspelt variable wrong, and none of the SDK', async () => {
    const checked = await runCommandIn({ EAAS_AUDIT_RETENTION_MONTH: '3' }, ['config', 'check'])
    expect(checked).toMatchObject({
      code: 1,
      stdout: 'The configuration is not valid.\n',
      stderr: 'eaas: the server has no variable EAAS_AUDIT_RETENTION_MONTH; see eaas start --help\n',
    })
    const others = { EAAS_URL: 'http://localhost', EAAS_API_KEY: 'eaas_sk_', EAAS_WITNESS_PORT: '1' }
    expect(await runCommandIn(others, ['config', 'check'])).toMatchObject({ code: 0, stderr: '' })
  })

  it('prints the schema', async () => {
    const { stdout } = await runCommandIn({}, ['config', 'schema'])
    expect(JSON.parse(stdout)).toMatchObject({ type: 'object', additionalProperties: false })
  })
})

describe('a server with a file of settings', () => {
  it('takes another level of its log at SIGHUP, and says which settings take a restart', async () => {
    writeFileSync(file, JSON.stringify({ log_level: 'warn' }))
    const environment = { EAAS_CONFIG: file, EAAS_LOG_LEVEL: '' }
    const eaas = await startEaas({ database: await freshDatabase('config'), environment })
    const calls = () => eaas.stderr.match(/"route":"\/livez"/g)?.length ?? 0
    await fetch(`${eaas.url}/livez`)
    writeFileSync(file, JSON.stringify({ log_level: 'info', drain_seconds: 1 }))
    process.kill(eaas.pid, 'SIGHUP')
    await expect.poll(() => eaas.stderr).toMatch(/"settings":\["drainSeconds"\]/)
    expect(calls()).toBe(0)
    await fetch(`${eaas.url}/livez`)
    await expect.poll(calls).toBe(1)
    await eaas.stop()
  })
})
