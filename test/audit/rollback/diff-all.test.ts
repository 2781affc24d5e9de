// eaas audit diff --all and --installation, and verify --all: every log compared with one file of checkpoints, and what the installation's own log lost.
import { randomUUID } from 'node:crypto'
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createCheckpointEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { runCommand } from '../../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service } from '../../support/service/service.js'
import { copyAll, removeAll, setInstallationScene } from '../installation/installation-scene.js'

const { start } = setInstallationScene()
let folder: string
let service: Service
let [acme, globex]: Caller[] = []
const file = (name: string) => join(folder, name)

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-diff-all-'))
  service = await start()
  acme = await service.createTenant({ name: 'acme' })
  globex = await service.createTenant({ name: 'globex' })
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const grow = (tenant: Caller | undefined) => tenant?.call('POST', '/v1/keys', { name: randomUUID() })
const idOf = (tenant: Caller | undefined) => tenant?.tenant.tenant_id ?? ''
const emit = () =>
  createCheckpointEmitter(service.services, file('checkpoints'), (error) => {
    throw error
  })()

const eaas = (...args: string[]) => runCommand(args, { database: service.database, rootKey: ROOT_KEY })

async function diffAll() {
  const { code, stdout, stderr } = await eaas('audit', 'diff', '--all', '--checkpoint', file('checkpoints'), '--json')
  const { same, logs } = JSON.parse(stdout) as { same: boolean; logs: { tenant_id: string; outcome: string }[] }
  return { code, stderr, same, of: (tenant_id: string) => logs.find((log) => log.tenant_id === tenant_id), logs }
}

describe('eaas audit diff --all', () => {
  it('finds no difference in logs that have grown since', async () => {
    await grow(acme)
    await emit()
    await grow(acme)
    const { code, same, of } = await diffAll()
    expect([code, same]).toEqual([0, true])
    expect(of(idOf(acme))).toMatchObject({ name: 'acme', outcome: 'same', last_id: 3, agrees_through: 2 })
    expect(of(INSTALLATION_ID)).toMatchObject({ name: 'installation', outcome: 'same' })
    const { stdout } = await eaas('audit', 'diff', '--all', '--checkpoint', file('checkpoints'))
    expect(stdout).toMatch(/^No difference: 3 logs agree with the checkpoints in /)
  })

  it('names the log that went back, and no other', async () => {
    const putBack = await copyAll(service, idOf(globex))
    for (const tenant of [acme, globex]) await grow(tenant)
    await emit()
    await removeAll(service, idOf(globex))
    await putBack(service)
    const { code, same, of } = await diffAll()
    expect([code, same]).toEqual([1, false])
    expect(of(idOf(globex))).toMatchObject({ outcome: 'different', last_id: 1, differs_at: 2, witnessed_through: 2 })
    expect(of(idOf(acme))).toMatchObject({ outcome: 'same' })
    const { stdout } = await eaas('audit', 'diff', '--all', '--checkpoint', file('checkpoints'))
    expect(stdout).toContain('2 logs agree with the checkpoints in ')
    expect(stdout).toMatch(/^globex +\S+ +different +The first entry that differs is /m)
    expect(stdout).not.toMatch(/^acme /m)
  })

  it('names a tenant that only the checkpoints have', async () => {
    await emit()
    await removeAll(service, idOf(globex))
    const { code, of } = await diffAll()
    expect([code, of(idOf(globex))]).toMatchObject([1, { name: null, outcome: 'missing', last_id: null }])
  })

  it('names a tenant whose audit key somebody exchanged', async () => {
    const { sql } = service.services
    await emit()
    await sql`update tenants set wrapped_audit_key = ${Buffer.alloc(60)} where tenant_id = ${idOf(acme)}`
    const { code, of } = await diffAll()
    expect([code, of(idOf(acme))]).toMatchObject([
      1,
      { outcome: 'different', detail: expect.stringContaining('audit key') },
    ])
  })

  it('names a head that no server wrote, which no checkpoint shows', async () => {
    await emit()
    await service.services.sql`update heads set mac = ${Buffer.alloc(32)} where tenant_id = ${idOf(acme)}`
    const { code, of } = await diffAll()
    expect(code).toBe(1)
    expect(of(idOf(acme))).toMatchObject({
      outcome: 'different',
      differs_at: null,
      detail: 'Its entries agree through 1, but the head was not written by the server (head_forged)',
    })
  })

  it('ends with 3 if a log has no checkpoint, and no other one differs', async () => {
    await emit()
    const { tenant } = await service.createTenant({ name: 'initech' })
    const { code, same, stderr, of } = await diffAll()
    expect([code, same]).toEqual([3, false])
    expect(of(tenant.tenant_id)).toMatchObject({ outcome: 'not compared' })
    expect(stderr).toContain('1 log could not be compared')
  })

  it('names an altered entry, and says that tenants may be missing if it is of the log that says which there are', async () => {
    await emit()
    await service.services.sql`update audit_log set actor = 'x' where tenant_id = ${INSTALLATION_ID} and id = 1`
    const { code, logs } = await diffAll()
    expect(code).toBe(1)
    expect(logs).toContainEqual(
      expect.objectContaining({
        outcome: 'different',
        differs_at: 1,
        detail: expect.stringContaining('entry_altered'),
      }),
    )
    expect(logs).toContainEqual(
      expect.objectContaining({ outcome: 'not compared', detail: expect.stringContaining('does not verify') }),
    )
  })

  it('takes neither an export nor one log besides, and needs a file', async () => {
    for (const more of [['--export', 'x'], ['--tenant', 'acme'], ['--installation']]) {
      expect((await eaas('audit', 'diff', '--all', '--checkpoint', 'x', ...more)).code).toBe(2)
    }
    expect(await eaas('audit', 'diff', '--all')).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('there is nothing to compare with: give --checkpoint'),
    })
    await writeFile(file('empty'), '')
    expect((await eaas('audit', 'diff', '--all', '--checkpoint', file('empty'))).code).toBe(3)
  })
})

