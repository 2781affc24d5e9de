// eaas audit export --follow: what a log shipper reads.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { TestDatabase } from '../../support/database/database.js'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { runCommand } from '../../support/service/command-host.js'
import { connectTo, EAAS, ROOT_KEY } from '../../support/service/eaas-process.js'
import { type RunningServer, startServer } from '../../support/service/server.js'

const LIMIT_MS = 120_000

describe('eaas audit export --follow', { timeout: LIMIT_MS }, () => {
  let database: TestDatabase
  let server: RunningServer
  const children: ChildProcess[] = []

  beforeAll(async () => {
    ;({ database } = await databaseWithTenant())
    server = await startServer({ database })
  }, LIMIT_MS)
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
  })
  afterAll(() => server?.stop())

  function follow(...args: string[]) {
    const child = spawn(process.execPath, [EAAS, 'audit', 'export', '--tenant', 'acme', '--follow', ...args], {
      env: {
        PATH: process.env.PATH ?? '',
        EAAS_ROOT_KEY: ROOT_KEY,
        ...(database.backend === 'postgres'
          ? { EAAS_DATABASE_URL: database.url }
          : { EAAS_DATA_DIR: database.dataDir }),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.push(child)
    let text = ''
    let errors = ''
    child.stderr.setEncoding('utf8').on('data', (more: string) => {
      errors += more
    })
    child.stdout.setEncoding('utf8').on('data', (more: string) => {
      text += more
    })
    return {
      child,
      entries: () =>
        text
          .split('\n')
          .slice(0, -1) // what follows the last line feed has not arrived in whole
          .map((line) => JSON.parse(line) as { id: number; action: string }),
      text: () => text,
      errors: () => errors,
      async until(isThere: () => boolean) {
        while (!isThere()) await once(child.stdout, 'data')
      },
    }
  }

  const createKey = (name: string) => runCommand(['key', 'create', '--tenant', 'acme', '--name', name], { database })

  it.each(['SIGTERM', 'SIGINT'] as const)(
    'writes what is there and what comes, and ends cleanly on %s',
    async (signal) => {
      const follower = follow()
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
    const follower = follow('--after-id', '1')
    await follower.until(() => follower.entries().length > 0)
    expect(follower.entries()[0]?.id).toBe(2)
    follower.child.kill('SIGTERM')
    await once(follower.child, 'close')

    const args = ['audit', 'export', '--tenant', 'acme', '--follow']
    expect(await runCommand([...args, '--after-id', '1000'], { database })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('the log ends at'),
    })
    expect((await runCommand([...args, '--out', 'x'], { database })).code).toBe(2)
  })

  it('ends when nobody reads any more', async () => {
    const follower = follow()
    await follower.until(() => follower.entries().length > 0)
    follower.child.stdout.destroy()
    await createKey('unread')
    const [code] = await once(follower.child, 'exit')
    expect(code).toBe(0)
  })

  it('writes no entry that was changed in the database, and ends with a message that names it', async () => {
    await createKey('before')
    await createKey('edited')
    const sql = connectTo(database)
    const [{ id, tenant_id } = { id: 0, tenant_id: '' }] = await sql<{ id: number; tenant_id: string }[]>`
      select last_id::int as id, tenant_id from heads where tenant_id = (select tenant_id from tenants where name = 'acme')`
    await sql`update audit_log set actor = 'x' where id = ${id} and tenant_id = ${tenant_id}`
    const edited = follow('--after-id', `${id - 1}`)
    const [code] = await once(edited.child, 'close')
    expect([code, edited.text()]).toEqual([1, ''])
    expect(edited.errors()).toMatch(new RegExp(`entry ${id} of the audit (?:log of tenant|chain does not follow)`)) // which it finds first
    await sql`delete from audit_log where id = ${id - 1} and tenant_id = ${tenant_id}`
    const [after] = await once(follow('--after-id', `${id - 1}`).child, 'close')
    expect(after).toBe(1)
    await sql.end()
  })
})
