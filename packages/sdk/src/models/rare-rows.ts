/**
 * What only some rows need: those with a seal, with a value that is missing, not sealed or JSON, with an index of a
 * range or of the service, or with a DEK of their own; queries; and the warning of a model.
 */
export { assertJsonValue, encodeJson } from '../json.js'
export { assertNoLookalike } from '../records/lookalikes.js'
export { hashEach, withDeks } from '../records/seal-blocks.js'
export { warnOfFewValues } from './few-values.js'
export { makeBucketText, readQueryTexts } from './index-queries.js'
export { acceptPlain, countPlain, readPlain } from './plain-texts.js'
export { assertSealColumn, hasSeal, sealAad, sealPlaintext } from './row-seal.js'
