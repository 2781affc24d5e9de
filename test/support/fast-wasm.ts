// PGlite without V8's second, optimizing compiler of WebAssembly, which takes longer than what most tests do with PGlite.
import { fileURLToPath } from 'node:url'

/** An argument for node. */
export const FAST_WASM = '--liftoff-only'

/**
 * Arguments for node in a process that hardly lives for longer than its start, of which they save a tenth: less is optimized, and new objects
 * have the room that is otherwise found out step by step.
 */
export const SHORT_LIVED = [FAST_WASM, '--interrupt-budget=1000000', '--min-semi-space-size=16']

/** A value of NODE_OPTIONS, which takes no such argument: for a process and all the processes that it starts. */
export const FAST_WASM_BELOW = `--require="${fileURLToPath(new URL('fast-wasm.cjs', import.meta.url))}"`
