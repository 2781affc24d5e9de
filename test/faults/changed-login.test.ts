// What the server logs in to PostgreSQL with, while it changes: passwords and users in the file of the URL, certificates, a unix socket.
import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { type PostgresServer, startPostgres, unprivilegedAccount } from '../support/database/postgres.js'
import { type Certificates, createCertificates } from '../support/service/certificates.js'
import { runCommand } from '../support/service/command-host.js'
import { ROOT_KEY } from '../support/service/eaas-process.js'
import { type RunningServer, startServer } from '../support/service/server.js'

const TIMEOUT_MS = 120_000
const HBA = `
local all all peer
hostssl all by_certificate 127.0.0.1/32 cert
host all all 127.0.0.1/32 scram-sha-256
`

describe.skipIf(backend() === 'embedded')('a server whose login changes', { timeout: TIMEOUT_MS }, () => {
  let folder: string
  let certificates: Certificates
  let cluster: PostgresServer
  let admin: postgres.Sql
  let databases = 0
  let server: RunningServer | undefined

  beforeAll(async () => {
    const bin = findPostgres()
    if (!bin) throw new Error('no PostgreSQL')
    folder = mkdtempSync(join(tmpdir(), 'eaas-login-'))
    certificates = createCertificates()
    const [own, hba] = [certificates.make('database'), join(folder, 'pg_hba.conf')]
    writeFileSync(hba, HBA)
    for (const path of [folder, certificates.folder]) chmodSync(path, 0o755)
    chmodSync(own.key, 0o600)
    const account = unprivilegedAccount()
    if (account) for (const path of [folder, own.key]) chownSync(path, account.uid, account.gid)
    cluster = await startPostgres({
      bin,
      runDir: inject('runDir'),
      settings: {
        hba_file: hba,
        unix_socket_directories: folder,
        ssl: 'on',
        ssl_cert_file: own.cert,
        ssl_key_file: own.key,
        ssl_ca_file: certificates.ca.cert,
      },
    })
    admin = postgres(cluster.url, { max: 1, onnotice: () => undefined })
    await admin`create role serving superuser`
    for (const role of ['one', 'two', 'by_certificate', userInfo().username]) {
      await admin.unsafe(`create role ${role} login superuser password 'first'`)
    }
  }, TIMEOUT_MS)
  afterEach(async () => {
    await server?.stop()
    server = undefined
  })
  afterAll(async () => {
    await admin?.end()
    await cluster?.remove()
    certificates?.remove()
    rmSync(folder, { recursive: true, force: true })
  })

  const urlFile = () => join(folder, 'url')
  const query = '?options=-c%20role%3Dserving' // so that all users act with the same rights

  /** Creates a database, writes its URL into the file, and starts a server by that. */
  async function startOn(login: string, parameters = query) {
    const name = `login_${++databases}`
    await cluster.createDatabase(name)
    const write = (login: string, database = name) =>
      writeFileSync(urlFile(), `postgres://${login}@127.0.0.1:${cluster.port}/${database}${parameters}`)
    write(login)
    server = await startServer({ rootKey: ROOT_KEY, environment: { EAAS_DATABASE_URL_FILE: urlFile() } })
    const dropConnections = () =>
      admin`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name} and pid <> pg_backend_pid()`
    return { name, write, dropConnections }
  }

  const health = async () => {
    const response = await fetch(`${server?.url}/health`)
    return [response.status, (await response.json()) as Record<string, unknown>] as const
  }
  const isWell = () => expect.poll(async () => (await health())[0]).toBe(200)

  it('logs in with the password that the file has now', async () => {
    const { write, dropConnections } = await startOn('one:first')
    await admin`alter role one password 'second'`
    await dropConnections()
    await expect
      .poll(async () => (await health())[1])
      .toMatchObject({
        database: 'login',
        detail: 'the database refuses the login (SQLSTATE 28P01)',
      })
    expect((await health())[0]).toBe(503)
    const call = await fetch(`${server?.url}/v1/keys`, {
      headers: { authorization: `Bearer eaas_sk_${'0'.repeat(32)}_${'A'.repeat(43)}` },
    })
    expect([401, 503]).toContain(call.status) // an API key that has no form, or a database that is not there: no defect
    write('one:second')
    await isWell()
    await admin`alter role one password 'first'`
  })

  it('tries the login at SIGHUP, and does not say that it was reloaded if the database refuses it or is not there', async () => {
    const { name, write } = await startOn('one:first')
    const said = async () => {
      const from = server?.log.length
      await server?.reload()
      const lines = (server?.log.slice(from) ?? '').split('\n') // periodic jobs write there, too
      const line = lines.find((one) => /reloaded at SIGHUP"|could not be logged in/.test(one))
      const { level, msg, err } = JSON.parse(line ?? '{}')
      return [level, msg, err?.code]
    }
    const NOT = /not everything was reloaded at SIGHUP/
    const REFUSED = 'the database could not be logged in to as the settings say now; connections that are open stay'
    expect(await said()).toEqual([40, 'reloaded at SIGHUP', undefined])
    write('one:wrong')
    expect(await said()).toEqual([50, REFUSED, '28P01'])
    write('nobody:first')
    expect(await said()).toEqual([50, REFUSED, '28P01'])
    write('two:first')
    expect(await said()).toEqual([40, 'reloaded at SIGHUP', undefined])
    await admin`alter role one password 'second'`
    write('one:first')
    expect(await said()).toEqual([50, REFUSED, '28P01'])
    expect(server?.log).toMatch(NOT)
    await admin`alter role one password 'first'`
    await admin.unsafe(`alter database ${name} allow_connections false`)
    expect(await said()).toEqual([50, REFUSED, '55000'])
    await admin.unsafe(`alter database ${name} allow_connections true`)
    expect(await said()).toEqual([40, 'reloaded at SIGHUP', undefined])
    await isWell()
  })

  it('logs in as another user that the file names, as whom the database lets it do the same', async () => {
    const { name, write, dropConnections } = await startOn('one:first')
    write('two:first')
    await dropConnections()
    await isWell()
    const users = await admin`select distinct usename from pg_stat_activity where datname = ${name}`
    expect(users).toEqual([{ usename: 'two' }])
  })

  it('stays with what it had while the file is wrong, or names another database, and says so', async () => {
    const { write, dropConnections } = await startOn('one:first')
    write('one:first', 'postgres')
    await dropConnections()
    await isWell()
    await expect.poll(() => server?.log).toMatch(/names another host, database or parameter.*logged in to as before/)
    writeFileSync(urlFile(), 'nothing of the kind')
    await dropConnections()
    await isWell()
    await expect.poll(() => server?.log).toMatch(/must be postgres:.*logged in to as before/)
    expect(server?.log).not.toContain('first@')
  })

  it('shows a certificate instead of a password, and the one that its file has now', async () => {
    const [cert, key] = [join(folder, 'client.crt'), join(folder, 'client.key')]
    const use = (name: string) => {
      const made = certificates.make(name)
      copyFileSync(made.cert, cert)
      copyFileSync(made.key, key)
    }
    use('by_certificate')
    const files = `sslmode=verify-full&sslrootcert=${certificates.ca.cert}&sslcert=${cert}&sslkey=${key}`
    const { dropConnections } = await startOn('by_certificate', `?${files}`)
    await isWell()
    use('somebody_else')
    await dropConnections()
    await expect
      .poll(async () => (await health())[1])
      .toMatchObject({ database: 'login', detail: expect.stringContaining('28000') })
    use('by_certificate')
    await isWell()
  })

  it('does not start with a certificate that cannot be read, and says which', async () => {
    const url = `postgres://by_certificate@127.0.0.1:${cluster.port}/postgres?sslmode=verify-full&sslcert=/nowhere&sslkey=/nowhere`
    const { code, stderr } = await runCommand(['start'], { environment: { EAAS_DATABASE_URL: url } })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^eaas: sslcert in the URL .*ENOENT.*\/nowhere/)])
  })

  it('reaches the database over its unix socket, as the user of the system', async () => {
    const name = `login_${++databases}`
    await cluster.createDatabase(name)
    const url = `postgres://${userInfo().username}@/${name}?host=${folder}&port=${cluster.port}`
    server = await startServer({ rootKey: ROOT_KEY, environment: { EAAS_DATABASE_URL: url } })
    await isWell()
    const [peer] = await admin`select client_addr, client_port from pg_stat_activity where datname = ${name} limit 1`
    expect(peer).toEqual({ client_addr: null, client_port: -1 })
    await server.stop()
    server = undefined
    const { stdout } = await runCommand(['doctor'], { environment: { EAAS_DATABASE_URL: url } })
    expect(stdout).toMatch(new RegExp(`^ok +database .*${folder}, port ${cluster.port}, database ${name}`, 'm'))
    const gone = url.replace(`port=${cluster.port}`, 'port=1')
    const { code, stderr } = await runCommand(['start'], {
      environment: { EAAS_DATABASE_URL: gone, EAAS_START_WAIT_SECONDS: '0' },
    })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/cannot be reached/)])
  })
})
