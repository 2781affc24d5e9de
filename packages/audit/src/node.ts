/** What the witness and the server share, and needs Node. For the server, not for applications. */
export * from './node/before-end.js'
export * from './node/create-directory.js'
export * from './node/data-directory-lock.js'
export * from './node/listen.js'
export * from './node/log.js'
export * from './node/new-file.js'
export * from './node/open-to-all.js'
export * from './node/signing-key.js'
