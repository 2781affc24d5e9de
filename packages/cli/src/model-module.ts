/** Loads a module of the application, and finds the copy of the SDK that made its model. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { quoteWord } from '@eaas/protocol'
import type { AnyModel } from '@eaas/sdk/maintenance'
import * as own from '@eaas/sdk/maintenance'
import type { Sdk } from './backfill/backfill.js'
import { refusePath, resolvePath } from './files.js'
import { type Io, UsageError } from './io.js'

/** Node.js's errors about TypeScript: from versions that do not strip types, and about syntax that is not stripped, such as an enum. */
const UNREAD = [
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_INVALID_TYPESCRIPT_SYNTAX',
  'ERR_NO_TYPESCRIPT',
  'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING',
]

interface ModelModule {
  /** The file's path, without symbolic links. */
  path: string
  /** Returns the value of an export. @throws UsageError naming the exports, if none has the name */
  get(name: string): unknown
}

/** Loads an ES or CommonJS module. @throws UsageError if there is none or Node.js cannot load it, and what it throws */
export async function loadModule(io: Io, file: string): Promise<ModelModule> {
  const path = findModule(resolvePath(io, file), file)
  let loaded: Record<string, unknown>
  try {
    loaded = await import(pathToFileURL(path).href)
  } catch (error) {
    if (!UNREAD.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    throw new UsageError(
      `${file}: this Node.js does not load such a file. Name the compiled one, or run ${hasTsx(io) ? '' : 'npm install --save-dev tsx, and then '}this command behind NODE_OPTIONS="--import tsx"`,
    )
  }
  return {
    path,
    get(name) {
      if (Object.hasOwn(loaded, name)) return loaded[name]
      const names = Object.keys(loaded).map((one) => JSON.stringify(one))
      throw new UsageError(`${file}: it has no export ${JSON.stringify(name)}. It has: ${names.join(', ') || 'none'}`)
    },
  }
}

function hasTsx(io: Io): boolean {
  try {
    return Boolean(createRequire(resolvePath(io, 'x')).resolve('tsx'))
  } catch {
    return false
  }
}

/** The beginning of a command line with which this Node.js can load the module. */
export function loaderFor(path: string): string {
  return path.endsWith('ts') && !Reflect.get(process.features, 'typescript') ? 'NODE_OPTIONS="--import tsx" ' : ''
}

export function optionWord(option: string, value: string): string {
  return value.startsWith('-') ? quoteWord(`${option}=${value}`) : `${option} ${quoteWord(value)}`
}

function findModule(path: string, file: string): string {
  try {
    return createRequire(path).resolve(path)
  } catch {
    return refusePath(file, { code: 'ENOENT' })
  }
}

/**
 * Finds the copy of the SDK that made a model: the command's own, or the application's, as an ES module or for
 * `require`.
 * @throws UsageError when none of them made it
 */
export async function findSdk({ path }: ModelModule, model: unknown): Promise<{ sdk: Sdk; model: AnyModel }> {
  if (own.isModel(model)) return { sdk: own, model }
  for (const file of copiesBeside(path)) {
    const sdk: Sdk = await import(pathToFileURL(file).href)
    if (sdk.isModel(model)) return { sdk, model }
  }
  throw new UsageError(
    'the export is no model, and no function that returns one: name another one by --export. If it is, @eaas/sdk is installed twice',
  )
}

/** The SDK files that the module gets with `import` and with `require`. */
function copiesBeside(path: string): string[] {
  try {
    const required = createRequire(path).resolve('@eaas/sdk/maintenance') // dist/cjs/maintenance.cjs
    return [join(dirname(dirname(required)), 'maintenance.js'), required]
  } catch {
    return [] // the application lacks the SDK
  }
}
