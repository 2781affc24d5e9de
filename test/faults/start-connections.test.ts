// How many connections a server opens to PostgreSQL as it starts, before anybody calls it, and what it says and does without them.
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type postgres from 'postgres'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Sql, Transaction } from '../../packages/server/src/core/store/db.js'
import { greet } from '../../packages/server/src/operate/cli/greeting.js'
import type { Server } from '../../packages/server/src/server.js'
import { asRole, backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, runEaas, startEaas } from '../support/service/eaas-process.js'
import { startService } from '../support/service/service.js'

/** One for its first jobs, which begin one after another, one for what it compares each second, and one for the log of the installation. */
const AT_MOST = 3

it.skipIf(backend() === 'embedded')('a server that starts opens few connections', async () => {
  const { database } = await databaseWithTenant()
  const sql = connectTo(database)
  const eaas = await startEaas({ database })
  try {
    // The last of the first jobs writes it.
    const findAnchor = () => sql`select 1 from audit_log where action = 'installation.anchor'`
    await expect.poll(findAnchor).toHaveLength(1)
    const open = await sql`
      select 1 from pg_stat_activity where datname = current_database() and application_name = 'eaas'`
    expect(open.length).toBeLessThanOrEqual(AT_MOST)
  } finally {
    await sql.end()
    await eaas.stop()
  }
})

