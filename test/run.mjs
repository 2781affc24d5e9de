// `npm test`: builds what is out of date, checks style and types, runs the suites, and ends with `N passed, N failed`.
// Arguments go to vitest (`npm test -- test/audit/retention.test.ts -t purge`); with any, the checks are left out. `--slow` runs
// the long suites instead, `--quick` units and a few suites on the embedded database, for which nothing
// need be built, and `--no-build` takes the build as it is.
// Red for: a failed build, check or test, a file that does not load, an unhandled error, no test at all.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createVitest, parseCLI } from 'vitest/node'

const BUILT = ['packages/sdk', 'packages/server']
const SOURCES = [...BUILT, 'packages/protocol', 'package-lock.json']
/** Unhandled errors that are printed in full; the rest are counted. */
const ERRORS_SHOWN = 5
/** Unhandled errors after which the run ends: a worker that reports one for each message never stops. */
const ERRORS_AT_MOST = 1_000
/** How long vitest may take to end its workers and the databases. */
const CLOSE_MS = 60_000

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
const children = new Set()
let vitest
const reds = []
// Nothing that fails here may keep the last line from being printed.
process.on('uncaughtException', (error) => {
  console.error(error)
  reds.push(`test/run.mjs: ${firstLine(error)}`)
  finish()
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, endEverything)

const passedOn = process.argv.slice(2).filter((argument) => !['--slow', '--quick', '--no-build'].includes(argument))
if (process.argv.includes('--slow')) process.env.EAAS_TEST_SLOW = '1'
if (process.argv.includes('--quick')) process.env.EAAS_TEST_QUICK = '1'

if (!['--quick', '--no-build'].some((option) => process.argv.includes(option)) && isBuildOutdated())
  await step('build', 'npm', ['run', 'build'])
if (passedOn.length === 0 && !process.argv.includes('--quick')) {
  await step('style (npx biome check --write mends most of it)', 'npx', ['--no-install', 'biome', 'check', '.'])
  await step('types', 'npx', ['--no-install', 'tsc', '--noEmit'])
}
await runTests(passedOn)
finish()

/** Prints what is red and the last line, and exits. */
function finish() {
  const count = countTests()
  for (const red of reds) console.log(`RED: ${red}`)
  const failed = count.failed + reds.length
  console.log(`${count.passed} passed, ${failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}`)
  process.exit(failed === 0 ? 0 : 1)
}

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
  let unhandled = 0
  let endRun
  const tooMany = new Promise((resolve) => {
    endRun = resolve
  })
  // vitest keeps and prints those that this returns true for.
  const onUnhandledError = (error) => {
    unhandled += 1
    if (unhandled <= ERRORS_SHOWN)
      reds.push(`unhandled error: ${firstLine(error)} (in ${error.VITEST_TEST_PATH ?? 'no test file'})`)
    if (unhandled === ERRORS_AT_MOST) endRun()
    return unhandled <= ERRORS_SHOWN
  }
  try {
    const { filter, options } = parseCLI(['vitest', 'run', ...args])
    // A forgotten `.only` would hide the rest of a whole run; in a chosen part of it, it is a tool.
    vitest = await createVitest('test', { watch: false, allowOnly: args.length > 0, ...options, onUnhandledError })
    await Promise.race([vitest.start(filter), tooMany.then(cancelRun)])
    await Promise.race([vitest.close(), setTimeout(CLOSE_MS, undefined, { ref: false })])
  } catch (error) {
    console.error(error)
    reds.push(`vitest: ${firstLine(error)}`)
  }
  if (unhandled > ERRORS_SHOWN) reds.push(`${unhandled - ERRORS_SHOWN} more unhandled errors`)
  if (unhandled >= ERRORS_AT_MOST) reds.push(`the run was ended after ${ERRORS_AT_MOST} unhandled errors`)

  // Errors beside the tests: a file that throws while loading, a hook of a file or a describe block.
  for (const suite of modules().flatMap((module) => [module, ...module.children.allSuites()])) {
    const [error] = suite.errors()
    if (error) reds.push(`${suite.project.name}: ${nameOf(suite)}: ${firstLine(error)}`)
  }
  const { passed, failed } = countTests()
  if (passed + failed + reds.length === 0) reds.push('no test ran')
  // Red for another reason, coverage below its threshold, say: vitest has printed it.
  if (failed + reds.length === 0 && process.exitCode) reds.push(`vitest ended with code ${process.exitCode}`)
}

/** Asks the workers to stop; closing vitest afterwards kills those that do not. */
function cancelRun() {
  vitest.cancelCurrentRun('test-failure').catch((error) => console.error(error))
}

function modules() {
  return vitest?.state.getTestModules() ?? []
}

function countTests() {
  const count = { passed: 0, failed: 0, skipped: 0 }
  for (const module of modules()) for (const test of module.children.allTests()) count[stateOf(test)] += 1
  return count
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
