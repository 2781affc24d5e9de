// The recipe for rsyslog in the guide, as it stands there, with eaas audit follow before it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { freePort } from '../../support/database/postgres.js'
import { findOrInstallPrograms } from '../../support/run/apt-program.js'
import { EAAS, environmentOf } from '../../support/service/eaas-process.js'
import { readGuide } from '../../support/sources/server-docs.js'

const found = findOrInstallPrograms(['rsyslogd'], ['rsyslog'])

it.runIf(found)('rsyslog writes every entry that eaas audit follow sends', async () => {
  const { database, tenant_id } = await databaseWithTenant()
  const folder = mkdtempSync(join(tmpdir(), 'eaas-rsyslog-'))
  const [, recipe = ''] = /^```\n(global\(maxMessageSize.*?)^```/ms.exec(readGuide('siem.md')) ?? []
  const port = String(await freePort())
  const [lines, conf, cursor] = ['lines', 'conf', 'cursor'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  const here = recipe.replace('10514', port).replace('/var/log/eaas.ndjson', lines)
  expect(here).toContain(lines)
  writeFileSync(conf, `global(workDirectory="${folder}")\n${here}`)
  const rsyslog = spawn(found?.rsyslogd ?? '', ['-n', '-f', conf, '-i', join(folder, 'pid')], { stdio: 'inherit' })
  onTestFinished(() => void rsyslog.kill('SIGKILL'))
  const args = [EAAS, 'audit', 'follow', '--all', '--cursor', cursor, '--syslog', `127.0.0.1:${port}`]
  const follower = spawn(process.execPath, args, { env: environmentOf({ database }), stdio: 'inherit' })
  const read = () => (existsSync(lines) ? readFileSync(lines, 'utf8').split('\n').filter(Boolean) : [])
  await expect.poll(() => read().some((line) => line.includes(tenant_id)), { timeout: 60_000 }).toBe(true)
  for (const line of read()) expect(JSON.parse(line)).toHaveProperty('tenant_id')
  follower.kill('SIGTERM')
  expect((await once(follower, 'close'))[0]).toBe(0)
})
