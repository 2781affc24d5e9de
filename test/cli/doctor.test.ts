// eaas doctor: reports what would keep a server from starting or working, and changes nothing.
import { appendFile, chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createCheckpointEmitter } from '../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { copyTables, restoreTables } from '../support/audit/audit-scene.js'
import { backend, freshDatabase, isPooled, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { columnsOf } from '../support/database/migrations.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, type EaasOptions, ROOT_KEY, runEaas, untilHealthy } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { startServer } from '../support/service/server.js'
import { ROOT_KEY as SERVICE_ROOT_KEY, startService } from '../support/service/service.js'

const TIMEOUT_MS = 120_000

let folder: string
let database: TestDatabase

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-doctor-'))
  ;({ database } = await databaseWithTenant())
}, TIMEOUT_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

/** The options of a Node whose clock is ten minutes behind. */
const CLOCK_BEHIND = `--import data:text/javascript,${encodeURIComponent(`
  const { now } = Date; globalThis.Date = class extends Date {
    constructor(...given) { given.length ? super(...given) : super(now() - 600_000) }
    static now() { return now() - 600_000 }
  }`)}`

interface Finding {
  check: string
  ok: boolean
  warning?: true
  detail: string
}

async function examine(options: Partial<EaasOptions> = {}) {
  const { code, stdout } = await runCommand(['doctor', '--json'], { database, ...options })
  const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] }
  expect(code).toBe(ok ? 0 : 1)
  return {
    ok,
    found: (check: string) => findings.find((finding) => finding.check === check),
    wrong: findings.filter((finding) => !finding.ok),
  }
}

