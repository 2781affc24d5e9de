// The work that an application feels: rows of four encrypted fields, one of them searchable, written to PostgreSQL and read
// back through Prisma or Kysely, with this SDK, with prisma-field-encryption, with AWS's library, and with nothing that
// encrypts. Also the bytes of such a row in each format.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { createClient, json, type RowFormat, text } from '../../../../packages/sdk/src/index.js'
import { createTestService } from '../../../../packages/sdk/src/testing.js'
import { startServer } from '../../lib/process.js'
import { type BarRow, type Findings, short, type Table, withSpread } from '../../lib/report.js'
import { interleave, ratios, spread } from '../../lib/rounds.js'
import { makeTenant, type Scene } from '../../lib/scene.js'
import { runWorker } from '../../lib/worker.js'
import { makePeople } from './people.js'

const ROWS = 10_000
const WORK = `${ROWS.toLocaleString('en-US')} rows of four encrypted fields, one with an index`
/** AWS's library takes seconds for each thousand. */
const AWS_ROWS = 1_000
/** prisma-field-encryption does not run on Prisma 7, so its application has an installation of its own. */
const PRISMA_6 = fileURLToPath(new URL('./prisma-6/', import.meta.url))

const CASES = {
  EaaS: { worker: 'sdk/rows/prisma-7.ts', how: 'eaas', rows: ROWS },
  'EaaS on Kysely': { worker: 'sdk/rows/kysely.ts', how: 'eaas', rows: ROWS },
  'prisma-field-encryption': { worker: 'sdk/rows/prisma-6/worker.ts', how: 'encrypted', rows: ROWS },
  'aws-crypto, caching CMM': { worker: 'sdk/rows/prisma-7.ts', how: 'aws', rows: AWS_ROWS },
  'Prisma 7, nothing encrypted': { worker: 'sdk/rows/prisma-7.ts', how: 'plain', rows: ROWS },
  'Prisma 6, nothing encrypted': { worker: 'sdk/rows/prisma-6/worker.ts', how: 'plain', rows: ROWS },
  'Kysely, nothing encrypted': { worker: 'sdk/rows/kysely.ts', how: 'plain', rows: ROWS },
} as const
type Name = keyof typeof CASES

/** ms, of `ROWS` rows. */
interface Result {
  write: number
  read: number
  cpu: number
}

export async function measureRows(scene: Scene): Promise<Findings> {
  installPrisma6()
  const { url = '' } = await scene.database()
  await createTable(url)
  const database = await scene.database()
  const server = await startServer({ guard: scene.guard, cpus: scene.pinning?.others }, database, {
    environment: { EAAS_LOG_LEVEL: 'silent' },
  })
  try {
    const { secret } = await makeTenant(database, server)
    const results = Object.fromEntries(Object.keys(CASES).map((name) => [name, [] as Result[]])) as Record<
      Name,
      Result[]
    >
    const run = async (name: Name) => {
      const { worker, how, rows } = CASES[name]
      const result: Result = await runWorker(scene, worker, {
        url,
        how,
        rows,
        eaas: { baseUrl: server.url, apiKey: secret },
      })
      const times = ROWS / rows
      results[name].push({ write: result.write * times, read: result.read * times, cpu: result.cpu * times })
      return (result.write + result.read) * times
    }
    const cases = Object.fromEntries(Object.keys(CASES).map((name) => [name, () => run(name as Name)]))
    const measured = (await interleave(cases, scene.options)) as Record<Name, number[]>
    const figures = (name: Name, figure: keyof Result) => spread(results[name].slice(1).map((result) => result[figure]))
    const over = (against: Name, atLeast?: number, by: Name = 'EaaS'): BarRow => ({
      what: `${WORK}, written and read back${by === 'EaaS' ? '' : ' by Kysely'}`,
      against,
      measured: spread(ratios(measured[against], measured[by])),
      note: 'by elapsed time',
      ...(atLeast === undefined ? {} : { atLeast }),
    })
    return {
      bars: [
        over('prisma-field-encryption', 1.15),
        over('prisma-field-encryption', 2, 'EaaS on Kysely'),
        over('aws-crypto, caching CMM', 3),
        over('Prisma 7, nothing encrypted'),
        over('Kysely, nothing encrypted', undefined, 'EaaS on Kysely'),
      ],
      tables: [
        await measureBytes(),
        {
          title: `${WORK}, into PostgreSQL and back`,
          columns: ['', 'written, ms', 'read, ms', 'CPU of the application, ms'],
          rows: (Object.keys(CASES) as Name[]).map((name) => [
            name,
            ...(['write', 'read', 'cpu'] as const).map((figure) => withSpread(figures(name, figure))),
          ]),
          note: `AWS's library with ${AWS_ROWS.toLocaleString('en-US')} rows, times ${ROWS / AWS_ROWS}.`,
        },
      ],
      plots: [],
    }
  } finally {
    await server.stop()
  }
}

/** The bytes of all columns of a row, with its id and its index: of text as UTF-8, of objects as JSON. */
async function measureBytes(): Promise<Table> {
  const eaas = createClient(createTestService())
  const people = makePeople(1_000)
  const bytesOf = (rows: readonly object[]) => {
    const cells = rows.flatMap((row) =>
      Object.values(row).map((cell) => (typeof cell === 'string' ? cell : JSON.stringify(cell))),
    )
    return short(Buffer.byteLength(cells.join('')) / rows.length)
  }
  const fields = { email: text({ index: 'email_index' }), nick: text(), city: text(), prefs: json() }
  const sizes = [['nothing encrypted', bytesOf(people)]]
  for (const format of ['full', 'text', 'compact', 'compact-text'] satisfies RowFormat[]) {
    const users = eaas.model({ name: 'users', key: 'users', bind: ['id'], format, fields })
    sizes.push([format, bytesOf(await users.encryptMany(people))])
  }
  eaas.close()
  return { title: 'A row of four encrypted fields, one with an index', columns: ['format', 'bytes'], rows: sizes }
}

function installPrisma6(): void {
  if (existsSync(`${PRISMA_6}node_modules/.prisma/client/schema.prisma`)) return
  console.error('Installing Prisma 6 for prisma-field-encryption (once) …')
  // No engine is downloaded: the client compiles its queries by itself, and nothing is migrated.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true', PRISMA_QUERY_ENGINE_LIBRARY: '/bin/true' }
  const options = { cwd: PRISMA_6, env, stdio: ['ignore', 'ignore', 'inherit'] as const }
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { ...options, stdio: [...options.stdio] })
  execFileSync('npx', ['prisma', 'generate'], { ...options, stdio: [...options.stdio] })
}

/** What the applications have: the table of the schema that the ORM tests generate a client of, and that of Prisma 6 and Kysely. */
async function createTable(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  await sql.unsafe(`
    create table users (id uuid primary key, email text not null, email_index text unique, nick text, nick_index text,
      born jsonb, prefs jsonb, city text not null);
    create table users_6 (id uuid primary key, email text not null, email_index text unique, nick text, prefs text, city text not null)`)
  await sql.end()
}
