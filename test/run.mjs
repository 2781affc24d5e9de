// `npm test`: builds what is out of date, checks style and types, runs the suites of its tier (test/tiers.mjs), and ends with
// `N passed, N failed`. Arguments go to vitest (`npm test -- test/audit/retention/purge.test.ts -t purge`), which then finds the files of
// `npm run test:all`; the checks are skipped. `--all` runs all of these, `--shard NAME` a part of them, `--rest` what `npm test` leaves
// out. `--slow` runs the long suites instead; with names of fault-suites.mjs, which `--help` lists, those of these kinds of faults.
// `--no-build` uses the existing build.
// The run is red after: a failed build, check or test, a file that does not load, an unhandled error, or no test at all.
import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { constants } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createVitest, parseCLI } from 'vitest/node'
import { listOutdated } from './built.mjs'
import { FAULT_SUITES } from './fault-suites.mjs'
import { SHARDS } from './tiers.mjs'

/** Unhandled errors that are printed in full; the rest are counted. */
const ERRORS_SHOWN = 5
/** Unhandled errors after which the run ends: a worker that reports one for each message never stops. */
const ERRORS_AT_MOST = 1_000
/** How long vitest may take to end its workers and the databases. */
const CLOSE_MS = 60_000

process.chdir(fileURLToPath(new URL('..', import.meta.url)))
// The compilers, which are programs in Go and end after seconds, collect garbage less often: a third less CPU time, and hardly more memory.
process.env.GOGC ??= '400'
const children = new Set()
let vitest
const reds = []
// Print the last line even if this program itself fails.
process.on('uncaughtException', (error) => {
  console.error(error)
  reds.push(`test/run.mjs: ${firstLine(error)}`)
  finish()
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, endEverything)
// A signal to npm alone ends npm and its shell, which pass it on to nobody.
const { ppid } = process
if (process.env.npm_lifecycle_event !== undefined)
  setInterval(() => process.ppid === ppid || endEverything('SIGHUP'), 1_000).unref()

const isSlow = process.argv.includes('--slow')
if (process.argv.includes('--help') || process.argv.includes('-h')) {
  console.log(
    [
      'npm test [-- [--no-build] [FILE …] [-t NAME]]',
      `npm run test:all [-- [--no-build] [--rest] [--shard ${Object.keys(SHARDS).join('|')}]]`,
      'npm run test:slow [-- [--no-build] [FAULTS or FILE …]]\n',
    ].join('\n'),
  )
  for (const [name, suites] of Object.entries(FAULT_SUITES)) console.log(`FAULTS ${name}:\n  ${suites.join('\n  ')}`)
  process.exit()
}
const isFault = (argument) => isSlow && argument in FAULT_SUITES
const own = ['--slow', '--all', '--rest', '--no-build', '--shard']
/** Those of vitest that are passed on: it ignores the ones that it does not know, and the file behind such a one. */
const ofVitest = ['-t', '-u', '--bail', '--config', '--maxWorkers', '--project', '--reporter', '--root']
const shard = findShard()
const given = process.argv.slice(2).filter((argument) => !own.includes(argument) && argument !== shard)
const unknown = given.find((argument) => argument.startsWith('-') && !ofVitest.includes(argument.split('=', 1)[0]))
if (unknown !== undefined) {
  console.error(`unknown option ${unknown}: it takes ${[...own, ...ofVitest].join(', ')}`)
  process.exit(2)
}
const passedOn = [
  ...given.flatMap((argument) => (isFault(argument) ? FAULT_SUITES[argument] : argument)),
  ...(shard === undefined ? [] : SHARDS[shard]),
]
const isRest = process.argv.includes('--rest')
if (isSlow) process.env.EAAS_TEST_SLOW = '1'
if (given.some(isFault)) process.env.EAAS_TEST_FAULTS = '1'
if (isRest) process.env.EAAS_TEST_TIER = 'rest'
else if (passedOn.length === 0 && !isSlow && !process.argv.includes('--all')) process.env.EAAS_TEST_TIER = 'test'
else delete process.env.EAAS_TEST_TIER

const outdated = listOutdated()
if (outdated.length > 0) {
  if (process.argv.includes('--no-build'))
    console.warn('The build is older than the sources, so the tests of what is built test older code.')
  else await step('build', 'npm', ['run', 'build', ...outdated.flatMap((name) => ['-w', name])])
}
if (passedOn.length === 0 && !isRest) {
  await step('style (npx biome check --write corrects most of it)', 'npx', ['--no-install', 'biome', 'check', '.'])
  // The native compiler, which takes a fifth of the CPU time of version 5; by its path, because both have a `tsc`.
  await step('types', process.execPath, ['node_modules/typescript-7/bin/tsc', '--noEmit', '--singleThreaded'])
}
await runTests(passedOn)
finish()

/** Returns the name after `--shard`, if that is given. Ends the run if there is no such part. */
function findShard() {
  const at = process.argv.indexOf('--shard')
  if (at === -1) return undefined
  const name = process.argv[at + 1]
  if (name !== undefined && Object.hasOwn(SHARDS, name)) return name
  console.error(`--shard takes ${Object.keys(SHARDS).join(', ')}, got ${name ?? 'nothing'}`)
  process.exit(2)
}

/** Prints the failures and the last line, and exits. */
function finish() {
  const count = countTests()
  for (const red of reds) console.log(`RED: ${red}`)
  const failed = count.failed + reds.length
  console.log(`${count.passed} passed, ${failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}`)
  process.exit(failed === 0 ? 0 : 1)
}

/** Runs a command and shows its output. If it fails, notes that, and the rest still runs. */
async function step(name, command, args) {
  console.log(`\n${command} ${args.join(' ')}`)
  const child = spawn(command, args, { stdio: 'inherit', detached: true }) // so that a signal ends what it starts too
  children.add(child)
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', resolve)
  })
  children.delete(child)
  if (code !== 0) reds.push(name)
}

