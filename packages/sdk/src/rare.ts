/** What the client loads for the rows and the clients that need it, for queries and for JSON, in one file. */
export * from './http/environment.js'
export { withSpan } from './http/open-telemetry.js'
export { readJson } from './json.js'
export * from './models/rare-rows.js'
export { connect } from './parts.js'
