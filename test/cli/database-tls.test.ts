// A PostgreSQL with TLS: eaas doctor says whether the connection is encrypted and verified, and errors of certificates what to do.
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, rmSync } from 'node:fs'
import { isIP } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { backend, freshDatabase } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { type PostgresServer, startPostgres, unprivilegedAccount } from '../support/database/postgres.js'
import { runCommand } from '../support/service/command-host.js'
import { runEaas } from '../support/service/eaas-process.js'

const TIMEOUT_MS = 120_000

describe.skipIf(backend() === 'embedded')('a PostgreSQL with TLS', { timeout: TIMEOUT_MS }, () => {
  let folder: string
  let certificate: string
  let server: PostgresServer

  beforeAll(async () => {
    const bin = findPostgres()
    if (!bin) throw new Error('no PostgreSQL')
    folder = mkdtempSync(join(tmpdir(), 'eaas-tls-'))
    chmodSync(folder, 0o755)
    certificate = join(folder, 'server.crt')
    makeCertificate('localhost')
    server = await startPostgres({
      bin,
      runDir: inject('runDir'),
      settings: { ssl: 'on', ssl_cert_file: certificate, ssl_key_file: join(folder, 'server.key') },
    })
  }, TIMEOUT_MS)
  afterAll(async () => {
    await server?.remove()
    rmSync(folder, { recursive: true, force: true })
  })

  /** Makes the server's certificate, of a host or of an IP address. */
  function makeCertificate(host: string): void {
    const key = join(folder, 'server.key')
    const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
    const name = ['-subj', '/CN=database', '-addext', `subjectAltName=${isIP(host) ? 'IP' : 'DNS'}:${host}`]
    execFileSync('openssl', ['req', ...kind, ...name, '-keyout', key, '-out', certificate], { stdio: 'ignore' })
    chmodSync(key, 0o600)
    const account = unprivilegedAccount()
    if (account) chownSync(key, account.uid, account.gid)
  }

  async function changeCertificate(host: string): Promise<void> {
    await server.stop()
    makeCertificate(host)
    await server.start()
  }

  function urlWith(sslmode: string, host = 'localhost'): string {
    const url = new URL(server.url)
    url.hostname = host
    url.searchParams.set('sslmode', sslmode)
    return url.href
  }

  async function databaseLine(sslmode: string, { isKnown = false, host = 'localhost' } = {}) {
    const environment = { EAAS_DATABASE_URL: urlWith(sslmode, host) }
    // Node reads that variable when a process starts.
    const { stdout } = await (isKnown
      ? runEaas(['doctor'], { environment: { ...environment, NODE_EXTRA_CA_CERTS: certificate } })
      : runCommand(['doctor'], { environment }))
    return /^.* database .*$/m.exec(stdout)?.[0]
  }

  it('is told by eaas doctor, with whether its certificate was verified', async () => {
    expect(await databaseLine('disable')).toMatch(/^ok .*; the connection is not encrypted$/)
    expect(await databaseLine('require')).toMatch(/; the connection is encrypted \(TLSv1\.\d\), .* not verified/)
    expect(await databaseLine('verify-full', { isKnown: true })).toMatch(
      /; the connection is encrypted \(TLSv1\.\d\), and the certificate verified$/,
    )
  })

  it('is missed where it is required, with what to do; prefer connects without it', async () => {
    const { url } = (await freshDatabase('plain')) as { url: string }
    for (const sslmode of ['require', 'allow', 'verify-full', 'prefer']) {
      const environment = { EAAS_DATABASE_URL: `${url}?sslmode=${sslmode}` }
      const { stdout } = await runCommand(['doctor'], { environment })
      expect([sslmode, stdout]).toEqual([
        sslmode,
        expect.stringMatching(
          sslmode === 'prefer'
            ? /^ok +database .*; the connection is not encrypted$/m
            : /^WRONG +database .*the database at \S+:\d+ offers no TLS: sslmode .* requires it\. Turn it on/m,
        ),
      ])
    }
    const environment = { EAAS_DATABASE_URL: `${url}?sslmode=require` }
    const { code, stderr } = await runCommand(['start'], { environment })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^eaas: NO_TLS: .* offers no TLS: sslmode /)])
  })

  it('is refused with what to do if its certificate is of an unknown authority', async () => {
    expect(await databaseLine('verify-full')).toMatch(
      /^WRONG .*self-signed certificate.*Set NODE_EXTRA_CA_CERTS to a file/,
    )
    const environment = { EAAS_DATABASE_URL: urlWith('verify-full') }
    const { code, stderr } = await runCommand(['tenant', 'list'], { environment })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^eaas: self-signed certificate.* \(DEPTH_ZERO_SELF_SIGNED_CERT\): .*NODE_EXTRA_CA_CERTS.*\n$/,
      ),
    ])
  })

  it.each(['localhost', '127.0.0.1'])(
    'is refused with what to do if its certificate names another host than %s',
    async (host) => {
      const expected = /^WRONG .*use a host in EAAS_DATABASE_URL that the certificate of the database names$/
      for (const other of ['database.example', host === 'localhost' ? '127.0.0.1' : 'localhost']) {
        await changeCertificate(other)
        expect(await databaseLine('verify-full', { isKnown: true, host })).toMatch(expected)
      }
      await changeCertificate(host)
      expect(await databaseLine('verify-full', { isKnown: true, host })).toMatch(/ and the certificate verified$/)
    },
  )
})
