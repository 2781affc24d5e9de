// The tiers of the tests. `npm test` runs one path through each promise, in minutes; `npm run test:all` runs every suite but the long
// ones, which `npm run test:slow` has. Each file belongs to the first tier that runs it. A path that ends in `/` names a folder.
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const within = (folder, names) => names.split(' ').map((name) => `${folder}/${name}.test.ts`)

/** Only in `npm run test:slow`. */
export const SLOW = ['test/slow/', 'test/audit/guards/guard-mutants.test.ts']

/** The suites on a database that `npm test` runs, on PostgreSQL if it is found and otherwise on the embedded database. */
export const FIRST_ON_DATABASE = [
  ...within('packages/conformance/src', 'run.db'),
  ...within('test/api', 'access api-keys batch blind-hash bounds conformance correlation cors counted-wraps'),
  ...within(
    'test/api',
    'docs-page due-work key-states keys listed-keys many-keys many-rows metrics on-behalf-of openapi operators problems',
  ),
  ...within('test/api', 'refusals repeated-members request-log server-mode unknown-parameters unrecorded-calls'),
  ...within('test/api', 'unwrap-path usage-by-api-key wrapped-uses'),
  ...within(
    'test/audit',
    'checkpoints/checkpoints entries/list installation/installation-log retention/command retention/purge tamper/chain',
  ),
  ...within('test/audit', 'tamper/checkpoints tamper/marks tamper/unnoticed verify/rights verify/verify-export'),
  ...within('test/cli', 'cli config keeps-nothing key log-output'),
  ...within('test/custody', 'destroyed-versions'),
  ...within('test/faults', 'commit database-down'),
  ...within('test/orm', 'contract.db'),
  ...within('test/sdk', 'bound-rows.db broker.db contract.db envelope-text.db local-index.db real-server.db'),
]

/** The other suites that `npm test` leaves out, because they start processes or browsers, compile programs, or try thousands of cases. */
export const LATER = [
  ...within('packages/audit/src/command', 'prove report verify-archive'),
  ...within('packages/audit/src/report', 'report'),
  ...within('packages/cli/src', 'backfill/backfill csv'),
  ...within('packages/sdk/src', 'deks/never-zero http/retries models/row-seal'),
  ...within('packages/server/src', 'core/store/db embedded/database embedded/fsync embedded/socket'),
  'test/browser/',
  ...within('test/examples', 'encrypted-files snippets types web-app'),
  'test/leaks/',
  ...within('test/orm', 'prisma-shapes prisma-writes typeorm-shapes'),
  'test/packed/',
  ...within('test/repo', 'docs-site proxy-recipes'),
  ...within('test/sdk', 'cross-language hovers stream-memory client/malicious client/round-trip'),
]

/** The parts of `npm run test:all`, for several machines; each file belongs to one. */
export const SHARDS = {
  audit: ['packages/audit/', 'test/audit/', 'test/custody/', 'test/independent/'],
  server: ['packages/console/', 'packages/postgres/', 'packages/server/', 'test/api/', 'test/cli/', 'test/faults/'],
  sdk: ['packages/cli/', 'packages/conformance/', 'packages/protocol/', 'packages/sdk/', 'test/leaks/', 'test/sdk/'],
  orm: ['packages/drizzle/', 'packages/kysely/', 'packages/prisma/', 'test/orm/'],
  shipped: ['test/browser/', 'test/examples/', 'test/packed/', 'test/repo/'],
}

const DATABASE_FOLDERS = /^test\/(api|audit|cli|custody|faults)\//

/** Whether a test file runs on a database of the run. */
export const isOnDatabase = (path) => DATABASE_FOLDERS.test(path) || path.endsWith('.db.test.ts')

/** Whether one of the paths is the file, or a folder that it is in. */
export const isNamed = (paths, file) =>
  paths.some((path) => file === path || (path.endsWith('/') && file.startsWith(path)))

/** Returns the first tier that runs a test file: `test`, `test:all` or `test:slow`. */
export function tierOf(file) {
  if (isNamed(SLOW, file)) return 'test:slow'
  const isFirst = isOnDatabase(file) ? isNamed(FIRST_ON_DATABASE, file) : !isNamed(LATER, file)
  return isFirst ? 'test' : 'test:all'
}

/** Lists all test files, by their paths in the repository. */
export function listTests() {
  const paths = ['packages', 'test'].flatMap((folder) =>
    readdirSync(`${ROOT}${folder}`, { recursive: true, encoding: 'utf8' }).map(
      (path) => `${folder}/${path.replaceAll('\\', '/')}`,
    ),
  )
  return paths.filter((path) => path.endsWith('.test.ts') && !/\/(node_modules|dist)\//.test(path)).sort()
}
