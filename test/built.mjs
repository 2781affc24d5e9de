// Which files the builds make, and whether they are older than what they are made of.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

const NAMES = ['audit', 'sdk', 'console', 'cli', 'conformance', 'drizzle', 'kysely', 'prisma', 'typeorm', 'server']
export const BUILT = NAMES.map((name) => `packages/${name}`)
const SOURCES = [...BUILT, 'packages/protocol', 'package-lock.json']

/** Lists the built files that a package's manifest names. */
export function builtEntries(folder) {
  const { main, bin, exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const paths = JSON.stringify({ main, bin, exports }).matchAll(/"(?:\.\/)?(dist\/[^"]+)"/g)
  return [...new Set([...paths].map(([, path]) => join(folder, path)))]
}

/** True if any source is newer than the oldest of the built entry files. */
export function isBuildOutdated() {
  const entries = BUILT.flatMap(builtEntries)
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
