// A process of mutation.test.ts, in a copy of the project. It runs tests of the copy again and again, and reads again only what changed:
// a process for each mutant would spend nine tenths of its time on reading the project.
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createVitest } from 'vitest/node'

/** So many failures are enough. */
const FAILED_AT_MOST = 5

// vitest's own command sets these for the code under test.
Object.assign(process.env, { TEST: 'true', VITEST: 'true', NODE_ENV: 'test' })
/** The tests of the current run, until enough have failed; those that end later were cancelled. */
let ended = []
const isOver = () => ended.filter(({ state }) => state === 'failed').length >= FAILED_AT_MOST
const reporter = {
  onTestCaseResult(test) {
    if (isOver()) return
    ended.push(describeTest(test))
    if (isOver()) vitest.cancelCurrentRun('test-failure')
  },
}
// Isolated files have new workers, which hold no module of an earlier run.
const options = { watch: false, project: process.argv[2], isolate: true, reporters: [reporter] }
const vitest = await createVitest('test', options)

process.on('message', (task) => {
  run(task).then(
    (result) => process.send(result),
    (error) => process.send({ tests: [], errors: [error.stack] }),
  )
})
process.once('disconnect', () => vitest.close().finally(() => process.exit()))

/** Runs the tests of these names in these files, or lists them. `changed` are the files that changed since the last run. */
async function run({ changed, files, names, isList }) {
  ended = []
  for (const file of changed) vitest.invalidateFile(file)
  for (const folder of listFilled()) rmSync(folder, { recursive: true })
  vitest.setGlobalTestNamePattern(names)
  const specifications = (await Promise.all(files.map((file) => vitest.globTestSpecifications([file])))).flat()
  if (isList) {
    const { testModules } = await vitest.collectTests(specifications)
    return { tests: testModules.flatMap((module) => [...module.children.allTests()].map(describeTest)), errors: [] }
  }
  const { testModules } = await vitest.runTestSpecifications(specifications)
  const modules = testModules.filter(({ moduleId }) => files.includes(moduleId))
  const suites = modules.flatMap((module) => [module, ...module.children.allSuites()])
  // A rejection that a test handles late is none of these: it says nothing about the mutant.
  const errors = suites.flatMap((suite) => suite.errors())
  return { tests: ended, errors: isOver() ? [] : errors.map(textOf) }
}

function describeTest(test) {
  const { state, errors = [] } = test.result()
  return { file: test.module.moduleId, name: test.fullName.replaceAll(' > ', ' '), state, errors: errors.map(textOf) }
}

/** The folders that name the databases which earlier runs filled: another mutant did, with other MACs. */
function listFilled() {
  // Vitest sets up a project in its first run.
  const runDirs = vitest.projects.flatMap((each) => each.getProvidedContext().runDir ?? [])
  const folders = runDirs.flatMap((runDir) => readdirSync(runDir).map((name) => join(runDir, name)))
  return folders.filter((folder) => existsSync(join(folder, 'filled.json')))
}

function textOf({ stack, message }) {
  return stack ?? message
}
