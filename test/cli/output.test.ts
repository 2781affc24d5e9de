// The output of commands: to a terminal, to a reader that closes the pipe early, and to scripts by the exit code.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { purgeTenant } from '../../packages/server/src/operate/jobs/purge-tenants.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runAuditCommand, runCommand } from '../support/service/command-host.js'
import { EAAS } from '../support/service/eaas-process.js'
import { startServer } from '../support/service/server.js'
import { ROOT_KEY, type Service, startService } from '../support/service/service.js'

const TIMEOUT_MS = 120_000
const DAY_MS = 86_400_000

let now = Date.parse('2026-03-01T00:00:00.000Z')
let folder: string
let service: Service

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-cli-'))
  service = await startService({ now: () => now })
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

const run = (...args: string[]) => runCommand(args, { database: service.database, rootKey: ROOT_KEY })

function canMount(): boolean {
  return spawnSync('unshare', ['--mount', 'sh', '-c', 'mount -t tmpfs tmpfs /tmp'], { stdio: 'ignore' }).status === 0
}

/** Starts the command as a shell does; with `inBash`, by a script whose "$@" is the command. */
function start(args: string[], { inBash }: { inBash?: string } = {}) {
  const { database } = service
  const where =
    database.backend === 'postgres' ? { EAAS_DATABASE_URL: database.url } : { EAAS_DATA_DIR: database.dataDir }
  const command = [process.execPath, EAAS, ...args]
  const [program = '', ...rest] = inBash === undefined ? command : ['bash', '--norc', '-c', inBash, 'bash', ...command]
  const child = spawn(program, rest, {
    cwd: folder,
    env: { PATH: process.env.PATH, EAAS_ROOT_KEY: ROOT_KEY, ...where },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, stderr }))
  return { child, ended }
}

