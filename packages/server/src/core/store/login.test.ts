// What a connection logs in with, from the file of an option as from that of a variable.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { readLogin } from './login.js'

it('is refused by the name of the setting that has the file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-login-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const urlFile = join(folder, 'url')
  writeFileSync(urlFile, 'postgres://u:p@other/db')
  const login = { url: 'postgres://u:p@host/db', urlFile }
  expect(() => readLogin(login)).toThrow(/^the file of EAAS_DATABASE_URL_FILE names another host/)
  expect(() => readLogin({ ...login, urlOption: '--to' })).toThrow(/^the file of --to names another host/)
})
