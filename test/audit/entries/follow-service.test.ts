// eaas-audit follow: what a SIEM gets over HTTP, with an API key alone, whatever happens to it, to the service and to the log.
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodeHex } from '@eaas/protocol'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { entryHash } from '../../../packages/audit/src/formats/chain.js'
import { entryLine } from '../../../packages/audit/src/formats/export.js'
import { readEntry } from '../../../packages/audit/src/verify/read-export.js'
import { freshDatabase } from '../../support/database/database.js'
import { freePort } from '../../support/database/postgres.js'
import { runAuditCommand } from '../../support/service/command-host.js'
import { connectTo, EAAS_AUDIT } from '../../support/service/eaas-process.js'
import { startCollector, startFollower, stopFollower, upTo } from '../../support/service/follower.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

const LIMIT_MS = 120_000
/** More than two batches, so that an export is read a second time. */
const MANY = 1_100
const BATCH = 500

/** Changes an answer of the service on its way; undefined leaves it as it is. */
type Change = (path: string, response: ServerResponse, body: () => Promise<string>) => Promise<void> | undefined

describe('eaas-audit follow', { timeout: LIMIT_MS }, () => {
  let service: Service
  let acme: Caller
  let other: Caller
  let auditor: string
  let folder: string
  let cursor: string

  beforeAll(async () => {
    service = await startService({ database: await freshDatabase('followed', { migrated: true }) })
    acme = await service.createTenant({ name: 'acme' })
    other = await service.createTenant({ name: 'other' })
    await wrapMany(acme, MANY)
    auditor = await createApiKey(acme, ['audit:read'])
  }, LIMIT_MS)
  afterAll(() => service?.close())
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'eaas-follow-'))
    cursor = join(folder, 'cursor')
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  async function wrapMany(caller: Caller, calls: number): Promise<void> {
    const { body: key } = await caller.call('POST', '/v1/keys', { name: `key ${Math.random()}` })
    const one = { op: 'wrap', key_id: key.id, dek: Buffer.alloc(32, 7).toString('base64') }
    for (let left = calls; left > 0; left -= 1_000) {
      const operations = Array(Math.min(left, 1_000)).fill(one)
      expect((await caller.call('POST', '/v1/batch', { operations })).status).toBe(200)
    }
  }

  async function createApiKey(caller: Caller, permissions: string[]): Promise<string> {
    const { body } = await caller.call('POST', '/v1/api-keys', { name: `key ${Math.random()}`, permissions })
    return body.secret
  }

  const environment = (given: Record<string, string> = {}) => ({
    EAAS_URL: service.url,
    EAAS_API_KEY: auditor,
    ...given,
  })
  const follow = (given: Record<string, string>, ...args: string[]) =>
    startFollower([EAAS_AUDIT, 'follow', ...args], environment(given))
  const run = (given: Record<string, string>, ...args: string[]) =>
    runAuditCommand(['follow', ...args], { environment: environment(given) })

  async function lastId(caller: Caller): Promise<number> {
    return (await caller.call('GET', '/v1/audit?limit=1')).body.logs[0].id
  }

  async function exported(caller: Caller): Promise<string[]> {
    const response = await fetch(`${service.url}/v1/audit/export`, {
      headers: { authorization: `Bearer ${caller.secret}` },
    })
    return (await response.text()).split('\n').slice(1, -2)
  }

  /** The service behind a proxy that changes answers; the requested paths. */
  async function behind(change: Change) {
    const paths: string[] = []
    const proxy = createServer(async (request, response) => {
      const path = request.url ?? ''
      paths.push(path)
      const forward = () =>
        fetch(service.url + path, { headers: { authorization: request.headers.authorization ?? '' } })
      const changed = change(path, response, async () => (await forward()).text())
      if (changed) return changed
      const answer = await forward()
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
      response.end(await answer.text())
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    onTestFinished(() => {
      proxy.closeAllConnections()
      proxy.close()
    })
    return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, paths }
  }

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'writes the lines of an export, each with its tenant, and what comes, and ends cleanly on %s',
    async (signal) => {
      const follower = follow({})
      const known = await lastId(acme)
      await follower.until(() => follower.entries().length === known)
      await wrapMany(acme, 1)
      await follower.until(() => follower.entries().length === known + 2)
      follower.child.kill(signal)
      const [code] = await once(follower.child, 'close')
      expect([code, follower.errors()]).toEqual([0, `eaas-audit: follows the log of tenant ${acme.tenant.tenant_id}\n`])
      const start = `{"tenant_id":"${acme.tenant.tenant_id}",`
      expect(follower.text()).toBe((await exported(acme)).map((line) => `${start}${line.slice(1)}\n`).join(''))
    },
  )

  it("never has another tenant's entries, whatever the cursor has", async () => {
    await wrapMany(other, 3)
    const entry = (caller: Caller, id: number) => ({ tenant_id: caller.tenant.tenant_id, id, hash: null })
    const logs = [entry(other, 2), entry(acme, (await lastId(acme)) - 3)]
    writeFileSync(cursor, JSON.stringify({ format: 'eaas/audit/cursor/v1', logs }))
    const { url, taken } = await startCollector()
    const follower = follow({}, '--cursor', cursor, '--http', url)
    await expect.poll(() => taken.length).toBe(3)
    await wrapMany(other, 3)
    await wrapMany(acme, 1)
    await expect.poll(() => taken.length).toBe(5)
    expect(await stopFollower(follower)).toBe(0)
    expect(new Set(taken.map(({ tenant_id }) => tenant_id))).toEqual(new Set([acme.tenant.tenant_id]))
    expect(JSON.parse(readFileSync(cursor, 'utf8')).logs).toMatchObject([logs[0], { id: await lastId(acme) }])
  })

  it('loses nothing by kill -9 before and after the collector answered', async () => {
    const hung: ServerResponse[] = []
    const take: RequestListener = (request, response) => request.resume().on('end', () => response.writeHead(204).end())
    const { url, idsOf, requests } = await startCollector(take, (_, response) => hung.push(response))
    const args = ['--cursor', cursor, '--http', url]
    const killed = follow({}, ...args)
    await expect.poll(() => hung.length).toBe(1)
    killed.child.kill('SIGKILL')
    await once(killed.child, 'close')
    expect(JSON.parse(readFileSync(cursor, 'utf8')).logs).toMatchObject([{ id: BATCH }])
    const next = follow({}, ...args)
    await expect.poll(requests).toBeGreaterThan(2)
    next.child.kill('SIGKILL') // the cursor may have been written or not
    await once(next.child, 'close')
    await wrapMany(acme, 1)
    const third = follow({}, ...args)
    const all = upTo(await lastId(acme)).slice(BATCH)
    const taken = () => new Set(idsOf(acme.tenant.tenant_id))
    await expect.poll(() => taken().size).toBe(all.length)
    expect(taken()).toEqual(new Set(all))
    expect(await stopFollower(third)).toBe(0)
  })

  it('goes on after outages of the service, with nothing left out and nothing again', async () => {
    let exports = 0
    const { url } = await behind((path, response, body) => {
      if (!path.startsWith('/v1/audit/export')) return undefined
      exports += 1
      if (exports === 1) return Promise.resolve(void response.writeHead(429, { 'retry-after': '1' }).end())
      if (exports === 2) return Promise.resolve(void response.writeHead(503).end())
      if (exports > 5) return undefined
      return body().then((text) => {
        // Half of the export, and then its end as a proxy makes it, or none.
        response.writeHead(200).write(text.slice(0, exports === 5 ? text.length / 1.2 : text.length / 2))
        if (exports === 3) response.end()
        else setTimeout(() => response.destroy(), 100)
      })
    })
    const receiver = await startCollector()
    const follower = follow({ EAAS_URL: url }, '--cursor', cursor, '--http', receiver.url)
    const all = upTo(await lastId(acme))
    await expect.poll(() => receiver.taken.length).toBe(all.length)
    expect(receiver.idsOf(acme.tenant.tenant_id)).toEqual(all)
    expect(await stopFollower(follower)).toBe(0)
    expect(follower.errors()).toMatch(/answered 429; asked again\n.*answered 503;.*\n.*broke off behind entry \d+;/)
  })

  it('waits for a service that is away, and ends at a signal meanwhile', async () => {
    const away = follow({ EAAS_URL: `http://127.0.0.1:${await freePort()}` })
    await expect.poll(away.errors).toContain('did not answer (ECONNREFUSED); asked again')
    expect(await stopFollower(away)).toBe(0)
  })

  it('refuses an API key that may not read the log, or is unknown, without the API key in what it says', async () => {
    const secret = await createApiKey(acme, ['wrap', 'keys:read'])
    for (const [apiKey, said] of [
      [secret, /answered 403: .*audit:read/],
      [`${secret.slice(0, -4)}AAAA`, /answered 401/],
    ] as const) {
      const { code, stdout, stderr } = await run({ EAAS_API_KEY: apiKey })
      expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(said)])
      expect(stderr).not.toContain(apiKey.slice(-12))
    }
  })

  it('reads the API key from a file, and refuses to send it where others could read it', async () => {
    const file = join(folder, 'api-key')
    writeFileSync(file, `${auditor}\n`)
    const follower = follow({ EAAS_API_KEY: 'eaas_wrong' }, '--api-key-file', file)
    await follower.until(() => follower.entries().length > 0)
    expect(await stopFollower(follower)).toBe(0)
    for (const [given, said] of [
      [{ EAAS_URL: 'http://eaas.example.org' }, 'https:'],
      [{ EAAS_URL: 'https://user:password@eaas.example.org' }, 'no password'],
      [{ EAAS_URL: '' }, 'EAAS_URL'],
      [{ EAAS_API_KEY: '' }, 'EAAS_API_KEY'],
    ] as const) {
      expect(await run(given)).toMatchObject({ code: 1, stderr: expect.stringContaining(said) })
    }
  })

  it('refuses a log that went back behind the cursor, or has another entry there', async () => {
    const id = await lastId(acme)
    const write = (position: object) => {
      const logs = [{ tenant_id: acme.tenant.tenant_id, id, hash: null, ...position }]
      writeFileSync(cursor, JSON.stringify({ format: 'eaas/audit/cursor/v1', logs }))
    }
    write({ hash: '00'.repeat(32) })
    expect(await run({}, '--cursor', cursor)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('the log has another entry there'),
    })
    write({ id: 100_000 })
    expect((await run({}, '--cursor', cursor)).stderr).toContain(`the log ends at ${id}`)
  })

  it('delivers only what the key that was given has signed', async () => {
    const stranger = await startService({ database: await freshDatabase('stranger', { migrated: true }) })
    onTestFinished(() => stranger.close())
    const caller = await stranger.createTenant({ name: 'stranger' })
    const keyOf = async ({ call }: Caller) => (await call('GET', '/v1/audit/checkpoint')).body.public_key
    const refused = await run({}, '--public-key', await keyOf(caller))
    expect([refused.code, refused.stdout]).toEqual([1, ''])
    const follower = follow({}, '--public-key', await keyOf(acme))
    await follower.until(() => follower.entries().length > 0)
    expect(await stopFollower(follower)).toBe(0)
  })

  it('takes entries that a proxy left out for no purged ones', async () => {
    const { url } = await behind((path, response) => {
      const asked = path.replace('after_id=20', 'after_id=50')
      if (asked === path) return undefined
      const answer = fetch(service.url + asked, { headers: { authorization: `Bearer ${auditor}` } })
      return answer.then(async (later) => void response.end(await later.text()))
    })
    const { code, stdout, stderr } = await run({ EAAS_URL: url }, '--after-id', '20', '--cursor', cursor)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('the export lacks entries 21 to 50, and no audit.purge in it says that they were purged')
    expect(JSON.parse(readFileSync(cursor, 'utf8')).logs).toEqual([])
  })

  it("takes no other tenant's log for that of the API key", async () => {
    const { url } = await behind((path, response) => {
      if (!path.startsWith('/v1/audit/checkpoint')) return undefined
      const answer = fetch(service.url + path, { headers: { authorization: `Bearer ${other.secret}` } })
      return answer.then(async (foreign) => void response.end(await foreign.text()))
    })
    const { code, stdout, stderr } = await run({ EAAS_URL: url })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain(`for tenant ${other.tenant.tenant_id}, which is not that of the API key`)
  })

  it('refuses an answer without an end in place of a checkpoint, and ends at a signal while an export trickles', async () => {
    const trickle = (response: ServerResponse, piece: string) => {
      const timer = setInterval(() => response.write(piece), 50)
      response.on('close', () => clearInterval(timer))
      return Promise.resolve()
    }
    const endless = await behind((_, response) => trickle(response, 'x'.repeat(10_000)))
    expect(await run({ EAAS_URL: endless.url })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('too great a length'),
    })
    const slow = await behind((path, response) =>
      path.startsWith('/v1/audit/export') ? trickle(response, 'x') : undefined,
    )
    const follower = follow({ EAAS_URL: slow.url })
    await expect.poll(() => slow.paths.some((path) => path.startsWith('/v1/audit/export'))).toBe(true)
    expect(await stopFollower(follower)).toBe(0)
  })

  it.each([
    ['rewritten from an entry on', rewriteFrom],
    ['of another hash in one place', (id: number, lines: string[]) => withHash(lines, id, Buffer.alloc(32))],
  ])('delivers nothing that differs from what was signed where the second export is %s', async (_, change) => {
    let exports = 0
    const { url } = await behind((path, response, body) => {
      if (!path.startsWith('/v1/audit/export') || ++exports !== 2) return undefined
      return body().then((text) => void response.end(change(BATCH + 7, text.split('\n')).join('\n')))
    })
    const follower = follow({ EAAS_URL: url })
    const all = (await exported(acme)).map((line) => line.slice(1))
    await follower.until(() => follower.entries().length >= all.length)
    expect(await stopFollower(follower)).toBe(0)
    expect(follower.errors()).toContain('the log changed while it was read; asked again')
    expect(follower.text()).toBe(all.map((line) => `{"tenant_id":"${acme.tenant.tenant_id}",${line}\n`).join(''))
  })

  /** As who holds the database could write on from an entry: another user, and hashes that follow from that. */
  function rewriteFrom(id: number, lines: string[]): string[] {
    let hash: Uint8Array | undefined
    return lines.map((line) => {
      const found = Number(/^\{"id":(\d+),/.exec(line)?.[1] ?? 0)
      if (found < id - 1) return line
      const entry = readEntry(line, { tenant_id: acme.tenant.tenant_id, id: found })
      const told = found === id ? { ...entry, actor: 'system' } : entry
      hash = hash === undefined ? entry.hash : entryHash(hash, told)
      return entryLine({ ...told, hash }).trimEnd()
    })
  }

  function withHash(lines: string[], id: number, hash: Uint8Array): string[] {
    return lines.map((line) =>
      line.startsWith(`{"id":${id},`) ? line.replace(/"hash":"[^"]*"/, `"hash":"${encodeHex(hash)}"`) : line,
    )
  }

  it.each([
    ['changed', /entry 900 was altered/, `update audit_log set actor = 'x' where id = 900 and tenant_id = $1`],
    [
      'deleted',
      /broke off behind entry \d+ 6 times in a row: the service may be unable to read/,
      'delete from audit_log where id = 900 and tenant_id = $1',
    ],
  ])('delivers nothing of a log in which an entry was %s, not even what stands before it', async (how, fault, edit) => {
    const edited = await service.createTenant({ name: `with one ${how}` })
    await wrapMany(edited, MANY)
    const sql = connectTo(service.database)
    onTestFinished(() => sql.end())
    await sql.unsafe(edit, [edited.tenant.tenant_id])
    const { code, stdout, stderr } = await run({ EAAS_API_KEY: edited.secret })
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(fault)])
  })
})
