// `npm run bench`: installs the benchmark's own dependencies where they are not there yet, then runs main.ts. Plain
// JavaScript, since Node runs no TypeScript before they are.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const HELP = `Measures EaaS from outside the process, and holds it against its peers. Takes about half an hour.

  npm run bench                        all parts
  npm run bench -- --only server      one part: server, audit, sdk or profile; several by commas
  npm run bench -- --only server/calls one measurement: calls, tenants, processes, workers, change, overload, neighbours,
                                       verification, embedded, idle, growth, peer; append, scale; node, streams, first, chromium
  npm run bench -- --quick            short rounds: shows that it runs, the figures are worth little
  npm run bench -- --full             audit logs of 5 and 10 million entries as well: 20 GB of disk, another half hour
  npm run bench -- --rounds 9 --seconds 10   longer: rounds, and seconds of load in each
  npm run bench -- --svg docs/performance   writes the plots too

Needs PostgreSQL (its programs are enough) and a build (npm run build); wrk where there is one, else autocannon.
server/peer needs OpenBao too: bao on the PATH, or EAAS_TEST_OPENBAO.
Results: a table here, test/bench/results/latest.json whole.
`

const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('../..', import.meta.url))
const args = process.argv.slice(2)
if (args.includes('--help') || args.includes('-h')) {
  console.log(HELP)
  process.exit(0)
}
if (!['packages/server/dist/main.js', 'packages/sdk/dist/index.js'].every((file) => existsSync(`${root}${file}`))) {
  console.error('bench: this checkout is not built yet. Run: npm run build')
  process.exit(1)
}
if (!existsSync(`${here}node_modules/tsx`)) {
  console.error('Installing the peers of the benchmark in test/bench (once) …')
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: here, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
// The folder that a path of the arguments is of is the caller's, the root; tsx is found from here by its URL.
const tsx = new URL('./node_modules/tsx/dist/esm/index.mjs', import.meta.url).href
const { status } = spawnSync(process.execPath, ['--import', tsx, `${here}main.ts`, ...args], {
  cwd: root,
  stdio: 'inherit',
})
process.exit(status ?? 1)
