// eaas accept rollback --all --from-diff: accepts what a diff showed of each log, and no more.
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createCheckpointEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { restoreTables, type Scene } from '../../support/audit/audit-scene.js'
import { backend } from '../../support/database/database.js'
import { connectTo } from '../../support/service/eaas-process.js'
import type { Caller } from '../../support/service/service.js'
import { type RolledBack, rolledBack } from './rolled-back-scene.js'

const NAMES = ['acme', 'globex', 'umbrella']

interface Diff {
  public_key: string
  logs: {
    tenant_id: string
    name: string
    outcome: string
    last_id: number
    agrees_through: number
    witnessed_through: number
  }[]
}

let folder: string
let scene: RolledBack
const file = () => join(folder, 'diff')

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-accept-all-'))
  scene = await rolledBack(folder, NAMES, { change: (caller) => newKey(caller) })
})
afterEach(async () => {
  await scene.service.close()
  await rm(folder, { recursive: true, force: true })
})

const newKey = (caller: Caller) => caller.call('POST', '/v1/keys', { name: `${Math.random()}` })
const accept = (...args: string[]) =>
  scene.eaas('accept', 'rollback', '--all', '--from-diff', file(), '--reason', 'Monday was restored', ...args)

/** Makes the diff, as it is or with an edit by hand. */
async function diff(edit: (found: Diff) => unknown = () => undefined): Promise<Diff> {
  const { stdout } = await scene.eaas('audit', 'diff', '--all', '--json')
  const found = JSON.parse(stdout) as Diff
  edit(found)
  await writeFile(file(), JSON.stringify(found))
  return found
}

const of = (found: Diff, name: string) => found.logs.find((log) => log.name === name) as Diff['logs'][number]
const left = async () => JSON.parse((await accept('--json')).stdout)

