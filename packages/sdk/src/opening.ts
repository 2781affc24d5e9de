/** What the client loads to open values and rows, in one file. */
export { copyStored, openRows, readJobs } from './models/open-rows.js'
export { connect, createModelRows } from './parts.js'
export { eachBlock, openBlock } from './records/open-blocks.js'
export { demandContext, inEitherUse, openOne, toJson, usesIn } from './records/open-envelopes.js'
