// Loads our modules as another platform would, for example without `process` or `Buffer`. No global of the test's own process
// changes: the module is bundled, and compiled as a function whose parameters hide the globals.
import { compileFunction } from 'node:vm'
import { build } from 'esbuild'

/** Name and value of each global that differs from Node; `undefined` means that it is missing. */
export type Globals = Readonly<Record<string, unknown>>

const bundles = new Map<string, Promise<string>>()

/**
 * Loads a fresh copy of a module with all its imports.
 *
 * @param path of the module's source, a URL of a file
 * @param globals the globals that differ from Node; the others are those of the test
 */
export async function loadOn<Module>(globals: Globals, path: URL): Promise<Module> {
  const { pathname } = path
  let bundled = bundles.get(pathname)
  if (!bundled) {
    bundled = bundle(pathname)
    bundles.set(pathname, bundled)
  }
  const platform = new Proxy(globalThis, {
    get: (target, name) => (Object.hasOwn(globals, name) ? globals[String(name)] : Reflect.get(target, name)),
    has: (target, name) => (Object.hasOwn(globals, name) ? globals[String(name)] !== undefined : name in target),
  })
  const module: { exports: unknown } = { exports: {} }
  const names = Object.keys(globals)
  const run = compileFunction(await bundled, ['module', 'globalThis', ...names], { filename: pathname })
  run(module, platform, ...names.map((name) => globals[name]))
  return module.exports as Module
}

async function bundle(path: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [path],
    bundle: true,
    format: 'cjs',
    platform: 'browser', // esbuild refuses an import of a Node module
    target: 'es2022',
    write: false,
  })
  const [file] = outputFiles
  if (!file) throw new Error(`esbuild made nothing of ${path}`)
  return file.text
}
