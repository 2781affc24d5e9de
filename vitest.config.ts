// The test suites: `unit` needs no database. The database suites run on PostgreSQL (project `postgres`), those in ON_BOTH also on the
// embedded database (`embedded`), and those in THROUGH_A_POOLER also through `pgbouncer`. Without a PostgreSQL, all of them run on the
// embedded database. test/tiers.mjs says which files `npm test`, `npm run test:all` and `npm run test:slow` run.
// EAAS_TEST_TIER=test runs what `npm test` does, each suite on one back end; EAAS_TEST_TIER=rest, the rest of `npm run test:all`.
// EAAS_TEST_SLOW=1 (npm run test:slow) runs SIZED and LONG on each back end but those in ONCE, the database suites that are not in ON_BOTH
// on the embedded database, and all of them through pgbouncer. EAAS_TEST_FAULTS=1 besides (npm run test:slow -- NAME) has it run LONG and
// what `npm run test:all` runs, of which the name chooses.
import { readFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config'
import { PATCHED_FILES, patchPostgres } from './packages/postgres/src/patch.js'
import { files } from './test/fault-suites.mjs'
import type { Backend } from './test/support/database/database.js'
import { findOrInstallPgbouncer } from './test/support/database/find-pgbouncer.js'
import { findOrInstallPostgres } from './test/support/database/find-postgres.js'
import { findMemoryFolder } from './test/support/run/memory-folder.js'
import { FIRST_ON_DATABASE, isOnDatabase, listTests, tierOf } from './test/tiers.mjs'

/** The suites that fail first if a session loses its state between two transactions. */
const THROUGH_A_POOLER = [
  'api/keys',
  'faults/commit',
  'faults/hidden-rows',
  'faults/pooled-ledger',
  'faults/pooler',
  'faults/serving-role',
  'faults/text-formats',
]

/** All test files but those of `npm run test:slow`. */
const TESTS = listTests().filter((path) => tierOf(path) !== 'test:slow')
const DATABASE_SUITES = TESTS.filter(isOnDatabase)

/**
 * The suites whose result depends on how the server reaches its database: data directory and lock, the single connection, crashes,
 * commits, and one pass over keys, logs and purges. The other suites test the same SQL, driver and HTTP on either back end.
 */
const ON_BOTH = [
  ...files('api', 'batch counted-wraps keys operators'),
  ...files('audit', 'entries/list entries/searches retention/command'),
  ...files('cli', 'backup data-directory dev no-database root-key'),
  ...files('custody', 'destroyed-versions killed killed-process left-by-moves migrated move-tenant new-audit-keys'),
  ...files('custody', 'new-pepper new-signing-key providers released-state rotation shares'),
  ...files('faults', 'clock-ahead commit crash erased-keys hidden-rows schema serving-role shared-appends'),
]

/** The suites that `npm run test:slow` runs too, with more rounds (test/support/run/rounds.ts): units, and on each back end. */
const SIZED_UNITS = [
  'packages/protocol/src/address-range.test.ts',
  'packages/sdk/src/deks/never-zero.test.ts',
  'packages/audit/src/command/report.test.ts',
  'packages/audit/src/formats/export.test.ts',
  'packages/server/src/embedded/database.test.ts',
  'test/sdk/client/round-trip.test.ts',
  'test/examples/{demo,encrypted-files,web-app}.test.ts',
  'test/{packed/first-steps,sdk/cross-language}.test.ts',
  'test/{browser/streams,sdk/stream-memory}.test.ts',
]
/** Slow suites that look at what the package ships, or start a cluster of their own, on no back end of the run. */
const SHIPPED = ['test/slow/ship/{chart,compose,image,release,systemd}.test.ts', 'test/slow/ha/*.test.ts']
const SIZED = [
  ...files('api', 'schema-valid'),
  ...files('custody', 'killed-process'),
  ...files('audit', 'tamper/swapped-in-purge'),
  ...files('faults', 'floods fuzz two-processes'),
  'test/sdk/real-server.db.test.ts',
  'packages/conformance/src/faults.db.test.ts',
]

/** Slow suites whose result depends on no back end: they run on the first one, which is PostgreSQL if it is found. */
const ONCE = [
  'test/audit/guards/guard-mutants.test.ts',
  'test/slow/custody/*.test.ts',
  ...files('slow', 'cross-language frameworks generated-clients ivs mongoose mutation page-apps postgres-versions'),
  ...files('slow', 'runtimes transit verify-export ship/prometheus ship/rsyslog'),
]

/** `npm run test:slow -- NAME` runs these: test/slow, and suites whose rounds take as long. */
const LONG = [
  'test/slow/**/*.test.ts',
  ...ONCE,
  ...files('api', 'key-states'),
  ...files('audit', 'verify/honest-histories'),
  ...files('faults', 'crash pooled-ledger postgres-crash'),
]
const RUN_FOLDER = './test/support/run/run-folder.ts'
const SLOW_TIMEOUT_MS = 30 * 60_000

const slow = process.env.EAAS_TEST_SLOW === '1'
const faults = slow && process.env.EAAS_TEST_FAULTS === '1'
const tier = slow ? undefined : process.env.EAAS_TEST_TIER
const root = fileURLToPath(new URL('.', import.meta.url))
const packages = `${root}packages`
// For this process, its workers and whatever they start. A folder that the caller chose stays. The long suites may need more space.
if (!slow) process.env.TMPDIR ??= findMemoryFolder() ?? tmpdir()
const notHere = ['**/node_modules/**', '**/dist/**']

// Spread into each project rather than inherited with `extends`, which would read this file, and so search for PostgreSQL,
// once more for each project.
const resolve = {
  // Tests import the sources, so they need no build; those that spawn the `eaas` binary run the built one.
  alias: [
    { find: /^@eaas\/(audit|drizzle|kysely|prisma|sdk|server|typeorm)$/, replacement: `${packages}/$1/src/index.ts` },
    { find: /^@eaas\/(audit|cli|sdk|server)\/(.+)$/, replacement: `${packages}/$1/src/$2.ts` },
  ],
}
const common = {
  pool: 'forks' as const,
  // A worker runs many files and loads the sources once: loading them for each file took a sixth of the CPU time of `npm test`.
  // So a test that changes a global undoes it. `findMocking` says which files have a worker of their own, in the project `unit-isolated`.
  isolate: false,
  // One worker more than cores, since workers wait for the database. With two on two cores these were idle for half of a whole run, which took
  // 9 min 25 s instead of 7 min 7 s and no less CPU time (519 and 501 s). More than four only crowd PostgreSQL.
  maxWorkers: Math.min(4, availableParallelism() + 1),
  // The timeouts only end tests that hang. On a machine with other work on both cores a test takes five times as long.
  testTimeout: slow ? SLOW_TIMEOUT_MS : 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
  setupFiles: ['end-with-run', 'equal-bytes', 'mapped-frames'].map((name) => `./test/support/run/${name}.ts`),
  server: { deps: { inline: ['postgres'] } },
}

// Gives tests the same driver that the server is built with.
const plugins = [
  {
    name: 'patched-postgres',
    transform: (text: string, id: string) => (PATCHED_FILES.test(id) ? patchPostgres(text, id) : undefined),
  },
]

const hasPostgres = findOrInstallPostgres() !== undefined
const onPostgres = hasPostgres ? [database('postgres')] : []
const throughPooler = tier !== 'test' && hasPostgres && findOrInstallPgbouncer() ? [pooled()] : []
const onEmbedded = tier === 'test' && hasPostgres ? [] : [database('embedded')]
const projects = [...onEmbedded, ...onPostgres, ...throughPooler]

export default defineConfig({
  test: { ...common, projects: slow && !faults ? [sized(), ...projects] : [...units(), ...projects] },
})

/** The suites without a database: those that mock modules, stub globals or count timers, each in a worker of its own, and the others. */
function units(): TestProjectInlineConfiguration[] {
  // With the name of faults, the suites that start a cluster of their own too: no back end of the run has them.
  const clusters = faults ? listTests().filter((path) => path.startsWith('test/slow/ha/')) : []
  const files = [...TESTS, ...clusters].filter((path) => !isOnDatabase(path) && isOfTier(path))
  const mocking = findMocking(files)
  const include = files.filter((path) => !mocking.includes(path))
  return [
    {
      resolve,
      plugins,
      test: { ...common, name: 'unit', include, exclude: notHere, globalSetup: [RUN_FOLDER] },
    },
    {
      resolve,
      plugins,
      test: {
        ...common,
        name: 'unit-isolated',
        isolate: true,
        include: mocking,
        exclude: notHere,
        globalSetup: [RUN_FOLDER],
      },
    },
  ]
}

/** The suites without a database whose rounds are more in `npm run test:slow`. */
function sized(): TestProjectInlineConfiguration {
  return {
    resolve,
    plugins,
    test: {
      ...common,
      name: 'unit',
      include: [...SIZED_UNITS, ...SHIPPED],
      exclude: notHere,
      globalSetup: [RUN_FOLDER],
    },
  }
}

/** Whether the tier of this run has a test file. */
function isOfTier(path: string): boolean {
  return tier === undefined || (tier === 'test') === (tierOf(path) === 'test')
}

/**
 * The test files that mock modules, which would stay mocked for the next files of their worker, that stub globals, which modules look at
 * once, when they are loaded or first used, or that count fake timers: what an earlier file of the worker left running sets some too.
 */
function findMocking(tests: string[]): string[] {
  return tests.filter((path) =>
    /^[^'"`\n]*\bvi\.(mock|doMock|stubGlobal|getTimerCount)\(/m.test(readFileSync(`${root}${path}`, 'utf8')),
  )
}

function database(backend: Backend): TestProjectInlineConfiguration {
  return {
    resolve,
    plugins,
    test: {
      ...common,
      name: backend,
      include: slow ? [...LONG, ...(faults ? suitesOn(backend) : moreOn(backend))] : suitesOn(backend),
      exclude: [...notHere, ...SHIPPED, ...(isSecond(backend) ? ONCE : []), ...(slow && !faults ? notSlow() : [])],
      globalSetup: [RUN_FOLDER, './test/support/run/global-setup.ts'],
      setupFiles: [...common.setupFiles, './test/support/database/drop-databases.ts'],
      provide: { backend, isPooled: false, poolerPort: 0 },
    },
  }
}

function isSecond(backend: Backend): boolean {
  return backend === 'embedded' && hasPostgres
}

function suitesOn(backend: Backend): string[] {
  if (tier === 'test') return [...FIRST_ON_DATABASE]
  if (isSecond(backend)) return ON_BOTH
  return tier === 'rest' ? DATABASE_SUITES.filter((path) => !FIRST_ON_DATABASE.includes(path)) : DATABASE_SUITES
}

/** What a slow run leaves out, since `npm run test:all` runs it with the same rounds. */
function notSlow(): string[] {
  return ON_BOTH.filter((suite) => ![...LONG, ...SIZED].includes(suite))
}

/** What a slow run has besides LONG. */
function moreOn(backend: Backend): string[] {
  return isSecond(backend) ? [...SIZED, ...DATABASE_SUITES] : SIZED
}

function pooled(): TestProjectInlineConfiguration {
  const { test, ...rest } = database('postgres')
  const everyday = THROUGH_A_POOLER.map((name) => `test/${name}.test.ts`)
  return {
    ...rest,
    test: {
      ...test,
      name: 'pgbouncer',
      include: slow ? [...LONG, ...(faults ? everyday : DATABASE_SUITES)] : everyday,
      exclude: [...notHere, ...SHIPPED, ...ONCE],
      provide: { backend: 'postgres', isPooled: true, poolerPort: 0 },
    },
  }
}
