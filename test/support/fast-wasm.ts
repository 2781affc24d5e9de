// PGlite without V8's second, optimizing compiler of WebAssembly, which takes longer than what most tests do with PGlite.
import { fileURLToPath } from 'node:url'

/** An argument for node. */
export const FAST_WASM = '--liftoff-only'

/** A value of NODE_OPTIONS, which takes no such argument: for a process and all the processes that it starts. */
export const FAST_WASM_BELOW = `--require="${fileURLToPath(new URL('fast-wasm.cjs', import.meta.url))}"`
