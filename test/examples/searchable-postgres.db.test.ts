// `npm run example:searchable-postgres` as a newcomer runs it, with its table on PGlite and on PostgreSQL. On the built
// packages.
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PGlite } from '@electric-sql/pglite'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished, vi } from 'vitest'
import { createClient } from '../../packages/sdk/src/index.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { openCreatedCluster } from '../support/database/created-cluster.js'
import { backend, freshDatabase } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { interruptProgram, readResult, runProgram } from './program.js'

const example = fileURLToPath(new URL('../../examples/searchable-postgres/', import.meta.url))
const main = join(example, 'main.mjs')
const TIMEOUT_MS = 120_000

let dir: GuardedDir
let url: string | undefined
beforeAll(async () => {
  dir = guardedDir('eaas-test-example')
  if (backend() === 'embedded') return
  const database = await freshDatabase('example')
  url = database.backend === 'postgres' ? database.directUrl : undefined // the example is no test of a pooler
})
afterAll(() => dir.remove())

describe('the example with a table', { timeout: TIMEOUT_MS }, () => {
  /** Runs it, and expects all of it to be as it should be but the rows that do not open. */
  async function tour({ unopened, args }: { unopened: number; args?: string[] }) {
    const { code, out, err } = await run(args)
    expect(out).toContain(backend() === 'embedded' ? 'PGlite' : 'PostgreSQL 1')
    expect(out).toMatch(/by: .* using customers_email\./)
    const [, opened = '', kept = ''] = /(\d+) rows to open; (\d+) of them have the name/.exec(out) ?? []
    expect(Number(kept)).toBeGreaterThan(1)
    expect(Number(opened)).toBeGreaterThanOrEqual(Number(kept))
    expect(out).toContain('600 rows changed, 0 failed; the server rewrapped 6 data keys.')
    expect(readResult(out)).toEqual({
      rows: '600',
      wraps: '13', // 6 batches, rewrapped once each, and the DEK of what was resealed
      unwraps: '8', // by the other client 6 and 1; one for resealing
      'audit entries': '25', // the index secret among them
      'chain valid': 'yes',
      'rows that did not open': String(unopened),
      differences: '0',
      seconds: expect.stringMatching(/^\d+\.\d$/),
    })
    await expectNoTable()
    return { code, err }
  }

  // Once each, on PostgreSQL if there is one: the command and the model are the same on both.
  it.runIf(backend() === 'postgres' || findPostgres() === undefined)(
    'finds rows by their indexes, rewraps all, reseals some, and gets every value back',
    async () => expect(await tour({ unopened: 0 })).toEqual({ code: 0, err: '' }),
  )

  it.runIf(backend() === 'embedded')(
    'does so when one bit of the table was altered, names that customer and the field, and exits 1',
    async () =>
      expect(await tour({ unopened: 1, args: ['--tamper'] })).toEqual({
        code: 1,
        err: expect.stringMatching(/^WRONG: customer \d+, field "address": could not decrypt.*\n$/),
      }),
  )

  // Once on each: what ends EaaS is the same on both, and the demo's.
  it.runIf(backend() === 'embedded')('leaves nothing behind when it is interrupted at its start', async () => {
    expect(await interruptProgram(program(), 'SIGINT', /Create a table .* \(/)).toBe(130)
  })

  it.runIf(backend() === 'postgres')('leaves nothing behind when it is interrupted with a full table', async () => {
    expect(await interruptProgram(program(), 'SIGTERM', /Rotate the key \(/)).toBe(143)
    await expectNoTable()
  })
})

describe.runIf(backend() === 'embedded')('the command of the example', { timeout: TIMEOUT_MS }, () => {
  it.each([
    ['nobody', 'postgres://127.0.0.1:1/none', 'ECONNREFUSED'],
    ['no address', 'not a URL', 'Invalid URL'],
  ])('refuses a DATABASE_URL that names %s, with exit code 2', async (_, DATABASE_URL, message) => {
    const { code, out, err } = await runProgram({ main, environment: { DATABASE_URL }, folder: dir.path })
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(message)
  })

  it('refuses what it does not know, and explains itself with --help', async () => {
    expect(await run(['--tampre'])).toMatchObject({ code: 2, err: expect.stringContaining('--tampre') })
    expect(await run(['--help'])).toMatchObject({ code: 0, err: '', out: expect.stringContaining('DATABASE_URL') })
  })
})

describe.runIf(backend() === 'embedded')('rewrapping in the example', { timeout: TIMEOUT_MS }, () => {
  it('leaves alone a row that somebody seals anew between reading and writing', async () => {
    const [{ openDatabase }, customers] = await Promise.all([
      import(join(example, 'database.mjs')),
      import(join(example, 'customers.mjs')),
    ])
    const { defineCustomers, insertAll, openAll, readAll, resealSome, rewrapAll, TABLE } = customers
    const { signal } = new AbortController()
    vi.spyOn(PGlite, 'create').mockResolvedValueOnce(await openCreatedCluster(inject('runDir')))
    const database = await openDatabase(undefined, signal)
    vi.restoreAllMocks()
    const eaas = createClient(createTestService())
    onTestFinished(async () => {
      eaas.close()
      await database.close()
    })
    await database.execute(TABLE)
    const { id: keyId } = await eaas.keys.create({ name: 'customers' })
    const model = defineCustomers(eaas, keyId)
    const none = { phone: null, birth_date: null, address: null, notes: null, balance: null }
    const list = ['Ada', 'Grace'].map((full_name, at) => ({
      ...none,
      id: at + 1,
      country: 'GB',
      full_name,
      email: full_name,
    }))
    for await (const _ of insertAll(database.query, model, list, signal));
    await eaas.keys.rotate(keyId)

    let disturbed = 0
    const disturbedQuery = async (text: string, parameters: unknown[]) => {
      if (text.includes('update customers set envelope')) disturbed += await resealSome(database, model, [1])
      return database.query(text, parameters)
    }
    for await (const { progress } of rewrapAll(disturbedQuery, model, signal)) expect(progress.changed).toBe(2)
    expect(disturbed).toBe(1)
    const rows = []
    for await (const row of readAll(database.query)) rows.push(row)
    expect(rows.map(({ envelope }) => envelope.key_version)).toEqual([2, 2])
    expect(await openAll(model, rows)).toEqual({ customers: list, failed: [] })
  })
})

describe('the comparison of the example', () => {
  const list = () => [
    { id: 1, full_name: 'é', birth_date: new Date(0), balance: null },
    { id: 2, full_name: ' x', birth_date: null, balance: 7 },
  ]
  let findDifferences: (list: unknown, opened: unknown) => string[]
  beforeAll(async () => {
    findDifferences = (await import(join(example, 'tour.mjs'))).findDifferences
  })

  it('finds nothing between equal customers, in whatever order', () => {
    expect(findDifferences(list(), list().reverse())).toEqual([])
  })

  it.each([{ full_name: 'e\u0301' }, { birth_date: new Date(1) }, { balance: 0 }])(
    'finds a value that changed: %o',
    (change) => {
      const [first, second] = list()
      expect(findDifferences(list(), [{ ...first, ...change }, second])).toEqual(['customer 1 is not as it was'])
    },
  )

  it('finds who is lost, and who was added', () => {
    expect(findDifferences(list(), list().slice(1))).toEqual(['customer 1 did not come back'])
    expect(findDifferences(list().slice(1), list())).toEqual(['customer 1 was never put in'])
  })
})

function program(args: string[] = []) {
  const environment = url === undefined ? {} : { DATABASE_URL: url }
  return { main, args, environment, folder: dir.path, hasOwnPglite: url === undefined }
}

function run(args: string[] = []) {
  return runProgram(program(args))
}

/** The database ends a session, and its temporary tables, a moment after its client has left. */
async function expectNoTable(): Promise<void> {
  if (url === undefined) return
  const sql = postgres(url, { max: 1 })
  try {
    await expect
      .poll(() => sql`select relname from pg_class where relname like 'customers%'`.values(), { timeout: 15_000 })
      .toEqual([])
  } finally {
    await sql.end()
  }
}
