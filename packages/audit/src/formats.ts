/**
 * The formats of the audit log: what is stored or signed, what the entries say of rights, and lines of an export. For
 * the server, which does not verify exports.
 */
export type { SigningKey } from './crypto.js'
export * from './formats/anchor.js'
export * from './formats/chain.js'
export * from './formats/checkpoint.js'
export * from './formats/cosignature.js'
export * from './formats/export.js'
export * from './formats/key-change.js'
export * from './formats/merkle.js'
export * from './formats/proof.js'
export * from './formats/signed-note.js'
export * from './formats/stretch.js'
export * from './formats/tree.js'
export * from './formats/witnessed.js'
export type { ExportedEntry } from './verify/read-export.js'
export * from './verify/rights-history.js'
export * from './verify/split-lines.js'