describe.skipIf(backend() === 'embedded' || isPooled())(
  'a role that may have few connections',
  { timeout: 120_000 },
  () => {
    let owner: TestDatabase
    let database: TestDatabase
    let role: string
    let sql: postgres.Sql

    beforeEach(async () => {
      owner = await freshDatabase('limited')
      role = `limited_${randomBytes(6).toString('hex')}`
      sql = connectTo(owner)
      await sql.unsafe(`create role ${role} login password 'secret'`)
      expect((await runCommand(['migrate', '--role', role], { database: owner })).code).toBe(0)
      database = asRole(owner, role)
    })
    afterEach(async () => {
      await sql.unsafe(`drop owned by ${role}; drop role ${role}`)
      await sql.end()
    })
    const limitTo = (connections: number) => sql.unsafe(`alter role ${role} connection limit ${connections}`)

    it('is waited for before a server says that it listens', async () => {
      await limitTo(2)
      const starting = startEaas({ database, environment: { EAAS_LOG_LEVEL: 'info' } })
      await sleep(4_000)
      await limitTo(-1)
      const eaas = await starting
      await eaas.stop()
      const lines = eaas.stderr.split('\n').filter((line) => /"msg":"(waiting for the database|listening)"/.test(line))
      expect(lines).toEqual([expect.stringContaining('waiting for the database'), expect.stringContaining('listening')])
    })

    it('ends a start that waited in vain, which never listened, and says how many connections a server needs', async () => {
      for (const connections of [0, 1, 2]) {
        await limitTo(connections)
        const environment = { EAAS_START_WAIT_SECONDS: '1', EAAS_LOG_LEVEL: 'info' }
        const { code, stdout, stderr } = await runEaas(['start'], { database, environment })
        expect([connections, code, stdout]).toEqual([connections, 1, ''])
        expect(stderr).not.toContain('"msg":"listening"')
        expect(stderr).toMatch(
          /eaas: PostgreSQL .* has no free connection .* for 1 s .*13 .*connection limit.*too many conn/,
        )
      }
    })

    it('is named as what it is by every command', async () => {
      await limitTo(0)
      for (const command of [
        'tenant list',
        'doctor',
        'migrate',
        'key list --tenant x',
        'audit list --installation',
        'audit public-key',
        'purge',
      ]) {
        const { code, stdout, stderr } = await runCommand(command.split(' '), { database })
        expect([command, code]).toEqual([command, 1])
        expect(stdout + stderr).toMatch(/has no free connection .*13 .*connection limit.*too many connections for role/)
        expect(stdout + stderr).not.toContain('Check that it runs')
      }
    })

    it('and other faults of the login are said of the setting that is in force', async () => {
      const { path: folder, remove } = guardedDir('eaas-setting')
      onTestFinished(remove)
      const file = join(folder, 'url')
      const { url } = database as { url: string }
      for (const [of, wrong] of [
        ['password', url.replace(':secret@', ':wrong@')],
        ['user', url.replace(role, 'nobody')],
        ['name', url.replace(/\/[^/]+$/, '/absent')],
        ['runs', url.replace(/:\d+\//, ':1/')],
      ] as const) {
        writeFileSync(file, wrong)
        const inFile = { environment: { EAAS_DATABASE_URL_FILE: file } }
        for (const command of ['doctor', 'tenant list']) {
          const fromFile = await runCommand(command.split(' '), inFile)
          expect([of, fromFile.stdout + fromFile.stderr]).toEqual([
            of,
            expect.stringMatching(new RegExp(`${of}.*the file of EAAS_DATABASE_URL_FILE`)),
          ])
          const { stdout, stderr } = await runCommand(command.split(' '), { environment: { EAAS_DATABASE_URL: wrong } })
          expect([of, stdout + stderr]).toEqual([of, expect.stringMatching(new RegExp(`${of}.* EAAS_DATABASE_URL\\b`))])
          expect(stdout + stderr).not.toContain('EAAS_DATABASE_URL_FILE')
        }
      }
    })
  },
)

describe('a server that greets', () => {
  async function greeted(failing: (sql: Sql) => Sql): Promise<{ stdout: string; stderr: string; warned: string[] }> {
    const service = await startService()
    onTestFinished(() => service.close())
    const [stdout, stderr] = ([process.stdout, process.stderr] as const).map((stream) => {
      const printed = vi.spyOn(stream, 'write').mockReturnValue(true)
      onTestFinished(() => printed.mockRestore())
      return () => printed.mock.calls.map(([chunk]) => chunk).join('')
    })
    const warned: string[] = []
    const log = { warn: (_: unknown, message: string) => warned.push(message), error: () => undefined }
    const server = {
      app: { log },
      installation: { services: { ...service.services, sql: failing(service.services.sql) }, database: 'here' },
      emitCheckpoints: async () => undefined,
    } as unknown as Server
    await greet(server, { journalStream: undefined }, 'http://127.0.0.1:1')
    return { stdout: stdout?.() ?? '', stderr: stderr?.() ?? '', warned }
  }

  it('says that it finds no connection to look for tenants, serves, and greets later', async () => {
    let refusals = 2
    const { stdout, warned } = await greeted(
      (all) =>
        new Proxy(all, {
          apply(target, self, args) {
            if (refusals-- <= 0) return Reflect.apply(target, self, args)
            const refused = Promise.reject(Object.assign(new Error('too many connections'), { code: '53300' }))
            refused.catch(() => undefined) // also of a part of a statement, which nobody awaits
            return refused
          },
        }),
    )
    expect(stdout).toMatch(/EaaS is listening on .*This is the first start\. Tenant "default" was created/s)
    expect(warned).toEqual([expect.stringContaining('it is tried again')])
  })

  it('says that the API key of the first tenant is lost, if it did not learn that its creation was committed', async () => {
    let losses = 1
    const { stdout, stderr } = await greeted((all) => {
      const begin = async (work: (sql: Transaction) => unknown) => {
        const made = await all.begin(work)
        if (losses-- > 0) throw Object.assign(new Error('write CONNECTION_CLOSED'), { code: 'CONNECTION_CLOSED' })
        return made
      }
      return new Proxy(all, { get: (target, name) => (name === 'begin' ? begin : Reflect.get(target, name)) })
    })
    expect(stdout).not.toContain('This is the first start')
    expect(stderr).toContain('tenant "default" was created, but its API key could not be printed and is lost')
  })
})
