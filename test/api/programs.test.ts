// docs: which rights for which program. Each program runs with the rights of its row, and fails without any one of them.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Client, createClient, type Envelope, isEaasError, text } from '../../packages/sdk/src/index.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const PAGE = readFileSync(new URL('../../packages/server/docs/rights-by-program.md', import.meta.url), 'utf8')

let service: Service
let owner: Caller
let eaas: Client
let keyId: string
let otherKeyId: string
let row: Record<string, unknown>
const clients: Client[] = []

const fields = { email: text({ index: 'email_index' }), note: text() }
const hashed = (client: Client) =>
  client.model({ name: 'customers', keyId, bind: false, index: { by: 'service' }, fields })
const indexed = (client: Client) => client.model({ name: 'customers', keyId, bind: false, fields })
const plain = (client: Client) => client.model({ name: 'notes', keyId, bind: false, fields: { note: text() } })
const ada = { email: 'ada@example.org', note: 'called twice' }

function connect(apiKey: string, headers: Record<string, string> = {}): Client {
  const send: typeof fetch = (input, init) =>
    fetch(input, { ...init, headers: { ...(init?.headers as Record<string, string>), ...headers } })
  const client = createClient({ baseUrl: service.url, apiKey, fetch: send, retries: 0 })
  clients.push(client)
  return client
}

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  eaas = connect(owner.secret)
  keyId = (await eaas.keys.create({ name: 'shop/customers' })).id
  otherKeyId = (await eaas.keys.create({ name: 'staff' })).id
  row = await hashed(eaas).encrypt(ada)
})
afterAll(async () => {
  for (const client of clients) client.close()
  await service?.close()
})

interface Program {
  /** how the row of the page begins */
  program: string
  run(apiKey: string): Promise<void>
  /** whether it uses keys; by default it does */
  usesKeys?: false
}

const raw = async (apiKey: string, path: string) => {
  const { status, body } = await service.caller(apiKey).call('GET', path)
  if (status !== 200) throw new Error(`${path} was answered ${status}: ${JSON.stringify(body)}`)
  return body
}

const PROGRAMS: Program[] = [
  {
    program: 'a web server whose model names its key',
    async run(apiKey) {
      const model = () => connect(apiKey).model({ name: 'customers', key: 'shop/customers', bind: false, fields })
      expect(await model().decrypt(await model().encrypt(ada))).toMatchObject(ada)
    },
  },
  {
    program: 'a web server that writes, reads and searches with the hashes',
    async run(apiKey) {
      const model = hashed(connect(apiKey))
      const saved = await model.encrypt(ada)
      expect((await model.index({ email: ada.email })).email_index).toBe(saved.email_index)
      expect(await hashed(connect(apiKey)).decrypt(saved)).toMatchObject(ada)
    },
  },
  {
    program: 'a web server that writes, reads and searches',
    async run(apiKey) {
      const saved = await indexed(connect(apiKey)).encrypt(ada)
      expect(await indexed(connect(apiKey)).decrypt(saved)).toMatchObject(ada)
    },
  },
  {
    program: 'a broker',
    async run(apiKey) {
      const behalf = { 'eaas-on-behalf-of': 'ada' }
      const saved = await indexed(connect(apiKey, behalf)).encrypt(ada)
      expect(await indexed(connect(apiKey, behalf)).decrypt(saved)).toMatchObject(ada)
    },
  },
  {
    program: 'a worker that only writes',
    async run(apiKey) {
      await plain(connect(apiKey)).encrypt({ note: 'x' })
    },
  },
  {
    program: 'a worker that writes rows with an index',
    async run(apiKey) {
      await indexed(connect(apiKey)).encrypt(ada)
    },
  },
  {
    program: 'a worker that writes rows which others find',
    async run(apiKey) {
      await hashed(connect(apiKey)).encrypt(ada)
    },
  },
  {
    program: 'a search service',
    async run(apiKey) {
      expect((await hashed(connect(apiKey)).index({ email: ada.email })).email_index).toBe(row.email_index)
    },
  },
  {
    program: 'a nightly report that reads rows',
    async run(apiKey) {
      expect(await hashed(connect(apiKey)).decrypt(row as never)).toMatchObject(ada)
    },
  },
  {
    program: 'a nightly report on who unwrapped which data keys',
    usesKeys: false,
    async run(apiKey) {
      expect((await connect(apiKey).audit.list({ action: 'key.unwrap' })).total).toBeGreaterThan(0)
    },
  },
  {
    program: 'a job that rotates',
    async run(apiKey) {
      const client = connect(apiKey)
      expect((await client.keys.get(keyId)).status).toBe('active')
      await client.keys.rotate(keyId)
      expect(
        await client.rewrap(row.note as Envelope, { context: { model: 'customers', field: 'note' } }),
      ).toMatchObject({ key_id: keyId })
    },
  },
  {
    program: 'a backup of the log',
    usesKeys: false,
    async run(apiKey) {
      expect(await raw(apiKey, '/v1/audit/export')).toContain('eaas/audit/export/v1')
    },
  },
  {
    program: 'a backup of the keys',
    async run(apiKey) {
      const client = connect(apiKey)
      const { name } = await client.keys.get(keyId)
      expect((await client.keys.export(keyId)).name).toBe(name)
    },
  },
]

/** The rows of the page: the program, its permissions, and its keys. */
const ROWS = [...PAGE.matchAll(/^\| (a .*?) \| (`.*?) \| (.*?) \|$/gm)].map(
  ([, program = '', names = '', keys = '']) => ({
    program,
    permissions: [...names.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name),
    hasNoKeys: keys.includes('`[]`'),
  }),
)

async function mint(permissions: readonly string[], keys: readonly string[]): Promise<string> {
  const { status, body } = await owner.call('POST', '/v1/api-keys', {
    name: randomBytes(4).toString('hex'),
    permissions,
    keys,
  })
  expect(status).toBe(201)
  return body.secret
}

/** What an error says of the service's refusal: where something did not open, its cause says it. */
function refusalsIn(error: unknown): string {
  if (!(error instanceof Error)) return ''
  const own = isEaasError(error) && error.code === 'E_API' ? error.problem : error.message
  return `${own} ${refusalsIn(error.cause)}`
}

async function isRefused(run: Promise<void>): Promise<boolean> {
  return run.then(
    () => false,
    (error: unknown) => {
      expect(refusalsIn(error)).toMatch(/E_MISSING_PERMISSION|E_NOT_FOUND/)
      return true
    },
  )
}

it('is written for the programs that are tested', () => {
  expect(
    ROWS.map(({ program }) =>
      program.startsWith(PROGRAMS.find((one) => program.startsWith(one.program))?.program ?? '\0'),
    ),
  ).toEqual(PROGRAMS.map(() => true))
})

describe.each(PROGRAMS)('$program', ({ program, run, usesKeys = true }) => {
  const found = ROWS.find((one) => one.program.startsWith(program))
  const permissions = found?.permissions ?? []
  const keys = () => (found?.hasNoKeys ? [] : ['shop/*'])

  it('runs with the rights of its row', async () => {
    expect(permissions.length).toBeGreaterThan(0)
    await run(await mint(permissions, keys()))
  })

  it.each(permissions)('fails without %s', async (lacking) => {
    const others = permissions.filter((permission) => permission !== lacking)
    expect(await isRefused(run(await mint(others, keys())))).toBe(true)
  })

  it.runIf(usesKeys)('fails with the keys of another program', async () => {
    expect(await isRefused(run(await mint(permissions, [otherKeyId])))).toBe(true)
  })
})
