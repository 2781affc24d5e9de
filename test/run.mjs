// `npm test`: builds what is out of date, checks style and types, runs the suites, and ends with `N passed, N failed`.
// Arguments go to vitest (`npm test -- test/audit.test.ts -t purge`); with any, the checks are left out. `--slow` runs
// test/slow instead. Red for: a failed build, check or test, a file that does not load, an unhandled error, no test at all.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createVitest, parseCLI } from 'vitest/node'

const BUILT = ['packages/sdk', 'packages/server']
const SOURCES = [...BUILT, 'packages/protocol', 'package-lock.json']

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
const children = new Set()
let vitest
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, endEverything)

const passedOn = process.argv.slice(2).filter((argument) => argument !== '--slow')
if (process.argv.includes('--slow')) process.env.EAAS_TEST_SLOW = '1'

const reds = []
if (isBuildOutdated()) await step('build', 'npm', ['run', 'build'])
if (passedOn.length === 0) {
  await step('style (npx biome check --write mends most of it)', 'npx', ['--no-install', 'biome', 'check', '.'])
  await step('types', 'npx', ['--no-install', 'tsc', '--noEmit'])
}
const tests = await runTests(passedOn)
reds.push(...tests.reds)

for (const red of reds) console.log(`RED: ${red}`)
const failed = tests.failed + reds.length
console.log(`${tests.passed} passed, ${failed} failed${tests.skipped > 0 ? `, ${tests.skipped} skipped` : ''}`)
process.exit(failed === 0 ? 0 : 1)

/** Runs a command with its output shown; a red one is counted and the rest still runs. */
async function step(name, command, args) {
  console.log(`\n${command} ${args.join(' ')}`)
  const child = spawn(command, args, { stdio: 'inherit' })
  children.add(child)
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', resolve)
  })
  children.delete(child)
  if (code !== 0) reds.push(name)
}

/** True if any source is younger than the oldest of the built entry files. */
function isBuildOutdated() {
  const entries = BUILT.map((folder) => join(folder, 'dist/index.js'))
  if (!entries.every((entry) => existsSync(entry))) return true
  const builtAt = Math.min(...entries.map((entry) => statSync(entry).mtimeMs))
  return SOURCES.some((source) => newestIn(source) > builtAt)
}

function newestIn(path) {
  const stats = statSync(path)
  if (!stats.isDirectory()) return /\.test\.ts$/.test(path) ? 0 : stats.mtimeMs
  const entries = readdirSync(path).filter((entry) => entry !== 'dist' && entry !== 'node_modules')
  return Math.max(0, ...entries.map((entry) => newestIn(join(path, entry))))
}

async function runTests(args) {
  // What vitest's own command sets for the code under test.
  Object.assign(process.env, { TEST: 'true', VITEST: 'true', NODE_ENV: process.env.NODE_ENV ?? 'test' })
  const reds = []
  try {
    const { filter, options } = parseCLI(['vitest', 'run', ...args])
    // A forgotten `.only` would hide the rest of a whole run; in a chosen part of it, it is a tool.
    vitest = await createVitest('test', { watch: false, allowOnly: args.length > 0, ...options })
    await vitest.start(filter)
  } catch (error) {
    console.error(error)
    reds.push(`vitest: ${firstLine(error)}`)
  }
  const modules = vitest?.state.getTestModules() ?? []
  const unhandled = vitest?.state.getUnhandledErrors() ?? []
  await vitest?.close()

  const count = { passed: 0, failed: 0, skipped: 0 }
  for (const module of modules) for (const test of module.children.allTests()) count[stateOf(test)] += 1
  // Errors beside the tests: a file that throws while loading, a hook of a file or a describe block.
  for (const suite of modules.flatMap((module) => [module, ...module.children.allSuites()])) {
    const [error] = suite.errors()
    if (error) reds.push(`${suite.project.name}: ${nameOf(suite)}: ${firstLine(error)}`)
  }
  reds.push(...unhandled.map((error) => `unhandled error: ${firstLine(error)}`))
  if (count.passed + count.failed + reds.length === 0) reds.push('no test ran')
  // Red for another reason, coverage below its threshold, say: vitest has printed it.
  if (count.failed + reds.length === 0 && process.exitCode) reds.push(`vitest ended with code ${process.exitCode}`)
  return { ...count, reds }
}

function nameOf(suite) {
  return suite.type === 'module' ? suite.relativeModuleId : `${suite.module.relativeModuleId} > ${suite.fullName}`
}

function firstLine(error) {
  return String(error?.message ?? error).split('\n', 1)[0]
}

/** A test that never came to an end, say because its worker died, has failed. */
function stateOf(test) {
  const { state } = test.result()
  return state === 'pending' ? 'failed' : state
}

/** vitest's workers and the database end when we do; only vitest's own temp folders would stay. */
function endEverything(signal) {
  for (const child of children) child.kill(signal)
  for (const { tmpDir } of vitest?.projects ?? []) rmSync(tmpDir, { recursive: true, force: true })
  process.exit(128 + constants.signals[signal])
}
