// The work that an application feels: rows of four encrypted fields, one of them searchable, written to PostgreSQL and read
// back through Prisma, with this SDK, with prisma-field-encryption, with AWS's library, and with nothing that encrypts.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { startServer } from '../../lib/process.js'
import { type BarRow, type Findings, withSpread } from '../../lib/report.js'
import { interleave, ratios, spread } from '../../lib/rounds.js'
import { makeTenant, type Scene } from '../../lib/scene.js'
import { runWorker } from '../../lib/worker.js'

const ROWS = 10_000
const WORK = `${ROWS.toLocaleString('en-US')} rows of four encrypted fields, one with an index`
/** AWS's library takes seconds for each thousand. */
const AWS_ROWS = 1_000
/** prisma-field-encryption does not run on Prisma 7, so its application has an installation of its own. */
const PRISMA_6 = fileURLToPath(new URL('./prisma-6/', import.meta.url))

const CASES = {
  EaaS: { worker: 'sdk/rows/prisma-7.ts', how: 'eaas', rows: ROWS },
  'prisma-field-encryption': { worker: 'sdk/rows/prisma-6/worker.ts', how: 'encrypted', rows: ROWS },
  'aws-crypto, caching CMM': { worker: 'sdk/rows/prisma-7.ts', how: 'aws', rows: AWS_ROWS },
  'Prisma 7, nothing encrypted': { worker: 'sdk/rows/prisma-7.ts', how: 'plain', rows: ROWS },
  'Prisma 6, nothing encrypted': { worker: 'sdk/rows/prisma-6/worker.ts', how: 'plain', rows: ROWS },
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
    const over = (against: Name, atLeast?: number): BarRow => ({
      what: `${WORK}, written and read back`,
      against,
      measured: spread(ratios(measured[against], measured.EaaS)),
      note: 'by elapsed time',
      ...(atLeast === undefined ? {} : { atLeast }),
    })
    return {
      bars: [
        over('prisma-field-encryption', 3),
        over('aws-crypto, caching CMM', 3),
        over('Prisma 7, nothing encrypted'),
      ],
      tables: [
        {
          title: `${WORK}, by Prisma into PostgreSQL and back`,
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

function installPrisma6(): void {
  if (existsSync(`${PRISMA_6}node_modules/.prisma/client/schema.prisma`)) return
  console.error('Installing Prisma 6 for prisma-field-encryption (once) …')
  // No engine is downloaded: the client compiles its queries by itself, and nothing is migrated.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true', PRISMA_QUERY_ENGINE_LIBRARY: '/bin/true' }
  const options = { cwd: PRISMA_6, env, stdio: ['ignore', 'ignore', 'inherit'] as const }
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { ...options, stdio: [...options.stdio] })
  execFileSync('npx', ['prisma', 'generate'], { ...options, stdio: [...options.stdio] })
}

/** What both applications have: the table of the schema that the ORM tests generate a client of, and that of Prisma 6. */
async function createTable(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  await sql.unsafe(`
    create table users (id uuid primary key, email text not null, email_index text unique, nick text, nick_index text,
      born jsonb, prefs jsonb, city text not null);
    create table users_6 (id uuid primary key, email text not null, email_index text unique, nick text, prefs text, city text not null)`)
  await sql.end()
}
