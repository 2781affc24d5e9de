// The suite of attacks is sensitive to every column: a copy of the project whose server leaves one out of its MAC is attacked, and
// the suite has to go red, without help of the second verifier. On the embedded database; what is patched is the same on both.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listMutants, type Mutant, type Sealed } from '../audit/mutants.js'
import { backend } from '../support/database.js'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
const COPIED = ['package.json', 'tsconfig.json', 'vitest.config.ts', 'test', 'packages']
const NOT_COPIED = /\/(?:node_modules|dist|coverage)(?:\/|$)/
const TIMEOUT_MS = 2 * 3_600_000

/** Which attacks are on what: names of tests, as vitest filters them. */
const ATTACKS: Record<Sealed, string> = {
  entry: '^an entry of a log',
  head: '^a log that is',
  mark: '^the marks of purges',
  tenants: '^a row that grants rights',
  keys: '^a row ',
  key_versions: '^a row ',
  api_keys: '^a row ',
}

/** Columns that something else holds too, so that no attack on them goes unnoticed where the MAC alone leaves them out. */
const HELD_TWICE: Readonly<Record<string, string>> = {
  'entry tenant_id': 'the genesis hash has the tenant, and the audit key is its own',
  'entry id': 'an id is its place: it has to follow the one before, and the hash of that',
  'head tenant_id': "the audit key is the tenant's own",
  'mark tenant_id': "the audit key is the tenant's own",
  'tenants tenant_id': "the row key is the tenant's own",
  'keys tenant_id': "the row key is the tenant's own",
  'key_versions tenant_id': "the row key is the tenant's own",
  'api_keys tenant_id': "the row key is the tenant's own",
}
const nameOf = ({ what, column }: Mutant) => `${what} ${column}`

interface Run {
  passed: string[]
  failed: string[]
  /** what failed otherwise than by an expectation */
  broken: string[]
}

let copy: string
beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), 'eaas-test-mutants-'))
  for (const name of COPIED) {
    await cp(join(PROJECT, name), join(copy, name), {
      recursive: true,
      filter: (source) => !NOT_COPIED.test(source.slice(PROJECT.length - 1)),
    })
  }
  await symlink(join(PROJECT, 'node_modules'), join(copy, 'node_modules'))
  await symlink(join(PROJECT, 'packages/server/node_modules'), join(copy, 'packages/server/node_modules'))
})
afterAll(() => rm(copy, { recursive: true, force: true }))

/** Runs the attacks in the copy; `filter` chooses them by name. A few that fail are enough. */
async function attack(filter: string): Promise<Run> {
  const report = join(copy, 'report.json')
  await rm(report, { force: true })
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs')
  const args = [
    'run',
    '--project',
    'embedded',
    '--reporter',
    'json',
    '--outputFile',
    report,
    '--bail',
    '5',
    '-t',
    filter,
  ]
  const env = { ...process.env, EAAS_TEST_ONE_VERIFIER: '1', EAAS_TEST_POSTGRES_BIN: 'none', EAAS_TEST_SLOW: '' }
  const child = spawn(process.execPath, [vitest, ...args, 'test/audit/tamper/'], { cwd: copy, env, stdio: 'ignore' })
  await once(child, 'exit')
  const { testResults } = JSON.parse(await readFile(report, 'utf8')) as {
    testResults: {
      message: string
      assertionResults: { status: string; fullName: string; failureMessages: string[] }[]
    }[]
  }
  const results = testResults.flatMap(({ assertionResults }) => assertionResults)
  const failures = results.filter(({ status }) => status === 'failed')
  const names = (status: string) => results.filter((result) => result.status === status).map(({ fullName }) => fullName)
  return {
    passed: names('passed'),
    failed: names('failed'),
    broken: [
      ...testResults.map(({ message }) => message).filter((message) => message !== ''),
      ...failures
        .flatMap(({ failureMessages }) => failureMessages)
        .filter((message) => !/^AssertionError/.test(message)),
    ],
  }
}

async function attackMutant({ file, text }: Mutant, filter: string): Promise<Run> {
  const path = join(copy, 'packages/server/src/audit', file)
  const genuine = await readFile(path, 'utf8')
  await writeFile(path, text)
  try {
    return await attack(filter)
  } finally {
    await writeFile(path, genuine)
  }
}

// The children start databases of their own, so the suite runs once.
describe.runIf(backend() === 'embedded')('the suite of attacks', () => {
  const mutants = listMutants()

  it('is green on the server as it is, and covers each of what is patched', { timeout: TIMEOUT_MS }, async () => {
    const { passed, failed, broken } = await attack('')
    expect([failed, broken]).toEqual([[], []])
    for (const filter of Object.values(ATTACKS)) {
      expect(passed.filter((name) => new RegExp(filter).test(name)).length).toBeGreaterThan(5)
    }
  })

  it.each(mutants.filter((mutant) => !(nameOf(mutant) in HELD_TWICE)))(
    'goes red when the $column of $what is left out',
    { timeout: TIMEOUT_MS },
    async (mutant) => {
      const { failed, passed, broken } = await attackMutant(mutant, ATTACKS[mutant.what])
      console.log(`${nameOf(mutant)} left out: ${failed.length} red, ${passed.length} green; ${failed[0]}`)
      expect(broken).toEqual([])
      expect(passed.length).toBeGreaterThan(0)
      expect(failed.length).toBeGreaterThan(0)
    },
  )

  it.each(mutants.filter((mutant) => nameOf(mutant) in HELD_TWICE))(
    'stays green when the $column of $what is left out, which something else holds too',
    { timeout: TIMEOUT_MS },
    async (mutant) => {
      const { failed, broken } = await attackMutant(mutant, ATTACKS[mutant.what])
      expect([HELD_TWICE[nameOf(mutant)], failed, broken]).toEqual([HELD_TWICE[nameOf(mutant)], [], []])
    },
  )
})
