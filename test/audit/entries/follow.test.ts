// eaas audit follow: what a SIEM gets, whatever happens to it, to the command and to the log.
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import type { RequestListener, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { TestDatabase } from '../../support/database/database.js'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { createCertificates } from '../../support/service/certificates.js'
import { createTenantByCli, runCommand } from '../../support/service/command-host.js'
import { connectTo, EAAS, environmentOf } from '../../support/service/eaas-process.js'
import { type Line, startCollector, startFollower, stopFollower, upTo } from '../../support/service/follower.js'
import { type RunningServer, startServer } from '../../support/service/server.js'

const LIMIT_MS = 120_000
const ACME = ['--tenant', 'acme']

describe('eaas audit follow', { timeout: LIMIT_MS }, () => {
  let database: TestDatabase
  let tenant_id: string
  let server: RunningServer

  beforeAll(async () => {
    ;({ database, tenant_id } = await databaseWithTenant())
    server = await startServer({ database })
  }, LIMIT_MS)
  afterAll(() => server?.stop())

  const follow = (...args: string[]) => followWith({}, ...args)

  const followWith = (environment: Record<string, string>, ...args: string[]) =>
    startFollower([EAAS, 'audit', 'follow', ...args], { ...environmentOf({ database }), ...environment })

  const createKey = (name: string) => runCommand(['key', 'create', '--tenant', 'acme', '--name', name], { database })

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'writes what is there and what comes, and ends cleanly on %s',
    async (signal) => {
      const follower = follow(...ACME)
      await follower.until(() => follower.entries().length > 0)
      const known = follower.entries().length
      await createKey(`key ${signal}`)
      await follower.until(() => follower.entries().length > known)
      follower.child.kill(signal)
      const [code] = await once(follower.child, 'close')
      expect(code).toBe(0)
      expect(follower.text().endsWith('\n')).toBe(true)
      const entries = follower.entries()
      expect(entries.map(({ id }) => id)).toEqual(entries.map((_, at) => at + 1))
      expect(entries.at(-1)?.action).toBe('key.create')
      expect(JSON.parse(follower.text().split('\n')[0] ?? '')).toHaveProperty('hash')
    },
  )

  it('goes on after the entry that it is told, and refuses one that the log does not have yet', async () => {
    await createKey('resumed')
    const follower = follow(...ACME, '--after-id', '1')
    await follower.until(() => follower.entries().length > 0)
    expect(follower.entries()[0]?.id).toBe(2)
    follower.child.kill('SIGTERM')
    await once(follower.child, 'close')

    const args = ['audit', 'follow', ...ACME]
    expect(await runCommand([...args, '--after-id', '1000'], { database })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('the log ends at'),
    })
  })

  it('ends when nobody reads any more', async () => {
    const follower = follow(...ACME)
    await follower.until(() => follower.entries().length > 0)
    follower.child.stdout.destroy()
    await createKey('unread')
    const [code] = await once(follower.child, 'exit')
    expect(code).toBe(0)
  })

  describe('with a cursor', () => {
    let folder: string
    let cursor: string
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), 'eaas-follow-'))
      cursor = join(folder, 'cursor')
    })
    afterEach(() => rmSync(folder, { recursive: true }))

    const lastId = async () => (await lastEntries(tenant_id))[0]
    async function lastEntries(tenant: string): Promise<number[]> {
      const { stdout } = await runCommand(['audit', 'list', '--tenant', tenant, '--limit', '1', '--json'], { database })
      return (JSON.parse(stdout) as { logs: Line[] }).logs.map(({ id }) => id)
    }

    it('goes on where it was, with nothing again', async () => {
      await createKey('kept')
      const { url, taken, idsOf } = await startCollector()
      const args = [...ACME, '--cursor', cursor, '--http', url]
      const first = follow(...args)
      await expect.poll(() => taken.at(-1)?.action).toBe('key.create')
      expect(await stopFollower(first)).toBe(0)
      await createKey('while it was stopped')
      const second = follow(...args)
      const last = (await lastId()) ?? 0
      await expect.poll(() => idsOf(tenant_id)).toEqual(upTo(last))
      expect(await stopFollower(second)).toBe(0)
      expect(idsOf(tenant_id)).toEqual(upTo(last))
      expect(statSync(cursor).mode & 0o777).toBe(0o600)
    })

    it('delivers again what a collector refused, took in part or died over, and nothing is left out', async () => {
      const { url, taken, idsOf, requests } = await startCollector(
        (_, response) => response.writeHead(500).end(),
        (request) => request.once('data', () => request.socket.destroy()),
        (_, response) => response.writeHead(503, { 'retry-after': '1' }).end(),
      )
      const follower = follow(...ACME, '--cursor', cursor, '--http', url)
      const last = (await lastId()) ?? 0
      await expect.poll(() => idsOf(tenant_id)).toEqual(upTo(last))
      expect([taken.length, requests()]).toEqual([last, 4])
      expect(await stopFollower(follower)).toBe(0)
      expect(follower.errors()).toMatch(/answered 500; .*\n.*did not answer.*\n.*answered 503; .*\n.*taken again/)
    })

    it('loses nothing by kill -9 before and after the collector answered', async () => {
      const hung: ServerResponse[] = []
      const { url, idsOf } = await startCollector((_, response) => hung.push(response))
      const args = [...ACME, '--cursor', cursor, '--http', url]
      const killed = follow(...args)
      await expect.poll(() => hung.length).toBe(1)
      killed.child.kill('SIGKILL')
      await once(killed.child, 'close')
      expect(JSON.parse(readFileSync(cursor, 'utf8')).logs).toEqual([])
      const next = follow(...args)
      const last = (await lastId()) ?? 0
      await expect.poll(() => new Set(idsOf(tenant_id))).toEqual(new Set(upTo(last)))
      next.child.kill('SIGKILL') // the cursor may have been written or not
      await once(next.child, 'close')
      await createKey('after the kills')
      const third = follow(...args)
      await expect.poll(() => new Set(idsOf(tenant_id))).toEqual(new Set(upTo(last + 1)))
      await stopFollower(third)
    })

    it('ends between two attempts at a signal, and keeps what was not taken for the next run', async () => {
      const refuse: RequestListener = (_, response) => response.writeHead(500).end()
      const { url, requests, idsOf } = await startCollector(...Array<RequestListener>(3).fill(refuse))
      const args = [...ACME, '--cursor', cursor, '--http', url]
      const follower = follow(...args)
      await expect.poll(requests).toBe(3)
      expect(await stopFollower(follower)).toBe(0)
      expect(idsOf(tenant_id)).toEqual([])
      const next = follow(...args)
      await expect.poll(() => idsOf(tenant_id)[0]).toBe(1)
      await stopFollower(next)
    })

    it('ends with exit code 1 if another attempt would not help, and without the token in what it says', async () => {
      const { url } = await startCollector((_, response) => response.writeHead(401).end())
      const tokenFile = join(folder, 'token')
      writeFileSync(tokenFile, 'secret-token')
      const args = ['audit', 'follow', ...ACME, '--cursor', cursor, '--http', url, '--token-file', tokenFile]
      const { code, stderr } = await runCommand(args, { database })
      expect([code, stderr]).toEqual([1, expect.stringContaining('answered 401')])
      expect(stderr).not.toContain('secret-token')
    })

    it('sends by syslog over TLS', async () => {
      const certificates = createCertificates()
      onTestFinished(certificates.remove)
      const { cert, key } = certificates.make('siem')
      let text = ''
      const receiver = createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }, (socket) => {
        socket.setEncoding('utf8').on('data', (more: string) => {
          text += more
        })
      }).listen(0, '127.0.0.1')
      await once(receiver, 'listening')
      onTestFinished(() => void receiver.close())
      const { port } = receiver.address() as AddressInfo
      const args = [...ACME, '--cursor', cursor, '--tls', '--syslog', `localhost:${port}`, '--format', 'ecs']
      const follower = followWith({ NODE_EXTRA_CA_CERTS: certificates.ca.cert }, ...args)
      await expect.poll(() => readFileSync(cursor, 'utf8')).toContain(tenant_id)
      expect(await stopFollower(follower)).toBe(0)
      expect(text).toMatch(/^\d+ <110>1 \S+ \S+ eaas - \S+ - \{"@timestamp":/)
    })

    it('refuses a log that went back behind the cursor, or has another entry there', async () => {
      const { url } = await startCollector()
      const args = [...ACME, '--cursor', cursor, '--http', url]
      const follower = follow(...args)
      await expect.poll(() => readFileSync(cursor, 'utf8')).toContain(tenant_id)
      await stopFollower(follower)
      const kept = JSON.parse(readFileSync(cursor, 'utf8'))
      const changed = (change: object) =>
        writeFileSync(cursor, JSON.stringify({ ...kept, logs: [{ ...kept.logs[0], ...change }] }))
      changed({ hash: '00'.repeat(32) })
      expect(await runCommand(['audit', 'follow', ...args], { database })).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('the log has another entry there'),
      })
      changed({ id: 100_000 })
      expect((await runCommand(['audit', 'follow', ...args], { database })).stderr).toContain('the log ends at')
    })

    it('refuses a file that is no cursor, or cannot be one', async () => {
      for (const text of [
        '',
        '{}',
        '{"format":"eaas/audit/cursor/v1","logs":[{"tenant_id":"x","id":1,"hash":null}]}',
      ]) {
        writeFileSync(cursor, text)
        const { code, stderr } = await runCommand(['audit', 'follow', ...ACME, '--cursor', cursor], { database })
        expect([code, stderr]).toEqual([1, expect.stringContaining('is no cursor')])
        expect(readFileSync(cursor, 'utf8')).toBe(text)
      }
      const nowhere = join(folder, 'missing', 'cursor')
      const { code, stdout } = await runCommand(['audit', 'follow', ...ACME, '--cursor', nowhere], { database })
      expect([code, stdout]).toEqual([1, ''])
    })

    it('goes on after a rotation of the store key, of every log and of one', async () => {
      const { url, taken } = await startCollector()
      const all = follow('--all', '--cursor', cursor, '--http', url)
      const one = follow(...ACME)
      await expect.poll(() => taken.length > 0 && one.entries().length > 0).toBe(true)
      expect(await runCommand(['store-key', 'rotate'], { database })).toMatchObject({ code: 0 })
      await createKey('after the rotation')
      const last = (await lastId()) ?? 0
      const ids = () => taken.filter((entry) => entry.tenant_id === tenant_id).map(({ id }) => id)
      await expect.poll(() => [ids().at(-1), one.entries().at(-1)?.id]).toEqual([last, last])
      expect([await stopFollower(all), await stopFollower(one)]).toEqual([0, 0])
      expect(all.errors() + one.errors()).not.toContain('store key')
    })

    it('follows every log, one that comes later included, and leaves out one that was edited', async () => {
      const edited = await createTenantByCli({ database }, 'edited')
      const { url, taken, idsOf } = await startCollector()
      const sql = connectTo(database)
      onTestFinished(() => sql.end())
      await sql`update audit_log set actor = 'x' where id = 1 and tenant_id = ${edited.tenant_id}`
      const follower = follow('--all', '--cursor', cursor, '--http', url)
      const last = (await lastId()) ?? 0
      await expect.poll(() => idsOf(tenant_id)).toEqual(upTo(last))
      const later = await createTenantByCli({ database }, 'later')
      await expect.poll(() => idsOf(later.tenant_id)[0]).toBe(1)
      await expect.poll(() => taken.map(({ action }) => action)).toContain('installation.tenant_create')
      expect(idsOf(edited.tenant_id)).toEqual([])
      expect(follower.errors()).toContain(`the log ${edited.tenant_id} is not followed: entry 1`)
      expect(await stopFollower(follower)).toBe(1)
    })
  })

  it('refuses options that say nothing together', async () => {
    for (const args of [
      ['--all', ...ACME],
      ['--all', '--after-id', '1'],
      [...ACME, '--tls'],
      [...ACME, '--token-file', 'x'],
      [...ACME, '--http', 'http://siem.example.org'],
      [...ACME, '--syslog', 'siem.example.org'],
      [...ACME, '--http', 'https://siem.example.org', '--syslog', 'siem:514'],
      [],
    ]) {
      expect((await runCommand(['audit', 'follow', ...args], { database })).code).toBe(2)
    }
  })

  it('writes no entry that was changed in the database, and ends with a message that names it', async () => {
    await createKey('before')
    await createKey('edited')
    const sql = connectTo(database)
    const [{ id, tenant_id } = { id: 0, tenant_id: '' }] = await sql<{ id: number; tenant_id: string }[]>`
      select last_id::int as id, tenant_id from heads where tenant_id = (select tenant_id from tenants where name = 'acme')`
    await sql`update audit_log set actor = 'x' where id = ${id} and tenant_id = ${tenant_id}`
    const edited = follow(...ACME, '--after-id', `${id - 1}`)
    const [code] = await once(edited.child, 'close')
    expect([code, edited.text()]).toEqual([1, ''])
    expect(edited.errors()).toMatch(new RegExp(`entry ${id} of the audit (?:log of tenant|chain does not follow)`)) // which it finds first
    await sql`delete from audit_log where id = ${id - 1} and tenant_id = ${tenant_id}`
    const [after] = await once(follow(...ACME, '--after-id', `${id - 1}`).child, 'close')
    expect(after).toBe(1)
    await sql.end()
  })
})