async function runTests(args) {
  // vitest's own command sets these for the code under test.
  Object.assign(process.env, { TEST: 'true', VITEST: 'true', NODE_ENV: process.env.NODE_ENV ?? 'test' })
  let unhandled = 0
  let endRun
  const tooMany = new Promise((resolve) => {
    endRun = resolve
  })
  // vitest keeps and prints the errors for which this returns true.
  const onUnhandledError = (error) => {
    unhandled += 1
    if (unhandled <= ERRORS_SHOWN)
      reds.push(`unhandled error: ${firstLine(error)} (in ${error.VITEST_TEST_PATH ?? 'no test file'})`)
    if (unhandled === ERRORS_AT_MOST) endRun()
    return unhandled <= ERRORS_SHOWN
  }
  try {
    const { filter, options } = parseCLI(['vitest', 'run', ...args])
    // A forgotten `.only` would skip most of a whole run, so it is allowed only in a run with arguments.
    const reporters = [...(options.reporters ?? ['default']), { onTestCaseResult: printErrors }]
    const allowOnly = args.length > 0
    vitest = await createVitest('test', { watch: false, allowOnly, ...options, reporters, onUnhandledError })
    const missing = []
    for (const part of filter) if ((await vitest.globTestSpecifications([part])).length === 0) missing.push(part)
    reds.push(...missing.map((part) => `no test file matches ${part}`))
    if (missing.length === 0) await Promise.race([vitest.start(filter), tooMany.then(cancelRun)])
    await Promise.race([vitest.close(), setTimeout(CLOSE_MS, undefined, { ref: false })])
  } catch (error) {
    console.error(error)
    reds.push(`vitest: ${firstLine(error)}`)
  }
  if (unhandled > ERRORS_SHOWN) reds.push(`${unhandled - ERRORS_SHOWN} more unhandled errors`)
  if (unhandled >= ERRORS_AT_MOST) reds.push(`the run was ended after ${ERRORS_AT_MOST} unhandled errors`)

  // Errors outside of tests: a file that throws while loading, a hook of a file or a describe block.
  for (const suite of modules().flatMap((module) => [module, ...module.children.allSuites()])) {
    const [error] = suite.errors()
    if (error) reds.push(`${suite.project.name}: ${nameOf(suite)}: ${firstLine(error)}`)
  }
  const { passed, failed } = countTests()
  if (passed + failed + reds.length === 0) reds.push('no test ran')
  // Red for another reason, such as coverage below its threshold, which vitest has printed.
  if (failed + reds.length === 0 && process.exitCode) reds.push(`vitest ended with code ${process.exitCode}`)
}

/** Prints why a test failed as soon as it did: vitest prints that at the end of the run, which may be hours later or never come. */
function printErrors(test) {
  for (const error of test.result().errors ?? [])
    console.error(`failed: ${test.project.name}: ${nameOf(test)}: ${error.stack}`)
}

/** Requests that the workers stop; closing vitest afterwards kills those that do not. */
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

/** Reads a test's state. A test that never ended, for example because its worker died, has failed. */
function stateOf(test) {
  const { state } = test.result()
  return state === 'pending' ? 'failed' : state
}

/** Ends everything on a signal. vitest's workers and the database end with this process; only vitest's temp folders need removal. */
function endEverything(signal) {
  for (const { pid } of children) if (pid !== undefined) process.kill(-pid, signal)
  for (const { tmpDir } of vitest?.projects ?? []) rmSync(tmpDir, { recursive: true, force: true })
  process.exit(128 + constants.signals[signal])
}
