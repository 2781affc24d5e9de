// `npm run bench`: installs the benchmark's own dependencies where they are not there yet, then runs main.ts. Plain
// JavaScript, since Node runs no TypeScript before they are.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { listOutdated } from '../built.mjs'
import { HELP, readArguments } from './arguments.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('../..', import.meta.url))
const args = process.argv.slice(2)
try {
  if (readArguments(args).help) {
    console.log(HELP)
    process.exit(0)
  }
} catch (error) {
  const [what] = error.message.split('. ') // Node.js goes on about arguments that are no options, which there are none of
  console.error(`bench: ${what}; npm run bench -- --help lists options and parts`)
  process.exit(2)
}
process.chdir(root)
if (listOutdated().length > 0) {
  console.error('bench: the build is missing or older than the sources. Run: npm run build')
  process.exit(1)
}
if (!existsSync(`${here}node_modules/tsx`)) {
  console.error('Installing the peers of the benchmark in test/bench (once) …')
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: here, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
}
// tsx is found from here by its URL.
const tsx = new URL('./node_modules/tsx/dist/esm/index.mjs', import.meta.url).href
const { status } = spawnSync(process.execPath, ['--import', tsx, `${here}main.ts`, ...args], { stdio: 'inherit' })
process.exit(status ?? 1)