describe('eaas audit verify --all with a file of checkpoints', () => {
  const verifyAll = () => eaas('audit', 'verify', '--all', '--checkpoint', file('checkpoints'))
  const append = async (...of: string[]) =>
    appendFile(file('checkpoints'), `${(await eaas('audit', 'checkpoint', ...of, '--json')).stdout}\n`)

  it('compares each log with its own', async () => {
    await emit()
    await service.createTenant({ name: 'initech' })
    for (const tenant of [acme, globex]) await grow(tenant)
    const { code, stdout } = await verifyAll()
    expect([code, stdout]).toEqual([
      0,
      expect.stringMatching(
        /^checkpoint {2}agrees: entry .*\nby key .*\ntenants {5}2 of 3 compared with a checkpoint of their own/m,
      ),
    ])
  })

  it('finds a log that went back behind it, though the installation has not', async () => {
    const putBack = await copyAll(service, idOf(globex))
    await grow(globex)
    await emit()
    await removeAll(service, idOf(globex))
    await putBack(service)
    const { code, stdout } = await verifyAll()
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^globex +\S+ +behind_checkpoint, entry 2$/m)])
    expect(stdout).toContain('2 of 3 valid')
  })

  it('names a tenant that only the checkpoints have', async () => {
    await append('--installation')
    const putBack = await copyAll(service, INSTALLATION_ID)
    const { tenant } = await service.createTenant({ name: 'initech' })
    await append('--tenant', 'initech')
    await removeAll(service, tenant.tenant_id)
    await removeAll(service, INSTALLATION_ID)
    await putBack(service)
    const { code, stdout } = await verifyAll()
    expect([code, stdout]).toEqual([1, expect.stringMatching(new RegExp(`^- +${tenant.tenant_id} `, 'm'))])
  })

  it('says which checkpoint is of an entry that was purged', async () => {
    await emit()
    await grow(acme)
    await purgeTenant(service.services, idOf(acme), { retentionMonths: 0, maxShare: 1, resume: 'a test' })
    const { code, stdout } = await verifyAll()
    expect([code, stdout]).toEqual([
      5,
      expect.stringMatching(/^UNUSED {6}the checkpoint of acme: its entry was purged$/m),
    ])
  })

  it('verifies no log whose only checkpoint this installation did not sign', async () => {
    await append('--installation')
    const { stdout: note } = await eaas('audit', 'checkpoint', '--tenant', 'acme')
    await appendFile(file('checkpoints'), note.replace(/.{4}=\n$/, 'AAAA=\n'))
    const { code, stdout } = await verifyAll()
    expect([code, stdout]).toEqual([
      3,
      expect.stringMatching(/^acme .*not verified: .*this installation's key did not sign/m),
    ])
  })
})

describe('eaas audit diff --installation', () => {
  it('names what the log lost, and whose log to compare for each change', async () => {
    const putBack = await copyAll(service, INSTALLATION_ID)
    const { tenant } = await service.createTenant({ name: 'initech' })
    expect((await eaas('audit', 'export', '--installation', '--out', file('export'))).code).toBe(0)
    await removeAll(service, INSTALLATION_ID)
    await putBack(service)
    const { code, stdout } = await eaas('audit', 'diff', '--installation', '--export', file('export'))
    expect(code).toBe(1)
    expect(stdout).toContain('The log of the installation is compared.')
    expect(stdout).toMatch(
      new RegExp(`installation.tenant_create +- +- +compare the tenant's own log: .*--tenant ${tenant.tenant_id}`),
    )
  })
})
