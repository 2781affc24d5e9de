// A recovery kit: made by the server's command, opened by eaas-cli and by Python without any server.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { createClient, text as sealedText, toText } from '@eaas/sdk'
import { openExport } from '@eaas/sdk/offline'
import { armor, Decrypter, generateIdentity, identityToRecipient } from 'age-encryption'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { runCommand as runCli } from '../../packages/cli/src/test-support/command.js'
import { freshDatabase, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { createTenantByCli, runCommand } from '../support/service/command-host.js'
import { connectTo, EAAS, environmentOf } from '../support/service/eaas-process.js'
import { startServer } from '../support/service/server.js'
import { PYTHON } from '../support/vectors/python.js'

/** As the package has it. */
const OPEN_KIT = new URL('../../packages/server/dist/open-kit', import.meta.url)
const CSV = 'id,name,email\n1,Ada,ada@example.org\n2,Bob,\n'
/** The context of a value of a row. */
const OF_ROW = ['model=users', 'field=note', 'row.id=7'].flatMap((pair) => ['--context', pair])
const CSV_OPTIONS = ['--key', 'users', '--model', 'm', '--columns', 'name,email', '--index', 'email', '--bind', 'id']

/** Reaches nothing: with a kit, no command may use the network. */
const offline = (folder: string) => ({
  env: {},
  folder,
  fetch: () => Promise.reject(new Error('the network was used')),
})

describe('a recovery kit', { timeout: 240_000 }, () => {
  let folder: string
  let database: TestDatabase
  let identity: string
  let recipient: string
  let users: string
  let wrapped: { wrapped_key: string; dek: string }
  const file = (name: string) => join(folder, name)
  const eaas = (...args: string[]) => runCommand(args, { database })
  const ofTenant = ['--tenant', 'acme']

  async function decrypt(path: string): Promise<string> {
    const decrypter = new Decrypter()
    decrypter.addIdentity(identity)
    return decrypter.decrypt(armor.decode(await readFile(path, 'utf8')), 'text')
  }

  async function exportsOf(tenant: string): Promise<string[]> {
    const { stdout } = await eaas('audit', 'list', '--tenant', tenant, '--action', 'key.export', '--json')
    return (JSON.parse(stdout).logs as { key_id: string }[]).map(({ key_id }) => key_id)
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-kit-'))
    identity = await generateIdentity()
    recipient = await identityToRecipient(identity)
    const tenant = await databaseWithTenant()
    ;({ database } = tenant)
    const other = await createTenantByCli({ database }, 'other')
    const server = await startServer({ database })
    const client = (apiKey: string) => createClient({ baseUrl: server.url, apiKey })
    const acme = client(tenant.api_key.secret)
    users = (await acme.keys.create({ name: 'users' })).id
    const files = (await acme.keys.create({ name: 'files' })).id
    const gone = (await acme.keys.create({ name: 'gone' })).id
    await client(other.api_key.secret).keys.create({ name: 'of another tenant' })
    const context = { table: 'users', row: '7' }
    await writeFile(file('v1'), toText(await acme.encrypt('called once', { keyId: users })))
    await acme.keys.rotate(users)
    acme.close()
    const after = client(tenant.api_key.secret)
    await writeFile(file('v2.json'), JSON.stringify(await after.encrypt('called twice', { keyId: users, context })))
    await writeFile(file('v2'), toText(await after.encrypt('called twice', { keyId: users, context })))
    for (const dek of ['shared', 'record'] as const) {
      const model = after.model({ name: 'users', keyId: users, bind: ['id'], dek, fields: { note: sealedText() } })
      await writeFile(file(dek), toText((await model.encrypt({ id: 7, note: `a row, ${dek}` })).note))
    }
    const service = { env: { EAAS_URL: server.url, EAAS_API_KEY: tenant.api_key.secret }, folder }
    const streamed = await runCli(['encrypt', '--key', files, '--context', 'file=1', '-o', 'stream'], {
      ...service,
      input: Buffer.alloc(200_000, 'stream'),
    })
    expect(streamed.code).toBe(0)
    expect((await runCli(['encrypt-csv', '-o', 'csv', ...CSV_OPTIONS], { ...service, input: CSV })).code).toBe(0)
    const dek = Buffer.alloc(32, 5).toString('base64')
    const answer = await fetch(`${server.url}/v1/keys/${users}/wrap`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tenant.api_key.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ dek }),
    })
    wrapped = { ...((await answer.json()) as { wrapped_key: string }), dek }
    await after.keys.disable(files)
    await after.keys.disable(gone)
    await after.keys.destroy(gone, 'gone')
    after.close()
    await server.stop()
  }, 120_000)
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('has every key of its tenant that can be exported, and the log an entry for each', async () => {
    const made = await eaas('recovery-kit', ...ofTenant, '--recipient', recipient, '--out', file('kit.age'), '--json')
    expect([made.code, made.stderr]).toEqual([0, ''])
    expect(JSON.parse(made.stdout)).toMatchObject({ file: file('kit.age'), exported: 2, left_out: 1, failed: [] })
    expect((await stat(file('kit.age'))).mode & 0o777).toBe(0o600)
    const text = await decrypt(file('kit.age'))
    await writeFile(file('kit'), text)
    const keys = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { key_id: string; name: string; versions: object[]; hash_key_hex: string })
    expect(keys.map(({ name, versions }) => [name, versions.length])).toEqual([
      ['users', 2],
      ['files', 1],
    ])
    expect((await exportsOf('acme')).toSorted()).toEqual(keys.map(({ key_id }) => key_id).toSorted())
    expect(await exportsOf('other')).toEqual([])
    const secrets = text.match(/[0-9a-f]{64}/g) ?? []
    expect(secrets).toHaveLength(5)
    const encrypted = await readFile(file('kit.age'), 'utf8')
    for (const secret of secrets) expect(encrypted + made.stdout + made.stderr).not.toContain(secret)
    expect(readdirSync(folder).filter((name) => name.endsWith('.new'))).toEqual([])
  })

  it('is refused before anything is exported: a malformed recipient, a file that exists, no folder', async () => {
    const before = await exportsOf('acme')
    for (const command of [['recovery-kit'], ['key', 'export', 'users']]) {
      const make = (to: string, out: string) => eaas(...command, ...ofTenant, '--recipient', to, '--out', out)
      await writeFile(file('there'), 'something')
      for (const [code, ended, message] of [
        [2, await make('age1nonsense', file('new')), /age1nonsense is not a recipient of age/],
        [2, await make(identity, file('new')), /which is secret/],
        [1, await make(recipient, file('there')), /there: it exists already, and is not overwritten/],
        [1, await make(recipient, file('nowhere/kit')), /nowhere\/kit cannot be written \(ENOENT\)/],
      ] as const) {
        expect(ended).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(message) })
        expect(ended.stderr).not.toMatch(/AGE-SECRET-KEY-1|\n\s+at /)
      }
      const none = await eaas(...command, ...ofTenant, '--out', file('new'))
      expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('--recipient')])
      expect(await readFile(file('there'), 'utf8')).toBe('something')
    }
    const unknown = await eaas('key', 'export', 'nobody', ...ofTenant, '--recipient', recipient, '--out', file('new'))
    expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('acme has no key nobody')])
    const foreign = ['key', 'export', users, '--tenant', 'other', '--recipient', recipient, '--out', file('new')]
    expect((await eaas(...foreign)).stderr).toContain(`other has no key ${users}`)
    expect(readdirSync(folder)).not.toContain('new')
    expect(await exportsOf('acme')).toEqual(before)
  })

  it('may be of one key: an export, as the API makes it, encrypted before it leaves the process', async () => {
    const made = await eaas('key', 'export', 'users', ...ofTenant, '--recipient', recipient, '--out', file('users.age'))
    expect([made.code, made.stderr]).toEqual([0, ''])
    const text = await decrypt(file('users.age'))
    const kit = (await readFile(file('kit'), 'utf8')).split('\n')[0] ?? ''
    const without = (line: string) => ({ ...JSON.parse(line), exported_at: '' })
    expect(without(text)).toEqual(without(kit))
    expect(made.stdout).not.toContain(JSON.parse(text).hash_key_hex)
    const opened = openExport(text)
    expect(await opened.decryptText(await readFile(file('v1'), 'utf8'))).toBe('called once')
    opened.close()
  })

  it('opens everything by eaas-cli, without a server and an API key', async () => {
    const open = (...args: string[]) => runCli(args, offline(folder))
    const context = ['--context', 'table=users', '--context', 'row=7']
    expect(await open('decrypt', 'v1', '--kit', 'kit', '-o', '-')).toMatchObject({ code: 0, err: '' })
    expect((await open('decrypt', 'v1', '--kit', 'kit', '-o', '-')).out.toString()).toBe('called once')
    for (const name of ['v2', 'v2.json']) {
      const { code, out } = await open('decrypt', name, '--kit', 'kit', '-o', '-', ...context)
      expect([code, out.toString()]).toEqual([0, 'called twice'])
    }
    for (const name of ['shared', 'record']) {
      const { code, out } = await open('decrypt', name, '--kit', 'kit', '-o', '-', ...OF_ROW)
      expect([code, out.toString()]).toEqual([0, `a row, ${name}`])
    }
    const { out } = await open('decrypt', 'stream', '--kit', 'kit', '-o', '-', '--context', 'file=1')
    expect(out.equals(Buffer.alloc(200_000, 'stream'))).toBe(true)
    const csv = await open('decrypt-csv', 'csv', '--kit', 'kit', '-o', '-', ...CSV_OPTIONS)
    expect([csv.code, csv.out.toString()]).toEqual([0, CSV])
    const piped = await runCli(['decrypt', 'v1', '--kit', '-', '-o', '-'], {
      ...offline(folder),
      input: await readFile(file('kit')),
    })
    expect([piped.code, piped.out.toString()]).toEqual([0, 'called once'])
  })

  it('of a tenant that was deleted by mistake comes from a backup that is restored beside', async () => {
    const { tenant_id } = await createTenantByCli({ database }, 'oops')
    const of = ['--tenant', tenant_id]
    expect((await eaas('key', 'create', ...of, '--name', 'lost')).code).toBe(0)
    expect((await eaas('backup', file('before'), '--plain')).code).toBe(0)
    const because = ['--reason', 'by mistake']
    expect((await eaas('tenant', 'suspend', 'oops', ...because)).code).toBe(0)
    expect((await eaas('tenant', 'delete', 'oops', '--confirm', 'oops', ...because)).code).toBe(0)
    const kit = ['recovery-kit', ...of, '--recipient', recipient, '--out']
    expect(await eaas(...kit, file('none.age'))).toMatchObject({ code: 1 })
    const copy = { database: await freshDatabase('beside'), environment: { EAAS_CHECKPOINT_FILE: 'none' } }
    expect((await runCommand(['restore', file('before')], copy)).code).toBe(0)
    expect(await runCommand([...kit, file('oops.age')], copy)).toMatchObject({ code: 0, stderr: '' })
    expect(JSON.parse(await decrypt(file('oops.age')))).toMatchObject({ name: 'lost', tenant_id })
  })

  it('opens nothing that is altered, moved, or of another key or version, and says which', async () => {
    const open = (...args: string[]) => runCli([...args, '-o', '-'], offline(folder))
    const kit = await readFile(file('kit'), 'utf8')
    const [first = '', second = ''] = kit.split('\n')
    const old = JSON.stringify({ ...JSON.parse(first), versions: JSON.parse(first).versions.slice(0, 1) })
    const text = await readFile(file('v1'), 'utf8')
    await writeFile(file('altered'), text.slice(0, -3) + (text.endsWith('AAA') ? 'BBB' : 'AAA'))
    const kits: Record<string, string> = {
      second,
      old,
      twice: `${first}\n${first}\n`,
      cut: kit.slice(0, 300),
      empty: '\n',
      'other-tenant': kit.replaceAll(JSON.parse(first).tenant_id, '7c9e6679-7425-40de-944b-e07fc1f90ae7'),
      'one-bit': kit.replace(/(?<="dek_hex":")./, (digit) => (digit === '0' ? '1' : '0')),
    }
    for (const [name, content] of Object.entries(kits)) await writeFile(file(name), content)
    const context = ['--context', 'table=users', '--context', 'row=7']
    for (const [args, code, message] of [
      [['decrypt', 'altered', '--kit', 'kit'], 3, 'could not decrypt'],
      [['decrypt', 'v2', '--kit', 'kit', '--context', 'table=users', '--context', 'row=8'], 3, 'could not decrypt'],
      [['decrypt', 'v1', '--kit', 'other-tenant'], 3, 'could not decrypt'],
      [['decrypt', 'v1', '--kit', 'one-bit'], 3, 'could not decrypt'],
      [['decrypt', 'v1', '--kit', 'second'], 1, `second has no key ${users}`],
      [['decrypt', 'v2', '--kit', 'old', ...context], 1, `old has key ${users} without version 2`],
      [['decrypt', 'v1', '--kit', 'twice'], 2, `twice: line 2: it has key ${users} twice`],
      [['decrypt', 'v1', '--kit', 'cut'], 2, 'cut: line 1: the export is not JSON'],
      [['decrypt', 'v1', '--kit', 'empty'], 2, 'empty: it is empty'],
      [['decrypt', 'v1', '--kit', 'kit.age'], 2, 'kit.age: it is still encrypted: age -d -i'],
      [['decrypt', 'v1', '--kit', 'nowhere'], 2, 'nowhere: it does not exist'],
      [['decrypt', '--kit', '-'], 2, 'so name the file that is decrypted'],
    ] as const) {
      const ended = await open(...args)
      expect([args, ended.code, ended.out.length, ended.err]).toEqual([args, code, 0, expect.stringContaining(message)])
      for (const secret of kit.match(/[0-9a-f]{64}/g) ?? []) expect(ended.err).not.toContain(secret)
    }
  })

  it('opens everything by a program in Python, from the published formats alone', async () => {
    await cp(OPEN_KIT, file('open-kit'), { recursive: true }) // alone
    const python = (...args: string[]) =>
      promisify(execFile)(PYTHON, [file('open-kit/open_kit.py'), ...args, '--kit', file('kit')], {
        encoding: 'buffer',
        maxBuffer: 1_000_000,
      }).catch((error) => error)
    const context = ['--context', 'table=users', '--context', 'row=7']
    expect((await python(file('v1'))).stdout.toString()).toBe('called once')
    for (const name of ['v2', 'v2.json']) {
      expect((await python(file(name), ...context)).stdout.toString()).toBe('called twice')
      expect(await python(file(name), '--context', 'table=users')).toMatchObject({ code: 3 })
    }
    for (const name of ['shared', 'record']) {
      expect((await python(file(name), ...OF_ROW)).stdout.toString()).toBe(`a row, ${name}`)
      expect(await python(file(name), ...OF_ROW.slice(0, 4))).toMatchObject({ code: 3 })
    }
    const { stdout } = await python(file('stream'), '--context', 'file=1')
    expect(stdout.equals(Buffer.alloc(200_000, 'stream'))).toBe(true)
    expect(await python(file('altered'))).toMatchObject({ code: 3 })
    const dek = await python('--unwrap', wrapped.wrapped_key, '--key-id', users)
    expect(dek.stdout.toString().trim()).toBe(wrapped.dek)
  })

  it('has the other keys where one was tampered with, and names that one', async () => {
    const server = await startServer({ database })
    const sql = connectTo(database)
    await sql`update key_versions set wrapped_kek = null where key_id = ${users} and version = 1`
    await sql.end()
    await server.stop()
    const make = (out: string, ...more: string[]) =>
      eaas('recovery-kit', ...ofTenant, '--recipient', recipient, '--out', file(out), ...more)
    const made = await make('partial.age', '--json')
    expect([made.code, JSON.parse(made.stdout)]).toEqual([
      1,
      expect.objectContaining({ exported: 1, failed: [expect.objectContaining({ key_id: users, name: 'users' })] }),
    ])
    expect((await decrypt(file('partial.age'))).trim().split('\n')).toHaveLength(1)
    expect((await make('partial-2.age')).stderr).toContain(`eaas: the kit lacks key users (${users})`)
    const none = await eaas('recovery-kit', '--tenant', 'nobody', '--recipient', recipient, '--out', file('none.age'))
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('there is no tenant nobody')])
    expect(readdirSync(folder)).not.toContain('none.age')
  })

  it.each(['SIGINT', 'SIGTERM'] as const)('leaves nothing at %s, and says so', async (signal) => {
    const environment = { EAAS_ROOT_KEY_COMMAND: 'sleep 60' }
    const args = ['recovery-kit', ...ofTenant, '--recipient', recipient, '--out', file('stopped.age')]
    const env = environmentOf({ database, rootKey: null, environment })
    const command = spawn(process.execPath, [EAAS, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] })
    const said = text(command.stderr)
    const drafts = () => readdirSync(folder).filter((name) => name.startsWith('stopped.age'))
    await vi.waitUntil(() => drafts().length > 0, { timeout: 60_000 })
    command.kill(signal)
    expect(await once(command, 'close')).toEqual([null, signal])
    expect(await said).toBe(`eaas: interrupted: ${file('stopped.age')} was not written\n`)
    expect(drafts()).toEqual([])
  })
})
