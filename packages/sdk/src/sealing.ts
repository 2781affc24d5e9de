/** What the client loads to seal values and rows, and to make indexes, in one file. */
import { DecryptDeks } from './deks/decrypt-deks.js'
import { createWrap, EncryptDeks, type Verify } from './deks/encrypt-deks.js'
import { createIvPool, createOwnDek } from './deks/random.js'
import { createIndexSecrets } from './models/local-index.js'
import { type Connection, type ConnectOptions, hitOf } from './parts.js'
import type { RecordsDeps } from './records/blocks.js'
import { createSealing } from './records/seal-envelopes.js'
import { now } from './waiting.js'

export { hashColumnTexts, makeColumnTexts } from './models/index-texts.js'
export { mixedIn } from './models/local-index.js'
export { findFewValues, readRow, sealRead, sealRows } from './models/seal-rows.js'
export { connect, createModelRows } from './parts.js'
export { sealOne } from './records/seal-envelopes.js'

type SealOptions = Pick<ConnectOptions, 'verify' | 'loadMore' | 'loadRare' | 'encryptLimits' | 'decryptLimits'>

/** Adds the sealing parts of one client. Does not use the network. */
export function addSealing({ observer, records, onClose }: Connection, options: SealOptions): RecordsDeps {
  const { batcher, decryptDeks, envelopes } = records
  const { verify, loadMore, loadRare, encryptLimits, decryptLimits } = options
  const indexSecrets = new DecryptDeks(decryptLimits, {
    unwrap: createIndexSecrets(batcher.indexSecret, envelopes.engine, loadRare),
    now,
  })
  const unwraps: Verify = async (...made) => (await loadMore()).unwrapsTo(batcher.unwrap, ...made)
  const wrap = createWrap(batcher.wrap, verify ? unwraps : undefined)
  const made = decryptDeks.add.bind(decryptDeks)
  const encryptDeks = new EncryptDeks(encryptLimits, { wrap, made, hit: hitOf(observer, 'wrap'), now })
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
