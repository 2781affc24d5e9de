// The suite of attacks is sensitive to every column and to every guard: a copy of the project whose server leaves one out is attacked,
// and the suite has to go red, without help of the second verifier. What is patched is the same on both databases: the attacks are made
// on PostgreSQL if it is found, where they take a fraction of the time.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, readdir, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listDatabaseGuardMutants, listMutants, type Mutant, type Sealed } from '../audit/guards/mutants.js'
import { findPostgres } from '../support/database/find-postgres.js'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
const COPIED = ['package.json', 'tsconfig.json', 'vitest.config.ts', 'test', 'packages']
const NOT_COPIED = /\/(?:node_modules|dist|coverage)(?:\/|$)/
const TIMEOUT_MS = 2 * 3_600_000
/** A server without a guard may never end what it does. */
const ATTACK_MS = 20 * 60_000

/** Tests of test/audit: their files, as a regular expression, and their names, as vitest filters them. */
type Attacks = readonly [files: string, names: string]

/** Which attacks are on what. */
const ATTACKS: Record<Sealed, Attacks> = {
  entry: ['tamper/entries', '^an entry of a log'],
  head: ['tamper/chain', '^a log that is'],
  mark: ['tamper/marks', '^the marks of purges'],
  tenants: ['tamper/rows', '^a row that grants rights'],
  keys: ['tamper/(rows|purged-rows)', '^a row '],
  key_versions: ['tamper/(rows|purged-rows)', '^a (row|version) '],
  api_keys: ['tamper/(rows|purged-rows)', '^a row '],
}

/** The attacks on one column, where their names have it. */
function attacksOn({ what, column }: Mutant): Attacks {
  const [files, names] = ATTACKS[what]
  if (what === 'head' || what === 'mark') return [files, names]
  return [files, what === 'entry' ? `${names}.* '${column}' became` : `${names}.* the '${column}' of '${what}'`]
}

/** Columns that something else holds too, so that no attack on them goes unnoticed where the MAC alone leaves them out. */
const HELD_TWICE: Readonly<Record<string, string>> = {
  'entry tenant_id': 'the genesis hash has the tenant, and the audit key is its own',
  'entry id': 'an id is its place: it has to follow the one before, and the hash of that',
  'head tenant_id': "the audit key is the tenant's own",
  'mark tenant_id': "the audit key is the tenant's own",
  'tenants tenant_id': "the row key is the tenant's own",
  'tenants wrapped_audit_key': 'the row key derives from that key',
  'keys tenant_id': "the row key is the tenant's own",
  'keys key_id': 'a row has the id of the last entry about its key, and another key has another one',
  'key_versions tenant_id': "the row key is the tenant's own",
  'key_versions key_id': "the AAD of the KEK's seal has the key",
  'key_versions version': "the AAD of the KEK's seal has the version",
  'api_keys api_key_id': 'a row has the id of the last entry about its API key, and another one has another',
  'api_keys tenant_id': "the row key is the tenant's own",
}
const nameOf = ({ what, column }: Mutant) => `${what} ${column}`

/** What an expectation throws; one about a promise throws an error of no name. */
const EXPECTATION = /^(AssertionError|Error: (expected|promise (resolved|rejected)) )/

interface Run {
  passed: string[]
  failed: string[]
  /** what failed otherwise than by an expectation */
  broken: string[]
}

/** What an attacker answers (attacker.mjs). */
interface Answer {
  tests: { file: string; name: string; state: string; errors: string[] }[]
  errors: string[]
}

/** A copy of the project, and the process that attacks it. */
interface Copy {
  folder: string
  attacker?: ChildProcess
  /** its files that changed since the attacker last read them */
  changed: string[]
}

/** One copy for each that can be attacked at once; those that nothing attacks are free. */
let copies: Copy[] = []
const free: Copy[] = []
const waiting: ((copy: Copy) => void)[] = []
beforeAll(async () => {
  copies = await Promise.all(Array.from({ length: Math.min(availableParallelism(), 4) }, copyProject))
  free.push(...copies)
})
afterAll(async () => {
  for (const { attacker, folder } of copies) {
    if (attacker?.connected) attacker.disconnect()
    if (attacker && attacker.exitCode === null && attacker.signalCode === null) await once(attacker, 'exit')
    await rm(folder, { recursive: true, force: true })
  }
})

async function copyProject(): Promise<Copy> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'eaas-test-mutants-')))
  for (const name of COPIED) {
    await cp(join(PROJECT, name), join(folder, name), {
      recursive: true,
      filter: (source) => !NOT_COPIED.test(source.slice(PROJECT.length - 1)),
    })
  }
  await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  // The built programs, for the witnesses that a few of the tests start: they are the genuine ones.
  for (const name of ['audit', 'server'].flatMap((each) => [`${each}/node_modules`, `${each}/dist`]))
    await symlink(join(PROJECT, 'packages', name), join(folder, 'packages', name))
  return { folder, changed: [] }
}

/** Calls it with a copy that nothing else uses meanwhile. */
async function withCopy<Result>(use: (copy: Copy) => Promise<Result>): Promise<Result> {
  const copy = free.pop() ?? (await new Promise<Copy>((resolve) => waiting.push(resolve)))
  try {
    return await use(copy)
  } finally {
    const next = waiting.shift()
    if (next) next(copy)
    else free.push(copy)
  }
}

const fileOf = ([files]: Attacks) => new RegExp(`(^|/)${files}[^/]*\\.test\\.ts$`)

