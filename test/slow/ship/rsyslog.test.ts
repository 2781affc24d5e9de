// The recipe for rsyslog in the guide, as it stands there, with eaas audit follow before it.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ExportedEntry } from '@eaas/audit'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Message } from '../../../packages/audit/src/command/follow/message.js'
import { syslogSink } from '../../../packages/audit/src/command/follow/sinks.js'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { freePort } from '../../support/database/postgres.js'
import { findOrInstallPrograms } from '../../support/run/apt-program.js'
import { EAAS, environmentOf } from '../../support/service/eaas-process.js'
import { blockOf } from '../../support/sources/server-docs.js'

const found = findOrInstallPrograms(['rsyslogd'], ['rsyslog'])
const ROUNDS = 5

let folder: string
let port: number
const file = (name: string) => join(folder, name)
const read = () => (existsSync(file('lines')) ? readFileSync(file('lines'), 'utf8').split('\n').filter(Boolean) : [])

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-rsyslog-'))
  port = await freePort()
  const recipe = blockOf('siem.md', 'global\\(maxMessageSize')
    .replace('10514', String(port))
    .replace('/var/log/eaas.ndjson', file('lines'))
  expect(recipe).toContain(file('lines'))
  writeFileSync(file('conf'), `global(workDirectory="${folder}")\n${recipe}`)
  return () => rmSync(folder, { recursive: true, force: true })
})

/** Starts it, and resolves when it listens. */
async function startRsyslog(): Promise<ChildProcess> {
  rmSync(file('pid'), { force: true })
  const args = ['-n', '-f', file('conf'), '-i', file('pid')]
  const rsyslog = spawn(found?.rsyslogd ?? '', args, { stdio: 'inherit' })
  onTestFinished(() => void rsyslog.kill('SIGKILL'))
  const listens = () =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => resolve(false)).on('connect', () => resolve(socket.destroy()))
    })
  await expect.poll(listens, { timeout: 10_000 }).not.toBe(false)
  return rsyslog
}

describe.runIf(found)('the recipe for rsyslog', () => {
  it('writes every entry that eaas audit follow sends', async () => {
    const { database, tenant_id } = await databaseWithTenant()
    await startRsyslog()
    const args = [EAAS, 'audit', 'follow', '--all', '--cursor', file('cursor'), '--syslog', `127.0.0.1:${port}`]
    const follower = spawn(process.execPath, args, { env: environmentOf({ database }), stdio: 'inherit' })
    await expect.poll(() => read().some((line) => line.includes(tenant_id)), { timeout: 60_000 }).toBe(true)
    for (const line of read()) expect(JSON.parse(line)).toHaveProperty('tenant_id')
    follower.kill('SIGTERM')
    expect((await once(follower, 'close'))[0]).toBe(0)
  })

  it('loses no message that counts as delivered by kill -9 of rsyslog at that moment', async () => {
    const entry = { created_at: '2026-05-03T12:00:00.000Z', action: 'key.unwrap' } as ExportedEntry
    const sent: string[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const rsyslog = await startRsyslog()
      const batch = Array.from({ length: 500 }, (_, at): Message => {
        return { entry, text: JSON.stringify({ round, at, padding: 'x'.repeat(600) }) }
      })
      await syslogSink(`127.0.0.1:${port}`)(batch)
      rsyslog.kill('SIGKILL')
      await once(rsyslog, 'close')
      sent.push(...batch.map(({ text }) => text))
    }
    const written = new Set(read())
    expect(sent.filter((text) => !written.has(text))).toEqual([])
  })
})
