/** What the commands `eaas-audit` and `eaas` share. For the server, not for applications. */
export * from './command/files.js'
export * from './command/follow/cursor.js'
export * from './command/follow/deliver.js'
export * from './command/kept-file.js'
export * from './command/options.js'
export * from './command/output.js'
export * from './command/program.js'
export { printRights } from './command/rights.js'
