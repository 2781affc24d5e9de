// Runs code of this folder in a real child process: tests of locks and of kill -9 need one, and Node 20 runs no TypeScript.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const here = fileURLToPath(new URL('.', import.meta.url))
/** What this folder imports from the one above it. */
const BESIDE = ['text-formats.ts']
// Below node_modules: packages resolve from there, and nothing there is committed.
const builds = fileURLToPath(new URL('../../../node_modules/.child-of-test/', import.meta.url))

export interface Compiled {
  /** Starts an ES module given as text, with this folder's modules as `./name.js`. */
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

/** Compiles the modules of this folder, and those beside it that they import, for child processes. */
export function compileForChildren(): Compiled {
  mkdirSync(builds, { recursive: true })
  const directory = mkdtempSync(builds)
  writeFileSync(join(directory, 'package.json'), '{ "type": "module" }')
  const folder = join(directory, 'embedded')
  mkdirSync(folder)
  for (const name of readdirSync(here)) {
    if (name.endsWith('.ts') && !/^child-of-test|\.test\.ts$/.test(name)) compile(join(here, name), folder)
  }
  for (const name of BESIDE) compile(join(here, '..', name), directory)
  return {
    start: (script, ...args) => start(folder, script, args),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  }
}

function compile(file: string, folder: string): void {
  const { outputText } = ts.transpileModule(readFileSync(file, 'utf8'), {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
  })
  writeFileSync(join(folder, `${basename(file, '.ts')}.js`), outputText)
}

function start(cwd: string, script: string, args: string[]): Child {
  // Without V8's second compiler of WebAssembly, which takes longer than what a child does with PGlite.
  const child = spawn(process.execPath, ['--liftoff-only', '--input-type=module', '-e', script, ...args], { cwd })
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