describe('eaas doctor', { timeout: TIMEOUT_MS }, () => {
  it('finds nothing wrong with what is well', async () => {
    const { ok, wrong, found } = await examine()
    expect([ok, wrong]).toEqual([true, []])
    expect(found('audit chains')?.detail).toMatch(
      /^the heads of the logs \(\d+\) are valid, .*; eaas audit verify --all checks every entry, key/,
    )
    const schemas = { ok: true, detail: 'works on the schema public; no other one of this database has tables of eaas' }
    expect(found('other schemas')).toEqual(
      backend() === 'embedded' ? undefined : { check: 'other schemas', ...schemas },
    )
  })

  it('finds wrong that the root key is that of another database', async () => {
    const { wrong } = await examine({ rootKey: SERVICE_ROOT_KEY })
    expect(wrong[0]).toMatchObject({
      check: 'root key',
      detail: expect.stringContaining('does not belong to this database'),
    })
  })

  it('changes nothing: a new database stays one, an empty folder stays empty', async () => {
    const empty = await freshDatabase('doctor', { created: false })
    expect((await examine({ database: empty })).ok).toBe(true)
    if (empty.backend === 'embedded') expect(await readdir(empty.dataDir)).toEqual([])
    else {
      const sql = connectTo(empty)
      expect(await sql`select 1 from pg_tables where schemaname = 'public'`).toHaveLength(0)
      await sql.end()
    }
  })

  it('looks whether files can be written where the configuration says, and makes none', async () => {
    const file = join(folder, 'file')
    await writeFile(file, '')
    const at = async (name: string, path: string) => (await examine({ environment: { [name]: path } })).wrong
    for (const path of [join(folder, 'none', 'file'), folder]) {
      expect(await at('EAAS_CHECKPOINT_FILE', path)).toMatchObject([{ check: 'checkpoint file' }])
    }
    for (const path of [file, join(file, 'below', 'it')]) {
      expect(await at('EAAS_AUDIT_ARCHIVE_DIR', path)).toMatchObject([{ check: 'audit archive' }])
    }
    expect(await at('EAAS_CHECKPOINT_FILE', join(folder, 'new'))).toEqual([])
    expect(await at('EAAS_AUDIT_ARCHIVE_DIR', join(folder, 'new', 'archive'))).toEqual([])
    expect(await readdir(folder)).toEqual(['file'])
  })

  it('finds nothing wrong before the first start, which creates the data directory and the files in it', async () => {
    const dataDir = join(folder, 'not', 'yet')
    const nowhere: TestDatabase = { backend: 'embedded', dataDir, drop: async () => undefined }
    const { ok, found } = await examine({ database: nowhere })
    expect(ok).toBe(true)
    const detail = expect.stringMatching(
      /^EAAS_DATABASE_URL is not set, and there is no database in .*eaas start would create/,
    )
    expect(found('database')).toMatchObject({ ok: true, warning: true, detail })
    const { stdout } = await runCommand(['doctor'], { database: nowhere })
    expect(stdout).toMatch(/^WARN {3}database /m)
    expect(stdout).toMatch(/\n\nNo check failed, but see the lines marked WARN\.\n$/)
    expect(found('checkpoint file')).toMatchObject({ ok: true })
    expect(await readdir(folder)).not.toContain('not')
  })

  it('finds wrong that a log is ahead of the clock, and says which one and what to do', async () => {
    const { database: ahead } = await databaseWithTenant()
    const server = await startServer({ database: ahead }) // an embedded database answers while one runs
    const sql = connectTo(ahead)
    await sql`update heads set created_at = now() + interval '10 days'`
    await sql.end()
    const detail = expect.stringMatching(
      /in the future \((?=.*acme)(?=.*the installation's own log).*\)\. If this clock is wrong, correct it/,
    )
    expect((await examine({ database: ahead })).found('clock')).toMatchObject({ ok: false, detail })
    await server.stop()
  })

  it('finds wrong that the log cannot record the run, though the checks before it pass', async () => {
    const { database: full } = await databaseWithTenant()
    const server = await startServer({ database: full })
    const sql = connectTo(full)
    expect((await examine({ database: full })).found('record')).toMatchObject({ ok: true })
    await sql`alter table audit_log add constraint refused check (action <> 'installation.doctor') not valid`
    const { ok, found } = await examine({ database: full })
    await sql.end()
    await server.stop()
    expect([ok, found('writes'), found('audit chains')]).toMatchObject([false, { ok: true }, { ok: true }])
    const detail = expect.stringMatching(/^the installation's log does not record this run: .*refused/)
    expect(found('record')).toMatchObject({ ok: false, detail })
  })

  it.skipIf(backend() === 'embedded')('a command that the clock keeps from writing says so once', async () => {
    const options = { database, environment: { NODE_OPTIONS: CLOCK_BEHIND } }
    const { code, stderr } = await runEaas(['tenant', 'suspend', 'acme', '--reason', 'a drill'], options)
    expect([code, stderr.match(/so nothing is written/g)]).toEqual([1, ['so nothing is written']])
    expect(stderr).toMatch(/^eaas: .*this machine's clock is/)
    expect(stderr).not.toContain('{}')
  })

  it('writes nothing while the clock is wrong, and says so', async () => {
    const { database: late } = await databaseWithTenant()
    const server = await startServer({ database: late })
    const sql = connectTo(late)
    const count = async () => (await sql`select from audit_log where action = 'installation.doctor'`).length
    const { code, stdout } = await runEaas(['doctor'], {
      database: late,
      environment: { NODE_OPTIONS: CLOCK_BEHIND },
    })
    expect([code, await count()]).toEqual([1, 0])
    expect(stdout).toMatch(/^WRONG {2}clock /m)
    expect(stdout).toMatch(
      /^WRONG {2}record .*does not record this run: .*clock is .* s behind .*so nothing is written/m,
    )
    await runCommand(['doctor'], { database: late })
    expect(await count()).toBe(1)
    await sql.end()
    await server.stop()
  })

  it('warns of a root key that everybody can read, as the server does at its start', async () => {
    const file = join(folder, 'root.key')
    await writeFile(file, ROOT_KEY)
    const options = { rootKey: null, environment: { EAAS_ROOT_KEY_FILE: file } }
    await chmod(file, 0o600)
    expect((await examine(options)).found('root key file')?.warning).toBeUndefined()
    await chmod(file, 0o644)
    const { ok, found } = await examine(options)
    expect([ok, found('root key file')]).toMatchObject([true, { warning: true }])
    const eaas = await startServer({ database, ...options })
    await eaas.stop()
    expect(eaas.log).toContain('everybody on this machine can read or change the root key')
    await rm(file)
  })

  it.skipIf(backend() === 'embedded' || isPooled())(
    'says where the tables are if another search_path leads past them, and so does a command',
    async () => {
      const { database: moved } = await databaseWithTenant()
      const sql = connectTo(moved)
      const [{ name = '' } = {}] = await sql`select quote_ident(current_database()) as name`
      await sql`create schema app`
      for (const [path, leads] of [
        ["'app, public'", 'leads to no schema'],
        ['app', 'leads to the schema app'],
      ] as const) {
        await sql.unsafe(`alter database ${name} set search_path = ${path}`)
        const says = new RegExp(`search path ${leads}, and the tables of eaas are in public.*reset search_path`)
        const { wrong, found } = await examine({ database: moved })
        expect([path, wrong[0]?.check, found('schema')?.detail]).toEqual([path, 'schema', expect.stringMatching(says)])
        const { code, stderr } = await runCommand(['tenant', 'list'], { database: moved })
        expect([path, code, stderr]).toEqual([path, 1, expect.stringMatching(says)])
      }
      await sql.end()
    },
  )

  it.skipIf(backend() === 'embedded' || isPooled())(
    'warns of another schema with its tables, on which a server would be as healthy; audit diff --all tells them apart',
    async () => {
      const { database: both, api_key } = await databaseWithTenant()
      const sql = connectTo(both)
      const [{ name = '' } = {}] = await sql`select quote_ident(current_database()) as name`
      // Tables made as the migrations make them, with the rows of the others.
      await sql.unsafe(`create schema "a copy"; alter database ${name} set search_path = "a copy"`)
      expect((await runCommand(['migrate'], { database: both })).code).toBe(0)
      await sql.unsafe(`alter database ${name} reset search_path`)
      const tables = await sql<
        { table: string }[]
      >`select tablename as table from pg_tables where schemaname = 'public' and tablename <> 'schema_version'`
      await sql.begin(async (session) => {
        await session`set local session_replication_role = replica`
        for (const { table } of tables) {
          await session`delete from ${sql(`a copy.${table}`)}`
          const columns = columnsOf(table)
          await session`insert into ${sql(`a copy.${table}`)} (${sql(columns)}) select ${sql(columns)} from ${sql(`public.${table}`)}`
        }
      })
      const start = (file: string) =>
        startServer({ database: both, environment: { EAAS_CHECKPOINT_FILE: join(folder, file) } })
      const diffAll = async (file: string) => {
        const args = ['audit', 'diff', '--all', '--checkpoint', join(folder, file), '--json']
        const { code, stdout } = await runCommand(args, { database: both })
        const { logs } = JSON.parse(stdout) as { logs: { name: string; outcome: string }[] }
        return { code, logs: Object.fromEntries(logs.map(({ name, outcome }) => [name, outcome])) }
      }
      const first = await start('of-first')
      await sql.unsafe(`alter database ${name} set search_path = "a copy"`)
      const second = await start('of-second')
      for (const server of [first, second]) {
        await untilHealthy(server)
        expect((await callsOf(api_key.secret)(server.url, 'POST', '/v1/keys', { name: 'k' })).status).toBe(201)
      }
      const { ok, found } = await examine({ database: both })
      expect([ok, found('other schemas')]).toMatchObject([
        true,
        {
          warning: true,
          detail: expect.stringMatching(/^works on the schema "a copy", and other .*: public\. Unless each belongs /),
        },
      ])
      await Promise.all([first.stop(), second.stop()])
      await sql.unsafe(`alter database ${name} reset search_path`)
      expect((await examine({ database: both })).found('other schemas')).toMatchObject({
        ok: true,
        warning: true,
        detail: expect.stringMatching(
          /^works on the schema public, and other .*: "a copy"\. Unless each belongs .*, somebody copied the tables\./,
        ),
      })
      expect(await diffAll('of-first')).toEqual({ code: 0, logs: { installation: 'same', acme: 'same' } })
      expect(await diffAll('of-second')).toEqual({ code: 1, logs: { installation: 'different', acme: 'different' } })
      await sql.end()
    },
  )
})

describe('eaas doctor, of a checkpoint file', { timeout: TIMEOUT_MS }, () => {
  it('names every log that went back, every faulty line and every tenant that is missing', async () => {
    const service = await startService()
    try {
      const sql = service.services.sql as unknown as ReturnType<typeof connectTo>
      const path = join(folder, 'checkpoints')
      const emit = createCheckpointEmitter(service.services, path, (error) => {
        throw error
      })
      const behind = await service.createTenant({ name: 'behind' })
      await copyTables(sql, 'early')
      const gone = await service.createTenant({ name: 'gone' })
      await behind.call('POST', '/v1/keys', { name: 'k' })
      await emit()
      await restoreTables(sql, 'early')
      const options = {
        database: service.database,
        rootKey: SERVICE_ROOT_KEY,
        environment: { EAAS_CHECKPOINT_FILE: path },
      }
      const detail = async () => (await examine(options)).found('checkpoints')?.detail
      const went = /behind: the audit chain went back/
      const missing = new RegExp(`not in the database.*${gone.tenant.tenant_id} \\(line \\d+\\)`)
      expect(await detail()).toMatch(went)
      expect(await detail()).toMatch(missing)
      await appendFile(path, '# a note\n')
      for (const part of [went, missing, /line \d+: not the line of a checkpoint/]) expect(await detail()).toMatch(part)
    } finally {
      await service.close()
    }
  })

  it('knows the remnant of a line, wherever a crash or a full disk cut it, and the lines after it', async () => {
    const service = await startService()
    try {
      const path = join(folder, 'remnants')
      const emit = createCheckpointEmitter(service.services, path, (error) => {
        throw error
      })
      await service.createTenant()
      await emit()
      const written = (await readFile(path, 'utf8')).split('\n').slice(0, -1)
      const line = written[0] ?? ''
      // Not within a character of several bytes, which the dash of a signature is.
      const cuts = [
        1,
        5,
        14,
        30,
        50,
        52,
        66,
        70,
        80,
        88,
        90,
        200,
        line.indexOf('—'),
        line.indexOf('—') + 1,
        line.length - 1,
      ]
      const options = {
        database: service.database,
        rootKey: SERVICE_ROOT_KEY,
        environment: { EAAS_CHECKPOINT_FILE: path },
      }
      const found = async () => (await examine(options)).found('checkpoints')
      const remnants = cuts.map((cut) => line.slice(0, cut))
      for (const last of [1, 70, line.length - 1]) {
        await writeFile(path, [...written, ...remnants, ...written, line.slice(0, last)].join('\n'))
        const detail = expect.stringMatching(
          /^4 lines in .*, all of them valid, and 16 that a crash or a full disk cut short$/,
        )
        expect([last, await found()]).toEqual([last, { check: 'checkpoints', ok: true, detail }])
      }
      for (const edited of [
        '{"tenant_id":"x"}',
        '{"tenant_id":"zz',
        line.slice(1),
        '',
        line.replace('checkpoint', 'point'),
        line.replace('"checkpoint":"', '$&x'),
      ]) {
        await writeFile(path, [...written, edited, ...written, ''].join('\n'))
        expect([edited, await found()]).toMatchObject([edited, { ok: false }])
      }
      // Only its line feed is missing.
      await writeFile(path, written.join('\n'))
      expect(await found()).toMatchObject({ ok: true, detail: expect.stringMatching(/^2 lines .* valid$/) })
    } finally {
      await service.close()
    }
  })

  it('compares nothing with a directory or an empty file, and says so', async () => {
    const directory = await examine({ environment: { EAAS_CHECKPOINT_FILE: folder } })
    expect(directory.found('checkpoint file')?.detail).toContain('names a directory')
    expect(directory.found('checkpoints')).toBeUndefined()
    const path = join(folder, 'empty')
    await writeFile(path, '')
    const empty = await examine({ environment: { EAAS_CHECKPOINT_FILE: path } })
    expect(empty.found('checkpoints')).toEqual({
      check: 'checkpoints',
      ok: true,
      detail: `no lines in ${path} to compare with`,
    })
    const gone = await examine({ environment: { EAAS_CHECKPOINT_FILE: join(folder, 'gone') } })
    expect(gone.found('checkpoints')).toEqual({
      check: 'checkpoints',
      ok: true,
      warning: true,
      detail: expect.stringMatching(/gone does not exist, so nothing was compared/),
    })
  })
})

describe.skipIf(backend() === 'embedded')('eaas doctor, of a PostgreSQL database', { timeout: TIMEOUT_MS }, () => {
  it('finds wrong that a new one has no root key to start with', async () => {
    const { wrong } = await examine({ database: await freshDatabase('doctor'), rootKey: null })
    expect(wrong).toMatchObject([{ check: 'root key', detail: expect.stringContaining('EAAS_ROOT_KEY_FILE') }])
  })

  it('finds wrong that a newer version wrote it', async () => {
    const { database: newer } = await databaseWithTenant()
    const sql = connectTo(newer)
    await sql`update schema_version set version = 999`
    await sql.end()
    expect((await examine({ database: newer })).wrong).toMatchObject([
      { check: 'schema', detail: expect.stringContaining('The database has schema 999') },
    ])
  })

  it('finds wrong that it holds tenants, but not what its root key is checked by', async () => {
    const { database: robbed } = await databaseWithTenant()
    const sql = connectTo(robbed)
    await sql`delete from instance`
    await sql.end()
    expect((await examine({ database: robbed })).wrong).toMatchObject([
      { check: 'root key', detail: expect.stringContaining('Restore a backup') },
    ])
  })
})