describe('a command on a terminal', { timeout: TIMEOUT_MS }, () => {
  it('prints names without what a terminal would obey', async () => {
    const tenant = await service.createTenant({ name: 'x\u001b[2J\u009b\u0007\nfake\u202e' })
    const id = tenant.tenant.tenant_id
    await tenant.call('POST', '/v1/api-keys', { name: 'k\u001b]0;title\u0007', permissions: ['encrypt'] })
    for (const args of [
      ['tenant', 'list'],
      ['tenant', 'list', '--json'],
      ['tenant', 'show', id],
      ['api-key', 'list', '--tenant', id],
      ['purge', '--dry-run'],
    ]) {
      const { code, stdout } = await run(...args)
      expect([args, code]).toEqual([args, 0])
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]|^fake/m)
      expect(stdout).toContain(args[0] === 'api-key' ? 'k\\u001b]0;title\\u0007' : 'x\\u001b[2J\\u009b')
    }
    expect(JSON.parse((await run('tenant', 'show', id, '--json')).stdout).name).toBe(tenant.tenant.name)
  })

  it('shows which of several names that look alike is which', async () => {
    const tenant = await service.createTenant()
    const names = ['till', 'till ', 'till\u200b', 't\u00a0ill', 't ill']
    for (const name of names) {
      await tenant.call('POST', '/v1/keys', { name })
      await tenant.call('POST', '/v1/api-keys', { name, permissions: [] })
    }
    for (const command of ['key', 'api-key']) {
      const { stdout } = await run(command, 'list', '--tenant', tenant.tenant.tenant_id)
      const shown = stdout.split('\n').map((line) => line.split(/ {2,}/)[0])
      expect(shown).toEqual(expect.arrayContaining(['till', 'till\\u0020', 'till\\u200b', 't\\u00a0ill', 't ill']))
    }
  })

  it('takes an id for the tenant of that id, though another one has it for its name', async () => {
    const { tenant_id } = (await service.createTenant({ name: 'victim' })).tenant
    await service.createTenant({ name: tenant_id })
    expect(JSON.parse((await run('tenant', 'show', tenant_id, '--json')).stdout).name).toBe('victim')
    for (const name of [tenant_id, tenant_id.toUpperCase(), 'a\u0007b', ' \u00a0']) {
      const { code, stderr } = await run('tenant', 'create', '--name', name)
      expect([code, stderr]).toEqual([2, expect.stringMatching(/must not be a UUID|no control characters/)])
    }
  })

  it('goes on to its end when its reader has left', async () => {
    const { child, ended } = start(['doctor'])
    child.stdout.destroy()
    expect(await ended).toEqual({ code: 0, stderr: '' })
  })

  it('says what it created when the secret could not be printed', async () => {
    const { tenant_id } = (await service.createTenant()).tenant
    for (const { args, lost } of [
      {
        args: ['tenant', 'create', '--name', 'mute'],
        lost: /tenant ([\w-]{36}) was created.*eaas api-key revoke [\w-]{36}/,
      },
      {
        args: ['api-key', 'create', '--tenant', tenant_id, '--name', 'mute', '--permissions', 'encrypt', '--json'],
        lost: new RegExp(`API key ([\\w-]{36}) was created.*revoke [\\w-]{36} --tenant ${tenant_id}`),
      },
    ]) {
      const { child, ended } = start(args)
      child.stdout.destroy()
      expect(await ended).toEqual({ code: 1, stderr: expect.stringMatching(lost) })
    }
  })

  it('fails where a file takes only a part of what it prints', async () => {
    for (let at = 0; at < 30; at++) await service.createTenant()
    const { child, ended } = start(['tenant', 'list'], { inBash: `ulimit -f 1; trap '' XFSZ; "$@" > list` })
    child.stdout.resume()
    expect(await ended).toEqual({ code: 1, stderr: 'eaas: standard output cannot be written (EFBIG)\n' })
    expect((await stat(join(folder, 'list'))).size).toBe(1_024)
  })

  it('that exports overwrites no file, and says so in a sentence', async () => {
    const { tenant_id } = (await service.createTenant()).tenant
    const out = join(folder, 'there.ndjson')
    await writeFile(out, 'x')
    for (const [path, reason] of [
      [out, ': it exists already, and is not overwritten'],
      [
        join(folder, 'none', 'out.ndjson'),
        ' cannot be written (ENOENT), and nothing was. Name a path in a folder that exists and that you may write to.',
      ],
    ] as const) {
      const { code, stderr } = await run('audit', 'export', '--tenant', tenant_id, '--out', path)
      expect([code, stderr]).toEqual([1, `eaas: ${path}${reason}\n`])
    }
    expect(await readFile(out, 'utf8')).toBe('x')
  })

  const RECIPIENT = 'age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p'
  it.skipIf(!canMount()).each([
    ['an export', (out: string) => ['audit', 'export', '--out', out], 'out'],
    ['a recovery kit', (out: string) => ['recovery-kit', '--recipient', RECIPIENT, '--out', out], 'out'],
    ['a cursor', (out: string) => ['audit', 'follow', '--cursor', out], 'out'],
    ['an archive', (out: string) => ['purge', '--resume', 'x', '--archive', dirname(out)], '[-\\w]+\\.ndjson'],
  ])('that writes %s to a disk that is full names the file, and leaves no part of it', async (what, command, name) => {
    const tenant = await service.createTenant()
    for (let count = 0; count < 40; count++) await tenant.call('POST', '/v1/keys', { name: `${count}` })
    const full = await mkdtemp(join(tmpdir(), 'eaas-full-'))
    const fill = what === 'a cursor' ? `head -c 4096 /dev/zero >${full}/.fill` : 'true' // the others have more bytes
    const { ended } = start([...command(join(full, 'out')), '--tenant', tenant.tenant.tenant_id], {
      inBash: `export EAAS_AUDIT_RETENTION_MONTHS=1; exec unshare --mount sh -c 'mount -t tmpfs -o size=4k tmpfs ${full} && ${fill} && "$@" >&2; ended=$?; ls ${full} >&2; exit $ended' sh "$@"`,
    })
    const { code, stderr } = await ended
    await rm(full, { recursive: true })
    const explained = `${full}/${name} cannot be written \\(ENOSPC\\), and nothing was. Its disk is full: make room there, or name another path.\n$`
    expect([code, stderr]).toEqual([1, expect.stringMatching(explained)])
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })

  it.each(['SIGINT', 'SIGHUP'] as const)('that exports leaves no part of a file when %s ends it', async (signal) => {
    const tenant = await service.createTenant()
    const { id } = (await tenant.call('POST', '/v1/keys', { name: 'k' })).body
    const wrap = { op: 'wrap', key_id: id, dek: Buffer.alloc(32, 5).toString('base64') }
    const operations = Array.from({ length: 1_000 }, () => wrap)
    for (let round = 0; round < 30; round++) await tenant.call('POST', '/v1/batch', { operations })
    const out = join(folder, 'out.ndjson')
    const { child, ended } = start(['audit', 'export', '--tenant', tenant.tenant.tenant_id, '--out', out])
    const listMade = async () => (await readdir(folder)).filter((name) => name.startsWith('out.ndjson'))
    while ((await listMade()).length === 0 && child.exitCode === null) await sleep(5)
    child.kill(signal)
    const { code, stderr } = await ended
    expect([code, stderr]).toEqual([null, `eaas: interrupted: ${out} was not written\n`])
    expect(await listMade()).toEqual([])
  })
})

