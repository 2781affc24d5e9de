// What an operator changes in the tables: what raises no alarm, what does, and what was accepted on record.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { asRole, backend, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { runCommand } from '../support/service/command-host.js'
import { asOwner } from '../support/service/eaas-process.js'
import { type RunningServer, startServer } from '../support/service/server.js'

const TRIGGER = `create function watched() returns trigger language plpgsql as $$ begin return new; end $$;
  create trigger watched before update on chain_alarms for each row execute function watched()`
const REPLACED = 'create or replace function watched() returns trigger language plpgsql as $$ begin return null; end $$'

let owner: TestDatabase
/** As a role that serves: as a superuser doctor examines nothing after what it would execute. */
let database: TestDatabase
let role: string
let server: RunningServer | undefined

beforeAll(async () => {
  if (backend() === 'embedded') return
  owner = (await databaseWithTenant()).database
  role = `eaas_${randomBytes(6).toString('hex')}`
  await change(`create role ${role} login password 'secret'`)
  expect((await runCommand(['migrate', '--role', role], { database: owner })).code).toBe(0)
  database = asRole(owner, role)
  server = await startServer({ database, environment: { EAAS_LOG_LEVEL: 'info' } })
})
afterAll(async () => {
  await server?.stop()
  if (server) await change(`drop owned by ${role}; drop role ${role}`)
})

const change = (statements: string) => asOwner(owner, (sql) => sql.unsafe(statements))

/** What doctor says of the tables, and its exit code. */
async function examine() {
  const { code, stdout } = await runCommand(['doctor', '--json'], { database })
  const { findings } = JSON.parse(stdout) as {
    findings: { check: string; ok: boolean; warning?: true; detail: string }[]
  }
  const found = findings.find(({ check }) => check === 'tables')
  return { code, ok: found?.ok, warning: found?.warning, detail: found?.detail }
}

const accept = (...args: string[]) => runCommand(['accept', 'schema', ...args], { database: owner })

async function restarted(running: RunningServer): Promise<RunningServer> {
  await running.stop()
  await running.start()
  return running
}

/** What a server that starts now says of the tables. */
async function restart(): Promise<{ differences: string | undefined; lines: { level: number; msg: string }[] }> {
  if (!server) throw new Error('there is no server')
  const { url } = await restarted(server)
  const differences = async () =>
    /^eaas_schema_differences (.*)$/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1]
  await expect.poll(differences).toBeDefined()
  const lines = server.log
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { level: number; msg: string })
    .filter(({ msg }) => /the tables/.test(msg))
  return { differences: await differences(), lines }
}

const FATAL = 60
const INFO = 30

