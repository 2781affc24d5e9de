// What a command writes is in the checkpoint file before the command ends, so the next process that opens the database finds it undone.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { findHead } from '../../../packages/server/src/core/store/audit.js'
import { createCheckpointEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { keptEntries } from '../../support/audit/checkpoint-file.js'
import { createTenantByCli, runCommand } from '../../support/service/command-host.js'
import { ROOT_KEY } from '../../support/service/service.js'
import { copyAll, removeAll, setInstallationScene } from '../installation/installation-scene.js'

const { current, twoTenants } = setInstallationScene()
let folder: string
const file = () => join(folder, 'checkpoints')

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-command-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const options = () => ({
  database: current().database,
  rootKey: ROOT_KEY,
  environment: { EAAS_CHECKPOINT_FILE: file() },
})
const eaas = (...args: string[]) => runCommand(args, options())

/** The last entry of a log. */
const endOf = async (tenant_id: string) => (await findHead(current().services.sql, tenant_id))?.last_id ?? 0

const linesOf = (tenant_id: string) => keptEntries(file(), tenant_id)

it('a revocation by a command, which somebody undoes, is an alarm to the next process that has the file', async () => {
  const { victim } = await twoTenants()
  const { tenant_id } = victim.tenant
  const { id } = (await victim.call('POST', '/v1/api-keys', { name: 'leaked', permissions: ['encrypt'] })).body
  const write = createCheckpointEmitter(current().services, file(), (error) => expect.unreachable(String(error)))
  await write()
  const [last = 0] = await linesOf(tenant_id)
  const putBack = await copyAll(current(), tenant_id)
  expect(await eaas('api-key', 'revoke', id, '--tenant', tenant_id)).toMatchObject({ code: 0, stderr: '' })
  expect(await linesOf(tenant_id)).toEqual([last, last + 1])
  await removeAll(current(), tenant_id)
  await putBack(current())
  const { stderr } = await eaas('api-key', 'list', '--tenant', tenant_id)
  expect(stderr).toContain(`went back from entry ${last + 1} to ${last}`)
  expect(await eaas('accept', 'rollback', '--tenant', tenant_id, '--reason', 'a drill')).toMatchObject({
    code: 0,
  })
  expect(await linesOf(tenant_id)).toEqual([last, last + 1, last + 1])
  expect(await linesOf(INSTALLATION_ID)).toEqual([expect.any(Number), await endOf(INSTALLATION_ID)])
})

it('a tenant that a command creates, which a restore takes away, is named by the next process that has the file', async () => {
  const { victim } = await twoTenants()
  const { tenant_id: other } = victim.tenant
  await writeFile(file(), '')
  const end = await endOf(INSTALLATION_ID)
  const restore = await copyAll(current(), INSTALLATION_ID)
  const { tenant_id } = await createTenantByCli(options(), 'acme')
  expect([await linesOf(tenant_id), await linesOf(INSTALLATION_ID)]).toEqual([[1], [end + 1]])
  await eaas('tenant', 'suspend', other)
  expect([await linesOf(other), await linesOf(INSTALLATION_ID)]).toEqual([[await endOf(other)], [end + 1, end + 2]])
  for (const id of [tenant_id, INSTALLATION_ID]) await removeAll(current(), id)
  await restore(current())
  const { code, stdout } = await eaas('doctor')
  expect(code).toBe(1)
  expect(stdout).toContain(`went back from entry ${end + 2} to ${end}`)
  expect(stdout).toContain(`${tenant_id} (line `)
  await eaas('accept', 'rollback', '--installation', '--reason', 'a drill')
  expect((await linesOf(INSTALLATION_ID)).slice(2)).toEqual([await endOf(INSTALLATION_ID)])
})

it('a command that changes nothing writes no line, nor does one where there is no file yet', async () => {
  const { victim } = await twoTenants()
  const { tenant_id } = victim.tenant
  await eaas('tenant', 'set', tenant_id, '--envelope-only', 'false')
  await expect(readFile(file())).rejects.toThrow('ENOENT')
  await writeFile(file(), '')
  await eaas('audit', 'list', '--tenant', tenant_id)
  await eaas('api-key', 'list', '--tenant', tenant_id)
  expect(await readFile(file(), 'utf8')).toBe('')
  await eaas('tenant', 'set', tenant_id, '--envelope-only', 'true')
  expect(await linesOf(tenant_id)).toHaveLength(1)
})

// The kernel lets nobody write this file, whereas root may write what any other user owns.
it.skipIf(!existsSync('/proc/version'))(
  'a command that may not write the file does its work, and says what the file lacks',
  async () => {
    const { victim } = await twoTenants()
    const { tenant_id } = victim.tenant
    const options = { database: current().database, rootKey: ROOT_KEY }
    const environment = { EAAS_CHECKPOINT_FILE: '/proc/version' }
    const args = ['tenant', 'set', tenant_id, '--envelope-only', 'false']
    const { code, stdout, stderr } = await runCommand(args, { ...options, environment })
    expect([code, stdout]).toEqual([0, expect.stringContaining(tenant_id)])
    expect(stderr).toContain('eaas: /proc/version (EAAS_CHECKPOINT_FILE) does not have what this command wrote')
  },
)

it('a command ends though nothing reads the pipe that the file is, and doctor says that no start compares with it', async () => {
  const { victim } = await twoTenants()
  execFileSync('mkfifo', [file()])
  const { code, stderr } = await eaas('tenant', 'suspend', victim.tenant.tenant_id)
  expect([code, stderr]).toEqual([0, expect.stringContaining('(EAAS_CHECKPOINT_FILE) takes nothing')])
  expect((await eaas('doctor')).stdout).toMatch(/WARN +checkpoint file +.*is no regular file/)
})

it('an old line that was appended with a higher policy version hides no loss from the next process', async () => {
  const { victim } = await twoTenants()
  const { tenant_id } = victim.tenant
  const write = createCheckpointEmitter(current().services, file(), (error) => expect.unreachable(String(error)))
  await write()
  const [last = 0] = await linesOf(tenant_id)
  const putBack = await copyAll(current(), tenant_id)
  const old = (await readFile(file(), 'utf8')).split('\n').find((line) => line.includes(tenant_id))
  const line = JSON.parse(old ?? '')
  await appendFile(file(), `${JSON.stringify({ ...line, policy_version: line.policy_version + 2 ** 33 })}\n`)
  expect(await eaas('tenant', 'suspend', tenant_id)).toMatchObject({ code: 0, stderr: '' })
  await removeAll(current(), tenant_id)
  await putBack(current())
  expect((await eaas('api-key', 'list', '--tenant', tenant_id)).stderr).toContain(
    `went back from entry ${last + 1} to ${last}`,
  )
})