describe('the exit code of a verification', { timeout: TIMEOUT_MS }, () => {
  it('is 1 for what is not valid, and for nothing else', async () => {
    const tenant = await service.createTenant()
    const id = tenant.tenant.tenant_id
    const garbage = join(folder, 'garbage')
    await writeFile(garbage, 'x\n')
    const verify = ['audit', 'verify', '--tenant']
    const codeOf = async (...args: string[]) => (await run(...args)).code
    expect(await codeOf(...verify, id)).toBe(0)
    const auditCodeOf = async (...args: string[]) => (await runAuditCommand(args)).code
    expect(await auditCodeOf('verify', garbage)).toBe(1)
    expect(await codeOf(...verify, id, '--from', '3', '--to', '2')).toBe(2)
    for (const args of [
      [...verify, 'nobody'],
      [...verify, id, '--from', '99'],
      [...verify, id, '--checkpoint', join(folder, 'none')],
      [...verify, id, '--checkpoint', garbage],
    ]) {
      expect([args, await codeOf(...args)]).toEqual([args, 3])
    }
    for (const args of [
      ['verify', join(folder, 'none')],
      ['verify', garbage, '--public-key', join(folder, 'none')],
    ]) {
      expect([args, await auditCodeOf(...args)]).toEqual([args, 3])
    }
    const down = { EAAS_DATABASE_URL: 'postgres://127.0.0.1:1/none', EAAS_PORT: 'x' }
    const url = down.EAAS_DATABASE_URL
    const database = { backend: 'postgres' as const, url, directUrl: url, drop: async () => undefined }
    expect((await runCommand([...verify, id], { database })).code).toBe(3)
    expect((await runCommand([...verify, id], { database, environment: down })).code).toBe(3)
    await service.services.sql`update audit_log set actor = 'x' where tenant_id = ${id}`
    expect(await codeOf(...verify, id)).toBe(1)
  })
})

describe('an option', { timeout: TIMEOUT_MS }, () => {
  it.each([
    ['audit', 'verify', '--tenant', 'a', '--tenant', 'b'],
    ['api-key', 'create', '--tenant=a', '--name', 'x', '--name', 'y', '--permissions', 'hash'],
    ['eaas-audit', 'verify', 'file', '--public-key', 'a', '--public-key', 'b'],
  ])('is not given twice: %s %s', async (...args) => {
    const { code, stdout, stderr } = await (args[0] === 'eaas-audit' ? runAuditCommand(args.slice(1)) : run(...args))
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(/option '--\S+ .*' may be given once only/)])
  })
})

describe('a stretch that was purged', { timeout: TIMEOUT_MS }, () => {
  it('is said to have been purged, not to be valid', async () => {
    const tenant = await service.createTenant()
    const id = tenant.tenant.tenant_id
    for (let at = 0; at < 5; at++) await tenant.call('POST', '/v1/keys', { name: `k${at}` })
    now += 100 * DAY_MS
    await tenant.call('POST', '/v1/keys', { name: 'now' })
    await purgeTenant(service.services, id, { retentionMonths: 1, maxShare: 1 })
    const { code, stdout } = await run('audit', 'verify', '--tenant', id, '--from', '3', '--to', '5')
    expect([code, stdout]).toEqual([
      3,
      `Nothing was verified: entries 3 to 5 were purged; the purges deleted everything through entry 6.\nlog         of tenant ${tenant.tenant.name} (${id})\n`,
    ])
    expect((await run('audit', 'verify', '--tenant', id)).stdout).toMatch(/^The log is valid\./)
  })
})

describe('the log line of a call', { timeout: TIMEOUT_MS }, () => {
  it('names the address of a client that was refused, and of no other', async () => {
    const { database, api_key } = await databaseWithTenant()
    const eaas = await startServer({ database, environment: { EAAS_LOG_LEVEL: 'info' } })
    const get = (bearer: string) => fetch(`${eaas.url}/v1/keys`, { headers: { authorization: `Bearer ${bearer}` } })
    expect([(await get('guess')).status, (await get(api_key.secret)).status]).toEqual([401, 200])
    await eaas.stop()
    const lines = eaas.log.split('\n').filter((line) => line.includes('"msg":"request"'))
    expect(lines.map((line) => JSON.parse(line)).map(({ status, ip_address }) => [status, ip_address])).toEqual([
      [401, '127.0.0.1'],
      [200, undefined],
    ])
  })
})
