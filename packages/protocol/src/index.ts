/** What both ends must agree on: bytes, names, JSON. Pure functions, no I/O. */
export * from './actions.js'
export * from './aead.js'
export * from './bytes.js'
export * from './envelope.js'
export * from './noble-aead.js'
export * from './permissions.js'
export * from './problem.js'
export * as wire from './wire.js'
