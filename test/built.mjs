// Which files the builds make, and which packages' files are older than what they are made of.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** In the order in which they are built: each after those whose types or files it needs. */
const NAMES = ['audit', 'sdk', 'console', 'cli', 'conformance', 'drizzle', 'kysely', 'prisma', 'typeorm', 'server']
export const BUILT = NAMES.map((name) => `packages/${name}`)
const manifestOf = (folder) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

/** Lists the built files that a package's manifest names. */
export function builtEntries(folder) {
  const { main, bin, exports } = manifestOf(folder)
  const paths = JSON.stringify({ main, bin, exports }).matchAll(/"(?:\.\/)?(dist\/[^"]+)"/g)
  return [...new Set([...paths].map(([, path]) => join(folder, path)))]
}

/** Lists the packages, in the order of their builds, one of whose built entries is missing or older than a source of it or of a package of ours that it needs. */
export function listOutdated() {
  const outdated = BUILT.filter((folder) => {
    const entries = builtEntries(folder)
    if (!entries.every((entry) => existsSync(entry))) return true
    const builtAt = Math.min(...entries.map((entry) => statSync(entry).mtimeMs))
    const besides = folder === 'packages/server' ? ['docs/openapi'] : []
    return [...sourcesOf(folder), ...besides, 'package-lock.json', 'tsconfig.json'].some(
      (source) => newestIn(source) > builtAt,
    )
  })
  return outdated.map((folder) => manifestOf(folder).name)
}

/** The folders of a package and of all packages of ours that it needs. */
function sourcesOf(folder, found = new Set()) {
  if (found.has(folder)) return found
  found.add(folder)
  const { dependencies, devDependencies } = manifestOf(folder)
  for (const name of Object.keys({ ...dependencies, ...devDependencies }))
    if (name.startsWith('@eaas/')) sourcesOf(name.replace('@eaas/', 'packages/'), found)
  return found
}

function newestIn(path) {
  const stats = statSync(path)
  if (!stats.isDirectory()) return /\.test\.ts$/.test(path) ? 0 : stats.mtimeMs
  const entries = readdirSync(path).filter((entry) => entry !== 'dist' && entry !== 'node_modules')
  // A folder is changed when a source in it is deleted; a package's own, also when its `dist` is made.
  const ownTime = existsSync(join(path, 'package.json')) ? 0 : stats.mtimeMs
  return Math.max(ownTime, ...entries.map((entry) => newestIn(join(path, entry))))
}
