// A restored copy that was verified with the checkpoint file of the real servers: what the alarm says of the installation's own log, and how it ends.
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { copyTables, restoreTables } from '../support/audit/audit-scene.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { runCommand } from '../support/service/command-host.js'
import { connectTo, createTenantInProcess } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { startServer } from '../support/service/server.js'

const TIMEOUT_MS = 120_000

let folder: string
let file: string
let database: TestDatabase
let secret: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-rehearsed-'))
  file = join(folder, 'checkpoints')
  database = await freshDatabase('rehearsed', { migrated: true })
  const { api_key } = await createTenantInProcess({ database }, 'acme')
  secret = api_key.secret
  await (await startServer({ database, environment: { EAAS_CHECKPOINT_FILE: file } })).stop()
}, TIMEOUT_MS)
afterEach(() => rm(folder, { recursive: true, force: true }))

const eaas = (...args: string[]) => runCommand(args, { database, environment: { EAAS_CHECKPOINT_FILE: file } })

/** As if the file had been given to a command on a copy of the database. */
async function rehearse(): Promise<void> {
  const sql = connectTo(database)
  await copyTables(sql, 'real')
  expect((await eaas('audit', 'verify', '--all')).code).toBe(0)
  await restoreTables(sql, 'real')
  await sql.end()
}

it('alarms about the log of the installation alone, and every text says so', { timeout: TIMEOUT_MS }, async () => {
  const server = await startServer({ database, environment: { EAAS_CHECKPOINT_FILE: file } })
  try {
    await rehearse()
    const doctor = async () => JSON.parse((await eaas('doctor', '--json')).stdout).findings as { check: string }[]
    const finding = async (check: string) => (await doctor()).find((each) => each.check === check)
    const served = /installation's own log: .*tenants are served.*accept rollback --installation --help/
    expect(await finding('checkpoints')).toMatchObject({ ok: false, detail: expect.stringMatching(served) })
    const list = await eaas('tenant', 'list') // raises the alarm
    expect(list.stderr).toMatch(/the installation's own log; tenants are served/)
    expect(list.stderr).not.toContain('this tenant')
    expect(await finding('alarms')).toMatchObject({ ok: false, detail: expect.stringMatching(served) })
    expect(await finding('alarms')).toMatchObject({ detail: expect.not.stringContaining('these tenants') })
    const health = async () => (await fetch(`${server.url}/health`)).json()
    await expect.poll(health, { timeout: 10_000 }).toMatchObject({ database: 'alarm' })
    const detail = "the installation's own log differs from what the server wrote; the server's own output says how"
    expect(await health()).toMatchObject({ status: 'degraded', detail })
    expect((await callsOf(secret)(server.url, 'GET', '/v1/keys')).status).toBe(200)
    const diff = await eaas('audit', 'diff', '--all')
    expect(diff.stdout).toMatch(/^eaas audit diff --installation --export FILE names/m)
  } finally {
    await server.stop()
  }
})

// While no server runs, no client reaches an embedded database, so the recipe is for PostgreSQL.
it.skipIf(backend() === 'embedded')(
  'is undone without a record of a loss, once the copied lines and the alarm are removed',
  {
    timeout: TIMEOUT_MS,
  },
  async () => {
    const before = join(folder, 'before')
    await copyFile(file, before)
    const environment = { EAAS_CHECKPOINT_FILE: file }
    const server = await startServer({ database, environment })
    await rehearse()
    await eaas('tenant', 'list')
    const health = async () => (await fetch(`${server.url}/health`)).json()
    await expect.poll(health, { timeout: 10_000 }).toMatchObject({ database: 'alarm' })
    await server.stop()
    const known = await readFile(before, 'utf8')
    const lines = (await readFile(file, 'utf8')).split('\n')
    await writeFile(file, lines.filter((line) => !line.includes(INSTALLATION_ID) || known.includes(line)).join('\n'))
    const sql = connectTo(database)
    // Its own row keeps the alarm, whatever the file says.
    expect((await sql`delete from chain_alarms where tenant_id = ${INSTALLATION_ID}`).count).toBe(1)
    await sql.end()
    const again = await startServer({ database, environment })
    try {
      const healthy = async () => (await fetch(`${again.url}/health`)).json()
      expect(await healthy()).toMatchObject({ status: 'healthy' })
      const doctor = JSON.parse((await eaas('doctor', '--json')).stdout)
      expect(doctor.findings.filter(({ ok }: { ok: boolean }) => !ok)).toEqual([])
      expect((await eaas('audit', 'verify', '--all')).code).toBe(0)
    } finally {
      await again.stop()
    }
  },
)
