/** The application in a folder: its sources before and after, and the packages that it has and lacks. */
import { isUtf8 } from 'node:buffer'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { peerDependencies as drizzle } from '../../../drizzle/package.json'
import { peerDependencies as kysely } from '../../../kysely/package.json'
import { peerDependencies as prisma } from '../../../prisma/package.json'
import { peerDependencies as typeorm } from '../../../typeorm/package.json'
import manifest from '../../package.json'
import { resolvePath } from '../files.js'
import { type Io, UsageError } from '../io.js'
import { blankComments } from './source-text.js'

/** What `init` works on. Paths are relative to the folder. */
export interface Application {
  /** The packages that it declares, with the installed version, or else the declared one. */
  packages: ReadonlyMap<string, string>
  /** Whether its `.js` files are ES modules. */
  isModule: boolean
  sources: ReadonlyMap<string, string>
  /** The sources with blanks in place of comments, for parsing. */
  code: ReadonlyMap<string, string>
  /** Configuration that affects the ORM, such as `typeorm.config.ts`, without comments. It is never changed. */
  settings: ReadonlyMap<string, string>
  /** The sources and new files as they will be. */
  files: Map<string, string>
  /** What the user must do by hand, one line each. */
  byHand: string[]
}

export type FieldKind = 'text' | 'date' | 'number' | 'boolean' | 'json'

/** A column of a table: `name` is the ORM's, `stored` the database's. */
export interface Column {
  name: string
  stored: string
  isNullable: boolean
  isUnique: boolean
  /** The kind of field for the values that the ORM returns. */
  kind: FieldKind
  /** Its type in PostgreSQL; where the application does not say, `unknown`, or `timestamp` for any time. */
  type: string
  /** Why it cannot be encrypted in place; undefined if it can. */
  refusal: string | undefined
  /** The column of its index, existing or not. */
  index: { name: string; stored: string }
}

export interface FoundTable {
  orm: 'prisma' | 'drizzle' | 'kysely' | 'typeorm'
  name: string
  stored: string
  schema?: string | undefined
  path: string
  columns: readonly Column[]
  id: readonly string[]
  /** TypeScript's type of a JSON column, and the name to import for it, from the table's file or from `module`. */
  types: { name: string; module?: string; typeOf(column: string): string }
}

const MAX_FILES = 5_000
const NOT_SOURCES = ['node_modules', 'dist', 'build', 'out', 'coverage', 'generated', 'migrations']
const SOURCE = /\.(prisma|[cm]?[jt]sx?)$/
const NO_SOURCE = /\.(d|test|spec)\.\w+$/
const SETTINGS = /\.config\.\w+$|(^|[\\/])ormconfig\.\w+$/

/** Refused: a name, of the column or its table, that was not read completely could be another one. */
export const UNREAD_NAME = 'has a name in the database that init does not read: write it as one text without escapes'
export const UNREAD_TABLE = UNREAD_NAME.replace('has', 'is in a table with')

/** Names a page about what `init` does not do. */
export function guide(name: string, from = '@eaas/sdk'): string {
  return `docs/${name}.md of ${from}`
}

/** @throws UsageError if there is none */
export function readApplication(io: Io): Application {
  const text = readIfThere(io, 'package.json')
  if (text === undefined) throw new UsageError('there is no package.json: run init in the folder of an application')
  const { type, dependencies, devDependencies } = parse(text)
  const declared = Object.entries({ ...(dependencies as object), ...(devDependencies as object) })
  const packages = new Map(declared.map(([name, wanted]) => [name, findInstalled(io, name) ?? String(wanted)]))
  const found = new Map<string, string>()
  readSources(io, '', found)
  const all = [...found].map(([path, text]) => [path, blankComments(text)] as const)
  const settings = new Map(all.filter(([path]) => SETTINGS.test(path)))
  const sources = new Map([...found].filter(([path]) => !settings.has(path)))
  const code = new Map(all.filter(([path]) => !settings.has(path)))
  return { packages, isModule: type === 'module', sources, code, settings, files: new Map(sources), byHand: [] }
}

function findInstalled(io: Io, name: string): string | undefined {
  const text = readIfThere(io, join('node_modules', name, 'package.json'))
  return text === undefined ? undefined : String(parse(text).version)
}

function parse(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text))
  } catch {
    throw new UsageError('package.json: it is not JSON')
  }
}

function readSources(io: Io, folder: string, sources: Map<string, string>): void {
  for (const entry of readdirSync(resolvePath(io, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory() && !/^\./.test(entry.name) && !NOT_SOURCES.includes(entry.name))
      readSources(io, path, sources)
    if (!entry.isFile() || !(SOURCE.test(path) || SETTINGS.test(path)) || NO_SOURCE.test(path)) continue
    if (sources.size === MAX_FILES) throw new UsageError(`there are more than ${MAX_FILES} sources in this folder`)
    sources.set(path, readFileSync(resolvePath(io, path), 'utf8'))
  }
}

/** @throws UsageError if it is not UTF-8: it could not be written back unchanged */
export function readIfThere(io: Io, path: string): string | undefined {
  if (!existsSync(resolvePath(io, path))) return undefined
  const bytes = readFileSync(resolvePath(io, path))
  if (!isUtf8(bytes)) throw new UsageError(`${path}: it is not UTF-8. Save it as UTF-8, and run init again`)
  return bytes.toString()
}

const PEERS: Readonly<Record<FoundTable['orm'], Readonly<Record<string, string>>>> = {
  ...{ drizzle, kysely, prisma, typeorm },
}

/** Warns of an ORM version that the adapter does not support; undefined if it does, or none is named. */
export function versionWarning({ packages }: Application, orm: FoundTable['orm']): string | undefined {
  const [name, wanted = ''] = Object.entries(PEERS[orm]).find(([peer]) => peer !== '@eaas/sdk') ?? []
  const found = packages.get(name ?? '')
  const [least = 0, below = 0] = (wanted.match(/\d+(\.\d+)?/g) ?? []).map(toNumber)
  const [first] = found?.match(/\d+(\.\d+)?/) ?? []
  if (first === undefined || (toNumber(first) >= least && toNumber(first) < below)) return undefined
  return `@eaas/${orm} takes ${name} ${wanted}, and this is ${found}: update it first`
}

function toNumber(version: string): number {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major * 10_000 + minor
}

/**
 * The commands that install what the application lacks. `npm run release` writes the repository into the manifest. A
 * build without it comes from a clone, where all packages that the next commands use are packed.
 */
export function installSteps({ packages }: Application, orm: FoundTable['orm'], folder: string): string[] {
  const isPublished = 'repository' in manifest
  const used = ['sdk', orm, ...(isPublished ? [] : ['cli', 'server', 'audit', 'console'])]
  const missing = used.filter((name) => !packages.has(`@eaas/${name}`))
  if (missing.length === 0) return []
  if (isPublished) return [`npm install ${missing.map((name) => `@eaas/${name}`).join(' ')}`]
  return [
    `EaaS is not on npm yet: in a clone of it, npm run pack -- ${folder}`,
    `npm install ${missing.map((name) => `./eaas-packages/eaas-${name}-${manifest.version}.tgz`).join(' ')}`,
  ]
}
