// Loaded into other processes (node --require) by FAST_WASM_BELOW.
require('node:v8').setFlagsFromString('--liftoff-only')
