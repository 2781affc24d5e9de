/**
 * What a witness and the server share, and what needs Node: locks of directories, listening, logs, signing
 * keys. For the server; no interface for applications.
 */
export * from './node/create-directory.js'
export * from './node/data-directory-lock.js'
export * from './node/is-loopback.js'
export * from './node/listen.js'
export * from './node/log.js'
export * from './node/replace-file.js'
export * from './node/short-socket-path.js'
export * from './node/signing-key.js'
export * from './node/sync-directory.js'
