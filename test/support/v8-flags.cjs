// Loaded into other processes (node --require) by LESS_COMPILING_BELOW.
for (const flag of ['--liftoff-only', '--wasm-lazy-validation', '--interrupt-budget=1000000'])
  require('node:v8').setFlagsFromString(flag)
