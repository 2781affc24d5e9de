/**
 * What only some rows need: those with a seal, with a value that is missing, not sealed or JSON, those of picked
 * fields, with an index of a range or of the service, or with a DEK of their own; queries; and the warning of a model.
 */
export { assertJsonValue, encodeJson } from '../json.js'
export { assertNoLookalike } from '../records/lookalikes.js'
export { withDeks } from '../records/seal-blocks.js'
export { together } from '../together.js'
export { createAccess } from './access-rows.js'
export { warnOfFewValues } from './few-values.js'
export { hashDespiteSecret, otherIndexSecret } from './index-errors.js'
export { hashQuery, makeBucketText } from './index-queries.js'
export { assertPicked, pickPresent } from './lacking-fields.js'
export { acceptPlain, countPlain, readPlain } from './plain-texts.js'
export { assertSealColumn, hasSeal, sealAad, sealPlaintext } from './row-seal.js'
export { hashWithService } from './service-index.js'
