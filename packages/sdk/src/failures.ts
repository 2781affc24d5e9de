/** What the client loads when a call fails, in one file. */
export { recover } from './http/failures.js'
export { settleRefused } from './http/refused-batches.js'
export { connect } from './parts.js'
