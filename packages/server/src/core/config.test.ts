// The configuration: every variable, what it may hold, and that no message shows a secret.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { type Config, ConfigError, getPort, ROOT_KEY_VARIABLES, readConfig } from './config.js'
import { readDatabaseUrl } from './database-url.js'
import { VARIABLES } from './settings.js'

const SECRETS = {
  EAAS_ROOT_KEY: 'p6enp6enp6enp6enp6enp6enp6enp6enp6enp6enp6c=',
  EAAS_DATABASE_URL: 'postgres://eaas:hunter2hunter2@localhost/eaas',
}

const WITNESS = 'witness.example/w1+6f5a1b2c+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2'

const NO_LOGIN = { tokenFile: undefined, appRoleFile: undefined }

describe('the configuration', () => {
  it('of an empty environment is the documented one', () => {
    expect(readConfig({})).toEqual({
      databaseUrl: undefined,
      databasePooler: 'auto',
      tenantsPerAppend: 'many',
      startWaitSeconds: 60,
      rootKey: undefined,
      transitLogin: { tokenFile: undefined, appRoleFile: undefined },
      dataDir: resolve('.eaas'),
      host: '127.0.0.1',
      port: 8420,
      socket: undefined,
      tls: undefined,
      trustProxy: [],
      corsOrigins: [],
      hasConsole: true,
      destroyWindowDays: 7,
      rotateAfterWraps: 1_073_741_824,
      auditRetentionMonths: 60,
      auditArchiveDir: undefined,
      checkpointFile: resolve('.eaas/checkpoints'),
      checkpointMinutes: 60,
      witnesses: [],
      auditVerifyHours: 24,
      operatorApi: false,
      maxClockSkewMs: 300_000,
      drainSeconds: 0,
      logLevel: 'info',
      journalStream: undefined,
      configFile: undefined,
      databaseUrlFile: undefined,
      serviceManager: undefined,
      unknownVariables: [],
    } satisfies Config)
  })

  it.each([
    [
      'EAAS_DATABASE_URL',
      'postgres://localhost/eaas',
      { databaseUrl: 'postgres://localhost/eaas', checkpointFile: undefined },
    ],
    ['EAAS_DATA_DIR', '/var/lib/eaas', { dataDir: '/var/lib/eaas', checkpointFile: '/var/lib/eaas/checkpoints' }],
    ['EAAS_DATA_DIR', 'data', { dataDir: resolve('data'), checkpointFile: resolve('data/checkpoints') }],
    [
      'EAAS_DATABASE_URL',
      'postgres://u:p@h1:5432,h2,[::1]:5433/eaas?sslmode=verify-full',
      { checkpointFile: undefined, databaseUrl: 'postgres://u:p@h1:5432,h2,[::1]:5433/eaas?sslmode=verify-full' },
    ],
    ['EAAS_START_WAIT_SECONDS', '0', { startWaitSeconds: 0 }],
    ['EAAS_START_WAIT_SECONDS', '3600', { startWaitSeconds: 3_600 }],
    ['EAAS_OPERATOR_API', 'on', { operatorApi: true }],
    ['EAAS_OPERATOR_API', 'off', { operatorApi: false }],
    ['EAAS_AUDIT_VERIFY_HOURS', '0', { auditVerifyHours: 0 }],
    ['EAAS_AUDIT_VERIFY_HOURS', '8760', { auditVerifyHours: 8_760 }],
    ['EAAS_DATABASE_POOLER', 'transaction', { databasePooler: 'transaction' }],
    ['EAAS_DATABASE_POOLER', 'none', { databasePooler: 'none' }],
    ['EAAS_DATABASE_APPENDS', 'one', { tenantsPerAppend: 'one' }],
    ['EAAS_ROOT_KEY', 'AAAA', { rootKey: { kind: 'variable', value: 'AAAA', login: NO_LOGIN } }],
    [
      'EAAS_ROOT_KEY_FILE',
      '/run/secrets/key',
      { rootKey: { kind: 'file', value: '/run/secrets/key', login: NO_LOGIN } },
    ],
    ['EAAS_HOST', '0.0.0.0', { host: '0.0.0.0' }],
    ['EAAS_PORT', '0', { port: 0 }],
    ['EAAS_PORT', '65535', { port: 65_535 }],
    ['EAAS_SOCKET', '/run/eaas/eaas.sock', { socket: { path: '/run/eaas/eaas.sock', mode: 0o660 } }],
    ['EAAS_TRUST_PROXY', '10.0.0.0/8', { trustProxy: ['10.0.0.0/8'] }],
    ['EAAS_TRUST_PROXY', ' 10.0.0.1 ,, ::1,', { trustProxy: ['10.0.0.1', '::1'] }],
    [
      'EAAS_WITNESSES',
      ` ${WITNESS} https://witness.example/eaas/ ,${WITNESS.replace('w1', 'w2')}  http://[::1]:8421`,
      {
        witnesses: [
          { key: WITNESS, url: 'https://witness.example/eaas' },
          { key: WITNESS.replace('w1', 'w2'), url: 'http://[::1]:8421' },
        ],
      },
    ],
    ['EAAS_CONSOLE', 'on', { hasConsole: true }],
    ['EAAS_CONSOLE', 'off', { hasConsole: false }],
    ['EAAS_CORS_ORIGINS', 'https://app.example.org', { corsOrigins: ['https://app.example.org'] }],
    [
      'EAAS_CORS_ORIGINS',
      ' http://localhost:5173 ,, https://a.b,',
      { corsOrigins: ['http://localhost:5173', 'https://a.b'] },
    ],
    ['EAAS_DESTROY_WINDOW_DAYS', '0', { destroyWindowDays: 0 }],
    ['EAAS_DESTROY_WINDOW_DAYS', '3650', { destroyWindowDays: 3_650 }],
    ['EAAS_ROTATE_AFTER_WRAPS', '100', { rotateAfterWraps: 100 }],
    ['EAAS_AUDIT_RETENTION_MONTHS', '0', { auditRetentionMonths: 0 }],
    ['EAAS_AUDIT_RETENTION_MONTHS', '1200', { auditRetentionMonths: 1_200 }],
    ['EAAS_AUDIT_ARCHIVE_DIR', '/archive', { auditArchiveDir: '/archive' }],
    ['EAAS_CHECKPOINT_FILE', '-', { checkpointFile: '-' }],
    ['EAAS_CHECKPOINT_FILE', 'none', { checkpointFile: undefined }],
    ['EAAS_MAX_CLOCK_SKEW_SECONDS', '0', { maxClockSkewMs: Number.POSITIVE_INFINITY }],
    ['EAAS_MAX_CLOCK_SKEW_SECONDS', '60', { maxClockSkewMs: 60_000 }],
    ['EAAS_CHECKPOINT_MINUTES', '1', { checkpointMinutes: 1 }],
    ['EAAS_DRAIN_SECONDS', '15', { drainSeconds: 15 }],
    ['EAAS_DRAIN_SECONDS', '3600', { drainSeconds: 3_600 }],
    ['EAAS_CHECKPOINT_MINUTES', '10080', { checkpointMinutes: 10_080 }],
    ['EAAS_LOG_LEVEL', 'silent', { logLevel: 'silent' }],
    ['EAAS_LOG_LEVEL', 'debug', { logLevel: 'debug' }],
  ])('takes %s=%s', (name, value, expected) => {
    expect(readConfig({ [name]: value })).toEqual({ ...readConfig({}), ...expected })
  })

  it('keeps checkpoints where systemd keeps the state of a service, when the database is elsewhere', () => {
    const environment = {
      EAAS_DATABASE_URL: 'postgres://localhost/eaas',
      STATE_DIRECTORY: '/var/lib/eaas:/var/lib/more',
    }
    expect(readConfig(environment).checkpointFile).toBe('/var/lib/eaas/checkpoints')
    expect(readConfig({ ...environment, EAAS_CHECKPOINT_FILE: '/kept' }).checkpointFile).toBe('/kept')
  })

  it('has a test and a line of help for every variable', () => {
    expect(Object.keys(VARIABLES).sort()).toEqual([
      'EAAS_AUDIT_ARCHIVE_DIR',
      'EAAS_AUDIT_RETENTION_MONTHS',
      'EAAS_AUDIT_VERIFY_HOURS',
      'EAAS_CHECKPOINT_FILE',
      'EAAS_CHECKPOINT_MINUTES',
      'EAAS_CONFIG',
      'EAAS_CONSOLE',
      'EAAS_CORS_ORIGINS',
      'EAAS_DATABASE_APPENDS',
      'EAAS_DATABASE_POOLER',
      'EAAS_DATABASE_URL',
      'EAAS_DATABASE_URL_FILE',
      'EAAS_DATA_DIR',
      'EAAS_DESTROY_WINDOW_DAYS',
      'EAAS_DRAIN_SECONDS',
      'EAAS_HOST',
      'EAAS_LOG_LEVEL',
      'EAAS_MAX_CLOCK_SKEW_SECONDS',
      'EAAS_OPERATOR_API',
      'EAAS_PORT',
      'EAAS_ROOT_KEY',
      'EAAS_ROOT_KEY_AWS_KMS',
      'EAAS_ROOT_KEY_COMMAND',
      'EAAS_ROOT_KEY_EXEC',
      'EAAS_ROOT_KEY_FILE',
      'EAAS_ROOT_KEY_SHARES',
      'EAAS_ROOT_KEY_TRANSIT',
      'EAAS_ROOT_KEY_TRANSIT_APPROLE_FILE',
      'EAAS_ROOT_KEY_TRANSIT_TOKEN_FILE',
      'EAAS_ROTATE_AFTER_WRAPS',
      'EAAS_SOCKET',
      'EAAS_SOCKET_MODE',
      'EAAS_START_WAIT_SECONDS',
      'EAAS_TLS_CERT_FILE',
      'EAAS_TLS_CLIENT_CA_FILE',
      'EAAS_TLS_KEY_FILE',
      'EAAS_TLS_MIN_VERSION',
      'EAAS_TRUST_PROXY',
      'EAAS_WITNESSES',
    ])
    for (const meaning of Object.values(VARIABLES)) expect(meaning).not.toBe('')
  })

  const NEVER_EMPTY = [
    'EAAS_AUDIT_ARCHIVE_DIR',
    'EAAS_CONFIG',
    'EAAS_DATA_DIR',
    'EAAS_DATABASE_URL',
    'EAAS_DATABASE_URL_FILE',
    'EAAS_TLS_CERT_FILE',
    'EAAS_TLS_KEY_FILE',
    'EAAS_TLS_CLIENT_CA_FILE',
    ...Object.values(ROOT_KEY_VARIABLES),
  ]

  it.each(NEVER_EMPTY)('refuses an empty %s, without which the server would do what cannot be undone', (name) => {
    expect(() => readConfig({ [name]: '' })).toThrow(new RegExp(`^${name} is set, but empty.*unset it`))
    expect(readConfig({ [name]: undefined })).toEqual(readConfig({}))
  })

  const MAY_BE_EMPTY = Object.keys(VARIABLES).filter((name) => !NEVER_EMPTY.includes(name))
  it.each(MAY_BE_EMPTY)('takes an empty %s as unset', (name) => {
    expect(readConfig({ [name]: '' })).toEqual(readConfig({}))
    expect(readConfig({ [name]: undefined })).toEqual(readConfig({}))
  })

  it.each([
    ['EAAS_AUDIT_VERIFY_HOURS', '8761'],
    ['EAAS_WITNESSES', WITNESS],
    ['EAAS_WITNESSES', 'https://witness.example'],
    ['EAAS_WITNESSES', `https://witness.example ${WITNESS}`],
    ['EAAS_WITNESSES', `${WITNESS} witness.example`],
    ['EAAS_WITNESSES', `${WITNESS} ftp://witness.example`],
    ['EAAS_WITNESSES', `${WITNESS} https://witness.example?a=b`],
    ['EAAS_WITNESSES', `${WITNESS} https://witness.example#a`],
    ['EAAS_WITNESSES', `${WITNESS} https://user:hunter2@witness.example`],
    ['EAAS_WITNESSES', `${WITNESS} https://witness.example more`],
    ['EAAS_WITNESSES', `${WITNESS} http://a,${WITNESS} http://b`],
    ['EAAS_WITNESSES', `${WITNESS} http://a,${WITNESS.replace('6f5a1b2c', '00000000')} http://b`],
    ['EAAS_WITNESSES', ['w1', 'w2', 'w3', 'w4'].map((name) => `${WITNESS.replace('w1', name)} http://a`).join(',')],
    ['EAAS_PORT', '65536'],
    ['EAAS_PORT', '-1'],
    ['EAAS_PORT', '80.5'],
    ['EAAS_PORT', '8e3'],
    ['EAAS_PORT', '0x50'],
    ['EAAS_PORT', ' 80'],
    ['EAAS_PORT', '80\n'],
    ['EAAS_PORT', '+80'],
    ['EAAS_PORT', 'http'],
    ['EAAS_PORT', '\u0668\u0660'],
    ['EAAS_PORT', '9'.repeat(400)],
    ['EAAS_DESTROY_WINDOW_DAYS', '3651'],
    ['EAAS_AUDIT_RETENTION_MONTHS', '1201'],
    ['EAAS_CHECKPOINT_MINUTES', '0'],
    ['EAAS_CHECKPOINT_MINUTES', '10081'],
    ['EAAS_START_WAIT_SECONDS', '3601'],
    ['EAAS_DATABASE_POOLER', 'session'],
    ['EAAS_DATABASE_APPENDS', 'two'],
    ['EAAS_LOG_LEVEL', 'INFO'],
    ['EAAS_LOG_LEVEL', 'trace'],
    ['EAAS_LOG_LEVEL', 'toString'],
    ['EAAS_LOG_LEVEL', ' info'],
    ['EAAS_CORS_ORIGINS', '*'],
    ['EAAS_CORS_ORIGINS', 'null'],
    ['EAAS_CORS_ORIGINS', 'app.example.org'],
    ['EAAS_CORS_ORIGINS', 'https://app.example.org/'],
    ['EAAS_CORS_ORIGINS', 'https://app.example.org/page'],
    ['EAAS_CORS_ORIGINS', 'https://user@app.example.org'],
    ['EAAS_CORS_ORIGINS', 'https://*.example.org'],
    ['EAAS_CORS_ORIGINS', 'ftp://app.example.org'],
    ['EAAS_SOCKET', `/${'a'.repeat(103)}`],
    ['EAAS_TLS_MIN_VERSION', '1.1'],
    ['EAAS_TLS_MIN_VERSION', 'TLSv1.3'],
    ['EAAS_TRUST_PROXY', 'true'],
    ['EAAS_TRUST_PROXY', '1'],
    ['EAAS_TRUST_PROXY', '*'],
    ['EAAS_TRUST_PROXY', '10.0.0.0/33'],
    ['EAAS_TRUST_PROXY', '0.0.0.0/0'],
    ['EAAS_TRUST_PROXY', '::/0'],
    ['EAAS_TRUST_PROXY', '10.0.0.0/'],
    ['EAAS_TRUST_PROXY', '10.0.0.0/8/8'],
    ['EAAS_TRUST_PROXY', '010.0.0.1'],
    ['EAAS_TRUST_PROXY', '::/129'],
    ['EAAS_TRUST_PROXY', '10.0.0.1, proxy.example.com'],
    ['EAAS_TRUST_PROXY', '10.0.0.1 10.0.0.2'],
    ['EAAS_TRUST_PROXY', 'fe80::1%eth0'],
  ])('refuses %s=%s, naming the variable', (name, value) => {
    expect(() => readConfig({ [name]: value })).toThrow(
      expect.objectContaining({ name: 'ConfigError', message: expect.stringMatching(`^${name} must `) }),
    )
  })

  it.each([
    [{ EAAS_TLS_CERT_FILE: 'c' }, /^EAAS_TLS_CERT_FILE is set\. TLS needs/],
    [{ EAAS_TLS_KEY_FILE: 'k' }, /^EAAS_TLS_KEY_FILE is set\. TLS needs/],
    [{ EAAS_TLS_CLIENT_CA_FILE: 'a' }, /^EAAS_TLS_CLIENT_CA_FILE is set\. TLS needs/],
    [{ EAAS_TLS_CERT_FILE: 'c', EAAS_TLS_KEY_FILE: '' }, /^EAAS_TLS_KEY_FILE is set, but empty/],
    [
      { EAAS_TLS_CERT_FILE: 'c', EAAS_TLS_KEY_FILE: 'k', EAAS_TLS_CLIENT_CA_FILE: '' },
      /^EAAS_TLS_CLIENT_CA_FILE is set, but empty/,
    ],
    [{ EAAS_SOCKET: '/s', EAAS_PORT: '8420' }, /^EAAS_SOCKET and EAAS_PORT are both set/],
    [{ EAAS_SOCKET: '/s', EAAS_HOST: '::1' }, /^EAAS_SOCKET and EAAS_HOST are both set/],
    [{ EAAS_SOCKET: '/s', EAAS_SOCKET_MODE: '888' }, /^EAAS_SOCKET_MODE must be a mode/],
    [{ EAAS_SOCKET_MODE: '600' }, /^EAAS_SOCKET_MODE is set, but EAAS_SOCKET is not/],
    [{ EAAS_TRUST_PROXY: 'unix' }, /^EAAS_TRUST_PROXY has unix, but EAAS_SOCKET is not set/],
  ])('refuses %j, which would serve otherwise than was meant', (environment, message) => {
    expect(() => readConfig(environment)).toThrow(message)
  })

  it.each([
    'EAAS_ROOTKEY',
    'EAAS_DB_URL',
    'EAAS_',
    'EAAS_port',
    'EAAS_PORT_',
    'EAAS_toString',
    'EAAS_TESTS',
    'EAAS_VECTORS_DIR',
  ])('finds %s to be no variable of it, by its name alone', (name) => {
    expect(readConfig({ [name]: SECRETS.EAAS_ROOT_KEY })).toEqual({ ...readConfig({}), unknownVariables: [name] })
    expect(readConfig({ [name]: '' }).unknownVariables).toEqual([name])
  })

  it.each([
    'SERVICE_HOST',
    'SERVICE_PORT',
    'SERVICE_PORT_HTTP',
    'PORT_8420_TCP',
    'PORT_8420_TCP_ADDR',
    'PORT_8420_TCP_PORT',
    'PORT_8420_TCP_PROTO',
  ])('takes EAAS_%s, which Kubernetes sets for a Service, for no misspelt variable', (name) =>
    expect(readConfig({ [`EAAS_${name}`]: 'tcp' }).unknownVariables).toEqual([]),
  )

  it('names Kubernetes where EAAS_PORT is that of a Service', () => {
    const config = readConfig({ EAAS_PORT: 'tcp://10.96.12.7:8420' }) // which most commands do not need
    expect(() => getPort(config)).toThrow(/Kubernetes .*enableServiceLinks: false/)
    expect(() => readConfig({ EAAS_PORT: 'http://x' })).toThrow(/must be a whole number/)
  })

  it("knows the variables of the SDK's command and of a witness, which may be set in the same shell", () => {
    const ofCommand = { EAAS_URL: 'https://eaas.example.org', EAAS_API_KEY: 'eaas_sk_…' }
    expect(readConfig({ ...ofCommand, EAAS_WITNESS_DIR: '.eaas-witness' }).unknownVariables).toEqual([])
  })

  describe('of the database', () => {
    const file = join(mkdtempSync(join(tmpdir(), 'eaas-config-')), 'url')
    const URL_TEXT = 'postgres://eaas:hunter2hunter2@localhost/eaas'
    afterAll(() => rmSync(dirname(file), { recursive: true }))

    it('may stand in a file', () => {
      writeFileSync(file, `${URL_TEXT}\n`)
      expect(readConfig({ EAAS_DATABASE_URL_FILE: file }).databaseUrl).toBe(URL_TEXT)
    })

    it.each([
      'hunter2@hunter2',
      'hunter2/hunter2',
      'hunter2#hunter2',
      'hunter2?hunter2',
      'hunter2/hunt:er2',
      '#hunter2',
      '/hunter2',
    ])(
      'with a character in the password that is not coded says which to code, and shows no part of it: %s',
      (password) => {
        const text = `postgres://eaas:${password}@localhost/eaas`
        writeFileSync(file, text)
        for (const environment of [{ EAAS_DATABASE_URL: text }, { EAAS_DATABASE_URL_FILE: file }]) {
          const message = refusalOf(environment)
          expect(message).toContain('@ as %40')
          for (const part of ['hunt', 'er2', 'localhost']) expect(message).not.toContain(part)
        }
        const coded = `postgres://eaas:${encodeURIComponent(password)}@localhost/eaas`
        expect(readConfig({ EAAS_DATABASE_URL: coded }).databaseUrl).toBe(coded)
      },
    )

    it.each([
      'mysql://eaas:hunter2hunter2@localhost/eaas',
      'eaas:hunter2hunter2@localhost',
      'localhost/eaas',
      'postgres://a:b:c/d',
      'postgres://u:p@h1:5432,h2:x/d',
      'postgres://u:p@h1,/d',
      'postgres://u:hunter2%zz@h1/d',
      'postgres://u:p@%2Fvar%2Frun%2Fpostgresql/d',
    ])('is a URL of PostgreSQL, and not %s, which is not shown', (text) => {
      writeFileSync(file, text)
      for (const [name, environment] of [
        ['EAAS_DATABASE_URL', { EAAS_DATABASE_URL: text }],
        ['EAAS_DATABASE_URL_FILE', { EAAS_DATABASE_URL_FILE: file }],
      ] as const) {
        const message = refusalOf(environment)
        expect(message).toContain(`${name} must be postgres://`)
        expect(message).not.toContain(text)
      }
    })

    it.each([
      ['user=eaas&password=hunter2', 'has the parameter user'],
      ['sslmod=require', 'has the parameter sslmod'],
      ['pgbouncer=true', 'has the parameter pgbouncer: remove it. The server reads sslmode, '],
      ['host=/var/run/postgresql', 'EAAS_DATABASE_URL must be postgres://'], // beside a host
      ['host=', 'has the parameter host: remove it. The server reads sslmode, '],
      ['sslcert=c', 'has only one of sslcert and sslkey'],
      ['sslcert=c&sslkey=k', 'has sslcert, which needs sslmode=verify-full, or require'],
      ['sslmode=prefer&sslcert=c&sslkey=k', 'has sslcert, which needs sslmode=verify-full, or require'],
      ['sslmode=require&sslrootcert=r', 'has sslrootcert, which needs sslmode=verify-full'],
      ['sslmode=ful', 'sslmode in EAAS_DATABASE_URL must be one of disable, '],
      ['channel_binding=', 'channel_binding in EAAS_DATABASE_URL must be one of disable, prefer, require'],
      ['target_session_attrs=any', 'target_session_attrs in EAAS_DATABASE_URL must be one of read-write, primary'],
      ['channel_binding=require', 'has channel_binding=require, which needs TLS: add sslmode=verify-full'],
      ['channel_binding=require&sslmode=disable', 'has channel_binding=require, which needs TLS'],
    ])('has no parameter that would be sent to the database as it is: %s', (query, text) => {
      const message = refusalOf({ EAAS_DATABASE_URL: `postgres://localhost/eaas?${query}` })
      expect(message).toContain(text)
      expect(message).not.toContain('hunter2')
    })

    it('has the parameters that providers show, which the driver does not send to the database', () => {
      const query = 'sslmode=require&channel_binding=require&target_session_attrs=read-write'
      const url = `postgres://localhost/eaas?${query}`
      expect(readConfig({ EAAS_DATABASE_URL: url }).databaseUrl).toBe(url)
      expect(readDatabaseUrl(url)).toMatchObject({
        channelBinding: 'require',
        first: 'postgres://localhost/eaas?sslmode=require',
      })
    })

    it.each([
      'postgres:///eaas?host=run',
      'postgres://u@%2Frun%2Fpostgresql/eaas',
      'postgres:///eaas?host=/run&port=x',
      'postgres:///eaas?host=/run&sslmode=require',
    ])('leads to a unix socket only by its directory, without TLS: not %s', (url) => {
      expect(refusalOf({ EAAS_DATABASE_URL: url })).toMatch(/must be postgres:|has sslmode with a unix socket/)
    })

    it('is refused where it is named twice, or its file is not there', () => {
      const twice = { EAAS_DATABASE_URL: URL_TEXT, EAAS_DATABASE_URL_FILE: file }
      expect(refusalOf(twice)).toMatch(/are both set/)
      expect(refusalOf({ EAAS_DATABASE_URL_FILE: `${file}.none` })).toMatch(
        /^EAAS_DATABASE_URL_FILE names a file .*ENOENT/,
      )
    })

    function refusalOf(environment: Record<string, string>): string {
      try {
        readConfig(environment)
      } catch (error) {
        if (error instanceof ConfigError) return error.message
      }
      throw new Error('it was not refused')
    }
  })

  it('leaves the variables of others alone, and those of the tests', () => {
    const others = {
      PATH: '/bin',
      PORT: '80',
      eaas_port: '1',
      MY_EAAS_PORT: '1',
      EAAS_TEST_SLOW: '1',
      EAAS_VECTORS: '/v',
    }
    expect(readConfig(others)).toEqual(readConfig({}))
    const ours = Object.fromEntries(MAY_BE_EMPTY.map((name) => [name, '']))
    expect(readConfig(ours)).toEqual(readConfig({}))
  })

  it('shows no secret in any message, whatever else is wrong', () => {
    const wrongs = [
      { EAAS_PORT: 'x' },
      { EAAS_LOG_LEVEL: 'x' },
      { EAAS_DESTROY_WINDOW_DAYS: 'x' },
      { EAAS_CHECKPOINT_MINUTES: 'x' },
    ]
    for (const wrong of [...wrongs, { EAAS_TRUST_PROXY: 'true' }]) {
      const refused = () => readConfig({ ...SECRETS, ...wrong })
      expect(refused).toThrow(ConfigError)
      for (const part of ['p6en', 'hunter2', 'postgres:']) {
        expect(refused).toThrow(expect.objectContaining({ message: expect.not.stringContaining(part) }))
      }
    }
  })

  it('reads nothing but what it is handed', () => {
    process.env.EAAS_PORT = '1'
    try {
      expect(readConfig({}).port).toBe(8420)
    } finally {
      delete process.env.EAAS_PORT
    }
  })

  it('is what the environment has itself, and nothing that it inherits', () => {
    const inherited = Object.create({ EAAS_ROOT_KEY_EXEC: '/tmp/program', EAAS_PORT: '1' })
    expect(readConfig(inherited)).toEqual(readConfig({}))
  })
})
