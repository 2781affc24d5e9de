// Builds the server of a commit, with the installed modules of this one: until there are releases, history has the older versions.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type GuardedDir, guardedDir } from '../run/guarded-dir.js'
import { ROOT } from '../sources/source-files.js'

/** What a build of the server reads in addition to the modules. */
const SOURCES = ['docs', 'package.json', 'tsconfig.json', 'packages', 'test/independent']
/** Inlined from their sources. */
const INLINED = ['protocol', 'postgres']
/** In the order in which they are built. */
const BUILT = ['audit', 'server']
const MIGRATIONS = 'packages/server/migrations'

/** Commits whose builds have the schema of these sources. */
export interface Commits {
  /** the last one that changed the newest migration */
  earliest: string
  current: string
}

/** Finds the commits in the history; returns why it cannot if there is no history, as in a shallow clone or an archive. */
export function findCommits(): Commits | { reason: string } {
  try {
    if (git('rev-parse', '--is-shallow-repository') === 'true') return { reason: 'the clone is shallow' }
    const newest = readdirSync(join(ROOT, MIGRATIONS))
      .filter((name) => name.endsWith('.sql'))
      .sort()
      .at(-1)
    const earliest = git('log', '-1', '--format=%H', '--', `${MIGRATIONS}/${newest}`)
    if (!earliest) return { reason: `no commit has ${newest} yet` }
    return { earliest, current: git('rev-parse', 'HEAD') }
  } catch {
    return { reason: 'the sources are no clone of the repository' }
  }
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
}

let folder: GuardedDir | undefined

/** Builds the server of a commit, with a later migration if one is given; returns the path of its `eaas`. Takes seconds. */
export function buildCommit(commit: string, migration?: string): string {
  folder ??= guardedDir('eaas-older')
  const root = join(folder.path, migration === undefined ? commit : `${commit}-later`)
  const program = join(root, 'packages/server/bin/eaas.mjs')
  if (existsSync(program)) return program
  mkdirSync(root)
  const archive = execFileSync('git', ['archive', commit, ...SOURCES], { cwd: ROOT, maxBuffer: 2 ** 28 })
  execFileSync('tar', ['x', '-C', root], { input: archive })
  if (migration !== undefined) writeFileSync(join(root, MIGRATIONS, '900-later.sql'), migration)
  linkModules('.', root)
  for (const name of [...INLINED, ...BUILT]) {
    symlink(join(root, 'packages', name), join(root, 'node_modules/@eaas', name))
    linkModules(`packages/${name}`, root)
  }
  for (const name of BUILT) {
    const tsup = join(ROOT, 'node_modules/.bin/tsup')
    execFileSync(tsup, ['--no-dts'], { cwd: join(root, 'packages', name), stdio: ['ignore', 'ignore', 'inherit'] })
  }
  return program
}

/** Links each module, so that its importers resolve it in the other root, where `@eaas` is that root's own. */
function linkModules(below: string, root: string): void {
  const modules = join(ROOT, below, 'node_modules')
  if (!existsSync(modules)) return
  for (const name of readdirSync(modules)) {
    if (name !== '@eaas' && !name.startsWith('.')) symlink(join(modules, name), join(root, below, 'node_modules', name))
  }
}

function symlink(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(target, path)
}
