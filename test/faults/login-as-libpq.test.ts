// Logins by SCRAM as libpq makes them: passwords that SASLprep changes, and the binding of a login to the certificate of the connection.
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { connect } from '../../packages/server/src/core/store/db.js'
import { backend } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { type PostgresServer, startPostgres, unprivilegedAccount } from '../support/database/postgres.js'
import { runCommand } from '../support/service/command-host.js'

const TIMEOUT_MS = 120_000
const HBA = `
local all all trust
host all trusted 127.0.0.1/32 trust
host all by_md5 127.0.0.1/32 md5
host all in_clear 127.0.0.1/32 password
host all all 127.0.0.1/32 scram-sha-256
`

describe.skipIf(backend() === 'embedded')('a login by SCRAM', { timeout: TIMEOUT_MS }, () => {
  let folder: string
  let cluster: PostgresServer
  let admin: postgres.Sql
  let roles = 0

  beforeAll(async () => {
    const bin = findPostgres()
    if (!bin) throw new Error('no PostgreSQL')
    folder = mkdtempSync(join(tmpdir(), 'eaas-scram-'))
    chmodSync(folder, 0o755)
    const hba = join(folder, 'pg_hba.conf')
    writeFileSync(hba, HBA)
    makeCertificate('ec', ['-pkeyopt', 'ec_paramgen_curve:prime256v1'])
    const account = unprivilegedAccount()
    if (account) chownSync(folder, account.uid, account.gid)
    cluster = await startPostgres({
      bin,
      runDir: inject('runDir'),
      settings: {
        hba_file: hba,
        ssl: 'on',
        ssl_cert_file: join(folder, 'server.crt'),
        ssl_key_file: join(folder, 'server.key'),
      },
    })
    admin = postgres(cluster.url, { max: 1, onnotice: () => undefined })
    await admin`create role trusted login superuser`
    await admin`create role scrambled login superuser password 'secret'`
    await admin`create role in_clear login superuser password 'secret'`
    await admin`set password_encryption = 'md5'`
    await admin`create role by_md5 login superuser password 'secret'`
    await admin`reset password_encryption`
  }, TIMEOUT_MS)
  afterAll(async () => {
    await admin?.end()
    await cluster?.remove()
    rmSync(folder, { recursive: true, force: true })
  })

  /** Makes the certificate that the server shows from its next start or reload on. */
  function makeCertificate(kind: string, parameters: string[] = []): void {
    const [key, certificate] = [join(folder, 'server.key'), join(folder, 'server.crt')]
    const made = ['-x509', '-newkey', kind, ...parameters, '-nodes', '-days', '2', '-subj', '/CN=database']
    const name = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', `${key}.new`, '-out', certificate]
    execFileSync('openssl', ['req', ...made, ...name], { stdio: 'ignore' })
    copyFileSync(`${key}.new`, key)
    chmodSync(key, 0o600)
    const account = unprivilegedAccount()
    if (account) chownSync(key, account.uid, account.gid)
  }

  /** Runs a query in a session of its own, and ends that. */
  async function inSession<Row>(user: string, password: string, query: string, text: string): Promise<Row> {
    const login = [user, password].map(encodeURIComponent).join(':')
    const sql = connect({ url: `postgres://${login}@127.0.0.1:${cluster.port}/postgres?${query}`, max: 1 })
    try {
      const [row] = await sql.unsafe(text)
      return row as Row
    } finally {
      await sql.end()
    }
  }

  const logIn = (user: string, query: string, password = 'secret') =>
    inSession<{ who: string }>(user, password, query, 'select session_user as who')

  describe('with a password', () => {
    it.each([
      ['of ASCII', 'plain'],
      ['composed', 'pässwörd'],
      ['with an accent of its own', 'cafe\u0301'],
      ['with a superscript', 'x²y'],
      ['with a no-break space', 'a\u00a0b'],
      ['with a zero-width space, which is in two tables', 'a\u200bb'],
      ['with a soft hyphen', 'a\u00adb'],
      ['of full-width letters', 'ａｂｃ'],
      ['of several such', '¨‑¼'],
      ['with a control character beside ASCII', 'é\u0001'],
      ['with a control character in ASCII', 'a\u0001'],
      ['with a private character', 'x²\ue000'],
      ['with a character that Unicode 3.2 does not know', 'x²😀'],
      ['with a character that only NFKC makes known to Unicode 3.2', 'x²\u1d33'],
      ['of nothing that counts', '\u00ad\u200d'],
      ['from right to left', '\u05d0²\u05d1'],
      ['of both directions', '\u05d0a²\u05d1'],
      ['that begins from left to right', '²\u05d0'],
      ['of ligatures and Hangul', 'ﬁ\u1112\u1161\u11ab'],
    ])('%s, is hashed as PostgreSQL hashes it', async (_, password) => {
      const role = `role_${++roles}`
      await admin.unsafe(`create role ${role} login password '${password}'`)
      expect(await logIn(role, '', password)).toEqual({ who: role })
      await expect(logIn(role, '', `${password}x`)).rejects.toMatchObject({ code: '28P01' })
    })

    it.each(['by_md5', 'in_clear'])('that another method takes, sends it as it is: %s', async (role) => {
      for (const password of ['x²y', 'cafe\u0301']) {
        await admin.unsafe(`set password_encryption = '${role === 'by_md5' ? 'md5' : 'scram-sha-256'}'`)
        await admin.unsafe(`alter role ${role} password '${password}'`)
        expect(await logIn(role, '', password)).toEqual({ who: role })
      }
      await admin.unsafe(`alter role ${role} password 'secret'; reset password_encryption`)
    })
  })

  describe('over TLS', () => {
    const binds = `select ssl, session_user as who from pg_stat_ssl where pid = pg_backend_pid()`

    it.each([
      ['ec', ['-pkeyopt', 'ec_paramgen_curve:prime256v1'], true],
      ['ec', ['-pkeyopt', 'ec_paramgen_curve:secp384r1', '-sha384'], true],
      ['rsa:2048', ['-sha1'], true],
      ['rsa:2048', ['-sha512'], true],
      ['rsa:2048', ['-sha384', '-sigopt', 'rsa_padding_mode:pss'], true],
      ['ed25519', [], false],
    ])('is bound to a certificate of %s %j, if a hash is defined for it: %s', async (kind, parameters, isDefined) => {
      makeCertificate(kind, parameters)
      await cluster.stop()
      await cluster.start()
      for (const mode of ['', '&channel_binding=prefer', '&channel_binding=disable']) {
        expect(await inSession('scrambled', 'secret', `sslmode=require${mode}`, binds)).toMatchObject({ ssl: true })
      }
      const required = logIn('scrambled', 'sslmode=require&channel_binding=require')
      if (isDefined) expect(await required).toEqual({ who: 'scrambled' })
      else await expect(required).rejects.toMatchObject({ code: 'NO_CHANNEL_BINDING' })
    })

    it.each([
      ['trusted', 'sslmode=require', 'it asked for no login by SCRAM'],
      ['by_md5', 'sslmode=require', 'it asked for no login by SCRAM'],
      ['in_clear', 'sslmode=require', 'it asked for no login by SCRAM'],
      ['scrambled', 'sslmode=disable', 'the connection has no TLS'],
    ])('is refused where a binding is required and %s logs in with %s', async (role, query, why) => {
      await expect(logIn(role, `${query}&channel_binding=require`)).rejects.toMatchObject({
        code: 'NO_CHANNEL_BINDING',
        message: `the database cannot be bound to its certificate: ${why}`,
      })
      expect(await logIn(role, query)).toEqual({ who: role })
    })

    it('is refused by a command with what to do', async () => {
      const url = `postgres://trusted@127.0.0.1:${cluster.port}/postgres?sslmode=require&channel_binding=require`
      const { code, stderr } = await runCommand(['tenant', 'list'], { environment: { EAAS_DATABASE_URL: url } })
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/cannot be bound .*: .*Remove the parameter, and use sslmode=verify-full/),
      ])
    })
  })
})
