/** What the client loads when a call fails, in one file. */
export { recover } from './http/failures.js'
export { connect, openOne } from './parts.js'
