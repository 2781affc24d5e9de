// Flags with which V8 compiles less: most of what tests run, runs too seldom to make up for the time that compiling it well takes.
import { fileURLToPath } from 'node:url'

/**
 * Arguments for node. PGlite runs without the second, optimizing compiler of WebAssembly, which takes longer than what most tests do with
 * PGlite, and its functions are checked when they are first called: most of them never are. JavaScript is optimized after eight times as much running as otherwise, which saves a tenth of the database suites' CPU time.
 */
export const LESS_COMPILING = ['--liftoff-only', '--wasm-lazy-validation', '--interrupt-budget=1000000']

/**
 * Arguments for node in a process that hardly lives for longer than its start: new objects also have the room that is otherwise found
 * out step by step.
 */
export const SHORT_LIVED = [...LESS_COMPILING, '--min-semi-space-size=16']

/** A value of NODE_OPTIONS, which takes no such argument: for a process and all the processes that it starts. */
export const LESS_COMPILING_BELOW = `--require="${fileURLToPath(new URL('v8-flags.cjs', import.meta.url))}"`
