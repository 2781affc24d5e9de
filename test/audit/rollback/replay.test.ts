// eaas audit replay: what took rights away is taken away again, by a signed export, and nothing is given.
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { copyTables, restoreTables, type Scene } from '../../support/audit/audit-scene.js'
import { backend } from '../../support/database/database.js'
import { runCommand } from '../../support/service/command-host.js'
import { connectTo } from '../../support/service/eaas-process.js'
import { type Caller, ROOT_KEY } from '../../support/service/service.js'
import { type RolledBack, rolledBack } from './rolled-back-scene.js'

let folder: string
let scene: RolledBack
/** the ids of keys and API keys of acme, by their names */
let ids: Record<string, string>
const file = (name: string) => join(folder, name)
const KEYS = ['disabled', 'destroyed', 'cancelled', 'enabled', 'disabled before', 'kept']

async function prepare(caller: Caller, name: string): Promise<void> {
  const made: Record<string, string> = {}
  for (const key of KEYS) made[key] = (await caller.call('POST', '/v1/keys', { name: key })).body.id
  for (const apiKey of ['revoked', 'valid']) {
    made[apiKey] = (await caller.call('POST', '/v1/api-keys', { name: apiKey, permissions: ['decrypt'] })).body.id
  }
  await caller.call('DELETE', `/v1/keys/${made['disabled before']}`)
  if (name === 'acme') ids = made
}

async function change(caller: Caller, name: string): Promise<void> {
  if (name !== 'acme') return void (await caller.call('POST', '/v1/keys', { name: 'another' }))
  const key = (id: string) => `/v1/keys/${ids[id]}`
  const destroy = async (id: string) => {
    await caller.call('DELETE', key(id))
    expect((await caller.call('POST', `${key(id)}/destroy`, { confirm: id })).status).toBe(200)
  }
  await caller.call('DELETE', `/v1/api-keys/${ids.revoked}`)
  await caller.call('DELETE', key('disabled'))
  await destroy('destroyed')
  await destroy('cancelled')
  await caller.call('POST', `${key('cancelled')}/destroy/cancel`)
  await caller.call('DELETE', key('enabled'))
  await caller.call('POST', `${key('enabled')}/enable`)
  await caller.call('POST', `${key('disabled before')}/enable`)
  const lost = (await caller.call('POST', '/v1/api-keys', { name: 'lost', permissions: ['decrypt'] })).body.id
  await caller.call('DELETE', `/v1/api-keys/${lost}`)
  await caller.call('POST', `${key('kept')}/rotate`)
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-replay-'))
  scene = await rolledBack(folder, ['acme', 'globex'], { prepare, change })
})
afterEach(async () => {
  await scene.service.close()
  await rm(folder, { recursive: true, force: true })
})

const eaas = (...args: string[]) => scene.eaas(...args)
const replay = (...args: string[]) => eaas('audit', 'replay', '--export', scene.exportOf('acme'), ...args)
async function acceptAll(): Promise<void> {
  await writeFile(file('diff'), (await eaas('audit', 'diff', '--all', '--json')).stdout)
  const { code } = await eaas('audit', 'accept-rollback', '--all', '--from-diff', file('diff'), '--reason', 'a drill')
  expect(code).toBe(0)
}
async function states(): Promise<Record<string, string>> {
  const keys = JSON.parse((await eaas('key', 'list', '--tenant', 'acme', '--json')).stdout).keys
  const apiKeys = JSON.parse((await eaas('api-key', 'list', '--tenant', 'acme', '--json')).stdout).api_keys
  return Object.fromEntries([...keys, ...apiKeys].map(({ name, status }) => [name, status]))
}
const actions = async () =>
  JSON.parse((await eaas('audit', 'list', '--tenant', 'acme', '--json')).stdout).logs as {
    action: string
    actor: string
    key_id: string | null
  }[]

const BEFORE = {
  disabled: 'active',
  destroyed: 'active',
  cancelled: 'active',
  enabled: 'active',
  'disabled before': 'disabled',
  kept: 'active',
  revoked: 'active',
  valid: 'active',
}

