/** What the client loads when a call fails, in one file. */
export { recover, settleRefused } from './http/failures.js'
export { connect } from './parts.js'
