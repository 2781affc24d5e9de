/** Code that only some rows need (`needRare`, `needsRare`), that queries need, and a model's warning. */
export { assertJsonValue, encodeJson } from '../json.js'
export { assertNoLookalike } from '../records/lookalikes.js'
export { together, withDeks } from '../records/seal-blocks.js'
export { hashQuery, makeBucketText } from './index-queries.js'
export { assertPicked, createAccess, pickPresent } from './partial-rows.js'
export { acceptPlain, countPlain, readPlain } from './plain-texts.js'
export { hashDespiteSecret, hashWithService, otherIndexSecret, warnOfFewValues } from './rare-indexes.js'
export { assertSealColumn, hasSeal, sealAad, sealPlaintext } from './row-seal.js'