describe('eaas audit replay', { timeout: 240_000 }, () => {
  it('shows what it would do, repeats it with --yes, and does nothing the second time', async () => {
    await acceptAll()
    expect(await states()).toMatchObject(BEFORE)
    const shown = await replay()
    expect([shown.code, shown.stdout]).toEqual([
      0,
      expect.stringContaining('Nothing was changed. Repeat them with --yes.'),
    ])
    expect(await states()).toMatchObject(BEFORE)

    const { code, stdout } = await replay('--yes', '--json')
    const { changes } = JSON.parse(stdout)
    expect(changes.map(({ change, name, done }: Record<string, unknown>) => [change, name, done])).toEqual([
      ['api_key.revoke', 'revoked', true],
      ['key.disable', 'disabled', true],
      ['key.disable', 'destroyed', true],
      ['key.destroy', 'destroyed', true],
      ['key.disable', 'cancelled', true],
    ])
    expect(code).toBe(0)
    expect(await states()).toMatchObject({
      ...BEFORE,
      revoked: 'revoked',
      disabled: 'disabled',
      destroyed: 'pending_destruction',
      cancelled: 'disabled',
    })
    const recorded = (await actions()).slice(0, 5)
    expect(recorded.map(({ action }) => action).reverse()).toEqual(
      changes.map(({ change }: { change: string }) => change),
    )
    for (const { actor } of recorded) expect(actor).toMatch(/^operator:/)

    const again = await replay('--yes')
    expect([again.code, again.stdout]).toEqual([0, expect.stringMatching(/^Nothing must be repeated\./)])
    expect((await actions()).slice(0, 5)).toEqual(recorded)
    expect((await eaas('audit', 'verify', '--all')).code).toBe(0)
  })

  it('never takes back what the operator did since, and never gives', async () => {
    await acceptAll()
    await eaas('key', 'disable', 'kept', '--tenant', 'acme')
    expect((await replay('--yes')).code).toBe(0)
    const now = await states()
    // "disabled before" was enabled, and that was lost: it stays disabled.
    expect(now).toMatchObject({ 'disabled before': 'disabled', enabled: 'active', valid: 'active' })
    expect(Object.keys(now)).not.toContain('lost')
  })

  it('destroys nothing where there is no waiting period: it disables the key, and names it', async () => {
    await acceptAll()
    const replayAtOnce = (...args: string[]) =>
      runCommand(['audit', 'replay', '--export', scene.exportOf('acme'), '--yes', ...args], {
        database: scene.service.database,
        rootKey: ROOT_KEY,
        environment: { EAAS_CHECKPOINT_FILE: scene.checkpoints, EAAS_DESTROY_WINDOW_DAYS: '0' },
      })
    const { changes } = JSON.parse((await replayAtOnce('--json')).stdout)
    expect(changes.filter(({ name }: { name: string }) => name === 'destroyed')).toMatchObject([
      { change: 'key.disable', done: true },
      { change: 'key.destroy', done: false, is_left: true },
    ])
    expect(await states()).toMatchObject({ destroyed: 'disabled', cancelled: 'disabled' })
    const again = await replayAtOnce()
    expect([again.code, again.stdout]).toEqual([
      0,
      expect.stringMatching(/destroyed \(.*LEFT TO YOU: it would destroy/),
    ])
    expect(again.stdout).toContain('0 of 1 change repeated.')
    expect(await states()).toMatchObject({ destroyed: 'disabled' })
  })

  it('repeats nothing of which no loss was accepted, as of a copy in which somebody rehearsed', async () => {
    await acceptAll()
    const { caller } = scene.tenants[0] as RolledBack['tenants'][number]
    const sql = scene.service.services.sql as unknown as Scene['sql']
    const newKey = () => caller.call('POST', '/v1/keys', { name: `${Math.random()}` })
    await expect.poll(async () => (await newKey()).status).toBe(201)
    await copyTables(sql, 'real')
    expect((await caller.call('DELETE', `/v1/api-keys/${ids.valid}`)).status).toBe(204)
    await writeFile(file('copy'), (await caller.call('GET', '/v1/audit/export')).body)
    await restoreTables(sql, 'real')
    const { code, stderr } = await eaas('audit', 'replay', '--export', file('copy'), '--yes')
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('the log never had these entries, or their loss is not accepted'),
    ])
    const [row] = await sql`select revoked_at from api_keys where api_key_id = ${ids.valid ?? ''}`
    expect(row).toEqual({ revoked_at: null })
  })

  it('repeats nothing of a log with an altered entry, which does not show what it lost', async () => {
    await acceptAll()
    await scene.service.services
      .sql`update audit_log set ip_address = '192.0.2.1' where tenant_id = ${idOf(0)} and id = 2`
    const { code, stderr } = await replay('--yes')
    const said = 'entry 2 does not follow from the entry before it (entry_altered), so nothing is repeated: '
    expect([code, stderr]).toEqual([1, expect.stringContaining(said)])
    expect(await states()).toMatchObject(BEFORE)
  })

  // Without a server nobody serves the embedded database to this test.
  describe.skipIf(backend() === 'embedded')(
    'with a loss that is accepted after another copy of the database began',
    () => {
      let sql: ReturnType<typeof connectTo>
      beforeEach(async () => {
        await acceptAll()
        await scene.service.close()
        sql = connectTo(scene.service.database)
      })
      afterEach(() => sql.end())

      const acceptAcme = async () => {
        const { code, stdout } = await eaas('audit', 'accept-rollback', '--tenant', 'acme', '--reason', 'x', '--json')
        expect(code).toBe(0)
        return JSON.parse(stdout)
      }
      const disable = (name: string) => eaas('key', 'disable', name, '--tenant', 'acme')
      const replayCopy = () => eaas('audit', 'replay', '--export', file('copy'), '--yes')
      /** Exports the log with so many more entries, the first of which revokes an API key; no witness sees them. */
      async function writeCopy(entries: number): Promise<void> {
        const options = { database: scene.service.database, rootKey: ROOT_KEY }
        const run = async (...args: string[]) => {
          const environment = { EAAS_CHECKPOINT_FILE: 'none' }
          expect([args, (await runCommand([...args, '--tenant', 'acme'], { ...options, environment })).code]).toEqual([
            args,
            0,
          ])
        }
        await copyTables(sql, 'before')
        await run('api-key', 'revoke', ids.valid ?? '')
        for (let at = 1; at < entries; at++) await run('key', at % 2 ? 'disable' : 'enable', 'kept')
        await run('audit', 'export', '--out', file('copy'))
        await restoreTables(sql, 'before')
      }
      async function lose(...names: string[]) {
        await copyTables(sql, 'lossless')
        for (const name of names) expect((await disable(name)).code).toBe(0)
        await restoreTables(sql, 'lossless')
      }

      it('repeats nothing of the copy if nothing was lost, and still what was lost before', async () => {
        await writeCopy(1)
        await sql`delete from heads where tenant_id = ${idOf(0)}`
        const { witnessed_id, agrees_through } = await acceptAcme()
        expect(witnessed_id).toBe(agrees_through)
        expect(await replayCopy()).toMatchObject({ code: 1, stderr: expect.stringContaining('is not accepted') })
        expect((await replay('--yes')).stdout).toContain('5 of 5 changes repeated.')
        expect(await states()).toMatchObject({ valid: 'active' })
      })

      it.each([
        ['ends before the witnessed entry', 1],
        ['has another entry in its place', 5],
      ])('repeats nothing of the copy if others were lost, and it %s', async (_, entries) => {
        await writeCopy(entries)
        expect((await disable('kept')).code).toBe(0)
        await lose('enabled', 'disabled', 'destroyed')
        const { witnessed_id, agrees_through } = await acceptAcme()
        expect(witnessed_id).toBeGreaterThan(agrees_through)
        expect(await replayCopy()).toMatchObject({ code: 1, stderr: expect.stringContaining('is not accepted') })
        expect(await states()).toMatchObject({ valid: 'active' })
      })

      it('repeats what an export has that ends before the witnessed entry', async () => {
        await copyTables(sql, 'real')
        expect((await eaas('api-key', 'revoke', ids.valid ?? '', '--tenant', 'acme')).code).toBe(0)
        expect((await eaas('audit', 'export', '--tenant', 'acme', '--out', file('copy'))).code).toBe(0)
        expect((await disable('kept')).code).toBe(0)
        await restoreTables(sql, 'real')
        await acceptAll()
        expect(await replayCopy()).toMatchObject({
          code: 0,
          stdout: expect.stringContaining('1 of 1 change repeated.'),
        })
        expect(await states()).toMatchObject({ valid: 'revoked', kept: 'active' })
      })
    },
  )

  it('repeats nothing before the loss is accepted', async () => {
    const { code, stderr } = await replay('--yes')
    expect([code, stderr]).toEqual([1, expect.stringContaining('their loss is not accepted')])
  })

  it.each<[string, RegExp, (text: string) => string]>([
    ['that was edited', /does not verify/, (text) => text.replace('"key.rotate"', '"key.disable"')],
    ['that names another tenant', /does not verify/, (text) => text.replaceAll(idOf(0), idOf(1))],
    ['of an unknown tenant', /there is no tenant/, (text) => text.replaceAll(idOf(0), crypto.randomUUID())],
    ['that was cut short', /does not verify/, (text) => `${text.split('\n').slice(0, -2).join('\n')}\n`],
    ['whose lines were exchanged', /does not verify/, (text) => text.split('\n').toSorted().join('\n')],
  ])('refuses an export %s, and changes nothing', async (_, said, edit) => {
    await acceptAll()
    const before = await states()
    await writeFile(file('edited'), edit(await readFile(scene.exportOf('acme'), 'utf8')))
    const { code, stderr } = await eaas('audit', 'replay', '--export', file('edited'), '--yes')
    expect(code).toBe(1)
    if (_ !== 'whose lines were exchanged') expect(stderr).toMatch(said)
    expect(await states()).toEqual(before)
  })

  it('changes nothing of any tenant if one of several exports is refused', async () => {
    await acceptAll()
    const before = await states()
    const text = await readFile(scene.exportOf('globex'), 'utf8')
    await writeFile(file('edited'), text.replace('"key.create"', '"key.enable"'))
    expect((await replay('--export', file('edited'), '--yes')).code).toBe(1)
    await cp(scene.exportOf('acme'), file('twice'))
    expect((await replay('--export', file('twice'), '--yes')).stderr).toContain('of the same tenant as another export')
    expect(await states()).toEqual(before)
    const { code, stdout } = await replay('--export', scene.exportOf('globex'), '--yes')
    expect([code, stdout]).toEqual([0, expect.stringContaining('5 of 5 changes repeated. The logs record each.')])
  })
})

function idOf(at: number): string {
  return scene.tenants[at]?.tenant_id ?? ''
}
