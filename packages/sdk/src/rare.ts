/** What the client loads for queries, for JSON, and for the rows and clients that need it, in one file. */
export * from './http/environment.js'
export { withSpan } from './http/open-telemetry.js'
export { readJson } from './json.js'
export * from './models/rare-rows.js'
export { connect } from './parts.js'
