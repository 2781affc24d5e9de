/** What the client loads to seal values and rows, and to make indexes, in one file. */
import { DecryptDeks } from './deks/decrypt-deks.js'
import { createWrap, EncryptDeks } from './deks/encrypt-deks.js'
import { createOwnDek } from './deks/own-dek.js'
import { createIvPool } from './deks/random.js'
import { createIndexSecrets } from './models/local-index.js'
import { type Connection, type ConnectOptions, hitOf } from './parts.js'
import type { RecordsDeps } from './records/blocks.js'
import { createSealing } from './records/seal-envelopes.js'
import { now } from './waiting.js'

export { mixedIn } from './models/local-index.js'
export { findFewValues, hashQuery, sealEach, sealRows } from './models/seal-rows.js'
export { connect, createModelRows, openOne } from './parts.js'
export { sealOne } from './records/seal-envelopes.js'

type SealOptions = Pick<ConnectOptions, 'verify' | 'emit' | 'encryptLimits' | 'decryptLimits'>

/** Adds the parts that seal for one client. Does not use the network. */
export function addSealing({ records, onClose }: Connection, options: SealOptions): RecordsDeps {
  const { batcher, decryptDeks, envelopes } = records
  const { verify, emit, encryptLimits, decryptLimits } = options
  const indexSecrets = new DecryptDeks(decryptLimits, {
    unwrap: createIndexSecrets(batcher.indexSecret, envelopes.engine),
    now,
  })
  const wrap = createWrap(batcher, verify)
  const made = decryptDeks.add.bind(decryptDeks)
  const encryptDeks = new EncryptDeks(encryptLimits, { wrap, made, hit: hitOf(emit, 'wrap'), now })
  onClose(() => {
    encryptDeks.close()
    indexSecrets.close()
  })
  return {
    ...records,
    envelopes: createSealing(envelopes, { takeIv: createIvPool(), encryptDeks }),
    encryptDeks,
    indexSecrets,
    wrap,
    createOwnDek,
  }
}