describe('eaas accept rollback --all', { timeout: 240_000 }, () => {
  it('accepts every log that differs, the installation first, in one line', async () => {
    const found = await diff()
    expect(found.logs.map(({ outcome }) => outcome)).toEqual(['different', 'different', 'different', 'different'])
    const { code, stdout, stderr } = await accept()
    expect([code, stdout, stderr]).toEqual([
      0,
      'Accepted: 4 logs of 4 that differ or have an alarm. No alarm is left. Now repeat what was lost, which eaas audit diff --export names.\n',
      '',
    ])
    for (const { tenant_id } of scene.tenants) {
      const { stdout: list } = await scene.eaas('audit', 'list', '--tenant', tenant_id, '--json')
      expect(JSON.parse(list).logs[0]).toMatchObject({
        action: 'audit.rollback_accepted',
        metadata: { witnessed_id: 2 },
      })
    }
    const own = JSON.parse((await scene.eaas('audit', 'list', '--installation', '--json')).stdout).logs
    const recorded = own.filter(({ action }: { action: string }) => action === 'installation.rollback_accepted')
    expect(recorded.map(({ metadata }: { metadata: { tenant_id: string } }) => metadata.tenant_id).sort()).toEqual(
      scene.tenants.map(({ tenant_id }) => tenant_id).sort(),
    )
    expect((await scene.eaas('audit', 'verify', '--all')).code).toBe(0)
    const again = await accept('--json')
    expect([again.code, JSON.parse(again.stdout)]).toMatchObject([0, { accepted: [], refused: [], left: [] }])
    expect(JSON.parse(again.stdout).accepted_before.length).toBeGreaterThan(0)
    expect((await accept()).stdout).toMatch(/^Accepted: 0 logs .* Accepted before: \d logs?\. No alarm/)
    for (const { caller } of scene.tenants) await expect.poll(async () => (await newKey(caller)).status).toBe(201)
  })

  it('leaves a log that the diff does not name, and says so', async () => {
    await diff((found) => found.logs.splice(found.logs.indexOf(of(found, 'globex')), 1))
    const { code, stdout } = await accept()
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/^Accepted: 3 logs of 3 that differ or have an alarm\. 1 alarm left: /),
    ])
    expect(await left()).toMatchObject({ accepted: [], left: [scene.tenants[1]?.tenant_id] })
    await diff()
    expect((await accept()).stdout).toMatch(/^Accepted: 1 log of 1 that differs or has an alarm\. No alarm is left\./)
  })

  it.each<[string, RegExp, (log: Diff['logs'][number]) => unknown]>([
    ['shows a smaller loss', /a server saw entry 2, and the diff knows of 1/, (log) => (log.witnessed_through = 1)],
    ['shows another end', /the log ends with entry 1, and the diff shows 7/, (log) => (log.last_id = 7)],
    ['names a tenant that is not there', /there is no tenant/, (log) => (log.tenant_id = crypto.randomUUID())],
  ])('refuses a log of which the diff %s, and accepts the others', async (_, said, edit) => {
    await diff((found) => edit(of(found, 'globex')))
    const { code, stdout } = await accept()
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/^Accepted: 3 logs of 4 that differ or have an alarm\. Refused: 1, the first/),
    ])
    expect(stdout).toMatch(said)
  })

  it.each([2, null])(
    'accepts nothing without an alarm, whatever the diff says, as that the log ends with entry %s',
    async (last_id) => {
      await diff()
      expect((await accept()).code).toBe(0)
      await diff((found) =>
        Object.assign(of(found, 'acme'), {
          outcome: 'different',
          last_id,
          agrees_through: last_id,
          witnessed_through: 99,
        }),
      )
      const { code, stdout } = await accept()
      expect([code, stdout]).toEqual([
        1,
        expect.stringMatching(
          /^Accepted: 0 logs of 1 that differs or has an alarm\. Refused: 1, .*there is no alarm about tenant acme.* No alarm is left\./,
        ),
      ])
    },
  )

  it('fails for a log that does not verify any more since it was accepted, although there is no alarm', async () => {
    const found = await diff()
    expect((await accept()).code).toBe(0)
    await writeFile(file(), JSON.stringify({ ...found, logs: [of(found, 'acme')] }))
    const { sql } = scene.service.services
    const tenant_id = scene.tenants[0]?.tenant_id ?? ''
    const [entry] = await sql`select * from audit_log where tenant_id = ${tenant_id} and id = 1`
    await sql`insert into audit_log ${sql({ ...entry, id: 4 })}`
    const { code, stdout } = await accept()
    expect([code, stdout]).toEqual([1, expect.stringMatching(/Refused: 1, .* does not verify .* No alarm is left\./)])
  })

  // Without a server nobody serves the embedded database to this test.
  it.skipIf(backend() === 'embedded').each([
    ['without a head', 'missing'],
    ['with an older head', 'behind'],
    ['with an older head, to which the rest is cut off', 'exact'],
  ] as const)('refuses a log %s that has lost since what the diff showed as there', async (_, head) => {
    await diff()
    expect((await accept()).code).toBe(0)
    const { services } = scene.service
    const { sql } = services
    const { caller, tenant_id } = scene.tenants[0] as RolledBack['tenants'][number]
    await expect.poll(async () => (await newKey(caller)).status).toBe(201)
    const { keys } = (await caller.call('GET', '/v1/keys')).body
    const wrap = () => caller.call('POST', `/v1/keys/${keys[0].id}/wrap`, { dek: randomBytes(32).toString('base64') })
    const heads = async () => (await sql`select * from heads where tenant_id = ${tenant_id}`) as unknown as object[]
    const lastOf = async () => ((await heads())[0] as { last_id: number }).last_id
    const kept = await lastOf()
    if (head === 'behind') await wrap()
    const older = head === 'missing' ? [] : await heads()
    for (let at = 0; at < 3; at++) await wrap()
    const end = await lastOf()
    await createCheckpointEmitter(services, scene.checkpoints, (error) => {
      throw error
    })()
    await scene.service.close()
    const database = connectTo(scene.service.database)
    try {
      await database`delete from heads where tenant_id = ${tenant_id}`
      if (older.length > 0) await database`insert into heads ${database(older as Record<string, never>[])}`
      expect(of(await diff(), 'acme')).toMatchObject({
        outcome: 'different',
        agrees_through: end,
        witnessed_through: end,
      })
      await database`delete from audit_log where tenant_id = ${tenant_id} and id > ${kept}`
      const { code, stdout } = await accept()
      const said = `the log ends with entry ${kept}, and the diff shows ${end}: make the diff again`
      expect([code, stdout]).toEqual([1, expect.stringContaining(said)])
      await diff()
      expect((await accept()).code).toBe(0)
    } finally {
      await database.end()
    }
  })

  it.each<[string, RegExp, (found: Diff) => unknown]>([
    ['of another installation', /is of another installation/, (found) => (found.public_key = 'AAAA')],
    ['that names a log twice', /names a log twice/, (found) => found.logs.push(of(found, 'acme'))],
    ['with an id that is none', /is not what eaas audit diff/, (found) => (of(found, 'acme').tenant_id = 'acme')],
    ['with an entry that is none', /is not what eaas audit diff/, (found) => (of(found, 'acme').last_id = 1.5)],
    ['without logs', /is not what eaas audit diff/, (found) => Reflect.deleteProperty(found, 'logs')],
  ])('refuses a file %s, and changes nothing', async (_, said, edit) => {
    await diff(edit)
    const { code, stderr } = await accept()
    expect([code, stderr]).toEqual([1, expect.stringMatching(said)])
    expect((await diff()).logs.filter(({ outcome }) => outcome === 'different')).toHaveLength(4)
  })

  it('needs the diff and --all together', async () => {
    await diff()
    const alone = ['accept', 'rollback', '--reason', 'x']
    for (const args of [
      ['--all'],
      ['--from-diff', file()],
      ['--all', '--tenant', 'acme'],
      ['--tenant', 'acme', '--from-diff', file()],
    ]) {
      expect([args, (await scene.eaas(...alone, ...args)).code]).toEqual([args, 2])
    }
  })

  it('leaves a missing tenant to the command for one', async () => {
    const { services } = scene.service
    const { tenant_id = '' } = scene.tenants[2] ?? {}
    for (const table of ['tenants', 'heads', 'audit_log', 'audit_counts', 'api_keys']) {
      await services.sql`delete from ${services.sql(table)} where tenant_id = ${tenant_id}`
    }
    const found = await diff()
    expect(found.logs.find((log) => log.tenant_id === tenant_id)).toMatchObject({ outcome: 'missing' })
    expect(found.logs.find((log) => log.tenant_id === INSTALLATION_ID)).toMatchObject({ outcome: 'different' })
    const missing = 'Missing: 1 tenant, to be accepted one by one (eaas accept tenant).'
    expect((await accept()).stdout).toContain(missing)
    const { code, stdout, stderr } = await scene.eaas('accept', 'tenant', tenant_id, '--reason', 'x')
    expect([code, stdout + stderr]).toEqual([0, expect.stringContaining('gone')])
    expect((await accept()).stdout).toContain('Missing without an alarm: 1 tenant, where nothing is to be accepted.')
  })

  it('ends the alarms about logs that are the same again', async () => {
    const sql = scene.service.services.sql as unknown as Scene['sql']
    expect((await scene.eaas('audit', 'diff', '--all')).code).toBe(1)
    const alarms = await sql`select * from chain_alarms`
    await restoreTables(sql, 'late')
    await sql`delete from chain_alarms`
    await sql`insert into chain_alarms ${sql(alarms)}` // as each server does that knows them
    const found = await diff()
    expect(found.logs.map(({ outcome }) => outcome)).toEqual(['same', 'same', 'same', 'same'])
    const { code, stdout } = await accept()
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(/^Accepted: \d logs? of .* have an alarm\. No alarm is left\./),
    ])
    expect((await scene.eaas('audit', 'verify', '--all')).code).toBe(0)
    expect((await accept()).stdout).toContain('Accepted: 0 logs of 0')
  })
})