describe.skipIf(backend() === 'embedded')('tables that an operator changed', { timeout: 60_000 }, () => {
  it('raise no alarm by an index, a column that may be null, and an index with another name', async () => {
    await change(`create index own on audit_log (actor, created_at); alter table keys add column own text;
      alter index keys_listed rename to renamed`)
    const { code, ok, warning, detail } = await examine()
    expect([code, ok, warning]).toEqual([0, true, undefined])
    expect(detail).toMatch(
      /^as the migrations make them\. Without harm: CREATE INDEX own .*; column keys\.own text; CREATE INDEX renamed /,
    )
    expect(await restart()).toMatchObject({ differences: '0', lines: [{ level: INFO }] })
    expect((await accept('--reason', 'nothing')).stderr).toMatch(
      /^eaas: the tables differ in nothing that needs to be accepted/,
    )
    await change(`drop index own; alter table keys drop column own; alter index renamed rename to keys_listed`)
    expect((await examine()).detail).toMatch(/nothing else acts on them$/)
  })

  it('are slow without an index, of which doctor warns: nothing is to be verified', async () => {
    for (const index of ['keys_listed', 'keys_due', 'audit_log_sampled_time', 'audit_log_key_action_hash']) {
      const [found] = await asOwner(
        owner,
        (sql) => sql<{ definition: string }[]>`
        select pg_get_indexdef(oid) as definition from pg_class where relname = ${index}`,
      )
      await change(`drop index ${index}`)
      expect(await examine()).toMatchObject({
        code: 0,
        ok: true,
        warning: true,
        detail: expect.stringMatching(
          new RegExp(`Without harm: dropped, which only makes calls slow: CREATE INDEX ${index} `),
        ),
      })
      await change(found?.definition ?? '')
    }
    expect((await examine()).detail).toMatch(/nothing else acts on them$/)
  })

  it.each([
    ['table audit_counts', 'alter table audit_counts set unlogged', 'alter table audit_counts set logged'],
    ['column keys.name', 'alter table keys alter name drop not null', 'alter table keys alter name set not null'],
  ])('are altered, where a part is not as it was: %s', async (name, forth, back) => {
    await change(forth)
    const { code, detail } = await examine()
    await change(back)
    expect([code, detail]).toEqual([1, expect.stringMatching(`altered: ${name}.*, now: ${name}`)])
    expect(detail).not.toMatch(new RegExp(`(missing|not made by eaas): ${name}`))
    expect((await examine()).detail).toMatch(/nothing else acts on them$/)
  })

  it('say of what can refuse writes that it can do no more', async () => {
    await change('create unique index own on unrecorded_calls (tenant_id, day, api_key_id, kind, calls)')
    const found = await examine()
    expect([found.code, found.ok, found.detail]).toEqual([
      1,
      false,
      expect.stringMatching(
        /^the owner of the tables .* can refuse writes, but changes no answer and no entry: .*CREATE UNIQUE INDEX own .* eaas accept schema/,
      ),
    ])
    expect(found.detail).not.toContain('Verify every log')
    await change('drop index own')
  })

  it('are accepted on record, until something is changed again', async () => {
    await change(TRIGGER)
    expect(await examine()).toMatchObject({ code: 1, ok: false, detail: expect.stringContaining('accept schema') })
    expect(await restart()).toMatchObject({ differences: '1', lines: [{ level: FATAL }] })

    expect((await accept()).code).toBe(2)
    const { code, stdout } = await accept('--reason', 'counts the alarms', '--json')
    const accepted = JSON.parse(stdout)
    expect([code, accepted]).toEqual([
      0,
      expect.objectContaining({ added: ['trigger watched on chain_alarms'], reason: 'counts the alarms' }),
    ])
    const { stdout: list } = await runCommand(['audit', 'list', '--installation', '--json'], { database })
    const entry = JSON.parse(list).logs.find(
      ({ action }: { action: string }) => action === 'installation.schema_accepted',
    )
    expect(entry).toMatchObject({
      id: accepted.entry_id,
      actor: expect.stringMatching(/^operator:/),
      metadata: { digest: accepted.digest, differences: 1, reason: 'counts the alarms' },
    })
    const again = await accept('--reason', 'twice')
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('accepts these differences')])

    const shown = await examine()
    expect([shown.code, shown.ok]).toEqual([0, true])
    expect(shown.detail).toMatch(
      new RegExp(
        `^accepted by operator:.* on .*, entry ${accepted.entry_id} of the .* \\(counts the alarms\\): not made by eaas: trigger watched`,
      ),
    )
    expect(await restart()).toMatchObject({ differences: '0', lines: [{ level: INFO }] })

    await change(REPLACED)
    expect(await examine()).toMatchObject({ code: 1, ok: false })
    expect(await restart()).toMatchObject({ differences: '1', lines: [{ level: FATAL }] })
    const { stdout: text } = await accept('--reason', 'the new one')
    expect(text).toMatch(
      /^not made by eaas: trigger watched on chain_alarms\nAccepted: entry \d+ of the installation's log/,
    )
    await change('alter table chain_alarms alter column reason drop not null')
    expect(await examine()).toMatchObject({ code: 1, ok: false })
    await change('alter table chain_alarms alter column reason set not null')
    expect(await examine()).toMatchObject({ code: 0, ok: true })
  })

  it('are not accepted by an entry that no server wrote', async () => {
    const { digest } = JSON.parse((await accept('--reason', 'none', '--json')).stdout || '{}') as { digest?: string }
    expect(digest).toBeUndefined() // they are accepted already
    await change(
      `update audit_log set metadata = replace(metadata, 'the new one', 'another') where action = 'installation.schema_accepted'`,
    )
    expect(await examine()).toMatchObject({ code: 1, ok: false })
    await change(
      `update audit_log set metadata = replace(metadata, 'another', 'the new one') where action = 'installation.schema_accepted'`,
    )
    // Not the exit code: a server that looked at the log meanwhile has raised an alarm, rightly.
    expect(await examine()).toMatchObject({ ok: true })
    await change('drop function watched cascade')
    expect((await examine()).detail).toMatch(/nothing else acts on them$/)
  })
})