/** Has the attacker of a copy run or list tests. One that does not answer in time is killed, and the next task has a new one. */
async function ask(copy: Copy, attacks: Attacks, isList = false): Promise<Answer> {
  const all = (await readdir(join(copy.folder, 'test/audit'), { recursive: true })).map((path) =>
    path.replaceAll('\\', '/'),
  )
  const files = all.filter((path) => fileOf(attacks).test(path)).map((path) => join(copy.folder, 'test/audit', path))
  if (files.length === 0) throw new Error(`there are no tests ${attacks[0]}`)
  copy.attacker ??= startAttacker(copy)
  const { attacker } = copy
  const timer = setTimeout(() => attacker.kill('SIGKILL'), ATTACK_MS)
  const changed = copy.changed.splice(0)
  attacker.send({ changed, files, names: attacks[1], isList })
  return new Promise((resolve, reject) => {
    const onExit = () => {
      delete copy.attacker
      reject(new Error('the attacks did not end, or their process failed'))
    }
    attacker.once('exit', onExit)
    attacker.once('message', (answer: Answer) => {
      clearTimeout(timer)
      attacker.off('exit', onExit)
      resolve(answer)
    })
  })
}

function startAttacker({ folder }: Copy): ChildProcess {
  const env = { ...process.env, EAAS_TEST_ONE_VERIFIER: '1', EAAS_TEST_SLOW: '' }
  const project = findPostgres() ? 'postgres' : 'embedded'
  return fork(join(folder, 'test/slow/attacker.mjs'), [project], { cwd: folder, env, stdio: 'ignore' })
}

/** Finds the guards whose attacks do not exist, under these names. */
async function findUnattacked(copy: Copy): Promise<string[]> {
  const { tests } = await ask(copy, ['', ''], true)
  const folder = join(copy.folder, 'test/audit')
  const isAttack = ([files, names]: Attacks) =>
    tests.some(({ file, name }) => fileOf([files, names]).test(relative(folder, file)) && new RegExp(names).test(name))
  return listDatabaseGuardMutants().flatMap(({ guard, red }) => (isAttack(red) ? [] : [`${guard}: ${red.join(', ')}`]))
}

/** Runs the attacks in a copy. A few that fail are enough. */
async function attack(copy: Copy, attacks: Attacks): Promise<Run> {
  const { tests, errors } = await ask(copy, attacks)
  const failures = tests.filter(({ state }) => state === 'failed')
  return {
    passed: tests.filter(({ state }) => state === 'passed').map(({ name }) => name),
    failed: failures.map(({ name }) => name),
    broken: [...errors, ...failures.flatMap((test) => test.errors).filter((message) => !EXPECTATION.test(message))],
  }
}

/** Attacks a copy while these files of it, by their paths from packages/server/src/core/audit, are patched. */
function attackMutant(files: Mutant['files'], attacks: Attacks): Promise<Run> {
  const patches = Object.entries(files).map(
    ([file, text]) => [join('packages/server/src/core/audit', file), text] as const,
  )
  return withCopy(async (copy) => {
    const paths = patches.map(([path]) => join(copy.folder, path))
    try {
      for (const [path, text] of patches) await writeFile(join(copy.folder, path), text)
      copy.changed.push(...paths)
      return await attack(copy, attacks)
    } finally {
      for (const [path] of patches) await cp(join(PROJECT, path), join(copy.folder, path))
      copy.changed.push(...paths)
    }
  })
}

// The children start databases of their own, so several of them run beside each other.
describe.concurrent('the suite of attacks', () => {
  const mutants = listMutants()

  it('has the attacks that the list of guards names', { timeout: TIMEOUT_MS }, async () => {
    expect(await withCopy(findUnattacked)).toEqual([])
  })

  it('is green on the server as it is, and covers each of what is patched', { timeout: TIMEOUT_MS }, async () => {
    const { passed, failed, broken } = await withCopy((copy) => attack(copy, ['tamper/', '']))
    expect([failed, broken]).toEqual([[], []])
    for (const [, names] of Object.values(ATTACKS)) {
      expect(passed.filter((name) => new RegExp(names).test(name)).length).toBeGreaterThan(5)
    }
  })

  it.each(mutants.filter((mutant) => !(nameOf(mutant) in HELD_TWICE)))(
    'goes red when the $column of $what is left out',
    { timeout: TIMEOUT_MS },
    async (mutant) => {
      const { failed, passed, broken } = await attackMutant(mutant.files, attacksOn(mutant))
      console.log(`${nameOf(mutant)} left out: ${failed.length} red, ${passed.length} green; ${failed[0]}`)
      expect(broken).toEqual([])
      expect(failed.length).toBeGreaterThan(0)
    },
  )

  it.each(mutants.filter((mutant) => nameOf(mutant) in HELD_TWICE))(
    'stays green when the $column of $what is left out, which something else holds too',
    { timeout: TIMEOUT_MS },
    async (mutant) => {
      const { failed, broken } = await attackMutant(mutant.files, ATTACKS[mutant.what])
      expect([HELD_TWICE[nameOf(mutant)], failed, broken]).toEqual([HELD_TWICE[nameOf(mutant)], [], []])
    },
  )

  it.each(listDatabaseGuardMutants())(
    'goes red without the guard that $guard ($file)',
    { timeout: TIMEOUT_MS },
    async ({ guard, file, text, red }) => {
      const { failed, passed, broken } = await attackMutant({ [file]: text }, red)
      console.log(`without "${guard}": ${failed.length} red, ${passed.length} green; ${failed[0]}`)
      expect(broken).toEqual([])
      expect(failed.length).toBeGreaterThan(0)
    },
  )
})
