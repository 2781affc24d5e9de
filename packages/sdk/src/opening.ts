/** What the client loads to open rows, in one file. */
export { copyStored, openRows, readJobs } from './models/open-rows.js'
export { connect, createModelRows, openOne } from './parts.js'
export { eachBlock, openBlock } from './records/open-blocks.js'
