// Runs code of a source folder in a real child process: tests of locks and of kill -9 need one, and Node 20 runs no
// TypeScript.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { ROOT } from '../sources/source-files.js'

/** What a module imports from outside its folder. */
const FROM_ABOVE = /from '\.\.\/([a-z-]+(?:\/[a-z-]+)*)\.js'/g
// Below node_modules: packages resolve from there, and nothing there is committed.
const builds = join(ROOT, 'node_modules/.child-of-test/')

export interface Compiled {
  /** Starts an ES module given as text, with the folder's modules as `./name.js`. */
  start(script: string, ...args: string[]): Child
  remove(): void
}

export interface Child {
  process: ChildProcess
  /** What it printed so far, standard error included. */
  output(): string
  /** Waits until it has printed a text; throws when it ends before. */
  printed(text: string): Promise<void>
  /** Waits for its end; the exit code, or null after a signal. */
  ended: Promise<number | null>
}

/**
 * Compiles for child processes the modules of a test's folder, and those outside of it that they import. The test
 * passes its own URL. Our other packages are the built ones.
 */
export function compileForChildren(test: string): Compiled {
  const here = fileURLToPath(new URL('.', test))
  mkdirSync(builds, { recursive: true })
  const directory = mkdtempSync(builds)
  writeFileSync(join(directory, 'package.json'), '{ "type": "module" }')
  const folder = join(directory, basename(here))
  mkdirSync(folder)
  const names = readdirSync(here).filter((name) => name.endsWith('.ts') && !/\.test\.ts$/.test(name))
  const imported = names.flatMap((name) => [...compile(join(here, name), folder).matchAll(FROM_ABOVE)])
  for (const name of new Set(imported.map(([, stem]) => `${stem}.ts`)))
    compile(join(here, '..', name), join(directory, dirname(name)))
  return {
    start: (script, ...args) => start(folder, script, args),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  }
}

/** Compiles a module into a folder, and returns its text, without type-only imports. */
function compile(file: string, folder: string): string {
  mkdirSync(folder, { recursive: true })
  const { outputText } = ts.transpileModule(readFileSync(file, 'utf8'), {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
  })
  writeFileSync(join(folder, `${basename(file, '.ts')}.js`), outputText)
  return outputText
}

function start(cwd: string, script: string, args: string[]): Child {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, ...args], { cwd })
  let printed = ''
  const listeners = new Set<() => void>()
  const add = (text: string) => {
    printed += text
    for (const listener of listeners) listener()
  }
  child.stdout.setEncoding('utf8').on('data', add)
  child.stderr.setEncoding('utf8').on('data', add)
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  return {
    process: child,
    output: () => printed,
    ended,
    printed: (text) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (printed.includes(text)) resolve()
        }
        listeners.add(look)
        look()
        ended.then((code) => reject(new Error(`ended (${code}) before it printed ${text}: ${printed.slice(-500)}`)))
      }),
  }
}
